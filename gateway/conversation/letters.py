"""Dead letters: turns that were given up, and parts of replies that did not arrive. A letter names conversation and turn only: what
was said stays in the conversation's own history, as long as that is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.conversation.key import ConversationKey, of_stored
from gateway.conversation.records import Record, turns_of
from gateway.store import Store, reading

PAGE: Final = 500
PAGES_MAX: Final = 40
"""So far back is looked for what a turn did."""
ID: Final = re.compile(r"([0-9]{1,4})-([0-9]{1,16}-[0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class Letter:
    """A turn that was given up, or of whose reply a part was."""

    id: str
    """Its partition, and its number there: `0-1796030400000-0`."""
    conversation: str
    turn: str
    reason: str
    at_ms: int
    key: ConversationKey | None = None
    """None: the conversation is forgotten."""

    @property
    def number(self) -> str:
        """In its partition."""
        return self.id.partition("-")[2]


async def letters(store: Store, most: int) -> list[Letter]:
    """The latest first. Raises `Unreachable`."""
    redis: Any = store.redis
    found: list[Letter] = []
    with reading():
        for partition in range(store.layout.partitions):
            read = await redis.xrevrange(f"{store.layout.root(partition)}:dead", count=most)
            found += [_letter(partition, at, entry) for at, entry in read]
    found = sorted(found, key=lambda one: -one.at_ms)[:most]
    return await _with_keys(store, found)


async def letter(store: Store, id_: str) -> Letter | None:
    """The one of this id. Raises `Unreachable`."""
    if (place := _place(store, id_)) is None:
        return None
    partition, number = place
    redis: Any = store.redis
    with reading():
        read = await redis.xrange(f"{store.layout.root(partition)}:dead", number, number)
    return (await _with_keys(store, [_letter(partition, *read[0])]))[0] if read else None


async def done_away(store: Store, id_: str, act: str) -> Letter | None:
    """The one of this id as it was, where this very act (of `Mailbox.retry` or `drop`) was done to it, within a day.

    Raises `Unreachable`.
    """
    if (place := _place(store, id_)) is None:
        return None
    partition, number = place
    redis: Any = store.redis
    with reading():
        kept = await redis.hgetall(f"{store.layout.root(partition)}:done:{act}")
    return _letter(partition, number.encode(), kept) if kept.get(b"letter") == number.encode() else None


async def done_in(store: Store, one: Letter) -> list[Record]:
    """The records of its turn, as far as they are kept. Raises `Unreachable`."""
    redis: Any = store.redis
    name = store.layout.key(one.conversation, "history")
    found: list[Record] = []
    with reading():
        end = await redis.llen(name)
        for _ in range(PAGES_MAX):
            first = max(0, end - PAGE)
            records = Record.load_all(await redis.lrange(name, first, end - 1) if end else [])
            mine = [record for turn, record in zip(turns_of(records), records, strict=True) if turn == one.turn]
            found[:0] = mine
            end = first
            if not end or (found and not mine):
                break
    return found


def _place(store: Store, id_: str) -> tuple[int, str] | None:
    """Its partition, and its number there."""
    named = ID.fullmatch(id_)
    return (int(named[1]), named[2]) if named and int(named[1]) < store.layout.partitions else None


def _letter(partition: int, number: bytes, entry: dict[bytes, bytes]) -> Letter:
    conversation, turn, reason = (
        entry.get(name, b"").decode("utf-8", "replace") for name in (b"conversation", b"turn", b"reason")
    )
    at = number.decode()
    return Letter(f"{partition}-{at}", conversation, turn, reason, int(at.partition("-")[0]))


async def _with_keys(store: Store, found: Sequence[Letter]) -> list[Letter]:
    redis: Any = store.redis
    with reading():
        async with redis.pipeline(transaction=False) as pipeline:
            for one in found:
                pipeline.hget(store.layout.key(one.conversation), "parts")
            stored = await pipeline.execute()
    return [replace(one, key=of_stored(parts)) for one, parts in zip(found, stored, strict=True)]
