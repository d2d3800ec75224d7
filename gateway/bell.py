"""The bell: an RQ job that says that somebody waits. It carries only the partition.

It is written in RQ's own format, so that RQ's tools see it, and read without importing what it names. A bell is a
hint: a lost, late or doubled one costs at most a poll, so a failed ring is counted and not repeated.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from config.settings import RqSettings
from gateway.logs import log

logger = logging.getLogger(__name__)

FUNCTION: Final = "workers.runner.bell"
"""The one function that a bell names. Nothing is imported by this name."""
KEEP_S: Final = 60
QUEUE_MAX: Final = 1_000
DATA_MAX_BYTES: Final = 4_096


class Foreign(Exception):
    """A job in our queue that is no bell: nobody of ours wrote it."""


class Bell:
    """Rings, and pops what was rung. One a process; `redis` is RQ's server and may block for `pop`."""

    def __init__(self, redis: Redis, settings: RqSettings) -> None:
        self._redis = redis
        self._settings = settings
        self._due: set[int] = set()
        self._ringing: asyncio.Task[None] | None = None
        self.failed = 0

    @property
    def queue_key(self) -> str:
        return f"{self._settings.key_prefix}:queue:{self._settings.queue}"

    def ring(self, partition: int) -> None:
        """Ring in the next tick of the loop; nobody waits for it."""
        self._due.add(partition)
        if self._ringing is None:
            self._ringing = asyncio.create_task(self._ring_due(), name="bell")

    async def pop(self, wait_s: float) -> int | None:
        """The partition of the next bell, None after `wait_s` without one. Raises `RedisError`, `Foreign`."""
        popped: Any = await self._redis.blpop([self.queue_key], timeout=wait_s)
        if popped is None:
            return None
        key = f"{self._settings.key_prefix}:job:{popped[1].decode(errors='replace')}"
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hget(key, "data")
            pipeline.delete(key)
            data, _ = await pipeline.execute()
        return None if data is None else read(data)  # none: an old bell, its record has expired

    async def push_back(self, partition: int) -> None:
        """A bell that we popped and will not answer goes to somebody else."""
        self.ring(partition)
        if self._ringing:
            await asyncio.wait([self._ringing])

    async def close(self) -> None:
        if self._ringing:
            await asyncio.wait([self._ringing])
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _ring_due(self) -> None:
        try:
            await asyncio.sleep(0)
            while self._due:  # what became due while we rang is rung as well: its flag is set, nobody else will
                due, self._due = self._due, set()
                await self._write(due)
        except (RedisError, OSError) as error:
            self.failed += 1
            log(logger, "bell not rung", level=logging.WARNING, reason=str(error), failed=self.failed)
        finally:
            self._ringing = None

    async def _write(self, due: Iterable[int]) -> None:
        prefix = self._settings.key_prefix
        async with self._redis.pipeline(transaction=False) as pipeline:
            for partition in due:
                bell_id = f"bell-{partition}-{secrets.token_hex(6)}"
                key = f"{prefix}:job:{bell_id}"
                pipeline.hset(key, mapping=write(partition, self._settings.queue))
                pipeline.expire(key, KEEP_S)
                pipeline.sadd(f"{prefix}:queues", self.queue_key)
                pipeline.rpush(self.queue_key, bell_id)
            pipeline.ltrim(self.queue_key, -QUEUE_MAX, -1)  # nobody pops while all are suspended
            await pipeline.execute()


def write(partition: int, queue: str) -> dict[Any, Any]:
    """A bell as RQ 3 stores a job (JSON serializer)."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {
        "created_at": now,
        "enqueued_at": now,
        "data": zlib.compress(json.dumps([FUNCTION, None, [partition], {}]).encode()),
        "description": f"{FUNCTION}({partition})",
        "origin": queue,
        "status": "queued",
        "timeout": KEEP_S,
        "result_ttl": 0,
        "ttl": KEEP_S,
    }


def read(data: bytes) -> int:
    """The partition that a bell's data names. Raises `Foreign` for whatever `write` did not make."""
    try:
        opened = zlib.decompressobj().decompress(data, DATA_MAX_BYTES)
        function, instance, arguments, named = json.loads(opened)
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise Foreign("a job that can't be read") from error
    match function, instance, arguments, named:
        case str(name), None, [int(partition)], {} if name == FUNCTION and partition >= 0 and partition is not True:
            return partition
    raise Foreign(f"a job for {str(function)[:80]!r}")


def open_bell(url: str, settings: RqSettings, *, wait_s: float) -> Bell:
    """A bell on RQ's server at `url`. `wait_s` is the longest `pop`: the socket's timeout has to be longer."""
    redis = Redis.from_url(url, socket_timeout=wait_s + 5, socket_connect_timeout=5, max_connections=16)
    return Bell(redis, settings)
