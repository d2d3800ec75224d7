"""A message that joins a running turn is the next message: what was switched off before it is not shown with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from config.profiles import Delivery
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import texts
from tests.end_to_end.stories.world import ANA, MAX, World, opened, skill
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says


@pytest.fixture(params=get_args(Delivery))
def delivery(request: pytest.FixtureRequest) -> Delivery:
    way: Delivery = request.param
    return way


@pytest.fixture
async def world(
    stage: Stage, tmp_path: Path, delivery: Delivery, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    words = random.Random(request.config.getoption("randomly_seed"))
    async with opened(stage, tmp_path, words, team={"delivery": delivery, "queue": {"mode": "steer"}}) as made:
        yield made


async def test_off_bites_when_a_message_joins(world: World, delivery: Delivery) -> None:
    name, body = world.word("way-"), world.word("body-")
    world.write(name, skill("How it is done.", f"Do it. {body}"))
    await world.reload()
    room = world.room()
    hold = asyncio.Event()
    asked = 0

    def script(_: Asked) -> Reply:
        nonlocal asked
        asked += 1
        if asked == 1:
            return calls("load_skill", {"name": name})
        return replace(calls("current_time", {}), hold=hold) if asked == 2 else says("fine")

    talk = world.talk(room)
    done = await talk.begin(MAX, "go", script=script)
    await world.stage.model.until(lambda: asked == 2)
    await world.talk(room).say(ANA, f"/skill off {name}")
    joined = await talk.begin(MAX, "and a second thing", script=script)
    hold.set()
    turn = await done()
    await joined()
    first, second, *later = turn.asked
    assert texts(first).count(body) == 0
    assert texts(second).count(body) == (delivery != "next_turn")
    with_it = [request for request in later if "second thing" in texts(request)]
    assert with_it
    assert all(texts(request).count(body) == 0 for request in with_it)
