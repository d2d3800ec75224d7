"""The desk: how a worker attends to one conversation that it has claimed.

The order is always the same, for a first run and for a takeover: the open turn from its last record; else unsent rows,
then control, then the inbox. At last the claim is given back, in the script that looks for more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from config.profiles import Profile, Queue
from config.watching import Watched
from gateway import spending
from gateway.commands import Command, Done, Outside, Said, command_of, find, said_to_model, unknown
from gateway.conversation.claim import Claim, Claimed, Lost
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox, Stored, event_of
from gateway.conversation.outbox import Row
from gateway.conversation.overheard import heard_since
from gateway.conversation.records import Record, latest
from gateway.events import Actor, Event
from gateway.files import Files
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Outbound
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import Shelf
from gateway.store import Unreachable
from workers.agent import Agent
from workers.aside import Aside, said_in, who_reads
from workers.attached import AT_ONCE, Attached, nothing_to_read
from workers.borders import Called, talk_of
from workers.cards import Cards
from workers.crew import Crew
from workers.delivery import Delivery, key_is_known, sent_ref
from workers.hearing import Hearing
from workers.links import Links
from workers.live import Live
from workers.passing import Passing
from workers.pressed import tell_pressed
from workers.rights import Rights
from workers.steps import Steps
from workers.turn import Ended, Parked, Turn, begin, leftover, rows_for
from workers.withholding import withhold_as_of_now

logger = logging.getLogger(__name__)

UNKNOWN_CONNECTION_WAIT_S = 30.0
ERRORS_MAX = 3
ERROR_PAUSE_S = 1.0


@dataclass(frozen=True)
class Desk:
    """One a worker process."""

    worker: str
    watched: Watched
    mailbox: Mailbox
    adapters: Mapping[str, Adapter]
    agent: Agent
    shelf: Shelf
    notes: Notes
    passing: Passing
    _errors: Counter[str] = field(default_factory=Counter)
    """How often something nobody understands has happened, by conversation."""
    _downloads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def attend(self, claim: Claim, places: Callable[[], int]) -> Claimed:
        """Do what the conversation has to do, give it back, and say what was claimed in the same script.

        Raises `Lost`. On anything else that nobody understands it is handed over, and after the third time buried.
        """
        while True:
            saw_seq = 0
            try:
                stored = await self.mailbox.load(claim.conversation, claim.begin)
                saw_seq = stored.seq
                await self._work(claim, stored)
                released = await self.mailbox.settle(claim, self.worker, places())
            except Parked as parked:
                wait_ms = max(1, int(parked.wait_s * 1000))
                released = await self.mailbox.park(claim, wait_ms, saw_seq, self.worker, places())
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
        await self.mailbox.bury(claim, turn.id, reason, records=records, rows=rows)

    async def _work(self, claim: Claim, stored: Stored) -> None:
        adapter = self.adapters.get(stored.key.connection)
        if adapter is None:
            log(logger, "no such connection here", level=logging.ERROR, connection=stored.key.connection)
            raise Parked(UNKNOWN_CONNECTION_WAIT_S)  # a worker with newer settings may know it
        profile = await self.profile_now(stored.key)
        if stored.control or stored.inbox:
            claim.news.set()  # whoever goes on with a turn looks at its first border
        if stored.turn:
            turn = Turn(self.mailbox, claim, stored, profile, stored.turn)
            log(logger, "turn taken over", conversation=stored.key.id, turn=turn.id[:8], tries=claim.tries)
            await self._find_live(turn, stored.rows)
            cards = [row for row in stored.rows if row.order < 0]
            await Delivery(turn, adapter, self.mailbox.settings).send_all(cards)  # those that had to wait
            await self._go_on(turn, adapter)
            return
        for row in stored.rows:
            turn = leftover(self.mailbox, claim, stored, profile, row)
            await Delivery(turn, adapter, self.mailbox.settings).send_all([row])
        if stored.control or stored.inbox:
            members = talk_of(stored.inbox) if stored.control else chosen(stored.inbox, profile.queue)
            try:
                first = Event.load(stored.control[0] if stored.control else event_of(members[0]))
            except ValueError as error:
                await self.bury(claim, f"unreadable: {error}")
                return
            turn = begin(self.mailbox, claim, stored, profile, first)
            around = [] if stored.control or not said_to_model(first) else await self._overheard(turn)
            await turn.take(members, stored.control[:1], *around)  # /stop takes along what nobody has begun
            log(logger, "turn", conversation=stored.key.id, turn=turn.id[:8], events=max(1, len(members)))
            await self._go_on(turn, adapter)

    async def _overheard(self, turn: Turn) -> list[Record]:
        """What was said in the channel, not to us, since this conversation heard of it last."""
        most = turn.profile.overhear
        if not most:
            return []
        before = latest(turn.stored.history, "overheard") or 0
        said = await heard_since(self.mailbox.store, turn.stored.key, before, most, turn.now_ms())
        if not said:
            return []
        data = {
            "turn": turn.id,
            "until_ms": said[-1].at_ms,
            "said": [[one.who, one.text] for one in said],
            "mark": secrets.token_hex(4),
        }
        return [Record("overheard", turn.now_ms(), data)]

    async def _go_on(self, turn: Turn, adapter: Adapter) -> None:
        """From wherever the turn stands to its reply, sent."""
        events = [
            readable(json.dumps(one.data["event"]).encode(), turn.stored.key)
            for one in turn.records
            if one.type == "event"
        ]
        command = command_of(events[0]) if events else None
        asks = command is not None and said_to_model(events[0]) is not None
        if command and not asks:
            await self._command(turn, adapter, events[0], *command)
        elif all(event.is_empty for event in events):
            greeting = turn.profile.greeting or say("message.empty", turn.language)
            await self._finish(turn, adapter, greeting, notice=True)
        elif not asks and all(event.is_empty or nothing_to_read(event) for event in events):
            await self._finish(turn, adapter, say("message.unsupported", turn.language), notice=True)
        else:
            await self._answer(turn, adapter, command[0] if command else "")

    async def _command(self, turn: Turn, adapter: Adapter, event: Event, name: str, rest: str) -> None:
        known = find(name)
        if known is None:
            done = unknown(name, turn.language)
        else:
            outside = partial(self._outside, adapter, turn)
            turn.aside = Aside(turn, adapter, outside).run  # some ask the model
            waited = sum(record.type == "event" for record in turn.records) > 1
            inbox = tuple(turn.stored.inbox)
            said = await said_in(turn, event, rest, outside, waited=waited, inbox=inbox)
            done = await self._done(turn, known, said)
        if event.kind == "action":
            await tell_pressed(adapter, event, done, self.mailbox.settings.send_timeout_s)
        await self._finish(
            turn, adapter, done.text, *done.records, notice=True, command=True, only_for=who_reads(event, done)
        )

    async def _done(self, turn: Turn, command: Command, said: Said) -> Done:
        try:
            return await command.run(said)
        except Called:
            return Done(say("turn.stopped", turn.language))
        except Ended as ended:
            return Done(say(ended.phrase, turn.language, **ended.values))

    async def _outside(self, adapter: Adapter, turn: Turn) -> Outside:
        return Outside(
            self.shelf,
            self.notes,
            await self.watched.current(),
            adapter.capabilities,
            adapter.download,
            partial(self.agent.compacted, turn),
            self.passing.on,
            partial(spending.spent, self.mailbox.store),
        )

    async def _answer(self, turn: Turn, adapter: Adapter, way: str) -> None:
        """By the model. `way`: the command that asks it; none: as usual."""
        loaded = await self.watched.current()
        settings = loaded.settings
        here = await self.shelf.here(turn.stored.key, loaded)
        library = await self.shelf.pinned(turn.state.setdefault("skills", here.pin), here)
        rights = Rights(self.shelf, self.notes, self.watched, turn.stored.key, library)
        live = Live(turn, adapter)
        turn.before_talk = partial(withhold_as_of_now, turn, rights)
        turn.aside = Aside(turn, adapter, partial(self._outside, adapter, turn)).run
        try:
            cards = Cards(turn, adapter)
            turn.hear = Hearing(turn, cards).hear
            files = Files(self.mailbox.store)
            attached = Attached(turn, adapter, files, settings.attachments, cards, self._downloads)
            if way:
                crew = Crew(Steps(self.agent, turn, rights, live, attached), is_team=way == "team")
                records, text = await crew.answer()
            else:
                record, text = await self.agent.answer(turn, here.over(library), rights, live, attached)
                records = [record]
        except Ended as ended:
            await live.close()
            log(logger, "turn ended", conversation=turn.stored.key.id, turn=turn.id[:8], reason=ended.phrase)
            await self._finish(turn, adapter, say(ended.phrase, turn.language, **ended.values), notice=True)
        else:
            await live.end()
            await self._finish(turn, adapter, text, *records)
        finally:
            await live.close()

    async def _finish(
        self,
        turn: Turn,
        adapter: Adapter,
        text: str,
        *records: Record,
        notice: bool = False,
        command: bool = False,
        only_for: str | None = None,
    ) -> None:
        """The answer, the reply and its rows in one script; then send."""
        text = text if notice else Links(turn, adapter.capabilities).harmless(text)
        data: dict[str, Any] = {"turn": turn.id, "text": text}
        data |= {"notice": True} if notice else {}
        data |= {"command": True} if command else {}
        rows = rows_for(turn, adapter.render(Outbound(text, is_notice=notice, only_for=only_for))) if text else []
        await turn.write(
            *records, Record("reply", self.mailbox.now_ms(), data), rows=rows, state="close", finished_step=True
        )
        await Delivery(turn, adapter, self.mailbox.settings).send_all(rows)

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


def readable(raw: bytes, key: ConversationKey) -> Event:
    """The event; where it is none, something in its place that a notice can answer."""
    try:
        return Event.load(raw)
    except ValueError:
        return Event(kind="message", conversation=key, actor=Actor(""), dedupe_keys=(repr(raw),), at_ms=0)


def chosen(inbox: Sequence[bytes], queue: Queue) -> list[bytes]:
    """The members of the inbox that the next turn takes: a command alone, else talk by the profile's queue mode."""
    talk = talk_of(inbox)
    if not talk:
        return list(inbox[:1])
    if queue.mode != "followup":
        return talk
    together = talk[:1]
    before = Event.load(event_of(talk[0]))
    for member in talk[1:]:
        event = Event.load(event_of(member))
        is_near = queue.gather_ms > 0 and event.at_ms - before.at_ms <= queue.gather_ms
        is_of_group = bool(event.group) and event.group == before.group
        if event.actor.id != before.actor.id or not (is_near or is_of_group):
            break
        together.append(member)
        before = event
    return together
