"""The HTTP server beneath the app, where aiohttp's own leaves something open.

What is not even HTTP gets a short JSON answer and one line in the log, like every other refusal, and a stop resets
nobody: who is being answered is answered, who comes meanwhile over an open connection gets 503.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.app import CLOSE_S, Gateway, refusal
from gateway.logs import log

logger = logging.getLogger(__name__)

BACKLOG: Final = 1_024
KEEP_ALIVE_S: Final = 75
"""Longer than the usual proxy keeps an idle connection: it is the proxy that closes, and so no request is lost."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is read, so that the sender sees the answer instead of a reset."""
LEAVE_S: Final = 0.5
"""How long open connections stay after a stop, for requests that are on their way."""


class Runner(web.AppRunner):
    """Serves a gateway."""

    def __init__(self, gateway: Gateway, shutdown_s: float) -> None:
        self._gateway = gateway
        self._listening: list[socket.socket] = []
        self._leave_s = min(LEAVE_S, shutdown_s / 4)
        super().__init__(
            gateway.app,
            access_log=None,
            handle_signals=False,
            # aiohttp waits twice so long: for handlers to end, and for those that it then cancels
            shutdown_timeout=max(0.0, shutdown_s - self._leave_s - CLOSE_S) / 2,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
            auto_decompress=False,  # aiohttp would unpack 200 MiB in one go while everybody waits
        )

    async def listen(self, host: str, port: int, *, shared: bool = False) -> str:
        """Serve on all addresses of a host; returns the address. `shared`: others may listen on the port too. Raises `OSError`."""
        await self.setup()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            listening = socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=shared)
            self._listening.append(listening)
            await web.SockSite(self, listening, backlog=BACKLOG).start()
        return min(site.name for site in self.sites)

    async def stop(self) -> None:
        """Leave the port to others at once, end what is open, clean up."""
        loop = asyncio.get_running_loop()
        connected = [one for listening in self._listening for one in _accepted(listening)]
        for site in list(self.sites):
            await site.stop()  # without a tick of the loop since then: whoever was connected is accepted, not reset
        if self.server:
            for one in connected:
                await loop.connect_accepted_socket(self.server, one)
        self._gateway.leave()
        deadline = loop.time() + self._leave_s
        while self.server and self.server.connections and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # connections end without telling anybody
        await self.cleanup()

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()

        def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
            return self._gateway.at_once(request) or made.request_handler(request)

        return _Server(handle, request_factory=made.request_factory, **made._kwargs)  # noqa: SLF001  # there is no other way in


def _accepted(listening: socket.socket) -> list[socket.socket]:
    """Connections that the kernel has made and nobody has taken."""
    accepted: list[socket.socket] = []
    with suppress(OSError):  # none is left, or it was closed
        while True:
            accepted.append(listening.accept()[0])
    for one in accepted:
        one.setblocking(False)
    return accepted


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What could not be read as HTTP. aiohttp would repeat it to the sender, and log it with a traceback."""
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer has left already") from exc
        level = logging.ERROR if status >= 500 else logging.INFO
        log(logger, "no HTTP", level=level, status=status, peer=request.remote, reason=(message or repr(exc))[:200])
        answer = refusal(status, "bad request" if status < 500 else "internal error")
        answer.force_close()
        return answer
