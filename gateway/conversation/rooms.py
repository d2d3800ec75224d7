"""Which rooms somebody has written in, as far as Redis remembers. Looks at keys only: for commands, not for turns."""

from __future__ import annotations

import time
from typing import Any, Final

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
