"""What turns cost is counted once for each call, whatever becomes of the turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.costs.spending import Accounts, Spent, Tokens, spent
from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import calls, says
from tests.workers.at_desk import WHERE, AtDesk, at_desk

MAX = Actor("U-MAX")
ONE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix, profile={"tools": ["current_time"]}) as made:
        yield made


async def so_far(world: AtDesk) -> Spent:
    mailbox = world.desk.mailbox
    accounts = Accounts.at(WHERE, MAX, "UTC", mailbox.now_ms())
    kept = await spent(mailbox.store, [name for name, *_ in accounts.listed(0)])
    assert kept == [kept[0]] * 5
    return kept[0]


async def test_every_call_of_a_turn_counts_and_the_turn_once(world: AtDesk) -> None:
    script = iter([calls("current_time", usage=ONE), says("Noon.", usage=ONE)])
    world.model.answer_with(lambda _: next(script))
    await world.ask("what time is it?")
    assert await so_far(world) == Spent(1, 2, {"fake": Tokens(20, 10, 200, 40)})
    [told] = await world.ask("/usage")
    assert "the last turn: tokens in 260 (from the cache 200), out 10; model calls 2" in told
    assert await so_far(world) == Spent(1, 2, {"fake": Tokens(20, 10, 200, 40)}), "a command costs nothing"


async def test_what_was_said_before_new_still_counts(world: AtDesk) -> None:
    await world.ask("hello")
    await world.ask("/new")
    [told] = await world.ask("/usage")
    assert "this conversation: tokens in 10" in told
    assert "the last turn" not in told


async def test_what_an_answer_cost_counts_though_its_turn_is_lost_and_asked_again(world: AtDesk) -> None:
    """The first holder is fenced off while the model answers it."""
    hold = asyncio.Event()
    world.model.answer_with(says("Well.", hold=hold))
    async with world.busy("hello") as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        await world.desk.mailbox.store.redis.hset(world.desk.mailbox.store.layout.key(WHERE.id), "token", "another")
        hold.set()
        async with asyncio.timeout(30):
            while not claim.lost:
                await asyncio.sleep(0.01)
    assert (await so_far(world)).calls == 1


async def test_the_running_turn_is_told_apart_from_the_last_one(world: AtDesk) -> None:
    hold = asyncio.Event()
    script = iter([says("Well."), calls("current_time", usage=ONE), says("Noon.", hold=hold)])
    world.model.answer_with(lambda _: next(script))
    await world.ask("hello")
    async with world.busy("what time is it?") as claim:
        await world.model.until(lambda: len(world.model.asked) == 3)
        [told] = await world.beside(claim, "/usage")
        assert "the turn that runs: tokens in 130" in told
        assert "the last turn: tokens in 10 " in told
    hold.set()
