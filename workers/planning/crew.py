"""The crew of a turn: a planner, those who carry its steps out, and in a team a reviewer. Each works in a branch of its own.

What comes next is read from the records by `plan.progress`, the same for a first run and for a takeover: no step that
has ended runs again, and one that was under way goes on from its branch's last record.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from config.profiles import Plan
from gateway.approvals.asked import Asked, Word, asked_in
from gateway.approvals.deciding import plainly
from gateway.commands import asks_first, command_of
from gateway.conversation.outbox import Row
from gateway.conversation.plans import Done, Progress, Step
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Outbound
from gateway.rights.access import Approval, may
from gateway.text.quoting import fenced, quoted
from skills.visible import visible
from workers.agent.borders import Called, border, unless_called
from workers.agent.moves import Stop, next_move
from workers.calling.judging import SHOWN_MAX
from workers.calling.persons import Persons, said_again
from workers.models import Answer, Usage
from workers.planning import given
from workers.planning.branches import branch_of
from workers.planning.plan import (
    CLOSING,
    REVIEWER,
    TASK_CHARACTERS,
    Review,
    Unreadable,
    planner,
    read_plan,
    read_review,
)
from workers.planning.steps import OF_ALL, Steps, shown
from workers.prompt.context import spoken
from workers.prompt.rendering import prompt
from workers.turn import Ended, Turn

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Crew:
    """Of one turn."""

    steps: Steps
    is_team: bool

    async def answer(self) -> tuple[list[Record], str]:
        """Go on with the turn until there is a reply: the records of it, not yet written, and its text.

        Raises `Ended` where a notice takes the answer's place, `Parked` where the turn waits, `Lost`.
        """
        try:
            await border(self._turn, joins=False)
            if isinstance(next_move(self._turn.records), Stop):
                raise Ended("turn.stopped")
            self._turn.aside = self._hear(self._turn.aside)
            return await unless_called(self._turn, self._course(), interrupts=False)
        except Called:
            await self.steps.close_calls("Stopped by the person")
            raise Ended("turn.stopped") from None
        except Ended:
            await self.steps.close_calls("The turn ended before")
            raise

    @property
    def _turn(self) -> Turn:
        return self.steps.turn

    @property
    def _rules(self) -> Plan:
        return self._turn.profile.plan

    def _hear(
        self, aside: Callable[[Sequence[bytes]], Awaitable[bool]] | None
    ) -> Callable[[Sequence[bytes]], Awaitable[bool]]:
        """What people say beside the turn, and answers to what a step asks: steps that wait look again."""

        async def hear(inbox: Sequence[bytes]) -> bool:
            was_command = aside is not None and await aside(inbox)
            was_answer = self._turn.hear is not None and await self._turn.hear()
            if was_command or was_answer:
                self.steps.heard.set()
            return was_command or was_answer

        return hear

    async def _course(self) -> tuple[list[Record], str]:
        while True:
            if self.steps.attached.is_due():  # of what began the turn, and of answers that joined it
                await self.steps.attached.read()
            now = self.steps.now
            self.steps.show(now)
            if not now.steps or (self._asks_first and not await self._may_begin()):
                await self._plan()
            elif now.open:
                await self.steps.carry_out()
            elif self.is_team and not now.is_reviewed and now.reviews < self._rules.reviews_max:
                await self._review(now)
            else:
                return await self._close(now)

    # ---- planner and reviewer ----

    async def _plan(self) -> None:
        turn, most = self._turn, self._rules.steps_max
        asks_first = self._asks_first

        def read(answer: str) -> tuple[Step, ...]:
            steps = read_plan(answer, most)
            if asks_first and len(whole(steps)) > SHOWN_MAX:
                raise Unreadable(
                    f"people have to look through it first, and it is too long for that; allowed are {SHOWN_MAX} "
                    "characters for all steps together"
                )
            return steps

        answers, steps = await self._read(branch_of(turn, "plan"), planner(most), read)
        steps = steps or self._one_step()
        log(logger, "plan", conversation=turn.stored.key.id, turn=turn.id[:8], steps=len(steps))
        plan = Record("plan", turn.now_ms(), {"turn": turn.id, "steps": [step.dump() for step in steps]})
        cards: list[Record] = []
        rows: list[Row] = []
        if not self.steps.live.grows and not asks_first:
            told = Outbound(say("plan.steps", turn.language, steps=_listed(steps)), is_notice=True)
            cards, rows = self.steps.attached.cards.made("plan", [told])
        await turn.write(*answers, plan, *cards, rows=rows, finished_step=True)
        await self.steps.attached.cards.send(rows)

    # ---- whoever wants to see the plan first ----

    @property
    def _asks_first(self) -> bool:
        if any(one.type == "given" and one.data["how"] == "step" for one in self._turn.all_records):
            return False
        first = next(one for one in self._turn.records if one.type == "event")
        _, said = command_of(Event.of(first.data["event"])) or ("", "")
        return self._rules.approve or asks_first(said)

    async def _may_begin(self) -> bool:
        """Whether the plan is to be carried out; else it is to be changed, and the planner knows how.

        Raises `Ended` where somebody said no or nobody said anything, `Parked` while it is open, `Lost`.
        """
        turn = self._turn
        persons = Persons(turn, self.steps.attached.cards)
        await persons.expire()
        plans = [at for at, record in enumerate(turn.records) if record.type == "plan"]
        word = next((one for one in asked_in(turn.records[plans[-1] :]) if one.kind == "plan"), None)
        if word is None:
            steps = whole(self.steps.now.steps)
            if len(steps) > SHOWN_MAX:  # the person's own words: nobody could plan it
                raise Ended("plan.too_long")
            await persons.plan(len(plans), steps)
        persons.wait()
        if word is None or word.word == "expired":
            raise Ended("plan.nobody")
        actor, here = word.who, await self.steps.rights.now()
        verdict = may(actor, here, Approval(word.requester))
        meant = _meant(word) if verdict.allowed else None
        if meant and word.word == "answer":  # of a command the log has it already
            line = (f"approval {meant}", f"{word.code} {word.kind}", verdict.rule)
            await self.steps.rights.noted(actor, here, f"{turn.id} {word.code}", line)
        if meant == "yes":
            return True
        if meant == "no" or word.word != "answer":
            raise Ended("plan.refused")
        planned = [at for at, record in enumerate(turn.all_records) if record.type == "plan"][-1]
        if not any(one.type == "given" and one.branch == "plan" for one in turn.all_records[planned:]):
            branch = branch_of(turn, "plan")
            await branch.write(given.edited(turn.id, turn.now_ms(), word.text), *said_again(branch, word))
        return False

    def _one_step(self) -> tuple[Step, ...]:
        """The whole task, where nobody could plan it."""
        said = [event.text for record in self._turn.records if record.type == "event" and (event := spoken(record))]
        return (Step("1", "\n".join(said).strip()[:TASK_CHARACTERS] or "?"),)

    async def _review(self, now: Progress) -> None:
        turn = self._turn
        branch = branch_of(turn, f"review {now.reviews + 1}")
        if not branch.records:
            await branch.write(given.for_review(turn.id, turn.now_ms(), _results(now)))
        answers, review = await self._read(branch, REVIEWER, lambda text: read_review(text, list(now.done)))
        changes = dict((review or Review()).changes)  # what nobody could read is no objection
        log(logger, "review", conversation=turn.stored.key.id, turn=turn.id[:8], sent_back=len(changes))
        await turn.write(
            *answers, Record("review", turn.now_ms(), {"turn": turn.id, "changes": changes}), finished_step=True
        )

    async def _read(self, branch: Turn, system: str, read: Callable[[str], T]) -> tuple[Sequence[Record], T | None]:
        """What the branch answers, and the record of that, not yet written. What can't be read is asked for once more."""
        turn = self._turn
        while True:
            try:
                record, text = await self.steps.alone(branch, system)
            except Ended as ended:
                if ended.phrase in OF_ALL:
                    raise
                return (), None
            try:
                return [replace(record, branch=branch.branch)], read(text)
            except Unreadable as fault:
                log(
                    logger,
                    "unreadable",
                    logging.WARNING,
                    turn=turn.id[:8],
                    branch=branch.branch,
                    reason=str(fault)[:200],
                )
                if any(one.type == "given" and one.data["how"] == "fault" for one in branch.records):
                    return [replace(record, branch=branch.branch)], None
                await branch.write(record, given.not_readable(turn.id, turn.now_ms(), str(fault)))

    # ---- the reply ----

    async def _close(self, now: Progress) -> tuple[list[Record], str]:
        turn = self._turn
        if all(done.failed for done in now.done.values()):
            raise Ended("plan.failed", reason=now.done[now.steps[0].id].text)
        last = now.done[now.ends[0].id] if len(now.ends) == 1 else None
        records: list[Record] = []
        if last and not last.failed and not now.objections:
            text = last.text
        else:
            branch = branch_of(turn, "closing")
            if not branch.records:
                objections = "\n".join(f"step {name}: {change}" for name, change in now.objections.items())
                await branch.write(given.for_closing(turn.id, turn.now_ms(), _results(now), objections))
            system = prompt(turn.profile.instructions, CLOSING, ()).system
            record, text = await self.steps.alone(branch, system, self.steps.live)
            records.append(replace(record, branch=branch.branch))
        if failed := [step for step in now.steps if now.done[step.id].failed]:
            tasks = "\n".join(f"- {quoted(shown(step))}: {now.done[step.id].text}" for step in failed)
            text = f"{text}\n\n{say('plan.not_done', turn.language, tasks=tasks)}"
        model = next((str(one.data["model"]) for one in reversed(turn.all_records) if one.type == "answer"), "")
        said = Answer([{"type": "text", "text": text}], "end_turn", Usage(), model)
        return [*records, Record("answer", turn.now_ms(), {"step": 1, **asdict(said)})], text


def _meant(word: Asked) -> Word | None:
    """A yes or a no, by command or in plain words; None: it says what should be otherwise."""
    if word.word != "answer":
        return word.word
    plain: tuple[Word, ...] = ("yes", "no")
    return next((one for one in plain if plainly(word.text, one)), None)


def _listed(steps: Sequence[Step]) -> str:
    return "\n".join(f"{number}. {quoted(shown(step))}" for number, step in enumerate(steps, 1))


def whole(steps: Sequence[Step]) -> str:
    """For whoever says yes to them: every character of every step, those that show nothing by their names."""
    tasks = [visible(step.task) for step in steps]
    plain = [" ".join(task.split()) == task and "`" not in task for task in tasks]
    return "\n".join(
        f"{number}. `{task}`" if is_plain else f"{number}.\n{fenced(task)}"
        for number, (task, is_plain) in enumerate(zip(tasks, plain, strict=True), 1)
    )


def _results(now: Progress) -> list[tuple[Step, Done]]:
    return [(step, now.done[step.id]) for step in now.steps]
