"""What one trial is to do, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tests.harness.judging.run import Violation
from tests.sweep.kinds import Kind
from tests.sweep.row import Where
from tests.sweep.trap import Point

How = Literal["kill", "group", "stop", "term", "twice", "parent", "sole"]
Stage = Literal["", "alone", "sole"]
"""How a turn goes on at last: beside others, in a process of its own, or with a worker for itself."""
Platform = Literal["keyed", "keyless", "skipping", "searched"]
"""Knows a repeated send by its key; doesn't; doesn't, and the profile says that it is not repeated then; can be looked at (Slack)."""

NEIGHBOURS: Final = 500_000
"""From this number on conversations are neighbours."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. Without a point nothing is struck: a turn without fault."""

    conversation: str
    kind: Kind
    platform: Platform = "keyed"
    point: Point | None = None
    how: How = "kill"
    begins: bool = False
    """In processes that have just begun, which say more than those that had a turn before."""
    follows: bool = False
    """Another message comes right behind the fault."""
    gateways: int = 1
    """So many serve, and every message is delivered to each of them at once."""
    second: int = 0
    """With `twice`: how many messages later the one that took over is struck as well."""
    deaths: tuple[Where, ...] = ()
    """With `sole`: where holders die, one after the other, until the turn has a worker for itself."""
    speaks_after: int = 0
    """With `sole`: the neighbour's message comes after so many of these deaths."""

    @property
    def stage(self) -> Stage:
        return stage_of(self.how)

    @property
    def neighbour(self) -> str:
        """With `sole`: a conversation beside it."""
        return f"{self.conversation[0]}{NEIGHBOURS + int(self.conversation[1:])}"


def stage_of(how: How) -> Stage:
    match how:
        case "parent":
            return "alone"
        case "sole":
            return "sole"
        case _:
            return ""


@dataclass(slots=True)
class Outcome:
    """How it ended."""

    plan: Plan
    points: list[Point]
    """All that the turn came by."""
    struck: int = 0
    """How many faults fell."""
    missed: bool = False
    """The point did not come by again."""
    violations: list[Violation] = field(default_factory=list)
    takeover_s: float | None = None
    """From a worker's death to the first effect of the next one."""
    remarks: int = 0
