"""Each guard is still where the list says, and of a few it is seen that they are missed; `make sabotage` tries all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.test_rows import names_in
from tests.gateway.conversation.model.cases import SMALL
from tests.gateway.conversation.scenarios import SCENARIOS
from tests.sabotage.guards import ROOT, Guard, Ran, a_copy, guards, miss, not_green

ALL: Final = list(guards().values())
SAMPLE: Final = [one for one in ALL if one.sample]
WITHIN_S: Final = 300.0
"""Beside all other tests a machine takes its time."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with a_copy(tmp_path_factory.mktemp("sabotage")) as made:
        yield made


@pytest.mark.parametrize("guard", ALL, ids=[one.guard for one in ALL])
def test_it_can_still_be_taken_out_and_what_misses_it_is_there(guard: Guard) -> None:
    for file, text in guard.without(ROOT).items():
        if file.endswith(".py"):
            ast.parse(text)
    assert guard.ways
    assert all(guard.ways.values()), "there are words for each"
    for one in guard.red:
        file, _, name = one.partition("::")
        assert name.partition("[")[0] in names_in(file), one
    assert guard.scenario.keys() <= SCENARIOS.keys()
    assert guard.play.keys() <= SMALL.keys()


def test_there_are_many_and_a_sample() -> None:
    assert len(ALL) >= 40
    assert len(SAMPLE) >= 10


def test_only_what_fails_with_its_words_has_missed_a_guard() -> None:
    ran = Ran(
        {"test_a.py::test_it[1]": "assert 1 == 2", "test_a.py::test_it[2]": "TimeoutError"}, ["test_a.py::test_b"], ""
    )
    assert not ran.why_not("test_a.py::test_it", "assert 1")
    assert not ran.why_not("test_a.py::test_it[2]", "TimeoutError")
    assert ran.why_not("test_a.py::test_it[2]", "assert 1").startswith("fails, and does not say 'assert 1'")
    assert ran.why_not("test_a.py::test_b", "assert 1") == "all is well without it"
    assert ran.why_not("test_a.py::test_c", "assert 1").startswith("did not end")
    assert [one for one in ("test_a.py::test_it", "test_a.py::test_b", "test_a.py::test_c") if ran.is_green(one)] == [
        "test_a.py::test_b"
    ]


@pytest.mark.timeout(400)
def test_where_nothing_is_taken_out_the_sample_is_green(tree: Path) -> None:
    assert not not_green(tree, {test for one in SAMPLE for test in one.red}, within_s=WITHIN_S)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("guard", SAMPLE, ids=lambda one: one.guard)
def test_without_it_tests_fail(tree: Path, guard: Guard) -> None:
    assert guard.red, "a sample is of guards that have tests of their own"
    missed = miss(guard, guard.red, tree, within_s=WITHIN_S)
    assert not missed.not_found
