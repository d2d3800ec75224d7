"""Faults that a stand-in shows on order, one a request, before or after it has taken what was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request instead of the right answer. Of `status`, `hang` and `close` one is given."""

    on: str = ""
    """Only for requests of this kind (a method, an event's type); the others pass."""
    status: int = 0
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    """No answer, the connection stays open."""
    close: bool = False
    """The connection breaks."""
    taken: bool = False
    """The request takes effect first: only its answer is lost."""


class Faults:
    """Ordered faults of one stand-in."""

    def __init__(self) -> None:
        self.waiting: list[Fault] = []
        self._ended = asyncio.Event()

    def order(self, fault: Fault, times: int = 1) -> None:
        self.waiting += [fault] * times

    def take(self, kind: str) -> Fault | None:
        """The fault that is next for a request of this kind; it is used up."""
        for at, fault in enumerate(self.waiting):
            if fault.on in {"", kind}:
                return self.waiting.pop(at)
        return None

    async def show(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.hang:
            await self._ended.wait()
        if fault.hang or fault.close:
            if request.transport:
                request.transport.abort()
            return web.Response(status=500)
        if isinstance(fault.body, str):
            return web.Response(status=fault.status, text=fault.body, headers=dict(fault.headers))
        body = json.dumps({} if fault.body is None else fault.body)
        return web.Response(
            status=fault.status, text=body, content_type="application/json", headers=dict(fault.headers)
        )

    def end(self) -> None:
        """Let go of everything that hangs."""
        self._ended.set()
