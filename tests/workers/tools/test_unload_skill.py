"""`unload_skill`: what is put away is sent no more, its room is free, and it can come again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast, get_args

import aiohttp
import pytest

from config.profiles import Delivery
from config.settings import SkillsSettings
from tests.skills.test_library import write
from tests.workers.tools.loading import Loading
from workers.prompt.loaded import loaded
from workers.tools import ToolError, ToolResult


@pytest.fixture(params=get_args(Delivery))
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Loading]:
    async with aiohttp.ClientSession() as http:
        desk = Loading(tmp_path, http, cast("Delivery", request.param))
        desk.settings = SkillsSettings(budget_bytes=4_096)
        write(tmp_path, "ops/one", body="TEXT of one. " + "x" * 3_000, more="alias: first\n")
        write(tmp_path, "two", body="TEXT of two. " + "x" * 2_000)
        yield desk


@pytest.mark.parametrize("name", ["ops/one", "OPS/One", "one", "first"])
async def test_a_skill_that_is_put_away_makes_room_for_another(desk: Loading, name: str) -> None:
    await desk.load("ops/one")
    desk.deliver()
    assert "of this conversation's 4.0 KB" in await desk.refused("two")
    told = await desk.unload(name)
    assert isinstance(told, ToolResult)
    assert told.text == "Put away ops/one: 2.9 KB are free again."
    await desk.load("two")
    desk.deliver()
    assert "TEXT of one" not in desk.whole()
    assert "TEXT of two" in desk.whole()
    assert list(loaded(desk.history)) == ["two"]


async def test_it_can_be_loaded_again_and_stands_there_once(desk: Loading) -> None:
    await desk.load("ops/one")
    desk.deliver()
    await desk.unload("ops/one")
    assert len((await desk.load("ops/one")).records) == 1
    desk.deliver()
    assert desk.whole().count("TEXT of one") == 1


async def test_loaded_and_put_away_in_one_batch_it_never_comes(desk: Loading) -> None:
    await desk.batch(("load_skill", {"name": "ops/one"}), ("unload_skill", {"name": "ops/one"}))
    desk.deliver()
    assert "TEXT of one" not in desk.whole()
    assert loaded(desk.history) == {}


async def test_what_is_loaded_can_be_put_away_when_the_channel_has_it_no_more(desk: Loading) -> None:
    await desk.load("ops/one")
    desk.patterns = ("two",)
    assert isinstance(await desk.unload("ops/one"), ToolResult)


@pytest.mark.parametrize("name", ["two", "nope", ""])
async def test_what_is_not_loaded_is_an_error_that_names_what_is(desk: Loading, name: str) -> None:
    told = await desk.unload(name)
    assert str(told) == f"{name!r} is not loaded. Loaded: nothing."
    await desk.load("ops/one")
    told = await desk.unload(name)
    assert isinstance(told, ToolError)
    assert str(told) == f"{name!r} is not loaded. Loaded: ops/one."
    assert list(loaded(desk.history)) == ["ops/one"]
