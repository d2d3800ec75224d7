"""The chain of the audit log: each line holds the hash of the one before, so that whoever changes, takes out or moves one leaves
a break behind. It is made where the line is written, in the script (`scripts/prelude.lua`).

No key is in it. Whoever may write to Redis could make the whole chain anew from some line on; against that somebody keeps a
head, or an export, elsewhere. A key would have to be known to each process that writes, and to Redis, which runs the script.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.audit.log import PAGE, STREAMS, streams
from gateway.store import Store, reading
from gateway.stored import mapping

BEGIN: Final = "0" * 64
APART_MS: Final = 1_000
"""So far the times may lie apart that Redis gives a line and its script. Where its clock was put back the first goes on from the
line before.
"""
FOR_A_WHILE: Final = frozenset({"refused"})
"""Streams of which only the latest lines are kept."""
_HEAD_FIELDS: Final = frozenset({"stream", "n", "hash"})
_HEAD: Final = re.compile(r"([a-z]+):(\d{1,15}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Link:
    """A line as it is stored, and as it is exported."""

    stream: str
    id: str
    said: str
    before: str
    after: str
    n: int
    """0: from before there was a chain."""
    at: str
    prev: str
    hash: str

    @property
    def told_ms(self) -> int:
        """When it was written, by its id, as people are told."""
        return int(self.id.partition("-")[0])

    @property
    def reckoned(self) -> str:
        """The hash that it should have."""
        parts = (self.prev, str(self.n), self.at, self.said, self.before, self.after)
        whole = b"".join(
            b"%d:%b" % (len(raw), raw) for raw in (one.encode("utf-8", "surrogateescape") for one in parts)
        )
        return hashlib.sha256(whole).hexdigest()

    def dump(self) -> str:
        """JSON, one line; what was said is there once as it was hashed, and once to be read."""
        said: Mapping[str, Any] = {}
        with suppress(ValueError):
            said = mapping(self.said)
        return json.dumps({**said, **{name: getattr(self, name) for name in self.__dataclass_fields__}})


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of a stream: whoever keeps it can tell later that nothing up to there was changed."""

    stream: str
    n: int
    hash: str

    def __str__(self) -> str:
        return f"{self.stream}:{self.n}:{self.hash}"


@dataclass(slots=True)
class KeptElsewhere:
    """What somebody kept elsewhere, by stream and number."""

    hashes: dict[tuple[str, int], str] = field(default_factory=dict)
    changed: set[tuple[str, int]] = field(default_factory=set)
    """Lines of an export that are not as they were exported."""

    @classmethod
    def read(cls, lines: Iterable[str]) -> KeptElsewhere:
        """Heads, wherever they stand in a text, or the lines of an export; `{"stream", "n", "hash"}` is a head too. Raises
        `ValueError` where there is neither.
        """
        kept = cls()
        for line in lines:
            if line.lstrip().startswith("{"):
                one = mapping(line)
                if isinstance(one.get("n"), int) and one["n"] > 0:
                    named = str(one.get("stream")), int(one["n"])
                    kept.hashes[named] = str(one.get("hash"))
                    if one.keys() != _HEAD_FIELDS and not _is_as_exported(one):
                        kept.changed.add(named)
            else:
                kept.hashes |= {(name, int(n)): hash_ for name, n, hash_ in _HEAD.findall(line)}
        if strange := sorted({f"{name}:{n}" for name, n in kept.hashes if name not in STREAMS or not n}):
            raise ValueError(
                f"{strange[0]} is of no log that there is; there are: {', '.join(STREAMS)}, numbered from 1"
            )
        if not kept.hashes:
            raise ValueError("neither a head (STREAM:NUMBER:HASH) nor a line of an export")
        return kept


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at one stream's chain tells."""

    stream: str
    lines: int
    older: int
    """Lines from before there was a chain: nobody can tell anything of them."""
    head: Head
    trouble: str = ""
    """The first line that is broken, missing or changed. Empty: there is none."""


async def links(store: Store, stream: str) -> AsyncIterator[Link]:
    """All lines of a stream, the oldest first. Raises `Unreachable`."""
    key, begin = streams(store)[stream], "-"
    while True:
        with reading():
            page: Any = await store.redis.xrange(key, min=begin, count=PAGE)
        for id_, fields in page:
            yield _link(stream, id_.decode(), fields)
        if len(page) < PAGE:
            return
        begin = f"({page[-1][0].decode()}"


