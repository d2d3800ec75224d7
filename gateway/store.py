"""Redis as deskmate uses it: names of keys, and scripts that share one pipeline a loop tick.

Everything that is written goes through a script (`Store.run`). Reading may use `Store.redis` as well.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError


class Unreachable(Exception):
    """Redis did not answer in time, or refused. What was asked may have happened or not."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of keys. A partition's keys share one hash tag, so that its scripts run on one shard of a cluster."""

    prefix: str
    partitions: int

    def partition(self, conversation_id: str) -> int:
        return int.from_bytes(hashlib.sha256(conversation_id.encode()).digest()[:4], "big") % self.partitions

    def root(self, partition: int) -> str:
        """`dm:{0}`: the one KEYS entry of each script; everything else is built from it."""
        return f"{self.prefix}:{{{partition}}}"

    def root_of(self, conversation_id: str) -> str:
        return self.root(self.partition(conversation_id))

    def key(self, conversation_id: str, what: str = "") -> str:
        """`dm:{0}:c:<id>` or `dm:{0}:c:<id>:<what>`."""
        name = f"{self.root_of(conversation_id)}:c:{conversation_id}"
        return f"{name}:{what}" if what else name


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script. `text` is sent once a server, after that its hash."""

    name: str
    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(slots=True)
class _Ask:
    script: Script
    root: str
    arguments: Sequence[Any]
    answer: asyncio.Future[Any]


class Store:
    """One process's way to one Redis. Build it with `open_store`, close it at the end."""

    def __init__(self, redis: Redis, layout: Layout) -> None:
        self.redis = redis
        self.layout = layout
        self._asked: list[_Ask] = []
        self._flush: asyncio.Task[None] | None = None

    async def run(self, script: Script, root: str, *arguments: str | bytes | float) -> Any:
        """Run a script; all that are asked for in one tick of the loop travel together.

        Raises `Unreachable`. A cancelled caller leaves the others' answers where they belong.
        """
        ask = _Ask(script, root, arguments, asyncio.get_running_loop().create_future())
        self._asked.append(ask)
        if self._flush is None:
            self._flush = asyncio.create_task(self._send_all(), name="store")
        return await ask.answer

    async def close(self) -> None:
        if self._flush:
            await asyncio.wait([self._flush])
        await self.redis.aclose()
        await self.redis.connection_pool.disconnect()

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)
            while self._asked:
                batch, self._asked = self._asked, []
                wanted = [ask for ask in batch if not ask.answer.done()]  # who gave up waiting is not served late
                await self._send(wanted)
        finally:
            self._flush = None
            for ask in self._asked:
                _fail(ask, Unreachable("closed"))

    async def _send(self, batch: Sequence[_Ask]) -> None:
        if not batch:
            return
        try:
            answers = await self._exchange(batch)
            unknown = [ask for ask, answer in zip(batch, answers, strict=True) if isinstance(answer, NoScriptError)]
            if unknown:
                for script in {ask.script.sha: ask.script for ask in unknown}.values():
                    await self.redis.script_load(script.text)
                again = dict(zip(map(id, unknown), await self._exchange(unknown), strict=True))
                answers = [again.get(id(ask), answer) for ask, answer in zip(batch, answers, strict=True)]
        except (RedisError, OSError, TimeoutError) as error:
            for ask in batch:
                _fail(ask, Unreachable(f"{type(error).__name__}: {error}"))
            return
        for ask, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ResponseError):
                _fail(ask, Unreachable(f"{ask.script.name}: {answer}"))
            elif not ask.answer.done():
                ask.answer.set_result(answer)

    async def _exchange(self, batch: Sequence[_Ask]) -> list[Any]:
        async with self.redis.pipeline(transaction=False) as pipeline:
            for ask in batch:
                pipeline.evalsha(ask.script.sha, 1, ask.root, *ask.arguments)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


def _fail(ask: _Ask, error: Exception) -> None:
    if not ask.answer.done():
        ask.answer.set_exception(error)


def open_store(url: str, layout: Layout, *, timeout_s: float) -> Store:
    """A store on the Redis at `url` (`redis://`, `rediss://` or `unix://`). Connects when first used.

    Commands are not repeated on a broken connection: whoever asks knows whether that is safe. The pool waits for a
    free connection instead of raising, which is what redis-py does past 100.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=32,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        health_check_interval=0,
        retry=Retry(NoBackoff(), 0),
        # what only TCP has; redis-py refuses it for a Unix socket
        **({} if url.startswith("unix:") else {"socket_connect_timeout": timeout_s, "socket_keepalive": True}),
    )
    return Store(Redis(connection_pool=pool), layout)
