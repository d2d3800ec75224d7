"""The desk: how a worker attends to one conversation that it has claimed.

The order is always the same, for a first run and for a takeover: the open turn from its last record; else unsent rows,
then control, then the inbox. At last the claim is given back, in the script that looks for more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from config.profiles import Profile
from config.watching import Watched
from gateway.commands import said_to_model
from gateway.conversation.claim import Claim, Claimed, Lost
from gateway.conversation.deaths import ERRORS_MAX
from gateway.conversation.in_hand import in_hand
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox, Stored, event_of
from gateway.events import Event
from gateway.logs import log
from gateway.platforms import Adapter
from gateway.store import Unreachable
from workers.burial import Burial
from workers.course import Course
from workers.sending.delivery import Delivery, grown
from workers.taking import chosen, overheard, readable, talk_of
from workers.turn import Parked, Turn, begin, leftover, turn_id

logger = logging.getLogger(__name__)

FOR_OTHERS_WAIT_S = 10.0
"""What nobody here can do is looked at again so often, by whichever worker comes first."""
ERROR_PAUSE_S = 1.0


class _Unreadable(Exception):
    """What comes next is no event."""


@dataclass(frozen=True)
class Desk:
    """One a worker process."""

    worker: str
    watched: Watched
    mailbox: Mailbox
    adapters: Mapping[str, Adapter]
    course: Course

    async def attend(self, claim: Claim, places: Callable[[], int]) -> Claimed:
        """Do what the conversation has to do, give it back, and say what was claimed in the same script.

        Raises `Lost`. What breaks in a way that nobody understands is tried again, and after the third time buried.
        """
        broken, times = "", 0
        while True:
            stored, at = None, ""
            try:
                stored = await self.mailbox.load(claim.conversation, claim.begin)
                at = _in_hand(stored)
                await self._work(claim, stored)
                keep_s = (await self.profile_now(stored.key)).kept_s(self.mailbox.settings.retention_s)
                released = await self.mailbox.settle(claim, self.worker, places(), keep_s)
            except Parked as parked:
                released = await self._park(claim, parked, stored, places)
            except _Unreadable as error:
                return await self.bury(claim, f"unreadable: {error}", places)
            except (Lost, Unreachable):
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, the person is told and the others go on
                broken, times = at, times + 1 if at == broken else 1
                log(logger, "turn broke", logging.ERROR, error=error, conversation=claim.conversation, times=times)
                claim.check()
                if times >= ERRORS_MAX and await self._is_still_at(claim, at):
                    return await self.bury(claim, type(error).__name__, places)
                await asyncio.sleep(ERROR_PAUSE_S)
                continue
            if released is not None:
                return released

    async def _is_still_at(self, claim: Claim, at: str) -> bool:
        """Or has it come further before it broke? Where not even that can be seen, it has not."""
        return not at or at == _in_hand(await self.mailbox.load(claim.conversation, claim.begin))

    async def bury(self, claim: Claim, reason: str, places: Callable[[], int] = lambda: 0) -> Claimed:
        """Give up what this conversation has in hand, tell the person, give it back, and say what was claimed in the same script.

        Little of it is read: see `Burial`. Raises `Lost`.
        """
        left = await in_hand(self.mailbox.store, claim)
        burial = Burial(self.mailbox, claim, left, reason)
        keep_s: int | None = None
        try:
            if left.key is None:
                await burial.write()
            else:
                adapter = self._adapter(left.key, is_newer=left.is_newer)
                profile = await self.profile_now(left.key)
                keep_s = profile.kept_s(self.mailbox.settings.retention_s)
                await burial.write_and_tell(left.key, profile, adapter)
            released = await self.mailbox.settle(claim, self.worker, places(), keep_s)
        except Parked as parked:
            released = await self._park(claim, parked, None, places)
        if released is None:  # more is on its way, which its next holder sees to
            released = Claimed(ring=await self.mailbox.hand_over(claim))
        return released

    async def _park(
        self, claim: Claim, parked: Parked, stored: Stored | None, places: Callable[[], int]
    ) -> Claimed | None:
        """Whoever has seen what was `stored` stays where more came since."""
        wait_ms = max(1, int(parked.wait_s * 1000))
        saw = stored.seq if stored and not parked.for_others else None
        saw_control = len(stored.control) if stored else 0
        return await self.mailbox.park(claim, wait_ms, saw, self.worker, places(), saw_control=saw_control)

    def _adapter(self, key: ConversationKey, *, is_newer: bool) -> Adapter:
        """Raises `Parked` where nobody here could do anything with the conversation."""
        if is_newer:
            log(logger, "written by a newer version", level=logging.ERROR, conversation=key.id)
            raise Parked(FOR_OTHERS_WAIT_S, for_others=True)
        adapter = self.adapters.get(key.connection)
        if adapter is None:
            log(logger, "no such connection here", level=logging.ERROR, connection=key.connection)
            raise Parked(FOR_OTHERS_WAIT_S, for_others=True)  # a worker with newer settings may know it
        return adapter

    async def _work(self, claim: Claim, stored: Stored) -> None:
        adapter = self._adapter(stored.key, is_newer=stored.is_newer)
        profile = await self.profile_now(stored.key)
        if stored.control or stored.inbox:
            claim.news.set()  # whoever goes on with a turn looks at its first border
        if stored.turn:
            turn = Turn(self.mailbox, claim, stored, profile, stored.turn)
            log(logger, "turn taken over", conversation=stored.key.id, turn=turn.id[:8], tries=claim.tries)
            turn.live_rows |= await grown(turn, adapter, stored.rows)
            cards = [row for row in stored.rows if row.is_card]
            await Delivery(turn, adapter, self.mailbox.settings).send_all(cards)  # those that had to wait
            await self.course.go_on(turn, adapter)
            return
        for row in stored.rows:
            turn = leftover(self.mailbox, claim, stored, profile, row)
            await Delivery(turn, adapter, self.mailbox.settings).send_all([row])
        if stored.control or stored.inbox:
            members = talk_of(stored.inbox) if stored.control else chosen(stored.inbox, profile)
            try:
                first = Event.load(stored.control[0] if stored.control else event_of(members[0]))
            except ValueError as error:
                raise _Unreadable(error) from error
            if stored.control and await self.course.heard.would_stop_others(stored, first):
                members = []  # what others wrote is not theirs to end
            turn = begin(self.mailbox, claim, stored, profile, first)
            around = [] if stored.control or not said_to_model(first) else await overheard(turn)
            await turn.take(members, stored.control[:1], *around)  # /stop takes along what nobody has begun
            log(logger, "turn", conversation=stored.key.id, turn=turn.id[:8], events=max(1, len(members)))
            await self.course.go_on(turn, adapter)

    async def profile_now(self, key: ConversationKey) -> Profile:
        """What holds in the conversation's room, as the operator's files are now, or were less than a second ago."""
        return (await self.watched.current()).profile_for(key.connection, key.channel)


def _in_hand(stored: Stored) -> str:
    """The turn that is open, or comes next; a part that is to be sent before."""
    if stored.turn:
        return str(stored.turn["id"])
    if sending := [row.key for row in stored.rows if row.is_open]:
        return sending[0]
    waits = [*stored.control, *map(event_of, stored.inbox)]
    return turn_id(readable(waits[0], stored.key)) if waits else ""
