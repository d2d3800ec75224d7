"""Persons: what a turn asks of people, on cards in the chat, and the words that it waits for.

A request is written with its card in one script. Then the turn is parked: no worker holds it, and whichever claims it next,
because somebody has said a word or time is over, goes on from the records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from gateway.approvals.asked import Asked, Kind, announce, asked_in, decided, key_of
from gateway.conversation.mailbox import number_of
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.platforms import Button, Outbound
from gateway.text.quoting import fenced, quoted
from skills.visible import visible
from workers.agent.moves import Pending
from workers.calling.judging import Waits
from workers.prompt.context import spoken
from workers.sending.cards import Cards
from workers.tools import NeedsPerson
from workers.turn import Parked, Turn

CODE_CHARACTERS: Final = 6


@dataclass(frozen=True, slots=True)
class Persons:
    """Of one turn."""

    turn: Turn
    cards: Cards

    async def approve(self, waits: Waits) -> None:
        """Ask whether this call may run. Raises `Lost`, `Unreachable`, `Parked`."""
        call, language = waits.call, self.turn.language
        code = self.code(call.id)
        shown = visible(json.dumps(waits.arguments, ensure_ascii=False, indent=1))
        text = "\n".join(
            [
                say("asked.approval", language, code=code, tool=quoted(waits.shown), who=self._who()),
                fenced(shown),
                say(f"asked.why.{waits.why}", language),
                self._until(),
                say("asked.approval.how", language, code=code),
                *([say("asked.always.how", language, code=code)] if waits.form else []),
            ]
        )
        always = (Button(say("asked.always", language), f"approve {code} always"),) if waits.form else ()
        buttons = (
            Button(say("asked.allow", language), f"approve {code}", "primary"),
            Button(say("asked.refuse", language), f"deny {code}", "danger"),
            *always,
        )
        data = {"step": call.step, "call": call.id, "tool": call.name, "bound": waits.bound}
        data |= {"files": dict(waits.files)} if waits.files else {}
        data |= {"shown": waits.shown, "form": waits.form}
        await self._ask("approval", code, Outbound(text, is_notice=True, buttons=buttons), data)

    def asks_too_often(self, call_id: str) -> bool:
        """Whether the turn, with all its branches, has asked for as many yeses as it may, and this would be another one."""
        asked = [one for one in asked_in(self.turn.whole.all_records) if one.kind == "approval"]
        is_new = not any(one.call == call_id and one.branch == self.turn.branch for one in asked)
        return is_new and len(asked) >= self.turn.profile.approvals.turn_max

    def code(self, call_id: str) -> str:
        """Under which a call's yes is asked for."""
        return self._code("approval", call_id)

    def approved(self, call_id: str) -> Asked | None:
        """The yes to a call, if one was needed."""
        found = (one for one in self._all if one.call == call_id and one.kind == "approval" and one.word == "yes")
        return next(found, None)

    async def question(self, call: Pending, needs: NeedsPerson) -> None:
        """Put the model's question to people, unless that was done. Raises `Lost`, `Unreachable`, `Parked`."""
        if self.has_asked("question", call.id):
            return
        code, language = self._code("question", call.id), self.turn.language
        lines = [f"{number}. {choice}" for number, choice in enumerate(needs.choices, 1)]
        how = say("asked.question.how", language, code=code)
        text = "\n".join([needs.question, *(["", *lines] if lines else []), "", f"_{how}_"])
        buttons = tuple(
            Button(choice[:40], f"answer {code} {number}") for number, choice in enumerate(needs.choices, 1)
        )
        data = {"step": call.step, "call": call.id, "tool": call.name, "choices": list(needs.choices)}
        data |= {"question": needs.question}
        await self._ask("question", code, Outbound(text, buttons=buttons), data)

    async def plan(self, number: int, steps: str) -> None:
        """Ask whether the turn's plan of this number may be carried out. Raises `Lost`, `Unreachable`, `Parked`."""
        code, language = self._code("plan", str(number)), self.turn.language
        text = say("asked.plan", language, code=code, steps=steps, minutes=self._minutes())
        buttons = (
            Button(say("asked.allow", language), f"approve {code}", "primary"),
            Button(say("asked.refuse", language), f"deny {code}", "danger"),
        )
        await self._ask("plan", code, Outbound(text, is_notice=True, buttons=buttons), {})

    async def expire(self) -> None:
        """Note those that nobody has answered in time. Raises `Lost`."""
        now_ms = self.turn.now_ms()
        late = [decided(one, "expired", now_ms, turn=self.turn.id) for one in self.waiting if one.until_ms <= now_ms]
        if late:
            await self.turn.write(*late)

    def wait(self) -> None:
        """Raises `Parked` while something is open."""
        if waiting := self.waiting:
            raise Parked(max(0.0, (min(one.until_ms for one in waiting) - self.turn.now_ms()) / 1000))

    def said(self, call_id: str) -> Asked | None:
        """The word on what a call asks, if it was said."""
        found = (one for one in self._all if one.call == call_id and one.kind == "question" and one.word)
        return next(found, None)

    @property
    def waiting(self) -> list[Asked]:
        return [one for one in self._all if one.word is None]

    @property
    def _all(self) -> Sequence[Asked]:
        """Of this branch, as the whole turn has them: a word may have come since the branch was read."""
        return [one for one in asked_in(self.turn.whole.all_records) if one.branch == self.turn.branch]

    def has_asked(self, kind: Kind, call_id: str) -> bool:
        """Whether a call has asked for that already: nobody is asked twice."""
        return any(one.kind == kind and one.call == call_id for one in self._all)

    def _code(self, kind: Kind, call_id: str) -> str:
        """The same after a crash, so that no card is sent twice."""
        return self.turn.key(kind, call_id)[:CODE_CHARACTERS].upper()

    def _who(self) -> str:
        actor = self.turn.actor
        return quoted(actor.name or actor.id, 80) if actor else "–"

    def _until(self) -> str:
        return say("asked.until", self.turn.language, minutes=self._minutes())

    def _minutes(self) -> int:
        return max(1, round(self.turn.profile.approvals.wait_s / 60))

    async def _ask(self, kind: Kind, code: str, card: Outbound, more: dict[str, Any]) -> None:
        turn, wait_ms = self.turn, int(self.turn.profile.approvals.wait_s * 1000)
        await announce(turn.mailbox.store, turn.stored.key, code, wait_ms)
        actor = turn.actor
        data = {
            "turn": turn.id,
            "code": code,
            "kind": kind,
            "requester": actor.id if actor else "",
            "text": card.markdown,
            "until_ms": turn.now_ms() + wait_ms,
            **more,
        }
        records, rows = self.cards.made(f"asked {code}", [card])
        _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        data |= {"rows": [row.key for row in rows], "after": max(map(number_of, inbox), default=0)}
        async with turn.whole.rest() if turn.whole.rest else nullcontext(()) as grown:
            data |= {"closes": True} if grown else {}
            rows = [*grown, *rows]
            await turn.write(Record("asked", turn.now_ms(), data), *records, rows=rows, finished_step=True)
        await self.cards.send(rows)


def said_again(turn: Turn, word: Asked) -> list[Record]:
    """The messages of an answer that brought files or words of others, for whoever asked: a branch sees nothing of what is said to its turn, and
    what came with a command is shown to no model.
    """
    records: list[Record] = []
    for one in turn.whole.records:
        if one.type == "event" and "answers" not in one.data and key_of(one) in word.messages:
            event, is_talk = one.data["event"], spoken(one) is not None
            if not is_talk:
                event = {**event, "kind": "message", "name": "", "text": word.text}
            if (event.get("attachments") or event.get("forwarded")) and (turn.branch or not is_talk):
                records.append(Record("event", turn.now_ms(), {"turn": turn.id, "event": event, "answers": word.code}))
    return records
