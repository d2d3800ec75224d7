"""Counts: how often something happened, over all processes and since the installation began. For operators."""

from __future__ import annotations

from typing import Any, Final

from gateway.store import Script, Store, reading

BREAK: Final = "break"
"""Requests to the model that do not begin with the bytes of the one before; `break:<reason>` counts each reason."""

_ADD: Final = Script(
    "count",
    "for _, name in ipairs(ARGV) do redis.call('HINCRBY', KEYS[1], name, 1) end return redis.status_reply('OK')",
)


async def add(store: Store, *names: str) -> None:
    """One more of each. Raises `Unreachable`."""
    await store.run(_ADD, _key(store), *names)


async def counted(store: Store) -> dict[str, int]:
    """All of them by name, in the order of names. Raises `Unreachable`."""
    with reading():
        redis: Any = store.redis
        found = await redis.hgetall(_key(store))
    return {name.decode(): int(number) for name, number in sorted(found.items())}


def _key(store: Store) -> str:
    return f"{store.layout.prefix}:{{counts}}"
