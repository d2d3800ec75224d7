"""A small web for fetchers: servers on loopback addresses, names that lead to them, and a count of who connected.

In this world 127.0.0.1 plays the public internet and every other address is private, so that a test can follow a real
socket: `public` is handed to the fetcher in place of its own rule.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Address, IPv6Address

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

Page = web.Response | Callable[[web.Request], Awaitable[web.StreamResponse]]


def public(address: IPv4Address | IPv6Address) -> bool:
    return address == IPv4Address("127.0.0.1")


class Names(AbstractResolver):
    """Names and the addresses they lead to: one list for each question, the last one from then on."""

    def __init__(self, names: Mapping[str, list[list[str]]]) -> None:
        self._answers = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._answers.get(host, [])
        if not answers:
            raise OSError(f"no such name: {host}")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
            for address in found
        ]

    async def close(self) -> None:
        """Holds nothing."""


@asynccontextmanager
async def site(pages: Mapping[str, Page], host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A web server with these pages by path; gives its port. Anything else is 404."""

    async def answer(request: web.Request) -> web.StreamResponse:
        page = pages.get(request.path_qs) or pages.get(request.path)
        if page is None:
            return web.Response(status=404)
        if isinstance(page, web.Response):  # a response is good for one request only
            return web.Response(status=page.status, body=page.body, headers=page.headers.copy())
        return await page(request)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextmanager
def canary(host: str = "127.0.0.1", port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> Iterator[Canary]:
    """Something private that nobody may connect to."""
    with socket.socket(family) as listening:
        listening.bind((host, port))
        listening.listen(64)
        listening.setblocking(False)
        yield Canary(listening)


class Canary:
    """Counts who came: a connection is made by the kernel, so nobody has to accept it in time."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.port: int = listening.getsockname()[1]

    def visits(self) -> int:
        """How many connected since the last look."""
        count = 0
        while True:
            try:
                connection, _ = self._listening.accept()
            except BlockingIOError:
                return count
            connection.close()
            count += 1
