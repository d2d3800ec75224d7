"""A server at its limit: what serves accepted messages goes on, what would take new ones is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway import pace
from gateway.boards import Boards
from gateway.conversation.key import ConversationKey
from gateway.files import Files
from gateway.platforms import Outcome, Pace
from gateway.store import Store, Unreachable

ROOM = ConversationKey("c", "1")
RULES = (Pace("channel", 5, 1),)

SERVES: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "pace take": lambda store: pace.take(store, ROOM, RULES),
    "pace hold": lambda store: pace.hold(store, ROOM, Outcome("rate_limited"), 1.0),
    "board write": lambda store: Boards(store).write(ROOM.id, "b", "text", whole=True),
    "board close": lambda store: Boards(store).close(ROOM.id, "b"),
    "board take": lambda store: Boards(store).take(ROOM.id, "b", 1),
    "board claim": lambda store: Boards(store).claim(ROOM.id, "url", "me"),
    "board free": lambda store: Boards(store).free(ROOM.id, "url"),
    "keep file": lambda store: Files(store).keep(ROOM.id, "f", b"x", accepted=True),
}


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    await store.redis.config_set("maxmemory", "1")
    try:
        yield
    finally:
        await store.redis.config_set("maxmemory", "0")


@pytest.mark.parametrize("name", SERVES)
async def test_what_was_accepted_is_served(store: Store, name: str) -> None:
    async with full(store):
        await SERVES[name](store)


async def test_what_comes_with_a_new_message_is_refused(store: Store) -> None:
    async with full(store):
        with pytest.raises(Unreachable, match="OOM"):
            await Files(store).keep(ROOM.id, "f", b"x")
