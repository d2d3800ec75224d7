"""F10: what people wrote long ago comes all at once. It is not answered as if it were new; that is told once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.conversation.key import ConversationKey
from gateway.store import Layout
from tests.gateway.conversation.world import now_ms
from tests.workers.at_desk import WHERE, AtDesk, at_desk

HOURS_MS = 3_600_000
SETTINGS = {"mailbox": {"late_after_s": 12 * 3_600}}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=SETTINGS) as made:
        yield made


async def test_f10_of_five_hundred_that_come_17_hours_late_each_conversation_hears_once(world: AtDesk) -> None:
    """Each is counted by its own line in the log, and none is read."""
    rooms = [ConversationKey("chat", "room", f"t{number}") for number in range(5)]
    late_ms = now_ms() - 17 * HOURS_MS
    events = [world.event(f"SECRET {number}", rooms[number % 5], at_ms=late_ms + number) for number in range(500)]
    received = await world.intake.receive(events)
    assert {one.state for one in received} == {"late"}
    assert {one.state for one in await world.intake.receive(events[:50])} == {"late"}, "sent again"
    await world.work()
    assert len(world.room.sent) == 5
    assert all("17 hours late" in one for one in world.room.sent)
    assert not world.model.asked
    for room in rooms:
        assert not any("SECRET" in str(one.data) for one in await world.history(room))
    assert await world.ask("and now?", rooms[0]) == ["Well."]


async def test_a_stop_of_long_ago_stops_nothing_and_what_is_only_a_little_late_is_answered(world: AtDesk) -> None:
    async with world.busy("one"):
        assert await world.say("/stop", at_ms=now_ms() - 17 * HOURS_MS) == "late"
        stored = await world.desk.mailbox.load(WHERE.id)
        assert not stored.control
    elsewhere = ConversationKey("chat", "room", "t2")
    assert await world.ask("two", elsewhere, at_ms=now_ms() - 11 * HOURS_MS) == ["Well."]


async def test_without_the_setting_nothing_is_too_old(tmp_path: Path, redis_url: str, layout: Layout) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        assert await world.ask("hello", at_ms=now_ms() - 1_000 * HOURS_MS) == ["Well."]
