"""Hearing: what people write while a question is open is the answer to it; with several open, to the one that they mean.

A message says by itself which one: it replies to the question's message, quotes it, or has its code in front. Where nothing
tells them apart nobody guesses: the message is kept, and the chat is told what is open and how one of them is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from gateway.approvals.asked import TEXT_MAX, Asked, decided, questions_in
from gateway.commands import command_of
from gateway.conversation.mailbox import event_of, number_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.phrases import say
from gateway.platforms import Button, Outbound
from gateway.text.quoting import quoted
from workers.sending.cards import Cards
from workers.turn import Parked, Turn

SHOWN_CHARACTERS: Final = 120
"""Of a question, where people choose one of them."""
BUTTON_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """One message that waits in the inbox."""

    member: bytes
    event: Event

    @property
    def key(self) -> str:
        """As records name it."""
        return self.event.dedupe_keys[0]


@dataclass(frozen=True, slots=True)
class Hearing:
    """Of one turn."""

    turn: Turn
    cards: Cards

    async def hear(self) -> bool:
        """Take the answers that wait, wherever they stand in line; whether there were any. Raises `Lost`, `Unreachable`."""
        turn = self.turn
        open_now = [one for one in questions_in(turn.all_records) if one.until_ms > turn.now_ms()]
        if not open_now:
            return False
        _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        said = [InboxMessage(member, event) for member in inbox if (event := _talk(member))]
        may = {one.member: await self._may_answer(one.event, open_now) for one in said}
        heard, unclear = _sorted(said, open_now, may, await self._cards_of(open_now, said))
        answers = {code: _of_one(those) for code, those in heard.items()}
        taken = [one for one in said if one in unclear or any(one in those for those in answers.values())]
        if not taken:
            return False
        is_one = len(open_now) == 1
        words = [self._word(one, answers[one.code], is_one=is_one) for one in open_now if one.code in answers]
        meant = [one for one in open_now if any(one.code in may[message.member] for message in unclear)]
        asks, rows = self._which(meant, unclear) if unclear else ([], [])
        if note := turn.answers:
            for one in open_now:
                if one.code in answers:
                    await note(answers[one.code][0].event, one)
        if turn.before_talk:
            await turn.before_talk()
        await turn.take([one.member for one in taken], (), *words, *asks, rows=rows)
        with suppress(Parked):  # it goes out before the turn's reply then
            await self.cards.send(rows)
        return True

    async def _may_answer(self, event: Event, open_now: Sequence[Asked]) -> frozenset[str]:
        """The codes of those that its speaker may answer: each was asked on behalf of somebody."""
        may_answer = self.turn.may_answer
        if may_answer is None:
            return frozenset(one.code for one in open_now)
        of_whom = {one.requester for one in open_now}
        may = {requester for requester in of_whom if await may_answer(event, requester)}
        return frozenset(one.code for one in open_now if one.requester in may)

    async def _cards_of(self, open_now: Sequence[Asked], said: Sequence[InboxMessage]) -> Mapping[str, Asked]:
        """The questions by the messages that they became, as far as anybody replies to one."""
        if not any(one.event.parent_id for one in said):
            return {}
        of_row = {row: one for one in open_now for row in one.rows}
        sent = await self.turn.mailbox.sent_as(self.turn.claim.conversation, list(of_row))
        return {message: of_row[row] for row, message in sent.items()}

    def _word(self, question: Asked, said: Sequence[InboxMessage], *, is_one: bool) -> Record:
        """The messages follow in the conversation, and that says enough where one question was asked there."""
        by = said[0].event.actor
        text = "\n".join(_without(question.code, one.event.text) for one in said)[:TEXT_MAX]
        return decided(
            question,
            "answer",
            self.turn.now_ms(),
            turn=self.turn.id,
            by=by,
            text="" if is_one and question.kind == "question" and not question.branch else text,
            messages=[one.key for one in said],
        )

    def _which(self, open_now: Sequence[Asked], unclear: Sequence[InboxMessage]) -> tuple[list[Record], list[Row]]:
        """The question which question is meant."""
        turn, keys = self.turn, [one.key for one in unclear]
        lines = "\n".join(
            f"- `{one.code}` {quoted(named_as(one, turn.language), SHOWN_CHARACTERS)}" for one in open_now
        )
        text = say("asked.which_question", turn.language, questions=lines, code=open_now[0].code)
        buttons = tuple(
            Button(named_as(one, turn.language)[:BUTTON_CHARACTERS], f"answer {one.code}") for one in open_now
        )
        records, rows = self.cards.made(f"unclear {keys[0]}", [Outbound(text, is_notice=True, buttons=buttons)])
        records = [replace(one, data={**one.data, "of": keys[0]}) for one in records]
        return [Record("unclear", turn.now_ms(), {"turn": turn.id, "messages": keys}), *records], rows


def named_as(one: Asked, language: str) -> str:
    """What people know it by: a plan asks without a question of its own."""
    return one.question or say("asked.which_question.plan", language)


def _sorted(
    said: Sequence[InboxMessage],
    open_now: Sequence[Asked],
    may: Mapping[bytes, frozenset[str]],
    cards: Mapping[str, Asked],
) -> tuple[dict[str, list[InboxMessage]], list[InboxMessage]]:
    """What answers which question, by its code; and what could answer several. The rest was there before any was asked, or is
    no answer by its speaker's rights (`may`: codes by message), whatever it names.
    """
    answers: dict[str, list[InboxMessage]] = {}
    unclear: list[InboxMessage] = []
    groups: dict[str, Asked] = {}
    for one in said:
        could = [it for it in open_now if it.code in may[one.member] and number_of(one.member) > it.after]
        meant = _named(one.event, open_now, cards) or groups.get(one.event.group)
        meant = meant or (could[0] if len(could) == 1 else None)
        if meant and meant.code not in may[one.member]:
            continue
        if meant:
            answers.setdefault(meant.code, []).append(one)
            groups |= {one.event.group: meant} if one.event.group else {}
        elif could:
            unclear.append(one)
    return answers, unclear


def _of_one(said: Sequence[InboxMessage]) -> list[InboxMessage]:
    """A word counts for whoever wrote it: what others wrote is none of theirs, and waits as what comes after the answer."""
    return [one for one in said if one.event.actor.id == said[0].event.actor.id]


def _named(event: Event, open_now: Sequence[Asked], cards: Mapping[str, Asked]) -> Asked | None:
    """The question that a message names by itself."""
    if event.parent_id in cards:
        return cards[event.parent_id]
    first = _first_word(event.text)
    quotes = [one for one in open_now if one.code in event.quoted]
    return next((one for one in open_now if one.code == first), quotes[0] if len(quotes) == 1 else None)


def _first_word(text: str) -> str:
    return next(iter(text.split(maxsplit=1)), "").strip("`*:：,，.").upper()


def _without(code: str, text: str) -> str:
    return text.strip().partition(" ")[2].strip() if _first_word(text) == code else text


def _talk(member: bytes) -> Event | None:
    """What a person says. Commands are none, nor is what shows nothing; and a bot can't answer for people."""
    try:
        event = Event.load(event_of(member))
    except ValueError:
        return None
    return None if event.actor.is_bot or event.is_empty or command_of(event) else event
