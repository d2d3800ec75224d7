"""What people say in a channel and not to us."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gateway.conversation.key import ConversationKey
from gateway.conversation.overheard import KEEP_MS, TEXT_MAX, hear, heard_since
from gateway.events import Actor, Event
from gateway.store import Store
from tests.gateway.conversation.world import now_ms

ROOM = ConversationKey("slack", "C1", "T1:1")
OTHER_THREAD = ConversationKey("slack", "C1", "T1:2")


def event(text: str, where: ConversationKey = ROOM, at_ms: int | None = None, name: str = "Ana") -> Event:
    return Event(
        kind="message",
        conversation=where,
        actor=Actor("U1", name),
        dedupe_keys=(f"message:{text}",),
        at_ms=now_ms() if at_ms is None else at_ms,
        message_id=text[:20],
        text=text,
        addressed=False,
    )


async def texts(store: Store, after_ms: int = 0, where: ConversationKey = ROOM, most: int = 100) -> list[str]:
    return [one.text for one in await heard_since(store, where, after_ms, most, now_ms())]


def name_of(store: Store) -> str:
    return f"{store.layout.heard_root}:ch:{ROOM.channel_id}"


async def test_the_last_ones_are_kept_in_their_order(store: Store) -> None:
    for number in range(12):
        await hear(store, event(f"m{number}"), 5)
    assert await texts(store) == ["m7", "m8", "m9", "m10", "m11"]
    assert await texts(store, most=2) == ["m10", "m11"], "the profile wants fewer by now"


async def test_all_threads_of_a_channel_hear_it_and_no_other_channel(store: Store) -> None:
    await hear(store, event("here"), 5)
    await hear(store, event("in a thread", OTHER_THREAD), 5)
    await hear(store, event("elsewhere", ConversationKey("slack", "C2")), 5)
    await hear(store, event("another account", ConversationKey("telegram", "C1")), 5)
    assert await texts(store) == await texts(store, where=OTHER_THREAD) == ["here", "in a thread"]


async def test_a_repetition_is_kept_once_and_is_nothing_new(store: Store) -> None:
    await hear(store, event("one"), 5)
    await hear(store, event("two"), 5)
    [_, last] = await heard_since(store, ROOM, 0, 5, now_ms())
    await hear(store, event("one"), 5)
    assert await texts(store) == ["one", "two"]
    assert await texts(store, last.at_ms) == []


async def test_whoever_has_read_up_to_one_gets_what_came_after_it_and_misses_none(store: Store) -> None:
    """As many in one millisecond, and by a platform that counts in seconds."""
    await asyncio.gather(*(hear(store, event(f"m{number}", at_ms=1_000), 100) for number in range(50)))
    every = await heard_since(store, ROOM, 0, 100, now_ms())
    assert len({one.at_ms for one in every}) == 50
    assert [one.text for one in await heard_since(store, ROOM, every[24].at_ms, 100, now_ms())] == [
        one.text for one in every[25:]
    ]


async def test_a_platforms_wrong_clock_neither_hides_what_is_said_later_nor_what_it_says(store: Store) -> None:
    await hear(store, event("from the future", at_ms=now_ms() + 10 * KEEP_MS), 5)
    [first] = await heard_since(store, ROOM, 0, 5, now_ms())
    await hear(store, event("now"), 5)
    await hear(store, event("from the past", at_ms=0), 5)
    assert await texts(store, first.at_ms) == ["now", "from the past"]


async def test_a_message_is_kept_for_a_day_even_where_others_follow(store: Store) -> None:
    for text in ("last week", "yesterday"):
        await hear(store, event(text), 100)
    old: Any = await store.redis.zrange(name_of(store), 0, -1)
    await store.redis.zadd(name_of(store), {old[0]: now_ms() - 7 * KEEP_MS, old[1]: now_ms() - KEEP_MS - 1_000})
    assert await texts(store) == []
    await hear(store, event("today"), 100)
    assert await store.redis.zcard(name_of(store)) == 1
    assert await texts(store) == ["today"]
    assert KEEP_MS - 60_000 < await store.redis.pttl(name_of(store)) <= KEEP_MS


async def test_a_long_message_is_cut_and_a_person_without_a_name_goes_by_the_id(store: Store) -> None:
    await hear(store, event("好" * (TEXT_MAX + 1), name=""), 5)
    [one] = await heard_since(store, ROOM, 0, 5, now_ms())
    assert (one.who, one.text) == ("U1", "好" * TEXT_MAX)
    assert abs(one.at_ms - time.time() * 1000) < 60_000


async def test_two_persons_own_conversations_are_two_channels(store: Store) -> None:
    max_, ana = (ConversationKey("hook", "", user=user) for user in ("max", "ana"))
    assert max_.channel_id != ana.channel_id
    assert ConversationKey("hook", "", "thread", "max").channel_id == max_.channel_id
    assert ConversationKey("hook", "c", user="max").channel_id == ConversationKey("hook", "c", user="ana").channel_id
    await hear(store, event("my secret", max_), 5)
    assert (await texts(store, where=ana), await texts(store, where=max_)) == ([], ["my secret"])
