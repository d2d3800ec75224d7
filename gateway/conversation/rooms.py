"""Which rooms somebody has written in, as far as Redis remembers. Looks at keys only: for commands, not for turns."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.key import ConversationKey, of_stored
from gateway.store import Store, reading

LOOK_FOR_S: Final = 1.0
_ID: Final = "?" * 26


async def was_written_in(store: Store, channel_id: str, *, look_for_s: float = LOOK_FOR_S) -> bool | None:
    """Whether a conversation of this room is there; None where there are too many to tell. Raises `Unreachable`."""
    until_s = time.monotonic() + look_for_s
    cursor = 0
    with reading():
        while True:
            redis: Any = store.redis
            cursor, keys = await redis.scan(cursor, match=f"{store.layout.prefix}:{{*}}:c:{_ID}", count=1_000)
            async with store.redis.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hget(key, "channel")
                if channel_id.encode() in await pipeline.execute():
                    return True
            if not cursor:
                return False
            if time.monotonic() > until_s:
                return None


@dataclass(frozen=True, slots=True)
class Rooms:
    """Rooms, without threads and people."""

    keys: tuple[ConversationKey, ...]
    is_whole: bool
    """Whether these are all."""


async def rooms(store: Store, most: int, *, look_for_s: float = LOOK_FOR_S) -> Rooms:
    """Those that have a conversation, as far as can be told in that time. Raises `Unreachable`."""
    found: dict[str, ConversationKey] = {}
    is_whole = False
    async for keys, is_whole in _all(store, look_for_s):  # noqa: B007  # the last one counts
        named = [ConversationKey(one.connection, one.channel) for one in keys if one.channel]
        found |= {one.channel_id: one for one in named}
        if len(found) >= most:
            break
    return Rooms(tuple(found.values())[:most], is_whole and len(found) <= most)


async def conversations(
    store: Store, room: ConversationKey, most: int, *, look_for_s: float = LOOK_FOR_S
) -> tuple[list[ConversationKey], bool]:
    """Those of one room, as far as can be told in that time, and whether these are all. Raises `Unreachable`."""
    found: list[ConversationKey] = []
    is_whole = False
    async for keys, is_whole in _all(store, look_for_s):  # noqa: B007  # the last one counts
        found += [one for one in keys if one.channel_id == room.channel_id]
        if len(found) >= most:
            break
    return found[:most], is_whole and len(found) <= most


async def _all(store: Store, look_for_s: float) -> AsyncIterator[tuple[list[ConversationKey], bool]]:
    """Conversations, some at a time, and whether these were the last ones."""
    until_s = time.monotonic() + look_for_s
    cursor = 0
    while True:
        with reading():
            redis: Any = store.redis
            cursor, keys = await redis.scan(cursor, match=f"{store.layout.prefix}:{{*}}:c:{_ID}", count=1_000)
            async with store.redis.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hget(key, "parts")
                stored = await pipeline.execute()
        yield [one for parts in stored if (one := of_stored(parts))], not cursor
        if not cursor or time.monotonic() > until_s:
            return
