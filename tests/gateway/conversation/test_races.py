"""Many who want the same conversation at once: it has one writer, and its messages one order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from config.settings import MailboxSettings
from gateway.conversation.claim import Claim, Fenced
from gateway.conversation.mailbox import Mailbox
from gateway.store import Layout
from tests.gateway.conversation.scenarios import note
from tests.gateway.conversation.world import World, event, key, now_ms, texts

ROOMY = MailboxSettings(lease_s=60, bell_ms=120, inbox_max=500, waiting_max=10_000)


@pytest.fixture
async def world(redis_url: str, layout: Layout) -> AsyncIterator[World]:
    made = World(redis_url, layout, ROOMY)
    yield made
    await made.check()
    await made.close()


async def work(mailbox: Mailbox, name: str, holders: dict[str, str], left: list[int]) -> None:
    """As a worker does, until all was answered: two never hold one conversation."""
    while left[0] > 0:
        for claim in (await mailbox.claim(0, name, 4)).grants:
            assert holders.setdefault(claim.conversation, name) == name, "two hold one conversation"
            while True:
                stored = await mailbox.load(claim.conversation)
                turn = {"id": f"turn {claim.token}", "start": len(stored.history), "to": {}}
                await mailbox.take(claim, turn, members=stored.inbox)
                await mailbox.append(claim, records=[note(name)], turn="close")
                left[0] -= len(stored.inbox)
                del holders[claim.conversation]
                if await mailbox.settle(claim, name, 0) is not None:
                    break
                holders[claim.conversation] = name
        await asyncio.sleep(0)


async def test_f38_two_messages_of_one_millisecond_keep_their_order_with_eight_workers(world: World) -> None:
    """F38: by which the mailbox took first."""
    pairs = 150
    workers = [await world.mailbox() for _ in range(8)]
    gateway = workers[0]
    took: dict[str, list[tuple[int, str]]] = {}

    async def say_two(number: int) -> None:
        where, at_ms = key(f"t{number}"), now_ms()

        async def say(text: str) -> None:
            said = event(text, where)
            accepted = await gateway.accept(where, said.dump(), dedupe_keys=said.dedupe_keys, at_ms=at_ms)
            took.setdefault(where.id, []).append((accepted.seq, text))

        await asyncio.gather(say(f"{number} a"), say(f"{number} b"))

    left, holders = [2 * pairs], dict[str, str]()
    working = [asyncio.create_task(work(one, f"w{at}", holders, left)) for at, one in enumerate(workers)]
    await asyncio.gather(*(say_two(number) for number in range(pairs)))
    async with asyncio.timeout(60):
        await asyncio.gather(*working)
    for conversation, told in took.items():
        history = (await gateway.load(conversation)).history
        assert texts(history) == [text for _, text in sorted(told)]


async def test_f33_a_conversation_that_is_woken_a_hundred_times_has_one_holder(world: World) -> None:
    """F33: by bells and by looks, of eight workers."""
    workers = [await world.mailbox() for _ in range(8)]
    await world.say(workers[0], "hello")
    asked: list[Any] = [one.claim(0, f"w{at}", 4, by_bell=bool(at % 2)) for at, one in enumerate(workers * 13)]
    grants = [grant for claimed in await asyncio.gather(*asked) for grant in claimed.grants]
    assert len(grants) == 1


async def test_f42_of_going_on_and_a_new_message_at_once_there_is_one_holder(world: World) -> None:
    """F42: what was put off is due in the very moment in which somebody writes; whoever claims then has both."""
    workers = [await world.mailbox() for _ in range(4)]
    gateway = workers[0]
    where = key()
    for number in range(60):
        await world.say(gateway, f"{number} first", where)
        claim = await world.claim_one(gateway)
        await world.take_all(gateway, claim, f"turn {number}")
        stored = await gateway.load(claim.conversation)
        assert await gateway.park(claim, 1, stored.seq, "w", 0) is not None
        said = asyncio.create_task(world.say(gateway, f"{number} second", where))
        grants: list[Claim] = []
        while not grants:
            found = await asyncio.gather(*(one.claim(0, f"w{at}", 1) for at, one in enumerate(workers)))
            grants = [grant for claimed in found for grant in claimed.grants]
        assert len(grants) == 1
        assert (await said).state == "new"
        [held] = grants
        stored = await gateway.load(held.conversation)
        assert stored.turn
        assert stored.turn["id"] == f"turn {number}"
        await gateway.append(held, records=[note("done")], turn="close")
        await world.take_all(gateway, held, f"other {number}")
        await gateway.append(held, turn="close")
        assert await gateway.settle(held, "w", 0) is not None


@pytest.mark.parametrize("lost", ["the token", "the lease", "both"])
async def test_f39_a_lease_that_somebody_deleted_gives_the_conversation_to_another_and_nothing_to_the_first(
    world: World, lost: str
) -> None:
    """F39: the first one writes nothing any more, and nothing strands."""
    mailbox = await world.mailbox()
    redis: Any = mailbox.store.redis
    await world.say(mailbox, "hello")
    first = await world.claim_one(mailbox)
    await world.take_all(mailbox, first)
    root, c = mailbox.store.layout.root(0), first.conversation
    if lost != "the lease":
        name = mailbox.store.layout.key(c)
        await redis.hdel(name, "token", "worker")
        await redis.hdel(f"{root}:running", await redis.hget(name, "channel"))
    if lost != "the token":
        await redis.zadd(f"{root}:due", {c: 0})
    else:
        await world.lapse()
    second = await world.claim_one(mailbox, "w2")
    assert int(second.token.split("-")[0]) > int(first.token.split("-")[0])
    with pytest.raises(Fenced):
        await mailbox.append(first, records=[note("from the first")])
    await mailbox.append(second, records=[note("from the second")], turn="close")
    history = (await mailbox.load(c)).history
    assert [one.data["text"] for one in history if one.type == "reply"] == ["from the second"]
    assert await mailbox.settle(second, "w2", 0) is not None
