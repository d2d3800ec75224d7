"""Dead letters: turns that were given up, and parts of replies that did not arrive. A letter names conversation and turn only: what
was said stays in the conversation's own history, as long as that is kept.

An entry is written for each thing that goes wrong: a turn is given up, its notice does not arrive, nor does the third part of its reply.
People get one letter of a turn, with all of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from gateway.conversation.key import ConversationKey, of_stored
from gateway.conversation.records import Record, turns_of
from gateway.store import Store, reading, script_of

PAGE: Final = 500
PAGE_BYTES: Final = 4_194_304
"""Of history, which may hold long results."""
PAGES_MAX: Final = 40
"""So far back is looked for what a turn did."""
REFERENCE: Final = 8
"""Characters of a turn's id that a notice gives to the person."""
ID: Final = re.compile(r"([0-9]{1,4})-([0-9]{1,16}-[0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class Letter:
    """A turn that was given up, or of whose reply a part was."""

    id: str
    """Its partition, and the number of its first entry there: `0-1796030400000-0`. That of each other entry finds it as well."""
    conversation: str
    turn: str
    reason: str
    """Of its first entry."""
    at_ms: int
    """Of its last entry."""
    more: tuple[str, ...] = ()
    """Reasons of the entries after the first, in their order."""
    key: ConversationKey | None = None
    """None: the conversation is forgotten."""

    @property
    def number(self) -> str:
        """In its partition."""
        return number_of(self.id)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that went wrong, in its order."""
        return (self.reason, *self.more)


def number_of(id_: str) -> str:
    """Of an entry, in its partition."""
    return id_.partition("-")[2]


async def letters(store: Store, most: int) -> list[Letter]:
    """The latest first. Raises `Unreachable`."""
    found = [one for partition in range(store.layout.partitions) for one in await _latest_in(store, partition, most)]
    return await _with_keys(store, sorted(found, key=lambda one: -one.at_ms)[:most])


async def letter(store: Store, id_: str) -> Letter | None:
    """The one with this entry. Raises `Unreachable`."""
    if (place := _place(store, id_)) is None:
        return None
    partition, number = place
    redis: Any = store.redis
    with reading():
        read = await redis.xrange(f"{store.layout.root(partition)}:dead", number, number)
    wanted = {_turn_of(_in_text(entry)) for _, entry in read}
    found = (
        [one for one in await _latest_in(store, partition) if (one.conversation, one.turn) in wanted] if read else []
    )
    return (await _with_keys(store, found))[0] if found else None


async def letter_named(store: Store, word: str) -> Letter | None:
    """The one with this entry, or the latest of a turn with this reference, as people read it in a notice. Raises `Unreachable`."""
    if len(word) >= REFERENCE and not ID.fullmatch(word):
        everywhere = [one for partition in range(store.layout.partitions) for one in await _latest_in(store, partition)]
        found = [one for one in everywhere if one.turn.startswith(word)]
        word = max(found, key=lambda one: one.at_ms).id if found else ""
    return await letter(store, word)


async def done_away(store: Store, id_: str, act: str) -> Letter | None:
    """The one with this entry as it was, where this very act (of `Mailbox.retry` or `drop`) was done to it, within a day.

    Raises `Unreachable`.
    """
    if (place := _place(store, id_)) is None:
        return None
    partition, number = place
    redis: Any = store.redis
    with reading():
        kept = await redis.hgetall(f"{store.layout.root(partition)}:done:{act}")
    if kept.get(b"letter") != number.encode():
        return None
    entries = [(at, dict(zip(told[::2], told[1::2], strict=True))) for at, told in json.loads(kept[b"all"])]
    return _together(partition, entries)[0]


async def done_in(store: Store, one: Letter) -> list[Record]:
    """The records of its turn, as far as they are kept. Raises `Unreachable`."""
    redis: Any = store.redis
    root, script = store.layout.root_of(one.conversation), script_of("gateway.conversation", "page")
    found: list[Record] = []
    unknown: list[Record] = []
    """The first of what was read: what they belong to stands before them."""
    with reading():
        end = await redis.llen(store.layout.key(one.conversation, "history"))
        for _ in range(PAGES_MAX):
            read = await store.run(script, root, "{}", one.conversation, end, PAGE, PAGE_BYTES) if end else []
            records = Record.load_all(read[::-1]) + unknown
            turns = turns_of(records)
            mine = [record for turn, record in zip(turns, records, strict=True) if turn == one.turn]
            unknown = records[: next((at for at, turn in enumerate(turns) if turn), len(turns))]
            found[:0] = mine
            end -= len(read)
            if not end or not read or (found and not mine and not unknown):
                break
    return found


def _place(store: Store, id_: str) -> tuple[int, str] | None:
    """Its partition, and its number there."""
    named = ID.fullmatch(id_)
    return (int(named[1]), named[2]) if named and int(named[1]) < store.layout.partitions else None


async def _latest_in(store: Store, partition: int, most: int = sys.maxsize) -> list[Letter]:
    """The latest of a partition, and perhaps some more that are not whole. Entries of a turn lie close together: what is before
    a whole page without any of these turns is not looked at.
    """
    redis: Any = store.redis
    entries: list[tuple[str, dict[str, str]]] = []
    turns: dict[tuple[str, str], None] = {}
    before = "+"
    with reading():
        while read := await redis.xrevrange(f"{store.layout.root(partition)}:dead", before, count=PAGE):
            found = [(at.decode(), _in_text(entry)) for at, entry in read]
            here = {_turn_of(entry): None for _, entry in found}
            if len(turns) >= most and here.keys().isdisjoint(islice(turns, most)):
                break
            entries, turns, before = entries + found, turns | here, f"({found[-1][0]}"
    return _together(partition, reversed(entries))


def _together(partition: int, entries: Iterable[tuple[str, Mapping[str, str]]]) -> list[Letter]:
    """One letter a turn, the latest first, of `entries` in their order."""
    found: dict[tuple[str, str], Letter] = {}
    for number, entry in entries:
        turn, reason, at_ms = _turn_of(entry), entry.get("reason", ""), int(number.partition("-")[0])
        if first := found.pop(turn, None):
            found[turn] = replace(first, more=(*first.more, reason), at_ms=at_ms)
        else:
            found[turn] = Letter(f"{partition}-{number}", *turn, reason, at_ms)
    return list(reversed(found.values()))


def _turn_of(entry: Mapping[str, str]) -> tuple[str, str]:
    return entry.get("conversation", ""), entry.get("turn", "")


def _in_text(entry: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in entry.items()}


async def _with_keys(store: Store, found: Sequence[Letter]) -> list[Letter]:
    redis: Any = store.redis
    with reading():
        async with redis.pipeline(transaction=False) as pipeline:
            for one in found:
                pipeline.hget(store.layout.key(one.conversation), "parts")
            stored = await pipeline.execute()
    return [replace(one, key=of_stored(parts)) for one, parts in zip(found, stored, strict=True)]
