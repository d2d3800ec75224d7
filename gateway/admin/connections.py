"""Connections: which accounts on platforms there are, and how messages come from them."""

from __future__ import annotations

import asyncio
from typing import Literal

from gateway.admin.operations import EVERYTHING, Nothing, Result, operation
from gateway.admin.visits import Visit
from gateway.connections import PAGE, that_listen
from gateway.running.address import own_address


class ConnectionRow(Result):
    name: str
    platform: str
    how: Literal["page", "webhook", "listening"]
    """How its messages come: the built-in page, the platform sends them, or over a connection that we hold."""
    webhook: str
    """The address that the platform sends to, of this machine alone where nothing else is known; empty for the others."""
    is_heard: bool
    """listening: whether somebody holds the connection now."""
    trouble: str
    """listening: what keeps it from hearing."""


class Connections(Result):
    connections: list[ConnectionRow]


@operation(EVERYTHING)
async def list_(visit: Visit, given: Nothing) -> Connections:
    """The accounts on platforms, and whether those are heard whose connection we hold."""
    from gateway.listening import how_it_stands  # noqa: PLC0415  # it has the app, and the app these pages

    del given
    settings = visit.loaded.settings
    root = settings.gateway.public_url or own_address(settings) or ""
    listening = that_listen(visit.loaded)
    stands = await asyncio.gather(*(how_it_stands(visit.house.store, one) for one in listening))
    heard = dict(zip(listening, stands, strict=True))
    rows = [
        ConnectionRow(
            name=name,
            platform=one.platform,
            how="listening" if name in heard else "webhook",
            webhook="" if name in heard else f"{root}/webhooks/{name}",
            is_heard=heard.get(name, (False, ""))[0],
            trouble=heard.get(name, (False, ""))[1],
        )
        for name, one in sorted(settings.connections.items())
    ]
    if settings.chat.enabled:
        name, platform = PAGE
        rows.append(ConnectionRow(name=name, platform=platform, how="page", webhook="", is_heard=False, trouble=""))
    return Connections(connections=rows)
