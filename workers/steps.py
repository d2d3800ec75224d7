"""Steps: a plan's steps are carried out, each in a branch of the turn, side by side as far as they don't need each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.conversation.claim import Leaving
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.platforms import StepLine
from skills.visible import one_line
from workers import given
from workers.agent import Agent, close_calls
from workers.attached import Attached
from workers.branches import branch_of
from workers.live import Lines, Live, Telling
from workers.plan import Done, Standing, Step, standing
from workers.rights import Rights
from workers.turn import Ended, Parked, Turn
from workers.withholding import withhold_now

OF_ALL: Final = frozenset(
    {"turn.stopped", "turn.limit_time", "turn.limit_tokens", "turn.model_away", "turn.model_refused"}
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
    _running: set[str] = field(default_factory=set)
    _due_s: list[float] = field(default_factory=list)
    """When steps that are under way and have to wait go on, by the loop's clock."""
    _leaves: bool = False

    @property
    def now(self) -> Standing:
        return standing(self.turn.records)

    async def carry_out(self) -> None:
        """All that are open. Raises `Ended` where it is the whole turn's end, `Parked` when all that is left waits, `Lost`."""
        open_now = self.now.open
        ended = {step.id: asyncio.Event() for step in open_now}
        gate = asyncio.Semaphore(self.turn.profile.plan.at_once)
        self._running, self._due_s, self._leaves = set(), [], False
        try:
            async with asyncio.TaskGroup() as group:
                for step in open_now:
                    group.create_task(self._when_ready(step, ended, gate))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the first says why the others were cancelled
        if self._leaves:
            raise Leaving(self.turn.claim.conversation)
        if self._due_s:
            raise Parked(max(0.0, min(self._due_s) - asyncio.get_running_loop().time()))

    async def _when_ready(self, step: Step, ended: dict[str, asyncio.Event], gate: asyncio.Semaphore) -> None:
        """Wait for what it needs and for a place. One that has to wait, or to be left, lets the others come to their border."""
        for need in step.needs:
            if need in ended:
                await ended[need].wait()
        try:
            async with gate:
                now = self.now
                if all(need in now.done for need in step.needs):
                    await self._one(step, now)
        except Parked as parked:
            self._due_s.append(asyncio.get_running_loop().time() + parked.wait_s)
        except Leaving:
            self._leaves = True
        finally:
            self._running.discard(step.id)
            ended[step.id].set()

    async def _one(self, step: Step, now: Standing) -> None:
        """Carry one out, and write down how it ended."""
        turn = self.turn
        results = [(now.step(need), now.done[need]) for need in step.needs]
        if failed := next((need for need, done in results if done.failed), None):
            why = say("plan.needs_failed", turn.language, step=shown(failed))
            await self._write_end(step, (), Done(why, failed=True))
            return
        self._running.add(step.id)
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
        self._running.discard(step.id)
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

    def show(self, now: Standing) -> None:
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
    """As people read it."""
    return one_line(step.task)[:SHOWN_CHARACTERS]
