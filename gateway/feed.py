"""The feed: what open pages see of a conversation while it happens.

A worker adds entries, gateways follow them. Each conversation has one Redis stream that is gone ten minutes after its
last entry; the truth is in the records, and whoever was away too long is told `gone` and reads those again. A snapshot
(the answer so far, whole) takes the place of the snapshot before it, so that a long answer never fills the stream and
a slow page skips what is out of date. New entries are announced on one channel that each gateway listens to with one
connection: a hint only, for every follower also looks by itself now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import RedisError

from gateway.store import Script, Store

KEEP_MS: Final = 600_000
"""How long entries can be followed after the last one."""
LENGTH: Final = 1_000
LOOK_S: Final = 2.0
"""A follower that heard no hint looks by itself after this."""
BATCH: Final = 100

PLACE = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")
"""What an id looks like: milliseconds and a number, as Redis makes them."""

# A stream begins with a marker whose id lies KEEP_MS back. Entries of an earlier stream of this conversation, had there
# been one, would be older than that. So one rule tells who missed something: whoever stands before the first entry.
ADD = Script(
    "feed add",
    """
    local key, channel = KEYS[1] .. ':c:' .. ARGV[1] .. ':feed', ARGV[2]
    local kind, entry, keep, length = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
    local tail = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
    if not tail then
        local time = redis.call('TIME')
        local begin = time[1] * 1000 + math.floor(time[2] / 1000) - keep
        redis.call('DEL', key)
        redis.call('XADD', key, string.format('%.0f-0', begin), 'begin', '{}')
    elseif kind == 'snapshot' and tail[2][1] == 'snapshot' then
        redis.call('XDEL', key, tail[1])
    end
    local id = redis.call('XADD', key, 'MAXLEN', '~', length, '*', kind, entry)
    redis.call('PEXPIRE', key, keep)
    redis.call('PUBLISH', channel, ARGV[1])
    return id
    """,
)
READ = Script(
    "feed read",
    """
    local key = KEYS[1] .. ':c:' .. ARGV[1] .. ':feed'
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
    if not first then return {now} end
    local newest = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 2)
    local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
    return {now, first[1], newest, redis.call('XRANGE', key, from, '+', 'COUNT', ARGV[3])}
    """,
)

Place = tuple[int, int]


class Feed:
    """Live entries of conversations. One a process; `close` ends all who follow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._channel = f"{store.layout.prefix}:feed"
        self._ears: dict[str, set[asyncio.Event]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._closed = False

    async def add(self, conversation_id: str, entry: dict[str, Any], *, snapshot: bool = False) -> str:
        """Show an entry (JSON) to all open pages; its id. Raises `store.Unreachable`.

        A snapshot that follows a snapshot takes its place.
        """
        arguments = (
            conversation_id,
            self._channel,
            "snapshot" if snapshot else "entry",
            json.dumps(entry, ensure_ascii=False),
            KEEP_MS,
            LENGTH,
        )
        return _text(await self._store.run(ADD, self._store.layout.root_of(conversation_id), *arguments))

    async def place(self, conversation_id: str) -> str:
        """The id to follow from so that only what is new comes, and the snapshot that is being shown. Raises `Unreachable`."""
        now_ms, _, newest, _ = await self._read(conversation_id, "")
        if not newest:
            return _quiet_place(now_ms)
        is_snapshot = _text(newest[0][1][0]) == "snapshot"
        return _text(newest[-1 if is_snapshot else 0][0])

    async def follow(
        self, conversation_id: str, after: str | None = None
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Entries after the id `after` (none: all that are held), then those to come, until `close`.

        `{"type": "gone"}` as the last entry says that some may have been missed: read the records and follow from a new
        `place`. Raises `ValueError` for an id that is none, `Unreachable`.
        """
        if after is not None and not PLACE.fullmatch(after):
            raise ValueError("not an id of the feed")
        cursor = after
        with self._hearing(conversation_id) as heard:
            while not self._closed:
                heard.clear()
                now_ms, first, newest, entries = await self._read(conversation_id, cursor or "")
                if cursor is not None and _has_missed(_parsed(cursor), first, newest, now_ms):
                    yield cursor, {"type": "gone"}
                    return
                for raw_id, (kind, entry) in entries:
                    cursor = _text(raw_id)
                    if _text(kind) != "begin":
                        yield cursor, json.loads(entry)
                if len(entries) < BATCH:
                    cursor = max(cursor or "0-0", _quiet_place(now_ms), key=_parsed)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await heard.wait()

    async def close(self) -> None:
        """End all who follow. May be called twice."""
        self._closed = True
        self._wake_all()
        if self._listener:
            self._listener.cancel()
            await asyncio.wait([self._listener])
            self._listener = None

    async def _read(self, conversation_id: str, after: str) -> tuple[int, Place | None, list[Any], list[Any]]:
        root = self._store.layout.root_of(conversation_id)
        answer = await self._store.run(READ, root, conversation_id, after, BATCH)
        if len(answer) == 1:
            return int(answer[0]), None, [], []
        now_ms, first, newest, entries = answer
        return int(now_ms), _parsed(_text(first)), newest, entries

    @contextlib.contextmanager
    def _hearing(self, conversation_id: str) -> Iterator[asyncio.Event]:
        if self._listener is None and not self._closed:
            self._listener = asyncio.create_task(self._listen(), name="feed")
        heard = asyncio.Event()
        ears = self._ears.setdefault(conversation_id, set())
        ears.add(heard)
        try:
            yield heard
        finally:
            ears.discard(heard)
            if not ears:
                self._ears.pop(conversation_id, None)

    async def _listen(self) -> None:
        """Turn hints into wakened followers, over one connection of its own: the store's have a short timeout."""
        client = _patient_client(self._store.redis)
        try:
            while True:
                with contextlib.suppress(RedisError, OSError):
                    await self._hear(client)
                await asyncio.sleep(LOOK_S)
        finally:
            await client.aclose()

    async def _hear(self, client: Redis) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as hints:
            await hints.subscribe(self._channel)
            self._wake_all()
            asked = False
            while True:
                message = await hints.get_message(timeout=5 * LOOK_S)
                if message is None and asked:
                    return  # no answer to the ping: the connection is dead
                asked = message is None
                if message is None:
                    await hints.ping()
                elif message["type"] == "message":
                    for heard in self._ears.get(_text(message["data"]), ()):
                        heard.set()

    def _wake_all(self) -> None:
        for ears in self._ears.values():
            for heard in ears:
                heard.set()


def _has_missed(cursor: Place, first: Place | None, newest: list[Any], now_ms: int) -> bool:
    """Whether entries after `cursor` are held no longer, or `cursor` is ahead of all: then Redis has lost its tail."""
    if first is None:
        return cursor < (now_ms - KEEP_MS, 0)
    return cursor < first or cursor > max(_parsed(_text(newest[0][0])), (now_ms, 0))


def _quiet_place(now_ms: int) -> str:
    """A place that is safe to stand at when nothing newer was found: back enough for a clock that is set back."""
    return f"{now_ms - KEEP_MS // 2}-0"


def _parsed(place: str) -> Place:
    milliseconds, number = place.split("-")
    return int(milliseconds), int(number)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _patient_client(redis: Redis) -> Redis:
    pool = redis.connection_pool
    wanted = {**pool.connection_kwargs, "socket_timeout": None}
    return Redis(connection_pool=ConnectionPool(connection_class=pool.connection_class, max_connections=1, **wanted))
