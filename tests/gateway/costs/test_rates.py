"""How many messages are taken in a minute, by all gateways together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from config.profiles import Rate
from gateway.conversation.key import ConversationKey
from gateway.costs.rates import WINDOW_MS, take
from gateway.events import Actor, Event
from gateway.store import Layout, Store, open_store

ROOM = ConversationKey("slack", "C1", "T1:1")
THREE = Rate(person_per_minute=3)


def event(name: str, who: str = "U1", where: ConversationKey = ROOM, **changed: Any) -> Event:
    made = Event(
        kind="message", conversation=where, actor=Actor(who), dedupe_keys=(f"d:{name}", f"m:{name}"), at_ms=0, text="hi"
    )
    return replace(made, **changed)


async def test_what_is_more_is_not_taken_and_told_once_in_a_minute(store: Store) -> None:
    seen = [await take(store, event(f"m{number}"), THREE) for number in range(6)]
    assert [one and (one.scope, one.limit, one.key) for one in seen] == [None] * 3 + [
        ("person", 3, "rate.person_per_minute")
    ] * 3
    assert len({one.once for one in seen if one}) == 1
    assert {one.once.every_ms for one in seen if one} == {WINDOW_MS}


async def test_it_is_told_of_each_person_and_each_channel(store: Store) -> None:
    one, room = Rate(person_per_minute=1), Rate(channel_per_minute=1)
    for who in ("U1", "U2"):
        await take(store, event(f"m{who}", who), one)
        await take(store, event(f"r{who}", who, ConversationKey("slack", who)), room)
    seen = [await take(store, event(f"n{who}", who), one) for who in ("U1", "U2")]
    seen += [await take(store, event(f"o{who}", who, ConversationKey("slack", who)), room) for who in ("U1", "U2")]
    assert len({over.once.name for over in seen if over}) == 4


async def test_of_many_at_once_over_several_gateways_no_more_pass(redis_url: str, layout: Layout) -> None:
    stores = [open_store(redis_url, layout, timeout_s=5) for _ in range(3)]
    seen = await asyncio.gather(*(take(stores[n % 3], event(f"m{n}"), THREE) for n in range(60)))
    assert seen.count(None) == 3
    for one in stores:
        await one.close()


async def test_the_same_message_again_and_an_album_count_once(store: Store) -> None:
    one = Rate(person_per_minute=1)
    for number in range(3):
        again = event("m0", dedupe_keys=(f"delivery:{number}", "message:m0"))
        assert await take(store, again, one) is None
    two = Rate(person_per_minute=2)
    assert [await take(store, event(f"a{n}", group="album"), two) for n in range(4)] == [None] * 4


async def test_a_person_is_one_in_all_channels_of_a_connection_and_a_channel_is_of_all_people(store: Store) -> None:
    one = Rate(person_per_minute=1)
    assert await take(store, event("m1"), one) is None
    assert await take(store, event("m2", where=ConversationKey("slack", "C2")), one)
    assert await take(store, event("m3", where=ConversationKey("other", "C1")), one) is None
    assert await take(store, event("m4", who="U2"), one) is None
    room = Rate(channel_per_minute=2)
    here = ConversationKey("slack", "C3")
    seen = [await take(store, event(f"r{n}", who=f"U{n}", where=here), room) for n in range(3)]
    assert [one and (one.scope, one.limit) for one in seen] == [None, None, ("channel", 2)]


async def test_who_is_over_for_one_does_not_count_for_the_other(store: Store) -> None:
    both = Rate(person_per_minute=1, channel_per_minute=2)
    seen = [await take(store, event(f"m{n}"), both) for n in range(9)]
    assert seen[0] is None
    assert all(one and one.scope == "person" for one in seen[1:])
    assert await take(store, event("m9", who="U2"), both) is None


async def test_what_is_older_than_a_minute_does_not_count(store: Store) -> None:
    one = Rate(person_per_minute=1)
    await take(store, event("m1"), one)
    for key in [key async for key in store.redis.scan_iter(f"{store.layout.rates_root}:*")]:
        found: Any = await store.redis.zrange(key, 0, -1, withscores=True)
        [(member, score)] = found
        await store.redis.zadd(key, {member: score - 60_001})
    assert await take(store, event("m2"), one) is None


async def test_what_was_counted_before_the_clock_was_put_back_does_not_count(store: Store) -> None:
    for number in range(2):
        assert await take(store, event(f"m{number}"), Rate(person_per_minute=2)) is None
    [account] = [name async for name in store.redis.scan_iter(f"{store.layout.rates_root}:*person*")]
    for message in await store.redis.zrange(account, 0, -1):
        await store.redis.zincrby(account, 3_600_000, cast("bytes", message))
    assert await take(store, event("m2"), Rate(person_per_minute=2)) is None


async def test_every_key_ends_by_itself_and_without_limits_there_is_none(store: Store) -> None:
    await take(store, event("m1"), Rate())
    assert [key async for key in store.redis.scan_iter(f"{store.layout.rates_root}:*")] == []
    for number in range(3):
        await take(store, event(f"m{number}"), Rate(person_per_minute=1, channel_per_minute=1))
    left = [await store.redis.pttl(key) async for key in store.redis.scan_iter(f"{store.layout.rates_root}:*")]
    assert len(left) == 2
    assert min(left) > 0
