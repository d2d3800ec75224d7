"""What is told once in a while: by one, and by nobody as long as it is not stored."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from gateway import once
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.once import Once
from gateway.store import Store

ROOM = ConversationKey("slack", "C1")


def event(name: str) -> Event:
    names = (f"delivery:{name}", f"message:{name.partition('/')[0]}")
    return Event(kind="message", conversation=ROOM, actor=Actor("U1"), dedupe_keys=names, at_ms=0, text="hi")


@pytest.fixture
def mark(store: Store) -> Once:
    return Once(store.layout.rates_root, "it:told", 60_000)


async def test_of_many_at_once_one_tells_it_and_the_others_wait_until_it_is_told(store: Store, mark: Once) -> None:
    said = await asyncio.gather(*(mark.begin(store, event(f"m{number}")) for number in range(60)))
    assert Counter(said) == {"tell": 1, "wait": 59}
    await mark.told(store)
    assert await mark.begin(store, event("m60")) == "told"
    assert 0 < await store.redis.pttl(f"{mark.root}:{mark.name}") <= mark.every_ms


async def test_who_was_about_to_tell_it_may_again_in_any_delivery_and_who_leaves_it_lets_the_next_one(
    store: Store, mark: Once
) -> None:
    assert await mark.begin(store, event("m1")) == "tell"
    assert await mark.begin(store, event("m1/again")) == "tell"
    await mark.leave(store, event("m2"))
    assert await mark.begin(store, event("m2")) == "wait", "it was not theirs to leave"
    await mark.leave(store, event("m1"))
    assert await mark.begin(store, event("m2")) == "tell"
    await mark.told(store)
    await mark.leave(store, event("m2"))
    assert await mark.begin(store, event("m3")) == "told"


async def test_who_died_before_it_was_told_keeps_nobody_waiting_for_long(
    store: Store, mark: Once, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "TELLING_MS", 200)
    assert await mark.begin(store, event("m1")) == "tell"
    async with asyncio.timeout(10):
        while await mark.begin(store, event("m2")) == "wait":
            await asyncio.sleep(0.02)
    assert await mark.begin(store, event("m2")) == "tell"
