"""What was switched off is off after everything was started again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from config.settings import RedisSettings, Settings
from gateway.running.embedded import embedded
from tests.end_to_end.conftest import Stage
from tests.end_to_end.stories.test_off import is_off
from tests.end_to_end.stories.world import ANA, opened


async def test_it_stays_off_when_processes_and_the_store_end_and_come_back(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = random.Random(request.config.getoption("randomly_seed"))
    async with AsyncExitStack() as stack:
        settings = Settings(data=tmp_path / "store", redis=RedisSettings())
        stage.deskmate.redis_url = await stack.enter_async_context(embedded(settings))
        world = await stack.enter_async_context(opened(stage, tmp_path, words))
        room, other = world.room(), world.room()
        await world.talk(room).say(ANA, "/skill off web-access")
        assert await is_off(world, room)

        info = await world.redis.info("server")
        os.kill(info["process_id"], signal.SIGKILL)
        assert await is_off(world, room), "after the store was killed"

        for one in stage.deskmate.running:
            one.kill()
            await one.process.wait()
        await asyncio.gather(stage.deskmate.start_gateway(), stage.deskmate.start_worker())
        assert await is_off(world, room), "after all of us ended"
        assert not await is_off(world, other)
