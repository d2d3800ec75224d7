"""The course of a turn: what it must not do on the loop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gateway.platforms import Outbound, Part
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.workers.at_desk import at_desk
from tests.workers.room import Room
from workers.course import AT_ONCE_CHARACTERS


@pytest.mark.parametrize("length", [AT_ONCE_CHARACTERS, AT_ONCE_CHARACTERS + 1])
async def test_a_long_reply_is_rendered_beside_the_loop(
    tmp_path: Path, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    beside: list[bool] = []
    render = Room.render

    def seen(room: Room, outbound: Outbound) -> list[Part]:
        beside.append(threading.current_thread() is not threading.main_thread())
        return list(render(room, outbound))

    monkeypatch.setattr(Room, "render", seen)
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        world.model.answer_with([says("x" * length)])
        assert "".join(await world.ask("go")) == "x" * length
    assert beside[-1] is (length > AT_ONCE_CHARACTERS)
