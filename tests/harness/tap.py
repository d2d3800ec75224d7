"""All that one process of deskmate says and hears, message by message, and held at any of them.

    async with Tap("worker-1", watch, redis_url, {"model": model.url, "tools": tools.url}) as tap:
        start(REDIS_URL=tap.redis_url, base_url=tap.urls["model"])

Each process gets its own, so a message's sender is known from the wire alone. `watch` sees each message at up to three
places: `before` it arrives, `during` its answer (HTTP: a part of it was passed on, the rest was not) and `after` it (it
was done, nothing of the answer was passed on). `within` it, when it has arrived and is not done, is for a stand-in to tell. What `watch` does not let through, the process and its partner never
hear of: the connection ends. A message and its answer stay on their place in the connection while they are held.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, Self
from urllib.parse import SplitResult, urlsplit

from tests.harness.framing import Http, HttpPiece, Resp, first_line, words_of

Place = Literal["before", "within", "during", "after"]
Ends = tuple[int, int]
"""Of a connection: our port, the server's. A kernel gives one port of ours to several connections to different servers."""
_ID: Final = re.compile(r"[a-z2-7]{26}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}")
_LISTENS: Final = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}
_SCRIPTS: Final = {b"EVAL", b"EVALSHA"}
HEARD_OUT_S: Final = 2.0
"""No script takes so long."""


@dataclass(slots=True)
class Message:
    """A command or a request, and its answer once there is one."""

    process: str
    link: str
    """`redis`, or the name of an HTTP link."""
    name: str
    """A script's name, or the command and the kind of its key; the method and path of a request."""
    raw: bytes
    begin_s: float
    """When it was passed on; until then, when it came."""
    answer: bytes = b""
    words: tuple[bytes, ...] = ()
    """Of a command."""
    is_late: bool = False
    """Whoever said it is gone: it was done all the same, and the answer is for nobody."""
    seen: dict[str, Any] = field(default_factory=dict)
    """For whoever watches."""


class Watch(Protocol):
    """Lets messages through, one place at a time."""

    async def __call__(self, message: Message, place: Place) -> bool:
        """Return when it may go on. No: it ends here."""
        ...


class Names:
    """What Redis's commands are called. Scripts are known by their hash; one that is not, by the hash's beginning."""

    def __init__(self, scripts: Mapping[str, str], prefixes: tuple[str, ...] = ()) -> None:
        self._scripts = dict(scripts)
        self._prefixes = prefixes

    def __call__(self, words: tuple[bytes, ...]) -> str:
        verb = words[0].decode("latin-1").upper()
        if verb in {"EVALSHA", "EVAL"} and len(words) > 1:
            text = words[1]
            sha = text.decode("latin-1") if verb == "EVALSHA" else hashlib.sha1(text, usedforsecurity=False).hexdigest()
            return self._scripts.get(sha, f"script {sha[:8]}")
        if len(words) < 2:
            return verb
        key = words[1].decode("utf-8", "replace")
        for prefix in self._prefixes:
            key = key.removeprefix(prefix)
        return f"{verb} {_ID.sub('*', key)[:60]}"


