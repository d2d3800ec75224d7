"""Recordings: what was sent to the model in a turn, and what came back, for `deskmate replay`.

They lie in Redis, since any worker takes any turn: a hash for each turn, gone after `recordings.retention_s`, or with its
conversation where the profile keeps that for less. What requests
have in common (system prompt, tools, messages) lies there once. Whatever is written here was masked before.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from config.settings import RecordingSettings
from gateway.store import Layout, Script, Store, reading

VERSION: Final = 1

KEEP: Final = Script(
    "keep recording",
    """
    -- conversation, turn, retention ms of all, of this one, most bytes of a turn, of all; the entry, then (hash, part)...
    -- -> OK or FULL
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local member = ARGV[1] .. ':' .. ARGV[2]
    local retention, most, most_of_all = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
    local all, sizes = KEYS[1] .. ':recordings', KEYS[1] .. ':recordings:sizes'
    local turn = all .. ':' .. member
    local size = #ARGV[7]
    for at = 8, #ARGV, 2 do
        if redis.call('HEXISTS', turn, 'part:' .. ARGV[at]) == 0 then size = size + #ARGV[at + 1] end
    end
    local held = tonumber(redis.call('HGET', sizes, member) or 0)
    local fits = held + size <= most
    if fits then
        redis.call('HSET', turn, string.format('entry:%06d', redis.call('HINCRBY', turn, 'entries', 1)), ARGV[7])
        for at = 8, #ARGV, 2 do redis.call('HSETNX', turn, 'part:' .. ARGV[at], ARGV[at + 1]) end
        redis.call('HINCRBY', sizes, member, size)
        redis.call('HINCRBY', sizes, 'total', size)
    else
        redis.call('HINCRBY', turn, 'left_out', 1)
    end
    redis.call('ZADD', all, string.format('%.0f', now), member)
    for _, key in ipairs({ all, sizes }) do redis.call('PEXPIRE', key, retention) end
    redis.call('PEXPIRE', turn, ARGV[4])
    while true do
        local oldest = redis.call('ZRANGE', all, 0, 0, 'WITHSCORES')
        local is_late = tonumber(oldest[2]) <= now - retention
        local is_much = tonumber(redis.call('HGET', sizes, 'total') or 0) > most_of_all
        if oldest[1] == member or not (is_late or is_much) then break end
        redis.call('DEL', all .. ':' .. oldest[1])
        redis.call('ZREM', all, oldest[1])
        redis.call('HINCRBY', sizes, 'total', -tonumber(redis.call('HGET', sizes, oldest[1]) or 0))
        redis.call('HDEL', sizes, oldest[1])
    end
    return fits and 'OK' or 'FULL'
    """,
)


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """The recording of one turn, from outside."""

    conversation: str
    turn: str
    at_ms: int
    """Of its last request."""
    requests: int
    bytes: int
    left_out: int
    """Requests for which there was no room."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, packed: what it has in common with others stands in `parts`, by hash."""

    head: bytes
    parts: Mapping[str, bytes]


def pack(request: Mapping[str, Any], more: Mapping[str, Any]) -> Entry:
    """`request` as the Messages API has it; `more`: what it was for and what came of it. Both JSON, and masked."""
    parts: dict[str, bytes] = {}

    def part(value: Any) -> str:
        raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        name = hashlib.sha256(raw).hexdigest()[:32]
        parts[name] = zlib.compress(raw)
        return name

    told = {
        **request,
        "system": part(request["system"]),
        "tools": part(request["tools"]),
        "messages": [part(message) for message in request["messages"]],
    }
    head = json.dumps({"v": VERSION, "request": told, **more}, ensure_ascii=False).encode("utf-8", "replace")
    return Entry(zlib.compress(head), parts)


class Recordings:
    """Of all conversations. One a process."""

    def __init__(self, store: Store, settings: RecordingSettings) -> None:
        self._store = store
        self._settings = settings

    async def keep(self, conversation: str, turn: str, entry: Entry, keep_s: int | None = None) -> bool:
        """Add a request to its turn's recording, for `keep_s` where that is less than the settings say. False: there was no
        room. Raises `Unreachable`.
        """
        of_all_s = self._settings.retention_s
        own_s = of_all_s if keep_s is None else min(of_all_s, keep_s)
        limits = (self._settings.turn_max_bytes, self._settings.total_max_bytes)
        flat = [one for named in entry.parts.items() for one in named]
        root = self._store.layout.root_of(conversation)
        verdict = await self._store.run(
            KEEP, root, conversation, turn, of_all_s * 1000, own_s * 1000, *limits, entry.head, *flat
        )
        return bool(verdict == b"OK")

    async def turns(self) -> list[RecordedTurn]:
        """Those that are kept, the newest first. Raises `Unreachable`."""
        found: list[RecordedTurn] = []
        redis: Any = self._store.redis
        with reading():
            for partition in range(self._store.layout.partitions):
                place = _place(self._store.layout, partition)
                sizes = await redis.hgetall(f"{place}:sizes")
                named = await redis.zrange(place, 0, -1, withscores=True)
                async with redis.pipeline(transaction=False) as pipeline:
                    for member, _ in named:
                        pipeline.hmget(f"{place}:{member.decode()}", "entries", "left_out")
                    counted = await pipeline.execute()
                for (member, at_ms), (entries, left_out) in zip(named, counted, strict=True):
                    conversation, _, turn = member.decode().partition(":")
                    if entries or left_out:  # else it ran out
                        size = int(sizes.get(member, 0))
                        found.append(
                            RecordedTurn(conversation, turn, int(at_ms), int(entries or 0), size, int(left_out or 0))
                        )
        return sorted(found, key=lambda kept: -kept.at_ms)

    async def read(self, conversation: str, turn: str) -> list[dict[str, Any]]:
        """The requests of a turn, in the order in which they were made: what was given to `pack`, with `request`.

        Empty: nothing is kept. Raises `Unreachable`.
        """
        layout = self._store.layout
        with reading():
            redis: Any = self._store.redis
            place = _place(layout, layout.partition(conversation))
            found = await redis.hgetall(f"{place}:{conversation}:{turn}")
        return await asyncio.to_thread(_unpacked, found)


def _place(layout: Layout, partition: int) -> str:
    return f"{layout.root(partition)}:recordings"


def _unpacked(found: Mapping[bytes, bytes]) -> list[dict[str, Any]]:
    parts = {
        name.removeprefix(b"part:").decode(): json.loads(zlib.decompress(raw))
        for name, raw in found.items()
        if name.startswith(b"part:")
    }

    def whole(head: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(zlib.decompress(head))
        told: dict[str, Any] = entry["request"]
        names: Sequence[str] = told["messages"]
        told |= {
            "system": parts[told["system"]],
            "tools": parts[told["tools"]],
            "messages": [parts[name] for name in names],
        }
        return entry

    heads = [raw for name, raw in sorted(found.items()) if name.startswith(b"entry:")]
    return sorted(map(whole, heads), key=lambda entry: int(entry["at_ms"]))
