"""Gateway, workers and a Redis of their own, which fails them for longer than a lease, or is killed with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import QUICK, Stage
from tests.gateway.test_redis_faults import TROUBLES
from tests.harness.model_replies import says
from tests.harness.own_redis import OwnRedis, own_redis


@pytest.fixture
async def server(stage: Stage, tmp_path: Path) -> AsyncIterator[OwnRedis]:
    async with own_redis(tmp_path / "redis") as made:
        stage.deskmate.redis_url = made.url
        yield made


async def test_whatever_redis_does_for_longer_than_a_lease_each_turn_is_one(stage: Stage, server: OwnRedis) -> None:
    """F54, F55, F57, F63: one of two workers has a turn under way, and its answer can not be written."""
    hold = asyncio.Event()
    stage.model.answer_with(lambda asked: says(f"re: {asked.text}", hold=hold))
    await stage.start(workers=2, settings={"redis": {"timeout_s": 0.5}})
    workers = [one for one in stage.deskmate.running if one.name == "worker"]
    missed = 0
    for trouble, begins in TROUBLES.items():
        hold.clear()
        said = await stage.slack.say(stage.hook, f"when it {trouble}")
        await stage.model.until(lambda: bool(stage.asked_with(f"when it {trouble}")))  # noqa: B023  # it is this one
        async with begins(server):
            hold.set()
            await asyncio.sleep(QUICK["lease_s"] * 1.2)  # nothing tells that it is long enough
        missed, before = sum(len(one.lines("leases not renewed")) for one in workers), missed
        assert missed > before, "who has it could not keep it"
        assert trouble in (await stage.slack.reply_to(said)).text
    assert len(stage.posts()) == len(TROUBLES)
    taken_over = [line for one in workers for line in one.lines("turn taken over")]
    assert len(taken_over) <= len(TROUBLES), "no lease is lost twice"


async def test_f21_all_that_was_killed_at_once_comes_back_and_goes_on(stage: Stage, server: OwnRedis) -> None:
    """F21: in the midst of a turn, Redis as well."""
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("never", hold=hold) if len(stage.model.asked) == 1 else says("answered"))
    await stage.start(workers=2)
    said = await stage.slack.say(stage.hook, "hello?")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    for one in stage.deskmate.running:
        one.kill()
    server.kill()
    await asyncio.gather(*(one.process.wait() for one in stage.deskmate.running))
    hold.set()
    await server.start()
    await asyncio.gather(stage.deskmate.start_worker(), stage.deskmate.start_gateway(), stage.deskmate.start_worker())
    assert (await stage.slack.reply_to(said)).text == "answered"
    again = await stage.slack.say(stage.hook, "and now?")
    assert (await stage.slack.reply_to(again)).text == "answered"
    assert stage.posts() == ["answered", "answered"]
    assert len(stage.model.asked) == 3
