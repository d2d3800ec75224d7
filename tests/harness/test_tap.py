"""The tap: what a process says and hears is seen message by message, passed on as it was, and ends where it is told to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Disconnected

from gateway.store import Layout
from tests.harness.framing import Http, Resp, words_of
from tests.harness.processes import until
from tests.harness.tap import Message, Names, Place, Tap


class Watch:
    """Writes down what passes; ends, or holds, one place of one message."""

    def __init__(self, name: str = "", place: Place = "before", hold: asyncio.Event | None = None) -> None:
        self.seen: list[tuple[str, str, Place]] = []
        self.reached = asyncio.Event()
        self._where = (name, place)
        self._hold = hold

    async def __call__(self, message: Message, place: Place) -> bool:
        self.seen.append((message.link, message.name, place))
        if (message.name, place) != self._where:
            return True
        self.reached.set()
        if self._hold:
            await self._hold.wait()
        return bool(self._hold)


@asynccontextmanager
async def tapped(watch: Watch, redis_url: str, prefix: str = "", **links: str) -> AsyncIterator[tuple[Tap, Redis]]:
    once = Retry(NoBackoff(), 0)
    async with (
        Tap("worker-1", watch, redis_url, links, Names({}, (prefix,))) as tap,
        Redis.from_url(tap.redis_url, retry=once) as redis,
    ):
        yield tap, redis


async def test_each_command_of_a_pipeline_is_a_message_with_its_own_answer(redis_url: str, layout: Layout) -> None:
    watch = Watch()
    async with tapped(watch, redis_url) as (_, redis), redis.pipeline(transaction=False) as pipeline:
        pipeline.set(f"{layout.prefix}:a", b"\r\n*1\r\n")
        pipeline.get(f"{layout.prefix}:a")
        assert await pipeline.execute() == [True, b"\r\n*1\r\n"]
    names = [name for _, name, place in watch.seen if place == "after" and name[:3] in {"SET", "GET"}]
    assert [name.split()[0] for name in names] == ["SET", "GET"]


@pytest.mark.parametrize(("place", "done"), [("before", False), ("after", True)])
async def test_a_command_ends_before_it_arrives_or_after_it_was_done(
    redis_url: str, layout: Layout, place: Place, *, done: bool
) -> None:
    key = f"{layout.prefix}:a"
    async with tapped(Watch("SET a", place), redis_url, f"{layout.prefix}:") as (_, redis):
        with pytest.raises((Disconnected, OSError)):
            await redis.set(key, "1")
    async with Redis.from_url(redis_url) as direct:
        assert bool(await direct.exists(key)) is done


async def test_a_held_command_arrives_later_and_those_behind_it_wait(redis_url: str, layout: Layout) -> None:
    key, hold = f"{layout.prefix}:a", asyncio.Event()
    watch = Watch("SET a", "before", hold)
    async with tapped(watch, redis_url, f"{layout.prefix}:") as (_, redis), Redis.from_url(redis_url) as direct:
        writing: asyncio.Future[Any] = asyncio.ensure_future(redis.set(key, "1"))
        await watch.reached.wait()
        assert not await direct.exists(key)
        hold.set()
        await writing
        assert await direct.get(key) == b"1"


def script(text: str) -> str:
    """As it is called."""
    return f"script {hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]}"


async def test_what_was_sent_together_with_a_script_that_ends_the_line_is_heard_of(redis_url: str) -> None:
    watch = Watch(script("return 1"), "after")
    async with tapped(watch, redis_url) as (_, redis):
        async with redis.pipeline(transaction=False) as pipeline:
            pipeline.eval("return 1", 0)
            pipeline.eval("return 2", 0)
            with pytest.raises((Disconnected, OSError)):
                await pipeline.execute()
        await until(lambda: ("redis", script("return 2"), "after") in watch.seen)


async def test_what_a_script_did_is_heard_of_although_whoever_sent_it_is_gone(redis_url: str) -> None:
    """Else a write is in Redis, and in no ledger."""
    hold = asyncio.Event()
    name = script("return 1")
    watch = Watch(name, "before", hold)
    async with tapped(watch, redis_url) as (tap, _):
        _, writer = await asyncio.open_connection("127.0.0.1", int(tap.redis_url.rpartition(":")[2]))
        writer.write(b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n")
        await watch.reached.wait()
        writer.transport.abort()
        hold.set()
        await until(lambda: ("redis", name, "after") in watch.seen)


async def test_what_a_channel_is_told_is_no_answer_to_a_command(redis_url: str, layout: Layout) -> None:
    watch = Watch()
    async with tapped(watch, redis_url) as (_, redis), redis.pubsub(ignore_subscribe_messages=True) as listening:
        await listening.subscribe(f"{layout.prefix}:news")
        await listening.get_message(timeout=1)
        await redis.publish(f"{layout.prefix}:news", "one")
        while not (heard := await listening.get_message(timeout=1)):
            pass
        assert heard["data"] == b"one"


@asynccontextmanager
async def site(took: list[bytes]) -> AsyncIterator[str]:
    async def take(request: web.Request) -> web.StreamResponse:
        took.append(await request.read())
        answer = web.StreamResponse()
        await answer.prepare(request)
        for word in (b"one ", b"two ", b"three ", b"four"):
            await answer.write(word)
        await answer.write_eof()
        return answer

    app = web.Application()
    app.router.add_post("/ask", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("place", "arrives", "heard"), [("before", False, b""), ("after", True, b""), ("during", True, b"one ")]
)
async def test_a_request_ends_before_it_arrives_after_it_or_within_its_answer(
    redis_url: str, place: Place, heard: bytes, *, arrives: bool
) -> None:
    took: list[bytes] = []
    got = bytearray()

    async def ask(http: aiohttp.ClientSession, url: str) -> None:
        async with http.post(f"{url}/ask", data=b"what?") as answer:
            async for piece, _ in answer.content.iter_chunks():
                got.extend(piece)

    watch = Watch("POST /ask", place)
    async with site(took) as url, tapped(watch, redis_url, model=url) as (tap, _), aiohttp.ClientSession() as http:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await ask(http, tap.urls["model"])
    assert bool(took) is arrives
    assert bytes(got).startswith(heard)
    assert b"four" not in got


async def test_a_whole_exchange_passes_as_it_was_on_one_connection(redis_url: str) -> None:
    took: list[bytes] = []
    watch = Watch()
    async with site(took) as url, tapped(watch, redis_url, model=url) as (tap, _), aiohttp.ClientSession() as http:
        for words in (b"first", b"x" * 200_000):
            async with http.post(f"{tap.urls['model']}/ask", data=words) as answer:
                assert await answer.read() == b"one two three four"
    assert took == [b"first", b"x" * 200_000]
    assert [place for link, _, place in watch.seen if link == "model"] == ["before", "after", "during"] * 2


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_frames_are_found_however_they_are_cut(size: int) -> None:
    wire = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n+OK\r\n$-1\r\n*-1\r\n%1\r\n+a\r\n*2\r\n:1\r\n_\r\n>2\r\n+x\r\n+y\r\n"
    frames = [b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", b"+OK\r\n", b"$-1\r\n", b"*-1\r\n",
              b"%1\r\n+a\r\n*2\r\n:1\r\n_\r\n", b">2\r\n+x\r\n+y\r\n"]  # fmt: skip
    reader = Resp()
    found = [frame for at in range(0, len(wire), size) for frame in reader.feed(wire[at : at + size])]
    assert found == frames
    assert words_of(frames[0]) == [b"GET", b"a\r\nb"]


@pytest.mark.parametrize("size", [1, 3, 50, 1_000])
def test_messages_of_http_are_found_however_they_are_cut(size: int) -> None:
    messages = [
        b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"GET /b HTTP/1.1\r\n\r\n",
    ]
    wire, reader, found, part = b"".join(messages), Http(), [], b""
    for at in range(0, len(wire), size):
        for piece in reader.feed(wire[at : at + size]):
            part += piece.raw
            if piece.is_end:
                found.append(part)
                part = b""
    assert found == messages
