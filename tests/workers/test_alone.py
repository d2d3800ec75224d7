"""Where no process is free to go on alone in, a conversation waits without being held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from gateway.conversation.claim import Claim
from gateway.conversation.deaths import SOLE_AFTER
from gateway.conversation.key import ConversationKey
from gateway.running.children import Child, start_child
from gateway.running.serving import cancelled
from gateway.store import Layout
from tests.harness.fake_model import KEY
from tests.harness.own_redis import own_redis
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from workers import alone
from workers.alone import attend_alone
from workers.desk import Desk

ELSEWHERE = ConversationKey("chat", "room", "other")


async def claimed(world: AtDesk, number: int) -> list[Claim]:
    """So many, once they are there to be claimed."""
    found: list[Claim] = []
    async with asyncio.timeout(30):
        while len(found) < number:
            found += (await world.desk.mailbox.claim(0, world.desk.worker, number - len(found))).grants
            await asyncio.sleep(0.02)
    return found


async def test_who_waits_for_a_process_is_held_by_nobody_and_processes_begin_one_after_the_other(
    tmp_path: Path, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies meanwhile is no death of theirs; and of several that begin at once each would be late."""
    monkeypatch.setenv("MODEL_KEY", KEY)
    monkeypatch.setenv("REDIS_URL", redis_url)
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        attend = attend_alone(world.desk, tmp_path / "deskmate.yaml")
        for where in (WHERE, ELSEWHERE):
            assert await world.say("hello", where) == "new"
        try:
            for _ in range(2):  # they come back, and nothing was counted
                for claim in await claimed(world, 2):
                    assert claim.tries == 0
                    await attend(claim)
                    assert claim.lost
                    key = world.desk.mailbox.store.layout.key(claim.conversation)
                    assert not await world.desk.mailbox.store.redis.hexists(key, "token")
            begun = [one for one in psutil.Process().children() if "workers.alone" in one.cmdline()]
            assert len(begun) == 1
        finally:
            await cancelled([task for task in asyncio.all_tasks() if task.get_name() == "alone"])


async def test_a_child_that_redis_did_not_answer_until_the_lease_had_ended_says_so(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent takes what was lost for a try."""
    play = {"mailbox": {"lease_s": 2.0, "send_timeout_s": 0.5}, "redis": {"timeout_s": 0.3}}
    async with (
        own_redis(tmp_path / "redis") as server,
        at_desk(tmp_path, server.url, layout.prefix, settings=play) as world,
    ):
        mailbox = world.desk.mailbox

        async def attend(_: Desk, claim: Claim, __: Callable[[], int]) -> None:
            server.pause()
            try:
                await mailbox.append(claim)
            finally:
                server.go_on()

        monkeypatch.setattr(Desk, "attend", attend)
        await world.say("hello")
        [claim] = await claimed(world, 1)
        named = {"conversation": claim.conversation, "root": claim.root, "token": claim.token}
        told = {**named, "rev": 0, "begin": 0, "tries": 2}
        assert await alone._attend(world.desk, told) == alone.AWAY


@pytest.mark.parametrize("then", ["read order; exit 9", "exec sleep 60"])
async def test_that_a_child_dies_or_stands_still_before_it_has_begun_is_no_try(
    tmp_path: Path, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Who was killed while it was idle had nothing of it in hand."""

    async def start(_: Sequence[str], *, stdin: int, stdout: int) -> Child:
        return await start_child(["sh", "-c", f"printf {alone.READY}; {then}"], stdin=stdin, stdout=stdout)

    monkeypatch.setattr(alone, "start_child", start)
    play = {"mailbox": {"lease_s": 2.0, "send_timeout_s": 0.5}}
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=play) as world:
        store = world.desk.mailbox.store
        await world.say("hello")
        await store.redis.hset(store.layout.key(WHERE.id), "tries", str(SOLE_AFTER))
        [claim] = await claimed(world, 1)
        keeping = asyncio.create_task(alone._keep(world.desk, claim))  # as the runner does
        assert await world.desk.mailbox.sole(claim, begins=True)
        await attend_alone(world.desk, tmp_path / "deskmate.yaml")(claim)
        await cancelled([keeping])
        [again] = await claimed(world, 1)
        assert again.tries == SOLE_AFTER
