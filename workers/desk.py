"""The desk: how a worker attends to one conversation that it has claimed.

The order is always the same, for a first run and for a takeover: the open turn from its last record; else unsent rows,
then control, then the inbox. At last the claim is given back, in the script that looks for more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from config.profiles import Profile
from config.watching import Watched
from gateway.commands import said_to_model
from gateway.conversation.claim import Claim, Claimed, Lost
from gateway.conversation.deaths import ERRORS_MAX
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox, Stored, event_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Outbound
from gateway.store import Unreachable
from workers.course import Course
from workers.sending.delivery import Delivery, key_is_known, sent_ref
from workers.taking import chosen, overheard, readable, talk_of
from workers.turn import Parked, Turn, begin, leftover, rows_for

logger = logging.getLogger(__name__)

FOR_OTHERS_WAIT_S = 10.0
"""What nobody here can do is looked at again so often, by whichever worker comes first."""
ERROR_PAUSE_S = 1.0


@dataclass(frozen=True)
class Desk:
    """One a worker process."""

    worker: str
    watched: Watched
    mailbox: Mailbox
    adapters: Mapping[str, Adapter]
    course: Course
    _errors: Counter[str] = field(default_factory=Counter)
    """How often something nobody understands has happened, by conversation."""

    async def attend(self, claim: Claim, places: Callable[[], int]) -> Claimed:
        """Do what the conversation has to do, give it back, and say what was claimed in the same script.

        Raises `Lost`. On anything else that nobody understands it is handed over, and after the third time buried.
        """
        while True:
            saw_seq = saw_control = 0
            try:
                stored = await self.mailbox.load(claim.conversation, claim.begin)
                saw_seq, saw_control = stored.seq, len(stored.control)
                await self._work(claim, stored)
                keep_s = (await self.profile_now(stored.key)).kept_s(self.mailbox.settings.retention_s)
                released = await self.mailbox.settle(claim, self.worker, places(), keep_s)
            except Parked as parked:
                wait_ms = max(1, int(parked.wait_s * 1000))
                saw = None if parked.for_others else saw_seq
                released = await self.mailbox.park(claim, wait_ms, saw, self.worker, places(), saw_control=saw_control)
            except (Lost, Unreachable):
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, the person is told and the others go on
                await self._broke(claim, error)
                continue
            if released is not None:
                self._errors.pop(claim.conversation, None)
                return released

    async def bury(self, claim: Claim, reason: str) -> None:
        """Give up what this conversation has in hand: a dead letter, and a notice to the person. Raises `Lost`."""
        stored = await self.mailbox.load(claim.conversation, claim.begin)
        profile = await self.profile_now(stored.key)
        if stored.is_newer:
            return  # nobody here knows what it is
        if stored.turn:
            turn = Turn(self.mailbox, claim, stored, profile, stored.turn)
            await self._find_live(turn, stored.rows)
        elif stored.control or stored.inbox:
            raw = stored.control[0] if stored.control else event_of(stored.inbox[0])
            turn = begin(self.mailbox, claim, stored, profile, readable(raw, stored.key))
            await turn.take(() if stored.control else stored.inbox[:1], stored.control[:1])
        else:
            return
        reference = turn.id[:8]
        log(logger, "buried", level=logging.ERROR, conversation=stored.key.id, reference=reference, reason=reason)
        text = say("turn.dead", turn.language, reference=reference)
        adapter = self.adapters[stored.key.connection]
        rows = rows_for(turn, adapter.render(Outbound(text, is_notice=True)))
        records = [
            Record("failed", self.mailbox.now_ms(), {"turn": turn.id, "reason": reason}),
            Record("reply", self.mailbox.now_ms(), {"turn": turn.id, "text": text, "notice": True}),
        ]
        await self.mailbox.bury(claim, turn.id, reason, records=records, rows=rows, used=turn.used)

    async def _work(self, claim: Claim, stored: Stored) -> None:
        if stored.is_newer:
            log(logger, "written by a newer version", level=logging.ERROR, conversation=stored.key.id)
            raise Parked(FOR_OTHERS_WAIT_S, for_others=True)
        adapter = self.adapters.get(stored.key.connection)
        if adapter is None:
            log(logger, "no such connection here", level=logging.ERROR, connection=stored.key.connection)
            raise Parked(FOR_OTHERS_WAIT_S, for_others=True)  # a worker with newer settings may know it
        profile = await self.profile_now(stored.key)
        if stored.control or stored.inbox:
            claim.news.set()  # whoever goes on with a turn looks at its first border
        if stored.turn:
            turn = Turn(self.mailbox, claim, stored, profile, stored.turn)
            log(logger, "turn taken over", conversation=stored.key.id, turn=turn.id[:8], tries=claim.tries)
            await self._find_live(turn, stored.rows)
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
                await self.bury(claim, f"unreadable: {error}")
                return
            if stored.control and await self.course.heard.would_stop_others(stored, first):
                members = []  # what others wrote is not theirs to end
            turn = begin(self.mailbox, claim, stored, profile, first)
            around = [] if stored.control or not said_to_model(first) else await overheard(turn)
            await turn.take(members, stored.control[:1], *around)  # /stop takes along what nobody has begun
            log(logger, "turn", conversation=stored.key.id, turn=turn.id[:8], events=max(1, len(members)))
            await self.course.go_on(turn, adapter)

    async def _find_live(self, turn: Turn, rows: Sequence[Row]) -> None:
        """Messages that a holder before us began to show: they become the reply, so that none is left half."""
        for row in rows:
            if row.state == "live":
                turn.live_rows[row.key] = row
            elif row.state == "sending":
                adapter = self.adapters[turn.stored.key.connection]
                if adapter.capabilities.look_back:
                    found = await adapter.find(turn.address, row.key, row.since_ms)
                    turn.live_rows[row.key] = replace(row, state="live", ref=sent_ref(found))
                elif not key_is_known(
                    adapter.capabilities, row, turn.now_ms()
                ):  # nobody can tell: no second one, the profile decides
                    turn.live_rows[row.key] = replace(row, state="live", ref=None)

    async def _broke(self, claim: Claim, error: Exception) -> None:
        self._errors[claim.conversation] += 1
        log(
            logger,
            "turn broke",
            level=logging.ERROR,
            error=error,
            conversation=claim.conversation,
            times=self._errors[claim.conversation],
        )
        claim.check()
        if self._errors[claim.conversation] < ERRORS_MAX:
            await asyncio.sleep(ERROR_PAUSE_S)
            return
        await self.bury(claim, type(error).__name__)

    async def profile_now(self, key: ConversationKey) -> Profile:
        """What holds in the conversation's room, as the operator's files are now, or were less than a second ago."""
        return (await self.watched.current()).profile_for(key.connection, key.channel)
