"""The course of a turn, from wherever it stands to its reply: by a command, by the model, or by a notice."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from config.rules import rule_of
from config.watching import Watched
from gateway.acting import perform, unallowed
from gateway.commands import Done, Outside, command_of, find, said_to_model, unknown
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.costs import budgets, spending
from gateway.events import Event
from gateway.files import Files
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Outbound, Part
from gateway.rights.access import CommandUse, may
from gateway.rights.guests import is_guest_by_id
from gateway.rights.pins import Pins
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import Shelf
from workers.agent.agent import Agent
from workers.agent.borders import Called
from workers.aside import Aside, said_in, who_reads
from workers.calling.hearing import Hearing
from workers.calling.rights import Rights
from workers.calling.tabs import warnings
from workers.heard import Heard
from workers.passing import Passing
from workers.planning.crew import Crew
from workers.planning.steps import Steps
from workers.pressed import tell_pressed
from workers.prompt.withholding import withhold_as_of_now
from workers.reading.attached import AT_ONCE, Attached, nothing_to_read
from workers.sending.cards import Cards
from workers.sending.delivery import Delivery
from workers.sending.links import Links
from workers.sending.live import Live
from workers.taking import readable
from workers.turn import Ended, Turn, rows_for

logger = logging.getLogger(__name__)

AT_ONCE_CHARACTERS: Final = 4_000
"""A longer reply is rendered in a thread."""


@dataclass(frozen=True)
class Course:
    """One a worker process; turns pass through it."""

    watched: Watched
    mailbox: Mailbox
    agent: Agent
    shelf: Shelf
    notes: Notes
    passing: Passing
    heard: Heard
    _downloads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def go_on(self, turn: Turn, adapter: Adapter) -> None:
        """From wherever the turn stands to its reply, sent. Raises `Lost`, `Parked`, `Unreachable`."""
        try:
            await self._go_on(turn, adapter)
        finally:
            turn.pay()

    async def _go_on(self, turn: Turn, adapter: Adapter) -> None:
        events = [
            readable(json.dumps(one.data["event"]).encode(), turn.stored.key)
            for one in turn.records
            if one.type == "event"
        ]
        beside = Aside(turn, adapter, partial(self._outside, adapter, turn))
        turn.aside, turn.refuse = beside.run, beside.refuse
        self.heard.guards(turn)
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
            waited = sum(record.type == "event" for record in turn.records) > 1
            inbox = tuple(turn.stored.inbox)
            said = await said_in(turn, event, rest, outside, waited=waited, inbox=inbox)
            others = name == "stop" and await self.heard.would_stop_others(turn.stored, event)
            done = await self._done(turn, partial(perform, name, known, said, about_others=others))
        if event.kind == "action":
            await tell_pressed(adapter, event, done, self.mailbox.settings.send_timeout_s)
        await self._finish(
            turn, adapter, done.text, *done.records, notice=True, command=True, only_for=who_reads(event, done)
        )

    async def _done(self, turn: Turn, run: Callable[[], Awaitable[Done]]) -> Done:
        try:
            return await run()
        except Called:
            return Done(say("turn.stopped", turn.language))
        except Ended as ended:
            return Done(say(ended.phrase, turn.language, **ended.values))

    async def _outside(self, adapter: Adapter, turn: Turn) -> Outside:
        loaded = await self.watched.current()
        return Outside(
            self.shelf,
            self.notes,
            loaded,
            adapter.capabilities,
            adapter.download,
            partial(self.agent.compacted, turn),
            self.passing.on,
            partial(spending.spent, self.mailbox.store),
            Pins(self.mailbox.store).of,
            partial(budgets.balances, self.mailbox.store),
            partial(is_guest_by_id, self.mailbox.store, loaded.settings),
        )

    async def _answer(self, turn: Turn, adapter: Adapter, way: str) -> None:
        """By the model. `way`: the command that asks it; none: as usual."""
        loaded = await self.watched.current()
        settings = loaded.settings
        here = await self.shelf.here(turn.stored.key, loaded)
        library = await self.shelf.pinned(turn.state.setdefault("skills", here.pin), here)
        rights = Rights(self.shelf, self.notes, self.watched, turn.stored.key, library)
        if (rule := await self.heard.why_not(turn, here)) is not None:
            await self._turn_away(turn, adapter, rule)
            return
        verdict = may(turn.actor, here, CommandUse(way)) if way else None
        if verdict and not verdict.allowed:
            told = unallowed(turn.actor, here, way, verdict, turn.language)
            await self._finish(turn, adapter, told.text, notice=True, command=True)
            return
        live = Live(turn, adapter)
        turn.rest = live.rest
        self.heard.listens(turn, rights)
        turn.before_talk = partial(withhold_as_of_now, turn, rights)
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
            rule = rule_of(loaded, turn.profile, ended.rule) if ended.rule else ""
            why: dict[str, Any] = {"rule": rule} if rule else {}
            log(logger, "turn ended", conversation=turn.stored.key.id, turn=turn.id[:8], reason=ended.phrase, **why)
            await self._finish(turn, adapter, say(ended.phrase, turn.language, **ended.values), notice=True, rule=rule)
        else:
            await live.end()
            warned = await warnings(turn, settings.model.currency)
            await self._finish(turn, adapter, text, *records, after=warned)
        finally:
            await live.close()

    async def _turn_away(self, turn: Turn, adapter: Adapter, rule: str) -> None:
        """What was said is sent to no model, not in a later turn either."""
        log(logger, "not heard any more", conversation=turn.stored.key.id, turn=turn.id[:8], rule=rule)
        failed = Record("failed", turn.now_ms(), {"turn": turn.id, "reason": rule})
        await self._finish(turn, adapter, say("pair.unheard", turn.language), failed, notice=True)

    async def _finish(
        self,
        turn: Turn,
        adapter: Adapter,
        text: str,
        *records: Record,
        notice: bool = False,
        command: bool = False,
        only_for: str | None = None,
        after: str = "",
        rule: str = "",
    ) -> None:
        """The answer, the reply and its rows in one script; then send. `after`: our own words behind it."""
        text = text if notice else Links(turn, adapter.capabilities).harmless(text)
        text = f"{text}\n\n{after}" if after else text
        data: dict[str, Any] = {"turn": turn.id, "text": text}
        data |= {"rule": rule} if rule else {}
        data |= {"notice": True} if notice else {}
        data |= {"command": True} if command else {}
        rows = rows_for(turn, await _rendered(adapter, Outbound(text, is_notice=notice, only_for=only_for)))
        await turn.write(
            *records, Record("reply", self.mailbox.now_ms(), data), rows=rows, state="close", finished_step=True
        )
        await Delivery(turn, adapter, self.mailbox.settings).send_all(rows)


async def _rendered(adapter: Adapter, outbound: Outbound) -> list[Part]:
    """A long text beside the loop: other turns must not wait while it is read and written."""
    if len(outbound.markdown) > AT_ONCE_CHARACTERS:
        return list(await asyncio.to_thread(adapter.render, outbound))
    return list(adapter.render(outbound)) if outbound.markdown else []
