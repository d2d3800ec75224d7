"""What is known of a model by all workers together: on a real server, by its clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from config.settings import ModelSettings
from gateway.store import Store, open_store
from workers.agent.circuits import HOLD_MAX_S, Circuits


def circuits(store: Store, **settings: Any) -> Circuits:
    return Circuits(store, ModelSettings(**{"breaker_failures": 3, "breaker_open_s": 60, **settings}))


@pytest.fixture
def here(store: Store) -> Circuits:
    return circuits(store)


@pytest.fixture
async def there(store: Store, redis_url: str) -> AsyncIterator[Circuits]:
    """The same Redis, as another worker has it."""
    opened = open_store(redis_url, store.layout, timeout_s=5.0)
    yield circuits(opened)
    await opened.close()


async def fail(one: Circuits, times: int, model: str = "m") -> list[bool]:
    return [await one.failed(model) for _ in range(times)]


async def test_nothing_is_known_of_a_model_that_had_no_trouble(here: Circuits) -> None:
    leave = await here.leave("m")
    assert (leave.model, leave.wait_s, leave.state) == ("m", 0, "closed")


async def test_who_wants_to_be_left_alone_is_by_all_workers_and_no_other_model_is(
    here: Circuits, there: Circuits
) -> None:
    await here.hold("m", 20)
    await there.hold("m", 5)
    leave = await there.leave("m")
    assert leave.state == "held"
    assert 19 < leave.wait_s <= 20
    assert (await there.leave("n")).state == "closed"


async def test_the_same_model_at_another_address_is_another_one(here: Circuits, store: Store) -> None:
    await here.hold("m", 20)
    assert (await circuits(store, base_url="http://127.0.0.1:1").leave("m")).state == "closed"


async def test_however_long_a_service_wants_to_be_left_alone_somebody_looks_again(here: Circuits) -> None:
    await here.hold("m", 86_400)
    assert (await here.leave("m")).wait_s <= HOLD_MAX_S


async def test_what_was_held_may_be_asked_afterwards(here: Circuits) -> None:
    await here.hold("m", 0.02)
    await asyncio.sleep(0.05)
    assert (await here.leave("m")).wait_s == 0


async def test_what_was_held_or_away_before_the_clock_was_put_back_may_be_asked(here: Circuits, store: Store) -> None:
    await fail(here, 3)
    await here.hold("n", 20)
    names = [name async for name in store.redis.scan_iter(f"{store.layout.models_root}:*")]
    for name in names:
        for what in ("held", "open"):
            if await store.redis.hexists(name, what):
                await store.redis.hincrby(name, what, 86_400_000)
    assert len(names) == 2
    assert [(await here.leave(model)).wait_s for model in ("m", "n")] == [0, 0]
    assert (await here.leave("m")).state == "away", "one goes ahead"


async def test_so_many_failures_in_a_row_open_it_for_all_whoever_met_them(here: Circuits, there: Circuits) -> None:
    assert await fail(here, 2) == [False, False]
    assert (await there.leave("m")).state == "noted"
    assert await fail(there, 1) == [True]
    leave = await here.leave("m")
    assert leave.state == "away"
    assert 59 < leave.wait_s <= 60
    assert (await here.leave("n")).state == "closed"


async def test_an_answer_in_between_begins_the_row_anew(here: Circuits) -> None:
    await fail(here, 2)
    await here.answered("m")
    assert await fail(here, 2) == [False, False]
    assert (await here.leave("m")).wait_s == 0


async def test_failures_that_are_far_apart_are_no_row(store: Store) -> None:
    one = circuits(store, breaker_window_s=0.05)
    await fail(one, 2)
    await asyncio.sleep(0.1)
    assert await fail(one, 2) == [False, False]


async def test_when_the_time_is_over_one_of_all_goes_ahead(store: Store, there: Circuits) -> None:
    one = circuits(store, breaker_open_s=0.02)
    await fail(one, 3)
    await asyncio.sleep(0.05)
    leaves = await asyncio.gather(*(there.leave("m") for _ in range(5)))
    assert sorted(leave.state for leave in leaves) == ["away"] * 4 + ["noted"]
    assert await fail(there, 1) == [False], "it was open and stays so"
    assert (await there.leave("m")).state == "away"


async def test_who_dies_on_the_way_is_followed_by_another(store: Store) -> None:
    one = circuits(store, breaker_open_s=0.02)
    await fail(one, 3)
    for _ in range(2):
        await asyncio.sleep(0.05)
        assert (await one.leave("m")).state == "noted"


async def test_an_answer_that_begins_lets_the_others_ask_and_one_that_breaks_off_stops_them_at_once(
    store: Store, there: Circuits
) -> None:
    one = circuits(store, breaker_open_s=0.02)
    await fail(one, 3)
    await asyncio.sleep(0.05)
    assert (await there.leave("m")).wait_s == 0
    assert await there.speaks("m")
    assert not await there.speaks("m")
    assert [(await there.leave("m")).wait_s for _ in range(3)] == [0, 0, 0]
    assert await fail(there, 1) == [True]
    assert (await there.leave("m")).state == "away"


async def test_nothing_stays_behind(store: Store) -> None:
    one = circuits(store, breaker_open_s=0.02)
    await fail(one, 1, "noted")
    await fail(one, 4, "away")
    await fail(one, 4, "probed")
    await fail(one, 4, "back")
    await one.hold("held", 20)
    await asyncio.sleep(0.05)
    await one.leave("probed")
    await one.speaks("back")
    redis: Any = store.redis
    keys = [key async for key in redis.scan_iter(f"{store.layout.models_root}*")]
    assert len(keys) == 5
    assert all([0 < await redis.pttl(key) <= 31_000 for key in keys])
