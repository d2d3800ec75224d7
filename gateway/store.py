"""Redis as deskmate uses it: names of keys, and scripts that share one write a loop tick.

Everything that is written goes through a script (`Store.run`). Reading may use `Store.redis` as well.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import hiredis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError, RedisError, ResponseError

from gateway.logs import log

logger = logging.getLogger(__name__)

OWED_MAX: Final = 10_000
"""Of more that waits for a Redis that is away the newest is given up."""
OWED_PAUSE_S: Final = 0.5
OWED_PAUSE_MAX_S: Final = 5.0
OWED_END_S: Final = 3.0
"""How long the end of a process waits for what is owed."""


class Unreachable(Exception):
    """Redis did not answer in time, or refused for now. What was asked may have happened or not."""


class Refused(Unreachable):
    """Redis is there and will not do this, now or later: a mistake of ours, or of whoever wrote to it."""


@contextmanager
def reading() -> Iterator[None]:
    """Around what `Store.redis` is asked: its faults become `Unreachable`."""
    try:
        yield
    except ResponseError as error:
        raise _kind(error)(str(error)) from error
    except (RedisError, OSError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of keys. A partition's keys share one hash tag, so that its scripts run on one shard of a cluster."""

    prefix: str
    partitions: int

    def partition(self, conversation_id: str) -> int:
        if self.partitions == 1:
            return 0
        return int.from_bytes(hashlib.sha256(conversation_id.encode()).digest()[:4], "big") % self.partitions

    def root(self, partition: int) -> str:
        """`dm:{0}`: the one KEYS entry of each script; everything else is built from it."""
        return f"{self.prefix}:{{{partition}}}"

    @property
    def skills_root(self) -> str:
        """`dm:{skills}`: begins every key about skills, which belong to no partition."""
        return f"{self.prefix}:{{skills}}"

    @property
    def pace_root(self) -> str:
        """`dm:{pace}`: begins every key about what platforms ask of senders."""
        return f"{self.prefix}:{{pace}}"

    @property
    def models_root(self) -> str:
        """`dm:{models}`: begins every key about which models may be asked."""
        return f"{self.prefix}:{{models}}"

    @property
    def listen_root(self) -> str:
        """`dm:{listen}`: begins who listens for a connection, and how far it got."""
        return f"{self.prefix}:{{listen}}"

    @property
    def heard_root(self) -> str:
        """`dm:{heard}`: begins what was overheard, by channel."""
        return f"{self.prefix}:{{heard}}"

    @property
    def asked_root(self) -> str:
        """`dm:{asked}`: begins where something is asked that a person has to say a word on, by channel and code."""
        return f"{self.prefix}:{{asked}}"

    @property
    def bots_root(self) -> str:
        """`dm:{bots}`: begins what the loop guard counts."""
        return f"{self.prefix}:{{bots}}"

    @property
    def rates_root(self) -> str:
        """`dm:{rates}`: begins how many messages came lately, by person and channel."""
        return f"{self.prefix}:{{rates}}"

    @property
    def guests_root(self) -> str:
        """`dm:{guests}`: begins what is known of who is from outside, by person."""
        return f"{self.prefix}:{{guests}}"

    @property
    def spent_root(self) -> str:
        """`dm:{spent}`: begins what was spent, by account."""
        return f"{self.prefix}:{{spent}}"

    @property
    def admin_root(self) -> str:
        """`dm:{admin}`: begins who may come in to look after things: links, sessions and tokens, by their hash."""
        return f"{self.prefix}:{{admin}}"

    @property
    def mcp_root(self) -> str:
        """`dm:{mcp}`: begins what was approved of tools from elsewhere."""
        return f"{self.prefix}:{{mcp}}"

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


GO_ON_WHEN_FULL: Final = "redis.call('PERSIST', KEYS[1] .. ':full')\n"
"""Begins scripts that serve what was accepted. A server at its limit stops a script at its first write of something new,
and no script that has written before: so what it has is answered, while `accept` is refused.
"""


@functools.cache
def script_of(package: str, *names: str) -> Script:
    """A package's `scripts/<name>.lua`, behind the `prelude.lua` that its scripts share, and what else it begins with."""
    folder = resources.files(package) / "scripts"
    return Script(names[-1], "".join((folder / f"{name}.lua").read_text() for name in ("prelude", *names)))


