"""Bounds: how many parts a message of a server may have, so that to read it costs the loop little.

Bytes alone say too little. Where the protocol wants a block, each `0` in its place becomes an error of its own for every kind of
block that it might have been: four megabytes of them are half a minute and gigabytes. So they are counted before they are looked at.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse

COMMAS_MAX: Final = 200_000
"""In the bytes of a message, those of its texts too. Without one between them JSON has no two parts."""
BLOCKS_MAX: Final = 1_000
"""Of what is the answer: blocks of a result, tools of a page."""
PARTS_MAX: Final = 20_000
"""Elements and fields of an answer, wherever the protocol says what they have to be."""
ASIDE_MAX: Final = 1_000
"""The same of a message that is no answer."""
FREE: Final = frozenset({"structuredContent", "_meta"})
"""The protocol says nothing of what is in there: it is taken as it is."""


class TooMany(ValueError):
    """`str()` goes on from the message's name."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"holds more than {most:,} {what}")


class Commas:
    """Counts in one message, or one stream of them, as its bytes come. Raises `TooMany`."""

    def __init__(self) -> None:
        self._left = COMMAS_MAX

    def take(self, raw: bytes) -> None:
        self._left -= raw.count(b",")
        if self._left < 0:
            raise TooMany(COMMAS_MAX, "parts")


def check(result: Any) -> None:
    """What answers a call of ours. Raises `TooMany`."""
    if isinstance(result, dict):
        for name, what in (("content", "blocks"), ("tools", "tools")):
            if isinstance(result.get(name), list) and len(result[name]) > BLOCKS_MAX:
                raise TooMany(BLOCKS_MAX, what)
    _count(result, PARTS_MAX)


def _count(value: Any, most: int) -> None:
    left, waiting = most, [value]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, (dict, list)):
            continue
        left -= len(one)
        if left < 0:
            raise TooMany(most, "parts")
        waiting += one if isinstance(one, list) else [part for name, part in one.items() if name not in FREE]


class Gate:
    """What comes from a server, counted: an answer of too many parts becomes an error that says so, and the rest is dropped.

    See `mcp.client._transport.ReadStream`.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception]) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        """In which the SDK wants the message to be handled."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while (passed := _passed(await self._inner.receive())) is None:
            pass
        return passed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while (passed := _passed(await self._inner.__anext__())) is None:
            pass
        return passed

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, where)


def _passed(heard: SessionMessage | Exception) -> SessionMessage | Exception | None:
    if isinstance(heard, Exception):
        return heard
    message = heard.message
    try:
        if isinstance(message, JSONRPCResponse):
            check(message.result)
        elif not isinstance(message, JSONRPCError):
            _count(message.params, ASIDE_MAX)
    except TooMany as why:
        if not isinstance(message, JSONRPCResponse):
            return None
        error = ErrorData(code=INTERNAL_ERROR, message=f"its answer {why}")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error), heard.metadata)
    return heard
