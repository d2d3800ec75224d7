"""A TCP proxy for faults of the network: slow, silent, cut, in crumbs, half open, twice.

async with Proxy(redis_url) as proxy:                 # or `host:port`
    store = open_store(proxy.redis_url, ...)
    proxy.slow(to_server_s=5)                         # what is sent arrives late; `to_client_s`: its answer does
    proxy.slow(to_client_s=0.1, jitter_s=0.1)         # by up to so much more, another for each piece
    proxy.slice(3)                                    # in pieces of so many bytes
    proxy.throttle(10_000)                            # so many bytes a second, each way
    proxy.hold()                                      # nothing arrives any more, connections stay open
    proxy.hold("client")                              # answers don't; what is asked does
    proxy.heal()                                      # as before; what was held arrives now
    proxy.cut()                                       # every open connection is reset
    proxy.cut(after_bytes=7)                          # each, once so many bytes of answers have passed
    proxy.refuse()                                    # new ones are reset
    proxy.half_open()                                 # servers of open ones are gone, and nobody tells their clients
    proxy.swallow_ends()                              # who closes is not heard
    proxy.repeat(2)                                   # the next two requests (HTTP) arrive twice
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from tests.harness.framing import Http

Side = Literal["server", "client"]
BOTH: Final[tuple[Side, ...]] = ("server", "client")


class Proxy:
    """One listening port in front of one server."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        self._aim(target)
        self._random = random.Random(seed)
        self._flows = {side: asyncio.Event() for side in BOTH}
        self._open: set[asyncio.StreamWriter] = set()
        self._deaf: set[asyncio.StreamWriter] = set()
        """To clients and servers that hear nothing any more, and are not told."""
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        """How many were made so far."""
        self.held = 0
        """Pieces of either side that are on their way, late."""
        self.repeated = 0
        """Requests that arrived twice."""
        self.heal()

    def _aim(self, target: str) -> None:
        parts = urlsplit(target if "://" in target else f"tcp://{target}")
        self._path = parts.path if parts.scheme == "unix" else ""
        self._host, self._port = parts.hostname or "", parts.port or 0

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()
        self.heal()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def redis_url(self) -> str:
        return f"redis://{self.address}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def slow(self, *, to_server_s: float = 0.0, to_client_s: float = 0.0, jitter_s: float = 0.0) -> None:
        self._delays: dict[Side, float] = {"server": to_server_s, "client": to_client_s}
        self._jitter_s = jitter_s

    def slice(self, size: int) -> None:
        self._slice = size

    def throttle(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s

    def hold(self, *sides: Side) -> None:
        for side in sides or BOTH:
            self._flows[side].clear()

    def refuse(self) -> None:
        self._refuses = True

    def swallow_ends(self) -> None:
        self._swallows_ends = True

    def repeat(self, times: int) -> None:
        self._repeats = times

    def heal(self) -> None:
        """New pieces and connections fare well again. What is half open stays so: nobody is there."""
        self.slow()
        self._slice = 0
        self._bytes_per_s = 0.0
        self._left: int | None = None
        self._refuses = self._swallows_ends = False
        self._repeats = 0
        for flow in self._flows.values():
            flow.set()

    def cut(self, *, after_bytes: int | None = None) -> None:
        if after_bytes is not None:
            self._left = after_bytes
            return
        for writer in self._open:
            _reset(writer)

    def half_open(self) -> None:
        for to_client, to_server in self._pairs:
            self._deaf |= {to_client, to_server}
            _reset(to_server)

    def lead_to(self, target: str) -> None:
        """From now on to another server: what is open is reset."""
        self._aim(target)
        self.cut()

    async def _join(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refuses:
            _reset(to_client)
            return
        try:
            from_server, to_server = await self._reach()
        except OSError:
            to_client.transport.abort()
            return
        pair = (to_client, to_server)
        self._open |= {*pair}
        self._pairs.append(pair)
        pumps = [
            self._start(self._pump(from_client, to_server, "server")),
            self._start(self._pump(from_server, to_client, "client")),
        ]
        await asyncio.wait(pumps)
        self._pairs.remove(pair)
        for writer in pair:
            self._open.discard(writer)
            self._deaf.discard(writer)
            writer.close()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._path:
            return await asyncio.open_unix_connection(self._path)
        return await asyncio.open_connection(self._host, self._port)

    def _start(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, where: Side) -> None:
        requests = Http() if where == "server" else None
        whole = bytearray()
        with contextlib.suppress(OSError):
            while piece := await source.read(65_536):
                self.held += 1
                await asyncio.sleep(self._delays[where] + self._random.uniform(0, self._jitter_s))
                await self._flows[where].wait()
                self.held -= 1
                if sink in self._deaf:
                    continue
                if where == "client" and self._left is not None:
                    piece, self._left = piece[: self._left], max(0, self._left - len(piece))
                    await self._write(sink, piece)
                    if not self._left:
                        self.cut()
                    continue
                if requests and self._repeats:
                    await self._twice(requests, piece, whole)
                await self._write(sink, piece)
            if self._swallows_ends or sink in self._deaf:
                await asyncio.Event().wait()  # until the proxy ends
            if sink.can_write_eof():
                sink.write_eof()

    async def _write(self, sink: asyncio.StreamWriter, piece: bytes) -> None:
        size = self._slice or len(piece) or 1
        for at in range(0, len(piece), size):
            crumb = piece[at : at + size]
            sink.write(crumb)
            await sink.drain()
            if self._bytes_per_s:
                await asyncio.sleep(len(crumb) / self._bytes_per_s)
            elif self._slice:
                await asyncio.sleep(0.001)  # else the kernel makes one piece of them

    async def _twice(self, requests: Http, piece: bytes, whole: bytearray) -> None:
        """A request that is whole goes to the server by a connection of its own as well; nobody hears that answer."""
        for part in requests.feed(piece):
            if part.head:
                whole.clear()
            whole += part.raw
            if part.is_end and self._repeats:
                self._repeats -= 1
                self.repeated += 1
                _, again = await self._reach()
                self._open.add(again)
                again.write(bytes(whole))
                await again.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """RST, not a polite end."""
    connected: socket.socket = writer.get_extra_info("socket")
    if connected.family != socket.AF_UNIX and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
