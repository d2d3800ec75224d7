import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway import feed as module
from gateway.conversation.key import ConversationKey
from gateway.feed import Feed
from gateway.store import Store, Unreachable, open_store

HERE = ConversationKey("web", "web", "one", "ana").id
THERE = ConversationKey("web", "web", "two", "ana").id


@pytest.fixture
async def feed(store: Store) -> AsyncIterator[Feed]:
    opened = Feed(store)
    yield opened
    await opened.close()


async def read(feed: Feed, count: int, after: str | None = None, conversation: str = HERE) -> list[dict[str, Any]]:
    entries = []
    async with asyncio.timeout(30), contextlib.aclosing(feed.follow(conversation, after)) as following:
        async for _, entry in following:
            entries.append(entry)
            if len(entries) == count:
                return entries
    return entries


async def age(store: Store, by_ms: int) -> str:
    """A place that lies so far back."""
    seconds, _ = await store.redis.time()
    return f"{seconds * 1000 - by_ms}-0"


async def listener_of(store: Store, other_than: str = "") -> str:
    """The id of the connection that hears the hints, once there is one."""
    while True:
        for client in await store.redis.client_list(_type="pubsub"):
            if client["sub"] == "1" and client["id"] != other_than:
                return str(client["id"])
        await asyncio.sleep(0.005)


async def test_a_follower_gets_what_is_held_and_what_comes(feed: Feed) -> None:
    await feed.add(HERE, {"n": 1})
    reading = asyncio.create_task(read(feed, 3))
    await feed.add(HERE, {"n": 2})
    await feed.add(THERE, {"n": "elsewhere"})
    await feed.add(HERE, {"n": 3, "text": "你好"})
    assert await reading == [{"n": 1}, {"n": 2}, {"n": 3, "text": "你好"}]


async def test_following_goes_on_after_the_last_id(feed: Feed) -> None:
    ids = [await feed.add(HERE, {"n": n}) for n in range(5)]
    assert await read(feed, 2, ids[2]) == [{"n": 3}, {"n": 4}]


async def test_two_followers_each_get_everything(feed: Feed) -> None:
    readings = [asyncio.create_task(read(feed, 2)) for _ in range(2)]
    await feed.add(HERE, {"n": 1})
    await feed.add(HERE, {"n": 2})
    assert await asyncio.gather(*readings) == [[{"n": 1}, {"n": 2}]] * 2


async def test_another_process_is_heard_at_once(feed: Feed, store: Store, redis_url: str) -> None:
    place = await feed.place(HERE)
    async with asyncio.timeout(module.LOOK_S / 2), contextlib.aclosing(feed.follow(HERE, place)) as following:
        coming = asyncio.ensure_future(anext(following))
        while not (await store.redis.pubsub_numsub(f"{store.layout.prefix}:feed"))[0][1]:
            await asyncio.sleep(0.005)
        other = Store(Redis.from_url(redis_url), store.layout)
        await Feed(other).add(HERE, {"n": 1})
        assert (await coming)[1] == {"n": 1}
        await other.close()


async def test_a_snapshot_takes_the_place_of_the_one_before(feed: Feed) -> None:
    await feed.add(HERE, {"text": "a"}, snapshot=True)
    await feed.add(HERE, {"text": "ab"}, snapshot=True)
    await feed.add(HERE, {"reply": "abc"})
    await feed.add(HERE, {"text": "d"}, snapshot=True)
    assert await read(feed, 3) == [{"text": "ab"}, {"reply": "abc"}, {"text": "d"}]


async def test_a_follower_at_a_replaced_snapshot_misses_nothing(feed: Feed) -> None:
    first = await feed.add(HERE, {"text": "a"}, snapshot=True)
    await feed.add(HERE, {"text": "ab"}, snapshot=True)
    await feed.add(HERE, {"text": "abc"}, snapshot=True)
    assert await read(feed, 1, first) == [{"text": "abc"}]