@dataclass(slots=True)
class _Ask:
    script: Script
    root: str
    arguments: Sequence[Any]
    packed: bytes
    answer: asyncio.Future[Any]
    sent_s: float = 0.0

    def with_text(self) -> bytes:
        return _packed("EVAL", self.script.text, 1, self.root, *self.arguments)


class Store:
    """One process's way to one Redis. Build it with `open_store`, close it at the end."""

    def __init__(self, redis: Redis, layout: Layout, *, timeout_s: float = 5.0) -> None:
        self.redis = redis
        self.layout = layout
        self._timeout_s = timeout_s
        self._asked: list[_Ask] = []
        self._line: _Line | None = None
        self._is_due = False
        """Somebody will send what is asked: the next tick, or who is connecting."""
        self._connecting: asyncio.Task[None] | None = None
        self._owed: dict[asyncio.Task[Any], str] = {}
        """What is asked until it is done, and how the log names it."""

    async def run(self, script: Script, root: str, *arguments: str | bytes | float) -> Any:
        """Run a script; all that are asked for in one tick of the loop travel together.

        Raises `Unreachable`. A cancelled caller leaves the others' answers where they belong.
        """
        packed = _packed("EVALSHA", script.sha, 1, root, *arguments)
        ask = _Ask(script, root, arguments, packed, asyncio.get_running_loop().create_future())
        self._asked.append(ask)
        self._send_soon()
        return await ask.answer

    def see_to(self, script: Script, root: str, *arguments: str | bytes | float, told: str) -> asyncio.Task[Any]:
        """Run a script that may be asked for again, until it was done, whatever becomes of whoever asks. `told` names it in the
        log, where it could not be done before this process ended. Its answer; None: it was given up.
        """
        task = asyncio.create_task(self._until_done(script, root, arguments, told), name="owed")
        self._owed[task] = told
        task.add_done_callback(lambda done: self._owed.pop(done, None))
        return task

    async def _until_done(self, script: Script, root: str, arguments: Sequence[Any], told: str) -> Any:
        pause_s = OWED_PAUSE_S
        while True:
            try:
                return await self.run(script, root, *arguments)
            except Refused as error:
                log(logger, "not done", logging.ERROR, what=told, reason=str(error))
                return None
            except Unreachable:
                if len(self._owed) > OWED_MAX:
                    log(logger, "not done", logging.ERROR, what=told, reason="too much waits for redis")
                    return None
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, OWED_PAUSE_MAX_S)

    async def now_ms(self) -> int:
        """The server's time, for who asks once; a process that goes on has `Mailbox.now_ms`. Raises `Unreachable`."""
        with reading():
            seconds, microseconds = await self.redis.time()
        return int(seconds) * 1_000 + int(microseconds) // 1_000

    async def close(self) -> None:
        """Wait for the answers that are due, and a while for what is owed; then disconnect."""
        if self._owed:
            await asyncio.wait(self._owed, timeout=OWED_END_S)
        for task, told in list(self._owed.items()):
            log(logger, "not done", logging.ERROR, what=told, reason="redis is away, and this process ends")
            task.cancel()
        while True:
            asked = (*self._asked, *(self._line.waiting if self._line else ()))
            due = [ask.answer for ask in asked if not ask.answer.done()]
            if not due:
                break
            await asyncio.wait(due)
        if self._line:
            self._line.end("closed")
        await self.redis.aclose()
        await self.redis.connection_pool.disconnect()

    def _send_soon(self) -> None:
        """What is asked while answers are due waits for these: if Redis is slow, who gives up is not served late."""
        if self._asked and not self._is_due and not (self._line and self._line.is_busy):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        if self._line is None or not self._line.is_open:
            self._connecting = asyncio.create_task(self._connect(), name="store")
            return
        self._is_due = False
        asked, self._asked = self._asked, []
        if wanted := [ask for ask in asked if not ask.answer.done()]:
            self._line.send(wanted)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                self._line = await _Line.open(self.redis, self._timeout_s, self._send_soon)
        except Exception as error:  # noqa: BLE001  # whatever it is, each asker hears of it and none waits for ever
            self._is_due = False
            asked, self._asked = self._asked, []
            for ask in asked:
                _fail(ask, Unreachable(f"{type(error).__name__}: {error}"))
        else:
            self._send()


