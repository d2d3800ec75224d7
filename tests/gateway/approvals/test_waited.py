"""A turn's time stands still while all that is under way waits for people, and at no other time."""

from __future__ import annotations

import pytest

from gateway.approvals.waited import waited_ms
from gateway.conversation.records import Record


def asks(at_ms: int, code: str, branch: str = "", call: str = "") -> Record:
    return Record("asked", at_ms, {"code": code, "call": call}, branch)


def says(at_ms: int, code: str, branch: str = "") -> Record:
    return Record("decided", at_ms, {"code": code}, branch)


def begins(at_ms: int, step: str, how: str = "step") -> Record:
    return Record("given", at_ms, {"how": how}, f"step {step}")


def ends(at_ms: int, step: str) -> Record:
    return Record("step_done", at_ms, {"id": step})


def starts(at_ms: int, call: str, branch: str = "") -> Record:
    return Record("tool_start", at_ms, {"id": call}, branch)


def gives(at_ms: int, call: str, branch: str = "") -> Record:
    return Record("tool_result", at_ms, {"id": call}, branch)


COURSES = {
    "nothing was asked": ([begins(10, "a"), ends(90, "a")], 0),
    "one waits still": ([asks(40, "A")], 60),
    "one waited": ([asks(40, "A"), says(70, "A")], 30),
    "two waited at once": ([asks(40, "A"), asks(50, "B"), says(60, "A"), says(80, "B")], 40),
    "two waited one after the other": ([asks(10, "A"), says(20, "A"), asks(50, "B"), says(55, "B")], 15),
    "a word on nothing": ([says(10, "A"), asks(90, "B")], 10),
    "a word that came twice": ([asks(10, "A"), says(20, "A"), says(50, "A")], 10),
    "one step waits, another works": ([begins(10, "a"), begins(10, "b"), asks(20, "A", "step a")], 0),
    "one step waits, another has ended": (
        [begins(10, "a"), begins(10, "b"), asks(20, "A", "step a"), ends(60, "b")],
        40,
    ),
    "both wait, until one goes on": (
        [begins(10, "a"), begins(10, "b"), asks(20, "A", "step a"), asks(30, "B", "step b"), says(45, "A", "step a")],
        15,
    ),
    "a step begins meanwhile": ([begins(10, "a"), asks(20, "A", "step a"), begins(50, "b"), ends(80, "b")], 50),
    "a step is done once more": (
        [begins(0, "a"), ends(5, "a"), begins(10, "a", "again"), begins(10, "b"), asks(20, "B", "step b")],
        0,
    ),
    "a plan is looked at": ([asks(20, "P"), says(60, "P"), begins(70, "a")], 40),
    "what a planner was told is no step": ([Record("given", 5, {"how": "edit"}, "plan"), asks(20, "P")], 80),
    "a question of a call that ran": ([starts(10, "x"), asks(20, "A", call="x"), says(50, "A")], 30),
    "a call beside it runs on": ([starts(10, "x"), starts(10, "y"), asks(20, "A", call="x"), gives(70, "y")], 30),
    "a call of the same id in another step": (
        [starts(1, "x", "step a"), asks(5, "A", "step a"), asks(5, "B", "step b"), gives(30, "x", "step b")],
        0,
    ),
}


@pytest.mark.parametrize("course", COURSES)
def test_time_that_nobody_worked(course: str) -> None:
    records, waited = COURSES[course]
    assert waited_ms(records, 100) == waited
