"""One world for all tests of a story, and words that are others in each run."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.end_to_end.conftest import staged
from tests.end_to_end.stories.world import World, opened

WAITER: Final = "等人的日报"
"""A program that may use the network, which is granted by id: so that a test can hold it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_url: str
) -> AsyncIterator[World]:
    """The processes, which all tests of one story use."""
    folder = tmp_path_factory.mktemp(request.path.stem)
    async with (
        staged(folder, redis_url) as stage,
        opened(stage, folder, random.Random(), programs={"network": [WAITER]}) as world,
    ):
        yield world


@pytest.fixture
def world(deployed: World, request: pytest.FixtureRequest) -> World:
    """The world, with words of this test's own. The same seed gives the same ones, for one test alone too."""
    seed = request.config.getoption("randomly_seed")
    request.node.add_report_section("setup", "words", f"the same words again: pytest --randomly-seed={seed}")
    deployed.words.seed(f"{seed} {request.node.nodeid}")
    return deployed