class Tap:
    """The wires of one process: `redis_url` and `urls` lead through it; `inbound` opens a way in."""

    def __init__(self, process: str, watch: Watch, redis: str, links: Mapping[str, str], names: Names) -> None:
        self.process = process
        self.names = names
        self._watch = watch
        self._targets = {"redis": redis, **links}
        self._servers: list[asyncio.Server] = []
        self._joined: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.urls: dict[str, str] = {}
        self.ends: dict[Ends, float] = {}
        """Of the connections to servers, and since when: by these a server knows whose request it is. What was closed may be
        another tap's next: who opened it last has it.
        """

    async def __aenter__(self) -> Self:
        for link, target in self._targets.items():
            self.urls[link] = await self.open(link, target)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        self.cut()
        for task in self._joined:
            task.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)

    @property
    def redis_url(self) -> str:
        return self.urls["redis"]

    async def open(self, link: str, target: str) -> str:
        """A way to `target` that is seen as `link`; its address, with the target's path."""
        parts = urlsplit(target)

        def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._join(link, parts, reader, writer))
            self._joined.add(task)
            task.add_done_callback(self._joined.discard)

        server = await asyncio.start_server(join, "127.0.0.1", 0)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        return f"redis://127.0.0.1:{port}" if link == "redis" else f"http://127.0.0.1:{port}{parts.path}"

    def cut(self) -> None:
        """All connections end, as a kernel ends those of a process that died."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _join(
        self, link: str, target: SplitResult, from_us: asyncio.StreamReader, to_us: asyncio.StreamWriter
    ) -> None:
        self._writers.add(to_us)
        try:
            if target.scheme == "unix":
                from_it, to_it = await asyncio.open_unix_connection(target.path)
            else:
                from_it, to_it = await asyncio.open_connection(target.hostname, target.port)
                self.ends[to_it.get_extra_info("sockname")[1], target.port or 80] = time.monotonic()
            line = _RedisLine(self, to_it, to_us) if link == "redis" else _HttpLine(self, link, to_it, to_us)
            self._writers.add(to_it)
            try:
                await self._both(line, from_us, from_it)
            finally:
                self._writers.discard(to_it)
                to_it.transport.abort()
        except OSError:
            pass  # nobody is there
        finally:
            self._writers.discard(to_us)
            to_us.transport.abort()

    async def _both(
        self, line: _RedisLine | _HttpLine, from_us: asyncio.StreamReader, from_it: asyncio.StreamReader
    ) -> None:
        """Until one side closes: what was sent before has been passed on then."""
        asking, answering = (
            asyncio.create_task(_pump(from_us, line.asked)),
            asyncio.create_task(_pump(from_it, line.answered)),
        )
        try:
            await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await line.ended()
            else:
                await line.heard_out()
        finally:
            asking.cancel()
            answering.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)

    async def watch(self, message: Message, place: Place) -> None:
        """Raises `_Over` where it ends."""
        if not await self._watch(message, place):
            raise _Over
        if place == "before":
            message.begin_s = time.monotonic()


class _Over(Exception):
    """This connection ends here."""


async def _pump(source: asyncio.StreamReader, take: Any) -> None:
    with contextlib.suppress(OSError, _Over):
        while piece := await source.read(65_536):
            await take(piece)


class _RedisLine:
    """Commands and answers of one connection, matched by their order."""

    def __init__(self, tap: Tap, to_it: asyncio.StreamWriter, to_us: asyncio.StreamWriter) -> None:
        self._tap = tap
        self._to_it, self._to_us = to_it, to_us
        self._commands, self._answers = Resp(), Resp()
        self._waiting: deque[Message] = deque()
        self._heard = asyncio.Event()
        self._listens = False
        self._is_over = False

    async def asked(self, piece: bytes) -> None:
        for frame in self._commands.feed(piece):
            if self._is_over:
                raise _Over
            words = tuple(words_of(frame))
            name = self._tap.names(words)
            self._listens = self._listens or name.split(" ")[0] in _LISTENS
            message = Message(self._tap.process, "redis", name, frame, time.monotonic(), words=words)
            await self._tap.watch(message, "before")
            if not self._listens:
                self._waiting.append(message)
            self._to_it.write(frame)
        await self._to_it.drain()

    async def answered(self, piece: bytes) -> None:
        for frame in self._answers.feed(piece):
            if self._waiting and not frame.startswith(b">"):
                message = self._waiting.popleft()
                message.answer, message.is_late = frame, self._is_over
                try:
                    await self._tap.watch(message, "after")
                except _Over:  # what was sent with it is done as well
                    self._is_over = True
                    self._to_us.transport.abort()
            if not self._is_over:
                self._to_us.write(frame)
        self._heard.set()
        if not self._is_over:
            await self._to_us.drain()

    async def ended(self) -> None:
        """Nothing is open-ended here."""

    async def heard_out(self) -> None:
        """The process is gone. A script that it has sent is done by Redis all the same: whoever watches hears what came of it."""
        self._is_over = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_OUT_S):
                while any(message.words[0].upper() in _SCRIPTS for message in self._waiting):
                    self._heard.clear()
                    await self._heard.wait()


class _HttpLine:
    """Requests and answers of one connection, one after the other."""

    def __init__(self, tap: Tap, link: str, to_it: asyncio.StreamWriter, to_us: asyncio.StreamWriter) -> None:
        self._tap = tap
        self._link = link
        self._to_it, self._to_us = to_it, to_us
        self._requests, self._answers = Http(), Http()
        self._whole = bytearray()
        self._waiting: deque[Message] = deque()
        self._answer: list[bytes] = []

    async def asked(self, piece: bytes) -> None:
        for part in self._requests.feed(piece):
            self._whole += part.raw
            if not part.is_end:
                continue
            raw = bytes(self._whole)
            self._whole.clear()
            message = Message(self._tap.process, self._link, first_line(raw), raw, time.monotonic())
            await self._tap.watch(message, "before")
            self._waiting.append(message)
            self._to_it.write(raw)
        await self._to_it.drain()

    async def answered(self, piece: bytes) -> None:
        for part in self._answers.feed(piece):
            await self._hear(part)

    async def ended(self) -> None:
        if self._answer:
            with contextlib.suppress(_Over, OSError):
                await self._hear(self._answers.end())

    async def heard_out(self) -> None:
        """Whoever was asked writes down what it did."""

    async def _hear(self, part: HttpPiece) -> None:
        """Answers are passed on when they are whole, in two steps: none here is longer than what a script says."""
        self._answer.append(part.raw)
        if not part.is_end or not self._waiting:
            return
        message = self._waiting.popleft()
        message.answer = b"".join(self._answer)
        cut = sum(map(len, self._answer[: (len(self._answer) + 1) // 2]))
        self._answer.clear()
        await self._tap.watch(message, "after")
        if cut < len(message.answer):
            self._to_us.write(message.answer[:cut])
            await self._to_us.drain()
            await self._tap.watch(message, "during")
            self._to_us.write(message.answer[cut:])
        else:
            self._to_us.write(message.answer)
        await self._to_us.drain()
