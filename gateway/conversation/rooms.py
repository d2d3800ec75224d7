"""Which rooms somebody has written in, as far as Redis remembers. Looks at keys only: for commands, not for turns."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.key import ConversationKey
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
    until_s = time.monotonic() + look_for_s
    found: dict[str, ConversationKey] = {}
    cursor = 0
    with reading():
        while True:
            redis: Any = store.redis
            cursor, keys = await redis.scan(cursor, match=f"{store.layout.prefix}:{{*}}:c:{_ID}", count=1_000)
            async with store.redis.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hget(key, "parts")
                for parts in await pipeline.execute():
                    if key_ := _room(parts):
                        found[key_.channel_id] = key_
            is_whole = not cursor
            if is_whole or len(found) >= most or time.monotonic() > until_s:
                return Rooms(tuple(found.values())[:most], is_whole and len(found) <= most)


def _room(parts: bytes | None) -> ConversationKey | None:
    """The room of a conversation; None: it is one person's own, which has no name."""
    with suppress(ValueError, TypeError):
        connection, channel, *_ = json.loads(parts or "")
        return ConversationKey(connection, channel) if channel else None
    return None
