"""A small sweep over all kinds of turn holds; with a guard taken out it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.checking import check
from tests.harness.history import read
from tests.sabotage.guards import a_copy, guards, miss
from tests.sweep.choosing import Order
from tests.sweep.kinds import KINDS
from tests.sweep.plan import How
from tests.sweep.run import summary, sweep
from tests.sweep.steps import STEPS

COUNT: Final = 30
GUARDS: Final = guards()


@pytest.mark.timeout(300)
async def test_a_process_killed_at_thirty_messages_of_all_kinds_of_turn_breaks_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    result = await sweep(Order(seed=20, count=COUNT, lanes=5, spread=True), tmp_path, told.append)
    assert result.is_good, "\n".join([*told, *summary(result)])
    by_kind = Counter(one.plan.kind.name for one in result.struck)
    assert by_kind.keys() == KINDS.keys()
    assert len(result.struck) >= COUNT * 0.8, "points come by again"
    met = {name: step.meets(result.points[step.kind, "keyed", ""]) for name, step in STEPS.items()}
    assert list(met) == [f"W{number}" for number in range(1, 25)]
    assert not [name for name, points in met.items() if not points], "each step of a turn is struck by a whole sweep"
    full = map(str, result.points["full", "keyed", ""])
    assert any("append summary" in point for point in full), "it is put away without a word from anybody"


@pytest.mark.timeout(300)
async def test_a_worker_killed_while_a_turn_has_it_for_itself_breaks_nothing(tmp_path: Path) -> None:
    """Of the six deaths before, one is real here; a neighbour is beside it."""
    told: list[str] = []
    at = "after worker redis sole begins"
    order = Order(seed=3, count=1, lanes=1, kinds=("once",), platforms=("keyed",), hows=("sole",), deaths=1, at=at)
    result = await sweep(order, tmp_path, told.append)
    assert result.is_good, "\n".join([*told, *summary(result)])
    assert [one.struck for one in result.struck] == [2]


@pytest.mark.timeout(300)
async def test_who_sleeps_past_its_lease_and_who_leaves_a_child_behind_breaks_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    hows: tuple[How, ...] = ("stop", "parent")
    order = Order(seed=20, count=6, lanes=3, kinds=("once",), platforms=("keyed",), hows=hows, roles=("worker",))
    result = await sweep(order, tmp_path, told.append)
    assert result.is_good, "\n".join([*told, *summary(result)])
    assert {one.plan.how for one in result.struck} == {*hows}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with a_copy(tmp_path_factory.mktemp("sabotage")) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "arguments"), [(name, arguments) for name, guard in GUARDS.items() for arguments in guard.sweep]
)
@pytest.mark.timeout(300)
def test_a_guard_taken_out_is_seen(name: str, arguments: str, tree: Path) -> None:
    assert not miss(GUARDS[name], [arguments], tree, within_s=280.0).not_found
    [folder] = (tree.parent / "sweep").iterdir()
    verdict = check(read(folder / "ledgers"))
    assert GUARDS[name].sweep[arguments] in verdict.report(100), "what was kept says it once more"
