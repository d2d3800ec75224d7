"""What a planner and a reviewer answer, and how far a turn has come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation.plans import Step, progress
from gateway.conversation.records import Record
from workers.planning.plan import ID, TASK_CHARACTERS, Unreadable, read_plan, read_review


def step(name: Any, *needs: Any, task: Any = "do it") -> dict[str, Any]:
    return {"id": name, "task": task, "needs": list(needs)}


def plan(*steps: Any) -> str:
    return json.dumps({"steps": steps})


@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "```\n{}\n```", "Here it is:\n```json\n{}\n```\nGood luck!"]
)
def test_a_plan_may_stand_in_a_fence(around: str) -> None:
    assert read_plan(around.replace("{}", plan(step("1"))), 8) == (Step("1", "do it"),)


def test_steps_stand_in_an_order_in_which_they_can_be_done() -> None:
    assert [one.id for one in read_plan(plan(step("c", "a", "b"), step("a"), step("b", "a")), 8)] == ["a", "b", "c"]


def test_numbers_are_ids_too_and_a_need_said_twice_is_one() -> None:
    assert read_plan(plan(step(1), step(2, 1, "1")), 8) == (Step("1", "do it"), Step("2", "do it", ("1",)))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("First I read A.", "not JSON"),
        ("[1]", "no object"),
        ("[" * 3_000, "not JSON"),
        ('{"steps": ' + "[" * 400 + "]" * 400 + "}", "nested deeper"),
        ("{}", '"steps" is missing'),
        (plan(), '"steps" is missing'),
        (plan(*(step(str(one)) for one in range(9))), "9 steps; allowed are 8"),
        (plan("a"), "number 1 is no object"),
        (plan(step("a b")), "number 1 has no good"),
        (plan(step(True)), "number 1 has no good"),
        (plan(step("a", task=" \u200b")), "'a' has no text"),
        (plan(step("a", task="x" * (TASK_CHARACTERS + 1))), "allowed are 2000"),
        (plan(step("a"), step("a")), "two steps have the id 'a'"),
        (plan(step("a", "b")), "'a' needs 'b'"),
        (plan(step("a", None)), "\"needs\" of step 'a'"),
        (plan({"id": "a", "task": "x", "needs": "b"}), "\"needs\" of step 'a'"),
        (plan(step("a", "a")), "wait for each other: a, a"),
        (plan(step("a", "b"), step("b", "a")), "wait for each other"),
    ],
)
def test_what_is_no_plan_is_told_what_is_wrong(answer: str, why: str) -> None:
    with pytest.raises(Unreadable, match=r".") as fault:
        read_plan(answer, 8)
    assert why in str(fault.value)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("fine", "not JSON"),
        ("{}", '"accept" is missing'),
        ('{"accept": "yes"}', '"accept" is missing'),
        ('{"accept": false}', '"changes" is missing'),
        ('{"accept": false, "changes": []}', '"changes" is missing'),
        ('{"accept": false, "changes": ["a"]}', "no such step"),
        (
            '{"accept": false, "changes": [{"step": "z", "change": "x"}]}',
            "'z', and there is no such step; there are a, b",
        ),
        ('{"accept": false, "changes": [{"step": "a", "change": " "}]}', "'a' has no text"),
    ],
)
def test_what_is_no_review_is_told_what_is_wrong(answer: str, why: str) -> None:
    with pytest.raises(Unreadable, match=r".") as fault:
        read_review(answer, ["a", "b"])
    assert why in str(fault.value)


def test_a_review_names_what_is_to_be_changed_by_step() -> None:
    assert read_review('{"accept": true}', ["a"]).changes == {}
    told = [{"step": "a", "change": "x"}, {"step": "b", "change": "y"}, {"step": "a", "change": "z"}]
    assert read_review(json.dumps({"accept": False, "changes": told}), ["a", "b"]).changes == {"a": "x\nz", "b": "y"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "task", "needs", "steps"]), inner)
    ),
    max_leaves=12,
)


@given(anything, anything, anything)
def test_whatever_a_planner_says_is_a_plan_that_can_be_carried_out_or_is_not_read(
    one: Any, two: Any, three: Any
) -> None:
    for told in (one, {"steps": one}, {"steps": [{"id": "a", "task": one, "needs": two}, three]}):
        try:
            steps = read_plan(json.dumps(told), 4)
        except Unreadable:
            continue
        before: set[str] = set()
        for each in steps:
            assert ID.fullmatch(each.id)
            assert before.issuperset(each.needs)
            before.add(each.id)
        assert 0 < len(before) == len(steps) <= 4
        Record("plan", 0, {"steps": [each.dump() for each in steps]}).dump().encode()


def done(name: str, text: str = "x") -> Record:
    return Record("step_done", 0, {"id": name, "text": text})


def test_what_is_sent_back_is_open_again_with_all_that_was_made_of_it() -> None:
    steps = [step("a"), step("b"), step("c", "a"), step("d", "c"), step("e", "b")]
    records = [Record("plan", 0, {"steps": steps}), *map(done, "abcde")]
    assert progress(records).open == []
    records.append(Record("review", 0, {"changes": {"a": "more"}}))
    now = progress(records)
    assert [one.id for one in now.open] == ["a", "c", "d"]
    assert (now.reviews, now.is_reviewed, now.changes) == (1, True, {"a": "more"})
    records += map(done, "acd")
    assert (progress(records).open, progress(records).is_reviewed) == ([], False)
    records.append(Record("review", 0, {"changes": {}}))
    assert (progress(records).objections, progress(records).is_reviewed) == ({}, True)
    assert [one.id for one in progress(records).ends] == ["d", "e"]
