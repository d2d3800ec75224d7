"""Steps: a plan's steps are carried out, each in a branch of the turn, side by side as far as they don't need each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.conversation.claim import Leaving
from gateway.conversation.plans import Done, Progress, Step, progress
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.platforms import StepLine
from skills.visible import one_line
from workers.agent.agent import Agent, close_calls
from workers.calling.rights import Rights
from workers.planning import given
from workers.planning.branches import branch_of
from workers.prompt.withholding import withhold_now
from workers.reading.attached import Attached
from workers.sending.live import Lines, Live, Telling
from workers.turn import Ended, Parked, Turn

OF_ALL: Final = frozenset(
    {
        "turn.stopped",
        "turn.limit_time",
        "turn.limit_tokens",
        "turn.budget",
        "turn.budget_first",
        "turn.budget_small",
        "turn.budget_turns",
        "turn.budget_unpriced",
        "turn.model_away",
        "turn.model_busy",
        "turn.model_refused",
    }
)
"""Ends that are the whole turn's; with any other only the branch has failed."""
SHOWN_CHARACTERS: Final = 120
"""Of a step's task, where people read it."""


@dataclass(slots=True)
class Steps:
    """Of one turn, and what all its branches share."""

    agent: Agent
    turn: Turn
    rights: Rights
    live: Live
    attached: Attached
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody said a word that a step may wait for."""
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _due_s: dict[str, float] = field(default_factory=dict)
    """When steps that are under way and have to wait go on, by the loop's clock."""

    @property
    def now(self) -> Progress:
        return progress(self.turn.records)

    async def carry_out(self) -> None:
        """All that are open. Raises `Ended` where it is the whole turn's end, `Parked` when all that is left waits, `Lost`."""
        self._due_s.clear()
        is_leaving = False
        try:
            while True:
                if not is_leaving:
                    self._begin_ready()
                if not self._running:
                    break
                await self._until_something_ends()
                for name in [name for name, task in self._running.items() if task.done()]:
                    try:
                        self._running.pop(name).result()
                    except Parked as parked:
                        self._due_s[name] = asyncio.get_running_loop().time() + parked.wait_s
                    except Leaving:
                        is_leaving = True  # the others come to their border, too
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            self._running.clear()
        if is_leaving:
            raise Leaving(self.turn.claim.conversation)
        if self._due_s:
            raise Parked(max(0.0, min(self._due_s.values()) - asyncio.get_running_loop().time()))

    def _begin_ready(self) -> None:
        """Those that have what they need, in their order, as far as there are places."""
        now, time_s = self.now, asyncio.get_running_loop().time()
        for step in now.open:
            is_ready = all(need in now.done for need in step.needs) and self._due_s.get(step.id, 0.0) <= time_s
            if is_ready and step.id not in self._running and len(self._running) < self.turn.profile.plan.at_once:
                self._due_s.pop(step.id, None)
                self._running[step.id] = asyncio.create_task(self._one(step, now), name=f"step {step.id}")

    async def _until_something_ends(self) -> None:
        """Or a step that waits can go on: its time has come, or somebody has said a word."""
        listening = asyncio.create_task(self.heard.wait())
        due_s = min(self._due_s.values(), default=None)
        left_s = None if due_s is None else max(0.0, due_s - asyncio.get_running_loop().time())
        try:
            await asyncio.wait(
                {listening, *self._running.values()}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            listening.cancel()
        if self.heard.is_set():
            self.heard.clear()
            self._due_s.clear()

    async def _one(self, step: Step, now: Progress) -> None:
        """Carry one out, and write down how it ended."""
        turn = self.turn
        results = [(now.step(need), now.done[need]) for need in step.needs]
        if failed := next((need for need, done in results if done.failed), None):
            why = say("plan.needs_failed", turn.language, step=shown(failed))
            await self._write_end(step, (), Done(why, failed=True))
            return
        self.show(now)
        branch = branch_of(turn, f"step {step.id}")
        here = await self.rights.now()
        if not self._is_begun(step, branch.branch):
            if branch.records:
                await withhold_now(branch, here)
                change = now.changes.get(step.id, "")
                await branch.write(given.again(turn.id, turn.now_ms(), step, change, results))
            else:
                await branch.write(given.for_step(turn.id, turn.now_ms(), step, results))
        try:
            record, text = await self.agent.answer(
                branch, here, self.rights, Lines(self.live), self._attached_of(branch)
            )
        except Ended as end:
            if end.phrase in OF_ALL:
                raise
            await self._write_end(step, (), Done(say(end.phrase, turn.language, **end.values), failed=True))
        else:
            await self._write_end(step, [replace(record, branch=branch.branch)], Done(text))

    def _is_begun(self, step: Step, branch: str) -> bool:
        """Whether it was told what to do since it ended last."""
        for record in reversed(self.turn.all_records):
            if record.type == "given" and record.branch == branch:
                return True
            if record.type == "step_done" and record.data["id"] == step.id:
                return False
        return False

    async def _write_end(self, step: Step, records: Sequence[Record], done: Done) -> None:
        turn = self.turn
        data: dict[str, Any] = {"turn": turn.id, "id": step.id, "text": done.text}
        data |= {"failed": True} if done.failed else {}
        await turn.write(*records, Record("step_done", turn.now_ms(), data), finished_step=True)
        self.show(self.now)

    # ---- what the branches share ----

    async def alone(self, branch: Turn, system: str, live: Telling | None = None) -> tuple[Record, str]:
        """As `Agent.answer_alone`; its text is shown only by a `live` of its own."""
        here = await self.rights.now()
        return await self.agent.answer_alone(
            here, system, self.rights, live or Lines(self.live), self._attached_of(branch)
        )

    def _attached_of(self, branch: Turn) -> Attached:
        return replace(self.attached, turn=branch, cards=replace(self.attached.cards, turn=branch))

    async def close_calls(self, why: str) -> None:
        """Give every open call of every branch a result. Raises `Lost`."""
        for name in dict.fromkeys(record.branch for record in self.turn.all_records if record.branch):
            await close_calls(branch_of(self.turn, name), why)

    def show(self, now: Progress) -> None:
        """How far it has come, to those who watch."""
        lines: list[StepLine] = []
        for step in now.steps:
            done = now.done.get(step.id)
            if done:
                lines.append(StepLine("step", shown(step), "failed" if done.failed else "done"))
            else:
                lines.append(StepLine("step", shown(step), "running" if step.id in self._running else "waiting"))
        self.live.plan(lines)


def shown(step: Step) -> str:
    """As people read it who have nothing to decide."""
    line = one_line(step.task)
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"