async def test_a_thousand_long_snapshots_take_the_room_of_one(feed: Feed, store: Store) -> None:
    for _ in range(10):
        await asyncio.gather(*(feed.add(HERE, {"text": "x" * 20_000}, snapshot=True) for _ in range(100)))
    assert (await store.redis.memory_usage(store.layout.key(HERE, "feed")) or 0) in range(20_000, 100_000)


async def test_a_place_leads_to_what_is_new_and_to_the_snapshot_being_shown(feed: Feed) -> None:
    await feed.add(HERE, {"reply": "old"})
    place = await feed.place(HERE)
    await feed.add(HERE, {"text": "a"}, snapshot=True)
    assert await feed.place(HERE) == place
    assert await read(feed, 1, place) == [{"text": "a"}]


async def test_a_place_of_a_silent_conversation_leads_to_its_first_entry(feed: Feed) -> None:
    place = await feed.place(HERE)
    await feed.add(HERE, {"n": 1})
    assert await read(feed, 1, place) == [{"n": 1}]


async def test_who_was_away_too_long_is_told_so(feed: Feed, store: Store) -> None:
    assert await read(feed, 1, await age(store, module.KEEP_MS + 5_000)) == [{"type": "gone"}]
    await feed.add(HERE, {"n": 1})
    assert await read(feed, 9, await age(store, module.KEEP_MS + 5_000)) == [{"type": "gone"}]


async def test_who_stands_before_a_trimmed_stream_is_told_so(
    feed: Feed, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LENGTH", 100)
    first = await feed.add(HERE, {"n": 0})
    ids = await asyncio.gather(*(feed.add(HERE, {"n": n}) for n in range(1, 400)))
    assert await store.redis.xlen(store.layout.key(HERE, "feed")) < 300
    assert await read(feed, 9, first) == [{"type": "gone"}]
    assert await read(feed, 1, ids[-2]) == [{"n": 399}]


async def test_who_stands_ahead_of_a_store_that_lost_its_tail_is_told_so(feed: Feed, store: Store) -> None:
    await feed.add(HERE, {"n": 1})
    assert await read(feed, 9, await age(store, -60_000)) == [{"type": "gone"}]


async def test_many_entries_come_in_order(feed: Feed) -> None:
    reading = asyncio.create_task(read(feed, 350))
    await asyncio.gather(*(feed.add(HERE, {"n": n}) for n in range(350)))
    assert [entry["n"] for entry in await reading] == list(range(350))


@pytest.mark.parametrize("place", ["", "$", "-", "1", "1-2-3", "１-0", "1-0\n", "9" * 16 + "-0"])
async def test_an_id_that_is_none_is_refused(feed: Feed, place: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        await read(feed, 1, place)


async def test_closing_ends_all_who_follow(feed: Feed) -> None:
    readings = [asyncio.create_task(read(feed, 1)) for _ in range(3)]
    while len(feed._ears.get(HERE, ())) < 3:
        await asyncio.sleep(0)
    await feed.close()
    assert await asyncio.gather(*readings) == [[], [], []]
    assert not feed._ears


async def test_the_stream_expires_by_itself(feed: Feed, store: Store) -> None:
    await feed.add(HERE, {"n": 1})
    assert 0 < await store.redis.pttl(store.layout.key(HERE, "feed")) <= module.KEEP_MS


async def test_a_broken_connection_for_hints_is_made_anew(
    feed: Feed, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    reading = asyncio.create_task(read(feed, 1))
    first = await listener_of(store)
    await store.redis.client_kill_filter(_id=first)
    assert await listener_of(store, other_than=first)
    await feed.add(HERE, {"n": 1})
    assert await reading == [{"n": 1}]


async def test_a_store_that_is_away_is_said(layout: Any) -> None:
    away = open_store("redis://127.0.0.1:1", layout, timeout_s=0.5)
    feed = Feed(away)
    with pytest.raises(Unreachable):
        await feed.add(HERE, {"n": 1})
    with pytest.raises(Unreachable):
        await read(feed, 1)
    await feed.close()
    await away.close()
