"""A TCP proxy for faults of the network: slow, silent, cut.

async with Proxy(redis_url) as proxy:                 # or `host:port`
    store = open_store(proxy.redis_url, ...)
    proxy.slow(to_server_s=5)                         # what is sent arrives late; `to_client_s`: its answer does
    proxy.hold()                                      # nothing arrives any more, connections stay open
    proxy.heal()                                      # as before; what was held arrives now
    proxy.cut()                                       # every open connection is reset
    proxy.cut(after_bytes=7)                          # each, once so many bytes of answers have passed
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """One listening port in front of one server."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target if "://" in target else f"tcp://{target}")
        self._path = parts.path if parts.scheme == "unix" else ""
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._delays = {"server": 0.0, "client": 0.0}
        self._flows = asyncio.Event()
        self._flows.set()
        self._left: int | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        """How many were made so far."""
        self.held = 0
        """Pieces of either side that are on their way, late."""

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()
        self._flows.set()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def redis_url(self) -> str:
        return f"redis://{self.address}"

    def slow(self, *, to_server_s: float = 0.0, to_client_s: float = 0.0) -> None:
        self._delays = {"server": to_server_s, "client": to_client_s}

    def hold(self) -> None:
        self._flows.clear()

    def heal(self) -> None:
        self._delays = {"server": 0.0, "client": 0.0}
        self._left = None
        self._flows.set()

    def cut(self, *, after_bytes: int | None = None) -> None:
        if after_bytes is not None:
            self._left = after_bytes
            return
        for writer in self._open:
            writer.transport.abort()

    async def _join(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            from_server, to_server = await (
                asyncio.open_unix_connection(self._path)
                if self._path
                else asyncio.open_connection(self._host, self._port)
            )
        except OSError:
            to_client.transport.abort()
            return
        self._open |= {to_client, to_server}
        pumps = [
            asyncio.create_task(self._pump(from_client, to_server, "server")),
            asyncio.create_task(self._pump(from_server, to_client, "client")),
        ]
        self._pumps.update(pumps)
        await asyncio.wait(pumps)
        self._pumps.difference_update(pumps)
        for writer in (to_client, to_server):
            self._open.discard(writer)
            writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, where: str) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(65_536):
                self.held += 1
                await asyncio.sleep(self._delays[where])
                await self._flows.wait()
                self.held -= 1
                if where == "client" and self._left is not None:
                    piece, self._left = piece[: self._left], max(0, self._left - len(piece))
                    sink.write(piece)
                    await sink.drain()
                    if not self._left:
                        self.cut()
                    continue
                sink.write(piece)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()
