"""The faulty network does what it says, each fault alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.harness.proxy import Proxy


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers each piece with itself; its address, and the pieces that came."""
    came: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while piece := await reader.read(65_536):
            came.append(piece)
            writer.write(piece)
        came.append(b"")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
        for writer in writers:
            writer.transport.abort()


@asynccontextmanager
async def joined(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield reader, writer
    writer.transport.abort()


async def test_jitter_makes_each_piece_late_by_another_time() -> None:
    async with echo() as (address, _), Proxy(address, seed=7) as proxy, joined(proxy) as (reader, writer):
        proxy.slow(to_server_s=0.02, jitter_s=0.1)
        took = []
        for _ in range(4):
            begun_s = time.monotonic()
            writer.write(b"x")
            await reader.readexactly(1)
            took.append(time.monotonic() - begun_s)
    assert min(took) >= 0.02
    assert max(took) - min(took) > 0.01


async def test_slices_arrive_one_by_one() -> None:
    async with echo() as (address, came), Proxy(address) as proxy, joined(proxy) as (reader, writer):
        proxy.slice(3)
        writer.write(b"abcdefgh")
        assert await reader.readexactly(8) == b"abcdefgh"
    assert len(came) > 1


async def test_a_narrow_line_takes_its_time() -> None:
    async with echo() as (address, _), Proxy(address) as proxy, joined(proxy) as (reader, writer):
        proxy.throttle(1_000)
        begun_s = time.monotonic()
        writer.write(bytes(100))
        await reader.readexactly(100)
        writer.write(bytes(1))
        await reader.readexactly(1)
    assert time.monotonic() - begun_s >= 0.1


async def test_one_direction_is_held_while_the_other_flows() -> None:
    async with echo() as (address, came), Proxy(address) as proxy, joined(proxy) as (reader, writer):
        proxy.hold("client")
        writer.write(b"asked")
        while not came:
            await asyncio.sleep(0.005)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.readexactly(5)
        proxy.heal()
        assert await reader.readexactly(5) == b"asked"


async def test_a_half_open_connection_says_nothing_and_does_not_end() -> None:
    async with echo() as (address, came), Proxy(address) as proxy, joined(proxy) as (reader, writer):
        writer.write(b"a")
        await reader.readexactly(1)
        proxy.half_open()
        writer.write(b"b")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
        assert b"b" not in came
        async with joined(proxy) as (fresh, to):
            to.write(b"c")
            assert await fresh.readexactly(1) == b"c", "new ones fare well"


async def test_who_closes_is_not_heard() -> None:
    async with echo() as (address, came), Proxy(address) as proxy:
        proxy.swallow_ends()
        async with joined(proxy) as (reader, writer):
            writer.write(b"a")
            await reader.readexactly(1)
            writer.write_eof()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.read(1)
        assert came == [b"a"]


async def test_refused_connections_are_reset() -> None:
    async with echo() as (address, _), Proxy(address) as proxy:
        proxy.refuse()
        async with joined(proxy) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)


async def test_a_whole_request_arrives_twice_and_is_answered_once() -> None:
    took: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        took.append(await request.read())
        return web.Response(text=str(len(took)))

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with Proxy(f"127.0.0.1:{runner.addresses[0][1]}") as proxy, aiohttp.ClientSession() as http:
        proxy.repeat(1)
        for words in (b"one", b"two"):
            async with http.post(proxy.url, data=words) as answer:
                assert answer.status == 200
        while len(took) < 3:
            await asyncio.sleep(0.005)
        assert proxy.repeated == 1
    await runner.cleanup()
    assert sorted(took) == [b"one", b"one", b"two"]
