"""Aside: commands that do not wait until the turn of their conversation has ended, such as `/skill off` and `/help`; commands that
there are not; a /stop of somebody who may not say it; and a plain yes where a call waits for one, which is told what to type.

They are run and answered beside it, and what they change holds for what the turn still asks for. Such a command may be run
once more after a crash, like any other: what it changes is named by the turn that it would have had.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.acting import perform, turned_down
from gateway.approvals.deciding import told_how, wants_word
from gateway.commands import Done, Outside, Said, command_of, find, unknown
from gateway.conversation.claim import Lost
from gateway.conversation.mailbox import event_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.logs import log
from gateway.phrases import language_of
from gateway.platforms import Adapter, Outbound
from gateway.store import Unreachable
from workers.pressed import tell_pressed
from workers.prompt.loaded import loaded
from workers.sending.cards import BEFORE
from workers.sending.delivery import Delivery
from workers.turn import Parked, Turn, reply_to, rows_for, stable_key, turn_id, without_handle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Beside:
    """One message that is answered beside the turn."""

    event: Event
    run: Callable[[Said], Awaitable[Done]]
    rest: str = ""
    """What follows a command's name."""
    is_talk: bool = False
    """It is no command. The model is not told of it: it was answered."""


@dataclass(frozen=True, slots=True)
class Aside:
    """Beside one turn."""

    turn: Turn
    adapter: Adapter
    outside: Callable[[], Awaitable[Outside]]

    async def run(self, inbox: Sequence[bytes]) -> bool:
        """Run those that wait in the inbox; whether there was one. Raises `Lost`, `Unreachable`."""
        found = [(member, one) for member in inbox if (one := self._beside(event_of(member)))]
        waiting = list(inbox)
        for member, one in found:
            before = waiting.index(member)
            waiting.remove(member)
            try:
                said = await said_in(
                    self.turn,
                    one.event,
                    one.rest,
                    self.outside,
                    open=self.turn.all_records,
                    inbox=tuple(waiting),
                    before=before,
                )
                done = await one.run(said)
            except (Lost, Unreachable):
                raise
            except Exception as error:  # noqa: BLE001  # it is met again in a turn of its own, where it can be given up
                log(logger, "command broke", level=logging.ERROR, error=error, conversation=self.turn.stored.key.id)
                continue
            taken, withdrawn = ([], [member]) if one.is_talk else ([member], [])
            await self._answer(one.event, done, taken, withdrawn=[*withdrawn, *done.withdrawn])
            waiting = [one for one in waiting if one not in done.withdrawn]
        return bool(found)

    async def refuse(self, control: Sequence[bytes]) -> None:
        """Answer each /stop of somebody who may not end this turn. As a record it is none, and stops nothing.

        Raises `Lost`, `Unreachable`.
        """
        for raw in control:
            event = Event.load(raw)
            said = await said_in(self.turn, event, "", self.outside)
            done = await turned_down("stop", said, about_others=True)
            if done is None:  # they may, since a moment ago: the next look stops it
                self.turn.news.set()
                continue
            await self._answer(event, done, refused=[raw])

    def _beside(self, raw: bytes) -> _Beside | None:
        """What is answered beside the turn, if it is that."""
        try:
            event = Event.load(raw)
        except ValueError:
            return None
        spoken = command_of(event)
        if spoken is None:
            wants = not event.actor.is_bot and not event.attachments and wants_word(event.text, self.turn.all_records)
            return _Beside(event, told_how, is_talk=True) if wants else None
        name, rest = spoken
        command = find(name)
        if command is None:
            return _Beside(event, partial(_unknown, name), rest)
        return _Beside(event, partial(perform, name, command), rest) if command.WHEN_BUSY == "beside" else None

    async def _answer(
        self,
        event: Event,
        done: Done,
        taken: Sequence[bytes] = (),
        *,
        withdrawn: Sequence[bytes] = (),
        refused: Sequence[bytes] = (),
    ) -> None:
        turn = self.turn
        if event.kind == "action":
            await tell_pressed(self.adapter, event, done, turn.mailbox.settings.send_timeout_s)
        outbound = Outbound(done.text, is_notice=True, only_for=who_reads(event, done))
        rows = self._rows(event, outbound) if done.text else []
        told = {"turn": turn.id, "text": done.text, "of": event.dedupe_keys[0]}
        cards = [Record("card", turn.now_ms(), told)] if done.text else []
        await turn.take(taken, (), *done.records, *cards, rows=rows, withdrawn=withdrawn, refused=refused)
        with suppress(Parked):  # they go out before the turn's reply then
            await Delivery(turn, self.adapter, turn.mailbox.settings).send_all(rows)

    def _rows(self, event: Event, outbound: Outbound) -> list[Row]:
        """As the command's own turn would send them."""
        conversation = self.turn.stored.key.id
        return [
            replace(
                row,
                key=stable_key(conversation, turn_id(event), "part", str(number)),
                order=number - BEFORE,
                to=reply_to(event) if number == 0 else without_handle(reply_to(event)),
                state="pending",
                since_ms=0,
                ref=None,
            )
            for number, row in enumerate(rows_for(self.turn, self.adapter.render(outbound)))
        ]


async def said_in(turn: Turn, event: Event, rest: str, outside: Callable[[], Awaitable[Outside]], **more: Any) -> Said:
    """A command of this conversation, in a turn of its own or beside another one."""
    return Said(
        event,
        rest,
        language_of(turn.profile.language, event.actor.language),
        turn.now_ms(),
        turn=turn_id(event),
        history=turn.stored.history.before(turn.state["start"]),
        outside=await outside(),
        skills=tuple(loaded(turn.stored.history)),
        **more,
    )


def who_reads(event: Event, done: Done) -> str | None:
    """The only person who is to read the answer to a command, if one."""
    return event.actor.id if done.is_private and not event.is_direct else None


async def _unknown(name: str, said: Said) -> Done:
    return unknown(name, said.language)
