"""The stock: bundles on their way from Redis."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from gateway.shelf import stock
from gateway.store import Store
from tests.gateway.shelf.world import World
from tests.skills.test_library import write

SIZE = 512 * 1_024


async def test_of_large_skills_only_some_are_in_memory_at_a_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "FETCHED_AT_ONCE_BYTES", 2 * SIZE)
    world = World(store, tmp_path)
    for number in range(24):
        (write(world.root, f"large-{number}") / "assets").mkdir()
        (world.root / f"large-{number}/assets/a.bin").write_bytes(os.urandom(SIZE))
    await world.publish()
    shelf = world.another_shelf("new")
    tracemalloc.start()
    try:
        here = await world.here(shelf=shelf)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len([skill for skill in here.catalogue.skills if skill.id.startswith("large-")]) == 24
    assert peak_bytes < 8 * SIZE


async def test_a_bundle_of_another_kind_is_a_fault_of_its_skill_alone(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path)
    for name in ("report", "other"):
        write(world.root, name)
    await world.publish()
    skill = (await world.here()).find("report")
    key = f"{store.layout.skills_root}:bundle:{skill.hash}"
    await store.redis.delete(key)
    await store.redis.rpush(key, "x")
    here = await world.here(shelf=world.another_shelf("new"))
    assert "other" in [one.id for one in here.catalogue.skills]
    assert [fault.id for fault in here.library.faults] == ["report"]
