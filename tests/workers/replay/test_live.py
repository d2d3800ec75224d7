"""A recorded turn against a model that answers now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from PIL import Image

from gateway.events import Attachment
from gateway.store import Layout
from tests.harness.fake_model import KEY
from tests.harness.model_replies import calls, says, several
from tests.workers.at_desk import WHERE
from tests.workers.replay.world import Replays, replays
from tests.workers.room import Room
from workers.models import load_model
from workers.replay.live import Lived, live

Opened = Callable[..., AbstractAsyncContextManager[Replays]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: replays(tmp_path, redis_url, layout, **more)


async def asked(made: Replays, requests: int, steps: int = 10) -> Lived:
    report = await made.play(await made.case(requests))
    model = load_model(made.loaded.settings.model)
    try:
        return await live(report, model, steps)
    finally:
        await model.close()


async def test_each_step_is_asked_with_what_was_recorded_before_it(opened: Opened) -> None:
    async with opened(profile={"tools": ["current_time", "web_fetch"]}) as made:
        script = [calls("current_time"), says("It is noon.")]
        made.world.model.answer_with([*script, calls("current_time"), says("It is late.")])
        await made.world.ask(f"what time is it? ({KEY})")
        found = await asked(made, 2)
        assert [one.is_equal for one in found.steps] == [True, False]
        assert "- It is noon." in str(found).replace("-It", "- It")
        assert "all steps were asked" in str(found)
        then, now = made.world.model.asked[1].request, made.world.model.asked[3].request
        assert now == {**then, "messages": now["messages"]}
        assert now["messages"][1:] == then["messages"][1:]
        assert KEY not in str(now)  # it was masked when it was recorded, and that is what is there


async def test_it_ends_where_something_else_is_called_and_no_tool_runs(opened: Opened) -> None:
    async with opened(profile={"tools": ["current_time", "send_file"]}) as made:
        made.world.model.answer_with([calls("current_time"), says("It is noon.")])
        await made.world.ask("what time is it?")
        sends = ("send_file", {"name": "a.txt", "content": "x"})
        made.world.model.answer_with([several(("current_time", {}), sends)])
        found = await asked(made, 2)
        assert not found.is_equal
        assert [one.calls_alike for one in found.steps] == [False]
        assert "no tool is run" in found.why_ended
        assert '+ send_file({"content": "x", "name": "a.txt"})' in str(found)
        assert made.world.room.sent == ["It is noon."]


async def test_it_asks_no_more_often_than_it_may(opened: Opened) -> None:
    async with opened(profile={"tools": ["current_time"]}) as made:
        made.world.model.answer_with([calls("current_time"), calls("current_time"), says("It is noon.")])
        await made.world.ask("what time is it?")
        made.world.model.answer_with(calls("current_time"))
        found = await asked(made, 3, steps=2)
        assert len(found.steps) == 2
        assert "--steps" in found.why_ended
        assert len(made.world.model.asked) == 3 + 2


async def test_pictures_are_sent_where_they_are_kept(opened: Opened, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    async with opened(room=Room({"red.png": (tmp_path / "red.png").read_bytes()})) as made:
        await made.world.ask("look", attachments=(Attachment("image", "red.png", "image/png", 100),))
        assert (await asked(made, 1)).is_equal
        then, now = (asked.request["messages"][0]["content"][1] for asked in made.world.model.asked)
        assert then == now
        store = made.world.desk.mailbox.store
        await store.redis.delete(store.layout.key(WHERE.id, "files"))
        await asked(made, 1)
        gone = made.world.model.asked[-1].request["messages"][0]["content"][1]
        assert gone == {"type": "text", "text": "(a picture that is not kept any more)"}