async def verify(store: Store, stream: str, kept: KeptElsewhere) -> Found:
    """Whether a stream is as it was written, and has all that was kept of it. Lines that are written meanwhile stand behind
    the head that is read first. Raises `Unreachable`.
    """
    with reading():
        said: Any = await store.redis.get(f"{streams(store)[stream]}:head")
    look = _Look(stream, kept, (said or b"").decode("utf-8", "replace"))
    async for link in links(store, stream):
        look.take(link)
    return look.end()


class _Look:
    def __init__(self, stream: str, kept: KeptElsewhere, head: str) -> None:
        self._stream = stream
        told = re.fullmatch(r"(\d+) ([0-9a-f]+)", head)
        self._last, self._last_hash = (int(told[1]), told[2]) if told else (0, "")
        self._found_hash = ""
        """Of the line that has the head's number."""
        self._known = {n: hash_ for (name, n), hash_ in kept.hashes.items() if name == stream}
        self._changed = sorted(n for name, n in kept.changed if name == stream)
        self._n, self._hash = 0, BEGIN
        self._lines, self._older = 0, 0
        self._told_ms = 0
        """By the id of the line before."""
        self._trouble = ""

    def take(self, link: Link) -> None:
        self._lines += 1
        if not link.n and not self._n:
            self._older += 1
            return
        self._trouble = self._trouble or self._wrong(link)
        self._n, self._hash, self._told_ms = link.n, link.hash, link.told_ms
        if link.n == self._last:
            self._found_hash = link.hash

    def _wrong(self, link: Link) -> str:
        called = f"line {link.n} ({link.id})"
        if not link.n:
            return f"the line {link.id}, behind line {self._n}, is in no chain: it was put there, or its number was taken out"
        if link.reckoned != link.hash:
            return f"{called} was changed: what it holds is not what its hash was made of"
        at_ms = int(link.at) if link.at.isascii() and link.at.isdigit() else -APART_MS
        if abs(link.told_ms - at_ms) > APART_MS and link.told_ms != self._told_ms:
            return f"{called} is told to be of another time than it was written at: it was taken out and put in anew"
        is_first = self._n == 0
        if is_first and self._stream in FOR_A_WHILE:
            pass  # older ones are not kept
        elif link.n > self._n + 1:
            gone = f"line {self._n + 1} is" if link.n == self._n + 2 else f"lines {self._n + 1} to {link.n - 1} are"
            return f"{gone} missing, before {called}"
        elif link.n <= self._n:
            return f"{called} stands behind line {self._n}: lines were moved, or put in"
        elif link.prev != self._hash:
            return f"{called} does not follow the line before it: that one was put in the place of another one"
        if link.n not in self._changed and self._known.get(link.n, link.hash) != link.hash:
            return f"{called} is not the one that was kept elsewhere: it, or one before it, was changed and the chain made anew"
        return ""

    def end(self) -> Found:
        head = Head(self._stream, self._n, self._hash)
        last, known = self._last, max(self._known, default=0)
        if not self._trouble and max(last, known) > self._n:
            whose = "what was kept elsewhere ends" if known > last else "the chain's head is"
            first = self._n + 1
            self._trouble = f"line {first} is missing, and all behind it: {whose} at line {max(last, known)}"
        elif not self._trouble and self._n and (not last or self._found_hash != self._last_hash):
            self._trouble = f"the chain's head was changed: it is not that of line {last or self._n}"
        elif not self._trouble and self._changed:
            one = f"line {self._changed[0]} of what was kept elsewhere"
            self._trouble = f"{one} was changed there: what is to be read in it is not what its hash was made of"
        return Found(self._stream, self._lines, self._older, head, self._trouble)


def _is_as_exported(one: dict[str, Any]) -> bool:
    """Whether an exported line holds what its hash was made of, and tells to readers that and nothing else."""
    stored: dict[str, Any] = {name: one.get(name) for name in Link.__dataclass_fields__}
    if not all(isinstance(value, str) for name, value in stored.items() if name != "n"):
        return False
    link = Link(**stored)
    return link.reckoned == link.hash and json.loads(link.dump()) == one


def _link(stream: str, id_: str, fields: Mapping[bytes, bytes]) -> Link:
    def of(name: bytes) -> str:
        return fields.get(name, b"").decode("utf-8", "surrogateescape")

    number = of(b"n")
    n = int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0
    return Link(stream, id_, of(b"said"), of(b"before"), of(b"after"), n, of(b"at"), of(b"prev"), of(b"hash"))
