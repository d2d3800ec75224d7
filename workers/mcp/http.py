"""The way to a server that is elsewhere: streamable HTTP, by the SDK, within limits of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from config.settings import McpServerSettings
from workers.mcp.bounds import Commas, Gate, TooMany

BEFORE_SENDING: ContextVar[Callable[[], None] | None] = ContextVar("before_sending", default=None)
"""Asked when a connection is there, right before a request is written to it: what raises then is not sent. Connecting takes
time, in which a conversation may become somebody else's. The SDK sends in the context of whoever asked.
"""
CONNECT_S: Final = 5.0
MORE_S: Final = 5.0


@asynccontextmanager
async def http(server: McpServerSettings) -> AsyncIterator[TransportStreams]:
    """Nothing is sent before the first message. Of the environment, such as its proxies, nothing is used."""
    # Who asked gives up before, and tells the server: what then goes on is ended here.
    timeout = httpx2.Timeout(server.timeout_s + MORE_S, connect=min(CONNECT_S, server.start_timeout_s))
    way = _Bounded(httpx2.AsyncHTTPTransport(trust_env=False), server.message_max_bytes)
    async with (
        httpx2.AsyncClient(headers=server.headers, timeout=timeout, transport=way, trust_env=False) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=server.message_max_bytes
        ) as streams,
    ):
        heard, said = streams
        yield Gate(heard), said


class _Bounded(httpx2.AsyncBaseTransport):
    """Answers have a limit, and nobody listens for what a server says unasked."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":  # the stream of what is not about a request: we take none of it
            return httpx2.Response(HTTPStatus.METHOD_NOT_ALLOWED, request=request)
        late = _Late(BEFORE_SENDING.get())
        request.extensions = {**request.extensions, "trace": late.look}
        try:
            answer = await self._inner.handle_async_request(request)
        except Exception:
            if late.why is None:
                raise
            # a status, and not what was raised: that would end the session for everybody who uses it
            return httpx2.Response(HTTPStatus.GONE, request=request)
        if isinstance(answer.stream, httpx2.AsyncByteStream):
            answer.stream = _Cut(answer.stream, self._max_bytes)
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Late:
    """Looks once more whether a request may be sent, when nothing but the sending is left to do."""

    def __init__(self, may: Callable[[], None] | None) -> None:
        self._may = may
        self.why: Exception | None = None

    async def look(self, event: str, _: Mapping[str, object]) -> None:
        """Called at each step of a request (httpcore's `trace`)."""
        if self._may and event.endswith("send_request_headers.started"):
            try:
                self._may()
            except Exception as why:
                self.why = why
                raise


class _Cut(httpx2.AsyncByteStream):
    """A body that breaks off where it gets too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._left = max_bytes
        self._commas = Commas()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._left -= len(part)
            if self._left < 0:
                raise httpx2.ReadError("the answer is too long")
            try:
                self._commas.take(part)
            except TooMany as why:
                raise httpx2.ReadError(f"the answer {why}") from None
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
