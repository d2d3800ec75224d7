"""What can't be done now is put off: it takes neither a place nor the machine's time meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox, Stored
from gateway.platforms import Outcome
from gateway.store import Layout
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room


class Counted(Mailbox):
    """Counts how often somebody looks what there is to do."""

    looks = 0

    async def load(self, conversation: str, begin: int = 0) -> Stored:
        self.looks += 1
        return await super().load(conversation, begin)


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix) as made:
        mailbox = Counted(made.desk.mailbox.store, made.desk.mailbox.settings)
        await mailbox.open()
        yield replace(made, desk=replace(made.desk, mailbox=mailbox))


async def put_off(world: AtDesk) -> int:
    """Attended to once: how often it was looked at until it was given back."""
    mailbox: Any = world.desk.mailbox
    before = mailbox.looks
    claims: list[Claim] = list((await mailbox.claim(0, "w1", 1)).grants)
    assert claims
    async with asyncio.timeout(5):
        await world.desk.attend(claims[0], lambda: 0)
    return int(mailbox.looks - before)


async def test_a_stop_does_not_make_a_worker_go_round_while_the_platform_wants_to_be_left_alone(world: AtDesk) -> None:
    world.room.outcomes = [Outcome("rate_limited", retry_after_s=60.0)]
    await world.say("hello")
    await world.work()
    assert not world.room.sent
    assert await world.say("/stop") == "new"
    assert await put_off(world) <= 2


async def test_nor_while_nobody_here_knows_the_connection(world: AtDesk) -> None:
    elsewhere = ConversationKey("another", "room")
    assert await world.say("hello", elsewhere) == "new"
    assert await world.say("/stop", elsewhere) == "new"
    assert await put_off(world) <= 2
    there: Any = {"another": Room()}
    world = replace(world, desk=replace(world.desk, adapters={**world.desk.adapters, **there}))
    await world.desk.mailbox.store.redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {elsewhere.id: 0})
    await world.work()
    assert there["another"].sent, "whoever knows it goes on"
    assert WHERE.id != elsewhere.id


async def test_a_stop_that_came_meanwhile_is_answered_when_the_wait_is_over(world: AtDesk) -> None:
    world.room.outcomes = [Outcome("rate_limited", retry_after_s=60.0)]
    await world.say("hello")
    await world.work()
    await world.say("/stop")
    await put_off(world)
    redis: Any = world.desk.mailbox.store.redis
    for key in [one async for one in redis.scan_iter(f"{world.desk.mailbox.store.layout.pace_root}*")]:
        await redis.delete(key)
    states = world.desk.mailbox.store.layout.key(WHERE.id, "states")
    for row in await redis.hgetall(states):
        await redis.hset(states, row, "pending 0 null")
    await redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {WHERE.id: 0})
    await world.work()
    assert world.room.sent[0] == "Well."
    assert len(world.room.sent) == 2
