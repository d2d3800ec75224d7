"""All that a Redis holds under a prefix, as text: values of every type, and what was packed is unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any


async def held(redis: Any, prefix: str) -> dict[str, str]:
    """By key. `DUMP` would not do: the server packs what it dumps, and a word in it is not found any more."""
    found: dict[str, str] = {}
    async for raw in redis.scan_iter(f"{prefix}*"):
        match await redis.type(raw):
            case b"hash":
                value: Any = await redis.hgetall(raw)
            case b"list":
                value = await redis.lrange(raw, 0, -1)
            case b"set":
                value = await redis.smembers(raw)
            case b"zset":
                value = await redis.zrange(raw, 0, -1, withscores=True)
            case b"stream":
                value = await redis.xrange(raw)
            case _:
                value = await redis.get(raw)
        key = raw.decode("utf-8", "replace")
        found[key] = "\n".join([key, *_texts(value)])
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            value = zlib.decompress(value)
        yield value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(name)
            yield from _texts(one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from _texts(one)
    else:
        yield str(value)
