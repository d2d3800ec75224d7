"""What is left of a run at its end: in Redis, in logs, and in the data folder."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from tests.harness.history import Found, Letter, now_s

WORK: Final = frozenset({"due", "running", "channels", "sole", "inbox", "control", "outbox", "states"})
"""What a key is called that is there only while there is work."""


@dataclass(frozen=True, slots=True)
class Leavings:
    """`names`: the driver's name of each conversation, by the id that it has in Redis. `word`: finds words of conversations,
    and `whose` tells whose one is. `logs` may hold none of them; in `folders` nothing may lie but what
    a machine knows for good.
    """

    names: Mapping[str, str]
    word: re.Pattern[str]
    whose: Callable[[str], str]
    logs: Iterable[Path] = ()
    folders: Iterable[Path] = ()

    async def all(self, redis_url: str) -> AsyncIterator[Found | Letter]:
        """Work that nobody does any more, dead letters, files, and words where they don't belong."""
        async with Redis.from_url(redis_url) as redis:
            async for raw in redis.scan_iter("*", count=1_000):
                async for one in self._key(redis, raw):
                    yield one
        for found in (*self._in_logs(), *self._files()):
            yield found

    async def _key(self, redis: Any, raw: bytes) -> AsyncIterator[Found | Letter]:
        key = raw.decode("utf-8", "replace")
        parts = key.split(":")
        kind = (await redis.type(raw)).decode()
        owner = next((self.names[part] for part in parts if part in self.names), "")
        if kind == "stream" and parts[-1] == "dead":
            for _, letter in await redis.xrange(raw):
                conversation = letter[b"conversation"].decode()
                yield Letter(now_s(), self.names.get(conversation, conversation), letter[b"reason"].decode())
            return
        if parts[-1] in WORK or "ready" in parts or await _is_open(redis, raw, parts, kind):
            yield Found(now_s(), "redis", key, conversation=owner)
        for word in sorted(set(self.word.findall(await _text(redis, raw, kind)))):
            if owner != self.whose(word):
                yield Found(now_s(), "redis", key, canary=word, conversation=owner)

    def _in_logs(self) -> Iterator[Found]:
        for log in sorted(self.logs):
            with log.open(errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    for word in sorted(set(self.word.findall(line))):
                        yield Found(now_s(), f"log {log.name}", f"line {number}", canary=word)

    def _files(self) -> Iterator[Found]:
        for folder in self.folders:
            for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                if file.parent == folder / "epochs" and not file.name.startswith("."):
                    continue  # which data this machine knows is to stay
                yield Found(now_s(), "files", str(file))


async def _is_open(redis: Any, key: bytes, parts: list[str], kind: str) -> bool:
    if parts[-1] == "waiting" and kind == "string":  # how many wait
        return int(await redis.get(key)) != 0
    return kind == "hash" and parts[-2:-1] == ["c"] and bool(await redis.hexists(key, "token"))


async def _text(redis: Any, key: bytes, kind: str) -> str:
    read: dict[str, Callable[[], Any]] = {
        "string": lambda: redis.get(key),
        "list": lambda: redis.lrange(key, 0, -1),
        "hash": lambda: redis.hgetall(key),
        "set": lambda: redis.smembers(key),
        "zset": lambda: redis.zrange(key, 0, -1),
        "stream": lambda: redis.xrange(key),
    }
    return str(await read[kind]()) if kind in read else ""
