"""What a platform asks of senders, kept by all workers together: on a real server, by its clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway import pace
from gateway.conversation.key import ConversationKey
from gateway.platforms import Outcome, Pace
from gateway.store import Store, Unreachable, open_store

HERE = ConversationKey("slack", "C1", "T1:1")
SAME_ROOM = ConversationKey("slack", "C1", "T1:2")
NEXT_ROOM = ConversationKey("slack", "C2")
ELSEWHERE = ConversationKey("telegram", "C1", "T1:1")
ONE = (Pace("channel", 1, 60.0),)
LIMITED = Outcome("rate_limited")
ALL_LIMITED = Outcome("rate_limited", scope="connection")


@pytest.fixture
async def another(store: Store, redis_url: str) -> AsyncIterator[Store]:
    """The same Redis, as another worker has it."""
    opened = open_store(redis_url, store.layout, timeout_s=5.0)
    yield opened
    await opened.close()


async def test_of_many_who_race_for_one_place_one_gets_it(store: Store, another: Store) -> None:
    first, *others = sorted(
        await asyncio.gather(*(pace.take(one, HERE, ONE) for _ in range(10) for one in (store, another)))
    )
    assert first == 0
    assert all(59 < wait <= 60 for wait in others)


async def test_as_many_as_are_allowed_leave_at_once_and_the_next_hears_when(store: Store) -> None:
    rule = (Pace("channel", 3, 60.0),)
    assert [await pace.take(store, HERE, rule) for _ in range(3)] == [0, 0, 0]
    assert 19 < await pace.take(store, HERE, rule) <= 20


async def test_who_was_told_to_wait_has_taken_nothing_from_any_limit(store: Store) -> None:
    narrow, wide = Pace("channel", 1, 60.0), Pace("connection", 2, 60.0)
    assert await pace.take(store, HERE, (narrow, wide)) == 0
    for _ in range(5):
        assert await pace.take(store, HERE, (narrow, wide)) > 0
    assert await pace.take(store, NEXT_ROOM, (narrow, wide)) == 0
    assert await pace.take(store, ConversationKey("slack", "C3"), (narrow, wide)) > 0


async def test_a_place_is_there_again_when_the_time_is_over(store: Store) -> None:
    rule = (Pace("channel", 1, 0.1),)
    assert await pace.take(store, HERE, rule) == 0
    await asyncio.sleep(await pace.take(store, HERE, rule))
    assert await pace.take(store, HERE, rule) == 0


async def test_a_channels_threads_share_its_limit_and_no_other_channel_does(store: Store) -> None:
    assert await pace.take(store, HERE, ONE) == 0
    assert await pace.take(store, SAME_ROOM, ONE) > 0
    assert await pace.take(store, NEXT_ROOM, ONE) == 0
    assert await pace.take(store, ELSEWHERE, ONE) == 0


async def test_two_limits_of_one_scope_are_both_kept(store: Store) -> None:
    rules = (Pace("channel", 2, 0.1), Pace("channel", 3, 60.0))
    assert [await pace.take(store, HERE, rules) for _ in range(2)] == [0, 0]
    await asyncio.sleep(0.15)
    assert await pace.take(store, HERE, rules) == 0
    await asyncio.sleep(0.15)
    assert await pace.take(store, HERE, rules) > 10


async def test_without_rules_everybody_may_send_until_the_platform_says_no(store: Store) -> None:
    assert [await pace.take(store, HERE, ()) for _ in range(50)] == [0] * 50
    await pace.hold(store, HERE, LIMITED, 30)
    assert 29 < await pace.take(store, HERE, ()) <= 30


async def test_a_no_to_a_channel_holds_that_channel_alone(store: Store, another: Store) -> None:
    await pace.hold(store, HERE, LIMITED, 30)
    assert 29 < await pace.take(another, SAME_ROOM, ()) <= 30
    assert await pace.take(another, NEXT_ROOM, ()) == 0
    assert await pace.take(another, ELSEWHERE, ()) == 0


async def test_a_no_to_the_connection_holds_its_other_channels_as_well_and_no_other_connection(
    store: Store, another: Store
) -> None:
    await pace.hold(store, HERE, ALL_LIMITED, 30)
    assert 29 < await pace.take(another, HERE, ()) <= 30
    assert 29 < await pace.take(another, NEXT_ROOM, ONE) <= 30
    assert await pace.take(another, ELSEWHERE, ()) == 0


async def test_a_shorter_no_does_not_take_back_a_longer_one(store: Store) -> None:
    await pace.hold(store, HERE, LIMITED, 30)
    await pace.hold(store, HERE, LIMITED, 1)
    assert await pace.take(store, HERE, ()) > 29


@pytest.mark.parametrize("wait_s", [0, 0.0001, -1])
async def test_a_no_without_a_wait_is_over_at_once(store: Store, wait_s: float) -> None:
    await pace.hold(store, HERE, LIMITED, wait_s)
    await asyncio.sleep(0.01)
    assert await pace.take(store, HERE, ()) == 0


async def test_a_clock_that_was_put_back_makes_nobody_wait_longer_than_was_said(store: Store) -> None:
    rule = (Pace("channel", 3, 3.0),)
    await pace.take(store, HERE, rule)
    names = [name async for name in store.redis.scan_iter(f"{store.layout.pace_root}:*")]
    assert len(names) == 1, "nobody was held, so nothing says until when"
    at_ms = float(await store.redis.get(names[0]) or 0)
    await store.redis.set(names[0], f"{at_ms + 60_000:.0f}")  # as if a minute had been taken back since
    assert 0 < await pace.take(store, HERE, rule) <= 1
    await pace.hold(store, NEXT_ROOM, LIMITED, 2)
    [held] = [name async for name in store.redis.scan_iter(f"{store.layout.pace_root}:*:held")]
    until_ms, wait_ms = map(int, (await store.redis.get(held) or b"").split())
    await store.redis.set(held, f"{until_ms + 60_000} {wait_ms}")
    assert 1.9 < await pace.take(store, NEXT_ROOM, ()) <= 2
    await pace.hold(store, NEXT_ROOM, LIMITED, 5)
    assert 4.9 < await pace.take(store, NEXT_ROOM, ()) <= 5


async def test_nothing_of_it_stays(store: Store) -> None:
    await pace.take(store, HERE, (Pace("channel", 3, 60.0), Pace("connection", 50, 1.0)))
    await pace.hold(store, HERE, LIMITED, 30)
    left = [await store.redis.pttl(key) async for key in store.redis.scan_iter(f"{store.layout.pace_root}:*")]
    assert left
    assert all(ttl == -2 or 0 <= ttl <= 60_000 for ttl in left), "a key without an end"


async def test_a_redis_that_is_away_is_told(store: Store) -> None:
    away = open_store("redis://127.0.0.1:1", store.layout, timeout_s=0.5)
    try:
        with pytest.raises(Unreachable):
            await pace.take(away, HERE, ONE)
        with pytest.raises(Unreachable):
            await pace.hold(away, HERE, LIMITED, 1)
    finally:
        await away.close()
