"""More messages than the profile takes in a minute: one notice, whatever runs, and nothing of them is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.costs import rates
from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.harness.processes import until
from tests.workers.at_desk import AtDesk, at_desk


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    profile = {"rate": {"person_per_minute": 2}, "queue": {"mode": "steer"}}
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=profile) as made:
        yield made


async def test_it_is_told_once_and_logged_each_time(world: AtDesk, caplog: pytest.LogCaptureFixture) -> None:
    for said in ("one", "two"):
        assert await world.ask(said) == ["Well."]
    with caplog.at_level("INFO"):
        assert await world.say("SECRET three") == "over"
        assert await world.say("SECRET four") == "over"
        assert await world.say("/help") == "over"
    await world.work()
    [told] = world.room.sent[2:]
    assert "More than 2 messages in a minute are too many for me" in told
    assert len(world.room.sent) == 3
    lines = [vars(one)["fields"] for one in caplog.records if one.getMessage() == "message"]
    assert {(one["outcome"], one["reason"]) for one in lines} == {
        (
            "over",
            "more than 2 messages of this person in a minute: profiles/default.yaml line 4: rate.person_per_minute",
        )
    }
    assert len(lines) == 3
    assert await world.ask("hello", actor=Actor("U-ANA")) == ["Well."]
    assert b"SECRET" not in b"".join(one.body for one in world.model.asked)
    assert not any("SECRET" in str(one.data) for one in await world.history())


async def test_it_is_told_beside_a_turn_that_runs_and_stopping_is_never_too_much(world: AtDesk) -> None:
    hold = asyncio.Event()
    world.model.answer_with(says("Well.", hold=hold))
    await world.say("one")
    async with world.busy("two") as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        assert await world.say("three") == "over"
        claim.news.set()
        await until(lambda: bool(world.room.sent))
        assert "too many for me" in world.room.sent[0]
        assert await world.say("four") == "over"
        assert await world.say("/stop") == "new"
        claim.news.set()
        async with asyncio.timeout(5):
            while not claim.lost:
                await asyncio.sleep(0.01)
    assert "Stopped." in world.room.sent


async def test_nobody_can_say_it(world: AtDesk) -> None:
    for said in ("/_over person 5", "/_over"):
        assert await world.ask(said, actor=Actor(said)) == ["Well."]
    [told] = await world.ask(actor=Actor("X"), kind="command", name="_over", text="everybody")
    assert "too many" not in told


async def test_what_was_not_read_is_heard_when_it_is_sent_again(world: AtDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its page or its platform, under the same name."""
    monkeypatch.setattr(rates, "WINDOW_MS", 400)
    for said in ("one", "two"):
        assert await world.ask(said) == ["Well."]
    event = world.event("three")
    [first] = await world.intake.receive([event])
    assert first.state == "over"
    await world.work()
    assert len(world.room.sent) == 3
    async with asyncio.timeout(10):
        while (await world.intake.receive([event]))[0].state == "over":
            await asyncio.sleep(0.05)
    await world.work()
    assert world.room.sent[3:] == ["Well."]
