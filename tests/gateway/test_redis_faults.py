"""A Redis that is there and does not do what it is asked: F54, F55, F57, F63."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.store import Layout
from tests.gateway.served import served
from tests.harness.own_redis import OwnRedis, own_redis
from tests.harness.proxy import Proxy

MENTION = {"type": "app_mention", "text": "<@U0BOT01> hi"}


@asynccontextmanager
async def only_reads(server: OwnRedis) -> AsyncIterator[None]:
    """F54: another server is told to be the first one."""
    await server.ask("REPLICAOF", "127.0.0.1", "9")
    yield
    await server.ask("REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def is_busy(server: OwnRedis) -> AsyncIterator[None]:
    """F55: somebody's script does not end."""
    await server.ask("CONFIG", "SET", "busy-reply-threshold", "50")
    endless = asyncio.create_task(server.ask("EVAL", "while true do end", 0))
    await busy(server)
    yield
    await server.ask("SCRIPT", "KILL")
    with suppress(RedisError):
        await endless


async def busy(server: OwnRedis) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await server.ask("GET", "x")
            except RedisError as error:
                if "BUSY" in str(error):
                    return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def can_not_save(server: OwnRedis) -> AsyncIterator[None]:
    """F57: its picture of the data can't be written, and it was told to stop then."""
    await server.ask("CONFIG", "SET", "save", "3600 1")
    in_the_way = server.folder / "dump.rdb"
    in_the_way.mkdir()
    await saved(server, "err")
    yield
    in_the_way.rmdir()
    await saved(server, "ok")


async def saved(server: OwnRedis, status: str) -> None:
    redis: Any
    async with asyncio.timeout(30), Redis.from_url(server.url) as redis:
        while (await redis.info("persistence"))["rdb_last_bgsave_status"] != status:
            with suppress(RedisError):  # one is under way
                await redis.execute_command("BGSAVE")
            await asyncio.sleep(0.05)


@asynccontextmanager
async def takes_no_more_clients(server: OwnRedis) -> AsyncIterator[None]:
    """F63: and those that it had are gone."""
    redis: Any
    async with Redis.from_url(server.url, single_connection_client=True) as redis:
        await redis.config_set("maxclients", "1")
        await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield
        await redis.config_set("maxclients", "100")


@asynccontextmanager
async def has_another_password(server: OwnRedis) -> AsyncIterator[None]:
    """F63."""
    redis: Any
    async with Redis.from_url(server.url, single_connection_client=True) as redis:
        await redis.config_set("requirepass", "another")
        await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield
        await redis.config_set("requirepass", "")


TROUBLES: dict[str, Callable[[OwnRedis], AbstractAsyncContextManager[None]]] = {
    "only reads": only_reads,
    "is busy": is_busy,
    "can not save": can_not_save,
    "takes no more clients": takes_no_more_clients,
    "has another password": has_another_password,
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_meanwhile_nothing_is_taken_and_afterwards_each_message_counts_once(
    tmp_path: Path, layout: Layout, trouble: str
) -> None:
    waits = {"gateway": {"accept_timeout_s": 0.5}, "redis": {"timeout_s": 0.5}}
    async with (
        own_redis(tmp_path / "redis") as server,
        served(tmp_path, server.url, layout.prefix, waits) as gateway,
    ):
        assert (await gateway.say(MENTION | {"ts": "1760000000.000001"}, "Ev1")).status == 200
        async with TROUBLES[trouble](server):
            for _ in range(2):
                assert (await gateway.say(MENTION | {"ts": "1760000000.000002"}, "Ev2")).status == 503
            assert gateway.lines("not stored"), "an operator is told"
            assert (await gateway.ask(b"GET /healthz HTTP/1.0\r\n\r\n")).status == 200
        async with asyncio.timeout(10):
            while (await gateway.say(MENTION | {"ts": "1760000000.000002"}, "Ev2")).status != 200:
                await asyncio.sleep(0.02)
        assert (await gateway.say(MENTION | {"ts": "1760000000.000002"}, "Ev2")).status == 200
        assert len(await gateway.waiting()) == 2
        assert not [record for record in gateway.log if record.exc_info]


async def test_an_answer_that_breaks_off_anywhere_is_no_reason_to_store_twice(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    """F58: after each number of bytes up to where an answer ends."""
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix) as gateway:
        for after_bytes in range(1, 40):
            event = MENTION | {"ts": f"1760000000.{after_bytes:06}"}
            proxy.cut(after_bytes=after_bytes)
            first = (await gateway.say(event, f"Ev{after_bytes}")).status
            proxy.heal()
            assert first in {200, 503}
            assert (await gateway.say(event, f"Ev{after_bytes}")).status == 200
            assert len(await gateway.waiting()) == after_bytes
