"""A small run; and that a gateway which believes anybody is found out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.forged.forging import FORGERIES
from tests.forged.proofs import PLATFORMS
from tests.forged.run import forged


@pytest.mark.timeout(120)
async def test_nothing_forged_is_accepted_and_nothing_is_answered_5xx(tmp_path: Path) -> None:
    found = await forged(2_000, 7, tmp_path, lambda _: None)
    assert (found.accepted, found.stored, found.broken, found.faults) == (0, 0, 0, []), list(found.lines())
    assert found.statuses.total() == 2_000
    assert {name for name, _ in found.statuses} == {*FORGERIES, "fuzzed"}
    assert found.statuses["fuzzed", 200] > 50, "much of what is signed is read"


def test_each_forgery_fits_most_platforms() -> None:
    rng = random.Random(1)
    for forgery in FORGERIES.values():
        assert sum(forgery(rng, connection, 1_760_000_000) is not None for connection in PLATFORMS) >= 5
