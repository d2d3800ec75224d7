"""Another bot that is answered: a few turns a minute, and no more."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gateway.conversation.key import ConversationKey
from gateway.costs.rates import WINDOW_MS
from gateway.events import Actor, Event
from gateway.loop_guard import too_many
from gateway.store import Store, Unreachable, open_store

ROOM = ConversationKey("slack", "C1", "T1:1")


def event(name: str, bot: str = "B1", where: ConversationKey = ROOM, **changed: Any) -> Event:
    made = Event(
        kind="message",
        conversation=where,
        actor=Actor(bot, is_bot=True),
        dedupe_keys=(f"delivery:{name}", f"message:{name}"),
        at_ms=0,
        text="hi",
    )
    return replace(made, **changed)


async def may_pass(store: Store, event: Event, per_minute: int) -> str:
    """As intake asks: `tell` is what is said to the operator."""
    once = await too_many(store, event, per_minute)
    if once is None:
        return "pass"
    if await once.begin(store, event) != "tell":
        return "stop"
    await once.told(store)
    return "tell"


async def test_after_five_the_sixth_is_told_and_the_rest_is_silent(store: Store) -> None:
    verdicts = [await may_pass(store, event(f"m{number}"), 5) for number in range(9)]
    assert verdicts == ["pass"] * 5 + ["tell"] + ["stop"] * 3


async def test_of_many_at_once_no_more_pass(store: Store) -> None:
    verdicts = await asyncio.gather(*(may_pass(store, event(f"m{number}"), 5) for number in range(40)))
    assert Counter(verdicts) == {"pass": 5, "tell": 1, "stop": 34}


async def test_the_same_message_again_passes_and_counts_once(store: Store) -> None:
    """A platform sends again what it got no answer for, as a delivery of another name."""
    for number in range(8):
        again = event("m0", dedupe_keys=(f"delivery:{number}", "message:m0"))
        assert await may_pass(store, again, 2) == "pass"
    assert await may_pass(store, event("m1"), 2) == "pass"
    assert await may_pass(store, event("m2"), 2) == "tell"
    assert await may_pass(store, event("m1"), 2) == "pass", "it was let through before"


async def test_each_bot_has_its_turns_in_each_channel_and_threads_are_no_way_round(store: Store) -> None:
    assert await may_pass(store, event("m1"), 1) == "pass"
    assert await may_pass(store, event("m2", where=ConversationKey("slack", "C1", "T1:2")), 1) == "tell"
    assert await may_pass(store, event("m3", bot="B2"), 1) == "pass"
    assert await may_pass(store, event("m4", where=ConversationKey("slack", "C2")), 1) == "pass"
    assert await may_pass(store, event("m5", where=ConversationKey("other", "C1")), 1) == "pass"


async def test_what_is_older_than_a_minute_does_not_count(store: Store) -> None:
    for number in range(5):
        await may_pass(store, event(f"m{number}"), 5)
    [bot] = [key async for key in store.redis.scan_iter(f"{store.layout.bots_root}:*")]
    oldest: Any = await store.redis.zrange(bot, 0, 1, withscores=True)
    for member, at in oldest:
        await store.redis.zadd(bot, {member: at - WINDOW_MS})
    assert [await may_pass(store, event(f"n{number}"), 5) for number in range(3)] == ["pass", "pass", "tell"]


async def test_nothing_of_it_stays(store: Store) -> None:
    for number in range(3):
        await may_pass(store, event(f"m{number}"), 1)
    left = [await store.redis.pttl(key) async for key in store.redis.scan_iter(f"{store.layout.bots_root}:*")]
    assert len(left) == 2
    assert all(0 < ttl <= WINDOW_MS for ttl in left)


async def test_a_redis_that_is_away_is_told(store: Store) -> None:
    away = open_store("redis://127.0.0.1:1", store.layout, timeout_s=0.5)
    try:
        with pytest.raises(Unreachable):
            await may_pass(away, event("m1"), 5)
    finally:
        await away.close()
