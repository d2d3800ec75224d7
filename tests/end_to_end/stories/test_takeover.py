"""A turn keeps the skills that it began with, also when another worker goes on with it."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import texts
from tests.end_to_end.stories.world import MAX, World, opened, skill
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says


@pytest.fixture
async def world(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    words = random.Random(request.config.getoption("randomly_seed"))
    async with opened(stage, tmp_path, words) as made:
        yield made


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_whoever_goes_on_shows_the_list_and_the_texts_of_its_start(world: World, how: signal.Signals) -> None:
    name, old, new = world.word("handbook-"), world.word("old-"), world.word("new-")

    def version(word: str) -> str:
        return skill(f"Description {word}.", "\n".join(f"{word} line {at:05} of the handbook" for at in range(1_200)))

    world.write(name, version(old))
    await world.reload()
    hold = asyncio.Event()
    asked = 0

    def script(request: Asked) -> Reply:
        nonlocal asked
        asked += 1
        offset = re.search(r"offset=(\d+)", texts(request))
        rest = calls("load_skill", {"name": name, "offset": int(offset[1]) if offset else 0})
        match asked:
            case 1:
                return calls("load_skill", {"name": name})
            case 2:
                return replace(rest, hold=hold)
            case 3 if how == signal.SIGKILL:
                return rest
            case _:
                return says("done")

    talk = world.talk(world.room())
    done = await talk.begin(MAX, "read the handbook", script=script)
    await world.stage.model.until(lambda: asked == 2)
    world.write(name, version(new))
    await world.reload()
    holder = next(one for one in world.stage.deskmate.running if one.name == "worker" and one.lines("prompt changed"))
    if how == signal.SIGKILL:
        holder.kill()
    else:
        holder.signal(how)
        hold.set()
    turn = await done()
    hold.set()
    for request in turn.asked:
        assert f"Description {old}" in request.request["system"][0]["text"]
        assert texts(request).count(f"{new} line") == 0
    assert texts(turn.asked[-1]).count(f"{old} line 00600") == 1
    after = await world.talk(world.room()).say(MAX, "hello", says("hi"))
    assert f"Description {new}" in after.asked[0].request["system"][0]["text"]
