from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store import Store
from tests.gateway.commands.world import World


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    """The shipped skills, published."""
    made = World(store, tmp_path)
    await made.packer.step()
    return made
