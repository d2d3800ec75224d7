"""What a turn does next is read from its records alone."""

from __future__ import annotations

import pytest

from gateway.conversation.records import Record
from tests.workers.records import answer, result, said, start, use, words
from workers.agent.moves import Ask, Run, Stop, next_move


def test_a_new_turn_asks() -> None:
    assert next_move([said("hi")]) == Ask(1)


def test_a_call_that_nobody_answered_is_asked_again() -> None:
    assert next_move([said("hi"), Record("call", 0, {"step": 1})]) == Ask(1)


def test_calls_without_results_are_run_and_finished_siblings_kept() -> None:
    records = [
        said("hi"),
        answer(1, words("ok"), use("a", "one"), use("b", "two", x=1), use("c"), bad_inputs={"c": "cut off"}),
        start(1, "a"),
        start(1, "b"),
        result(1, "a"),
    ]
    move = next_move(records)
    assert isinstance(move, Run)
    assert [(call.id, call.name, call.was_started, call.bad_input) for call in move.calls] == [
        ("b", "two", True, None),
        ("c", "tool", False, "cut off"),
    ]


def test_when_all_results_are_there_the_model_is_asked_for_the_next_step() -> None:
    assert next_move([said("hi"), answer(1, use("a")), result(1, "a")]) == Ask(2)


def test_the_same_id_in_an_earlier_step_is_no_result_of_this_one() -> None:
    records = [said("hi"), answer(1, use("a")), result(1, "a"), answer(2, use("a"))]
    assert isinstance(next_move(records), Run)


@pytest.mark.parametrize("before", [[], [answer(1, use("a"))], [answer(1, use("a")), result(1, "a")]])
def test_stop_wins(before: list[Record]) -> None:
    assert next_move([said("hi"), *before, said("/stop")]) == Stop()
