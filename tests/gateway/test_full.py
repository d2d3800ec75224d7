"""A server at its limit: what serves accepted messages goes on, what would take new ones is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway import pace
from gateway.boards import Boards
from gateway.conversation.key import ConversationKey
from gateway.files import Files
from gateway.once import Once
from gateway.platforms import Outcome, Pace
from gateway.shelf.decisions import scope_of
from gateway.shelf.shelf import Shelf
from gateway.store import Store, Unreachable
from skills.bundles import Cache

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
    "told": lambda store: Once(store.layout.rates_root, "it:told", 60_000).told(store),
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


async def test_switches_are_read_also_where_they_can_not_be_put_on_their_list(store: Store, tmp_path: Path) -> None:
    shelf = Shelf(store, Cache(tmp_path), present=None)
    place = f"{store.layout.skills_root}:{scope_of(ROOM.channel_id)}"
    await store.redis.hset(place, mapping={"rev": "1", "tool:web_fetch": '{"to": "off"}'})
    async with full(store):
        assert (await shelf.look(ROOM.channel_id)).own.is_tool_off("web_fetch")


async def test_what_comes_with_a_new_message_is_refused(store: Store) -> None:
    async with full(store):
        with pytest.raises(Unreachable, match="OOM"):
            await Files(store).keep(ROOM.id, "f", b"x")
