"""Each guard is still where the list says, and of a few it is seen that tests fail without it; `make sabotage` tries all."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.test_rows import names_in
from tests.sabotage.guards import ROOT, Guard, a_copy, guards, miss

ALL: Final = guards()


@pytest.mark.parametrize("guard", ALL, ids=[one.guard for one in ALL])
def test_it_can_still_be_taken_out_and_its_tests_are_there(guard: Guard) -> None:
    text = guard.without(ROOT)
    if guard.file.endswith(".py"):
        ast.parse(text)
    assert guard.red
    for one in guard.red:
        file, _, name = one.partition("::")
        assert name.partition("[")[0] in names_in(file), one


def test_there_are_many_and_each_is_another() -> None:
    assert len(ALL) >= 40
    assert len({one.guard for one in ALL}) == len(ALL)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("guard", [one for one in ALL if one.sample], ids=lambda one: one.guard)
def test_without_it_tests_fail(tmp_path: Path, guard: Guard) -> None:
    with a_copy(tmp_path) as tree:
        missed = miss(guard, tree, within_s=300.0)
    assert not missed.green, missed.printed
