"""A server that comes back without its last writes: F50 (a file that was cut), F61 (a replica that lagged)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.conversation.claim import Behind, Claim
from gateway.conversation.mailbox import Mailbox
from gateway.store import Layout
from tests.gateway.conversation.scenarios import note
from tests.gateway.conversation.world import World
from tests.harness.deployment import free_port
from tests.harness.own_redis import OwnRedis, own_redis
from tests.harness.proxy import Proxy


async def a_turn_under_way(world: World) -> tuple[Mailbox, Claim]:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, records=[note("first")])
    return mailbox, claim


async def whoever_built_on_it_stops_and_another_goes_on(world: World, mailbox: Mailbox, claim: Claim) -> None:
    with pytest.raises(Behind):
        await mailbox.append(claim, records=[note("on top of a hole")])
    again = await world.take_over(mailbox)
    assert int(again.token.split("-")[0]) > int(claim.token.split("-")[0]), "a fence is never given twice"
    stored = await mailbox.load(again.conversation)
    assert [one.data["text"] for one in stored.history if one.type == "reply"] == ["first"]
    await mailbox.append(again, records=[note("second")], turn="close")
    assert await mailbox.settle(again, "w2", 0) is not None
    await world.check()


@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.98])
async def test_after_a_power_cut_nobody_writes_on_top_of_a_hole(tmp_path: Path, layout: Layout, part: float) -> None:
    """The file ends within the last write, `part` of it is there: the server leaves it out."""
    async with own_redis(tmp_path / "redis") as server:
        world = World(server.url, layout)
        try:
            mailbox, claim = await a_turn_under_way(world)
            before = server.file.stat().st_size
            await mailbox.append(claim, records=[note("second")])
            after = server.file.stat().st_size
            server.kill()
            server.cut_off(before + int((after - before) * part))
            await server.start()
            await whoever_built_on_it_stops_and_another_goes_on(world, mailbox, claim)
        finally:
            await world.close()


async def test_a_message_that_was_lost_with_the_tail_is_new_when_it_comes_again(tmp_path: Path, layout: Layout) -> None:
    """Its dedupe key went with it, as they are one write."""
    async with own_redis(tmp_path / "redis") as server:
        world = World(server.url, layout)
        try:
            mailbox = await world.mailbox()
            await world.say(mailbox, "before")
            assert (await world.say(mailbox, "lost")).state == "new"
            server.kill()
            server.cut_off(server.file.stat().st_size - 1)
            await server.start()
            await reconnected(world, mailbox)
            assert (await world.say(mailbox, "lost")).state == "new"
            assert (await world.say(mailbox, "before")).state == "known"
            await world.check()
        finally:
            await world.close()


async def test_that_the_end_is_lost_is_seen_by_a_worker_that_was_there_before(tmp_path: Path, layout: Layout) -> None:
    """What it said last is not there any more; a restart that loses nothing says nothing."""
    async with own_redis(tmp_path / "redis") as server:
        world = World(server.url, layout)
        try:
            mailbox = await world.mailbox()
            assert await mailbox.beat("w1") == 0
            size = server.file.stat().st_size
            assert await mailbox.beat("w1") == 0
            server.kill()
            await server.start()
            await reconnected(world, mailbox)
            assert await mailbox.beat("w1") == 0
            server.kill()
            server.cut_off(size)
            await server.start()
            await reconnected(world, mailbox)
            assert await mailbox.beat("w1") > 0
            assert await mailbox.beat("w1") == 0, "it is told once"
        finally:
            await world.close()


async def reconnected(world: World, mailbox: Mailbox) -> None:
    async def answers() -> bool:
        try:
            return await mailbox.is_warm()
        except Exception:  # noqa: BLE001  # the old connection
            return False

    async with asyncio.timeout(10):
        while not await answers():
            await asyncio.sleep(0.02)
    assert world.stores


async def test_after_a_failover_nobody_writes_on_top_of_a_hole(tmp_path: Path, layout: Layout) -> None:
    """The replica heard nothing of the last write when it took over."""
    async with own_redis(tmp_path / "first") as first, own_redis(tmp_path / "second") as second:
        port = await listens_on_tcp(first)
        async with Proxy(first.url) as proxy:
            world = World(proxy.redis_url, layout)
            try:
                mailbox, claim = await a_turn_under_way(world)
                await second.ask("REPLICAOF", "127.0.0.1", str(port))
                await has_heard_all(second)
                await second.ask("REPLICAOF", "NO", "ONE")
                await mailbox.append(claim, records=[note("second")])
                first.kill()
                proxy.lead_to(second.url)
                await whoever_built_on_it_stops_and_another_goes_on(world, mailbox, claim)
            finally:
                await world.close()


async def listens_on_tcp(server: OwnRedis) -> int:
    port = free_port()
    await server.ask("CONFIG", "SET", "port", str(port))
    return port


async def has_heard_all(server: OwnRedis) -> None:
    async with asyncio.timeout(30), Redis.from_url(server.url) as redis:
        while (await redis.info("replication"))["master_link_status"] != "up":
            await asyncio.sleep(0.05)