class _Line(asyncio.Protocol):
    """A connection of our own: what is asked goes out in one write, answers come back in the same order.

    redis-py opens it, with all that an address may ask for; its pipelines cost several times the CPU of our scripts'
    calls (bench/ingress.py).
    """

    def __init__(self, connection: Any, timeout_s: float, answered: Callable[[], None]) -> None:
        """`answered` is called whenever no answer is due any more."""
        self.is_open = True
        self._answered = answered
        self._connection = connection
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001  # redis-py offers no other way
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self.waiting: deque[_Ask] = deque()
        self._reader = hiredis.Reader(replyError=_refused, notEnoughData=_NOTHING)
        self._alarm: asyncio.TimerHandle | None = None
        self._transport.set_protocol(self)

    @classmethod
    async def open(cls, redis: Redis, timeout_s: float, answered: Callable[[], None]) -> _Line:
        """Raises `RedisError`, `OSError`."""
        pool = redis.connection_pool
        connection: Any = pool.connection_class(**pool.connection_kwargs)
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return cls(connection, timeout_s, answered)

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting)

    def send(self, asked: Sequence[_Ask]) -> None:
        now_s = self._loop.time()
        for ask in asked:
            ask.sent_s = now_s
        self.waiting.extend(asked)
        self._transport.write(b"".join([ask.packed for ask in asked]))
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout_s, self._look)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not _NOTHING:
                if not isinstance(answer, hiredis.PushNotification):
                    self._hear(answer)
        except hiredis.ProtocolError as error:
            self.end(f"not Redis's protocol: {error}")
        if not self.waiting:
            self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(f"connection lost: {exc}" if exc else "connection lost")

    def _hear(self, answer: Any) -> None:
        ask = self.waiting.popleft()
        if isinstance(answer, NoScriptError):
            ask.sent_s = self._loop.time()
            self.waiting.append(ask)
            self._transport.write(ask.with_text())  # from then on the server knows it
        elif isinstance(answer, RedisError):
            _fail(ask, _kind(answer)(f"{ask.script.name}: {answer}"))
        elif not ask.answer.done():
            ask.answer.set_result(answer)

    def _look(self) -> None:
        """Is the oldest question too old? One timer for all: most are answered long before."""
        self._alarm = None
        if not self.waiting:
            return
        left_s = self.waiting[0].sent_s + self._timeout_s - self._loop.time()
        if left_s > 0:
            self._alarm = self._loop.call_later(left_s, self._look)
        else:
            self.end(f"no answer within {self._timeout_s:g} s")

    def end(self, reason: str) -> None:
        """Close it; who still waits for an answer gets `Unreachable`."""
        self.is_open = False
        if self._alarm:
            self._alarm.cancel()
        self._transport.abort()
        self._connection._writer = self._connection._reader = None  # noqa: SLF001  # so that it does not warn
        waiting, self.waiting = self.waiting, deque()
        for ask in waiting:
            _fail(ask, Unreachable(reason))
        self._answered()


_NOTHING: Final = object()
PASSING: Final = (
    "LOADING", "BUSY", "READONLY", "MASTERDOWN", "OOM", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "NOAUTH",
)  # fmt: skip
"""What a server says that may do it later."""


def _packed(*words: Any) -> bytes:
    packed: bytes = hiredis.pack_command(words)
    return packed


def _refused(message: str) -> ResponseError:
    return NoScriptError(message) if message.startswith("NOSCRIPT") else ResponseError(message)


def _kind(error: RedisError) -> type[Unreachable]:
    return Unreachable if str(error).startswith(PASSING) else Refused


def _fail(ask: _Ask, error: Exception) -> None:
    if not ask.answer.done():
        ask.answer.set_exception(error)


def open_store(url: str, layout: Layout, *, timeout_s: float) -> Store:
    """A store on the Redis at `url` (`redis://`, `rediss://` or `unix://`). Connects when first used.

    Scripts are not repeated on a broken connection: whoever asks knows whether that is safe. What `Store.redis` is asked
    is reading, and repeated once: that a pooled connection died meanwhile shows only when it is used. The pool waits for
    a free connection instead of raising, which is what redis-py does past 100.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=32,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        health_check_interval=0,
        retry=Retry(NoBackoff(), 1, supported_errors=(Disconnected,)),
        # what only TCP has; redis-py refuses it for a Unix socket
        **({} if url.startswith("unix:") else {"socket_connect_timeout": timeout_s, "socket_keepalive": True}),
    )
    return Store(Redis(connection_pool=pool), layout, timeout_s=timeout_s)
