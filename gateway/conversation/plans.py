"""Plans: a task in steps, and how far a turn has come with it, read from its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from gateway.conversation.records import Record


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of the task, for one who works alone."""

    id: str
    task: str
    needs: tuple[str, ...] = ()
    """Ids of the steps whose results it is given."""

    def dump(self) -> dict[str, Any]:
        return {"id": self.id, "task": self.task, "needs": list(self.needs)}


@dataclass(frozen=True, slots=True)
class Done:
    """How a step ended."""

    text: str
    """Its answer, or why there is none."""
    failed: bool = False


@dataclass(slots=True)
class Progress:
    """How far a turn has come with its plan."""

    steps: tuple[Step, ...] = ()
    """None: there is no plan yet."""
    done: dict[str, Done] = field(default_factory=dict)
    """By step; those that are to be done again are not among them."""
    changes: dict[str, str] = field(default_factory=dict)
    """What a reviewer wants of the steps that are done again; nothing of those that need them."""
    reviews: int = 0
    is_reviewed: bool = False
    """A reviewer has seen what is done now."""
    objections: Mapping[str, str] = field(default_factory=dict)
    """Of the last review, by step."""

    @property
    def open(self) -> list[Step]:
        return [step for step in self.steps if step.id not in self.done]

    @property
    def ends(self) -> list[Step]:
        """Steps that none needs."""
        needed = {need for step in self.steps for need in step.needs}
        return [step for step in self.steps if step.id not in needed]

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.id == name)


def progress(records: Sequence[Record]) -> Progress:
    """Of the records of one turn."""
    now = Progress()
    for record in records:
        match record.type:
            case "plan":
                now = Progress(tuple(Step(one["id"], one["task"], tuple(one["needs"])) for one in record.data["steps"]))
            case "step_done":
                now.done[record.data["id"]] = Done(record.data["text"], bool(record.data.get("failed")))
                now.is_reviewed = False
            case "review":
                now.reviews += 1
                now.is_reviewed = True
                now.objections = record.data["changes"]
                _send_back(now, record.data["changes"])
    return now


def _send_back(now: Progress, changes: Mapping[str, str]) -> None:
    """What is to be changed is not done, and neither is what was made of it."""
    now.changes = dict(changes)
    for step in in_order(now.steps):
        if step.id in changes or any(need not in now.done for need in step.needs):
            now.done.pop(step.id, None)


def in_order(steps: Sequence[Step]) -> Iterator[Step]:
    """Each after those that it needs, else as they were. Raises `CycleError`."""
    by_id = {step.id: step for step in steps}
    sorter = TopologicalSorter({step.id: step.needs for step in steps})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=list(by_id).index)
        yield from (by_id[one] for one in ready)
        sorter.done(*ready)
