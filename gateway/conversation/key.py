"""The key of a conversation: which account, room, thread and person it belongs to."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from config.addresses import is_plain

PART_MAX_BYTES = 1_024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Where a conversation is. Parts are compared exactly; `thread` and `user` may be absent, which differs from empty."""

    connection: str
    channel: str
    thread: str | None = None
    user: str | None = None
    id: str = field(init=False, repr=False, compare=False)
    """26 characters of `a-z2-7`: a hash over length-prefixed parts, so that no two keys share one."""
    channel_id: str = field(init=False, repr=False, compare=False)
    """The same for the room alone: what caps and fairness count by."""
    dumped: str = field(init=False, repr=False, compare=False)
    """`parts()` as JSON."""

    def __post_init__(self) -> None:
        if not self.connection or not (self.channel or self.user):
            msg = "a conversation needs a connection, and a channel or a user"
            raise ValueError(msg)
        for part in (self.connection, self.channel, self.thread, self.user):
            if part is not None and len(part.encode("utf-8")) > PART_MAX_BYTES:
                msg = f"a part of a conversation's key is longer than {PART_MAX_BYTES} bytes"
                raise ValueError(msg)
            if part is not None and _CONTROL.search(part):
                msg = "a part of a conversation's key holds a control character"
                raise ValueError(msg)
        object.__setattr__(self, "id", _digest(self.connection, self.channel, self.thread, self.user))
        whose = () if self.channel else (self.user,)  # a person's own conversations are a room of their own
        object.__setattr__(self, "channel_id", _digest(self.connection, self.channel, *whose))
        object.__setattr__(self, "dumped", orjson.dumps(self.parts()).decode())

    def parts(self) -> list[str | None]:
        """For storing; `of_parts` gives the key back."""
        return [self.connection, self.channel, self.thread, self.user]


@functools.lru_cache(maxsize=4_096)  # a conversation has many events
def key_of(connection: str, channel: str, thread: str | None = None, user: str | None = None) -> ConversationKey:
    """The key of these parts, checked and hashed once. Raises `ValueError`."""
    return ConversationKey(connection, channel, thread, user)


def named(connection: str, channel: str) -> ConversationKey:
    """The room that somebody means who types that. Raises `ValueError`, also for what looks like another one."""
    if not is_plain(channel):
        raise ValueError("blanks at its ends, or characters that nobody sees")
    return ConversationKey(connection, channel)


def of_parts(parts: Sequence[str | None]) -> ConversationKey:
    """The key whose `parts()` these are. Raises `ValueError`."""
    connection, channel, thread, user = parts
    return key_of(connection or "", channel or "", thread, user)


def of_stored(parts: bytes | None) -> ConversationKey | None:
    """The key that `dumped` was stored of. None: there is none, or nobody can read it."""
    with suppress(ValueError, TypeError):
        return of_parts(json.loads(parts or ""))
    return None


def person_hash(connection: str, person: str) -> str:
    """A person's name in keys that tell nobody who it is: 32 hexadecimal digits. An id of one platform is nobody on another."""
    return hashlib.sha256(json.dumps([connection, person]).encode()).hexdigest()[:32]


def _digest(*parts: str | None) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        raw = b"" if part is None else part.encode("utf-8")
        hashed.update(b"-" if part is None else b"%d:" % len(raw))
        hashed.update(raw)
    return base64.b32encode(hashed.digest()).decode().lower()[:26]
