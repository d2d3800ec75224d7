"""Processes of deskmate that begin at once: forked from one that has already imported what they import.

    async with Nursery(environment) as nursery:
        worker = await nursery.start("worker", ["--config", "w.yaml", "worker"], log, environment={"REDIS_URL": ...})
        worker.kill()

A start of its own costs two seconds of computing, nearly all of it imports. A forked one runs the same command line from
the same first function, and importing does nothing in deskmate; all that it lacks is `exec`. Each is a session and a
process group of its own, and none outlives the nursery. The nursery too is of a session of its own, so that Ctrl-C reaches
only whoever asked for it, and ends with the pipe that it gets its orders by.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import itertools
import json
import os
import selectors
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

IMPORTS: Final = (
    *("gateway.cli.gateway", "gateway.server", "gateway.platforms.standard_webhooks", "gateway.platforms.telegram"),
    *("workers.cli", "workers.opening", "workers.alone", "workers.models.anthropic", "workers.mcp.servers"),
)
"""What gateways and workers import while they start."""
NOT_YET: Final = ("rq",)
"""Reads its environment when it is imported."""
PR_SET_PDEATHSIG: Final = 1


@dataclass(slots=True)
class Born:
    """One process of deskmate."""

    name: str
    pid: int
    log: Path
    code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def runs(self) -> bool:
        return self.code is None

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and nobody has said so yet
            if self.runs:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def kill_group(self) -> None:
        if self.runs:
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, within_s: float = 60.0) -> int:
        """SIGTERM, and its exit code. Negative: the signal that it ended by."""
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(within_s):
            await self.ended.wait()
        assert self.code is not None
        return self.code

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What it logged, by event."""
        written = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in written if not event or line["event"] == event]


class Gone(Exception):
    """The nursery has died, and all that was born in it."""


class Nursery:
    """The process that others are forked from, seen from outside. What waits for it raises `Gone` when it has died."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._numbers = itertools.count(1)
        self._awaited: dict[int, asyncio.Future[int]] = {}
        self._born: dict[int, Born] = {}
        self._ends: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.harness.nursery",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=self._environment, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout
        try:
            if not await self._process.stdout.readline():
                raise Gone
        except BaseException:
            await self._end_it()
            raise
        self._hearing = asyncio.create_task(self._hear(self._process.stdout))
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._born.values():
            if one.runs:
                one.signal(signal.SIGCONT)
                one.kill()
        await asyncio.gather(*(one.ended.wait() for one in self._born.values()))
        await self._end_it()
        await self._hearing

    async def _end_it(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has died by itself
            self._process.kill()
        await self._process.wait()

    async def start(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path
    ) -> Born:
        """`deskmate COMMAND` begins to run. Raises `Gone`."""
        if self._hearing.done():
            raise Gone
        number = next(self._numbers)
        asked = self._awaited[number] = asyncio.get_running_loop().create_future()
        order = {
            "number": number, "command": list(command), "log": str(log),
            "environment": dict(environment), "folder": str(folder),
        }  # fmt: skip
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = await asked
        born = self._born[pid] = Born(name, pid, log)
        if pid in self._ends:
            self._end(born)
        return born

    async def _hear(self, told: asyncio.StreamReader) -> None:
        while line := await told.readline():
            word = json.loads(line)
            if "number" in word:
                asked = self._awaited.pop(word["number"])
                if asked.done():  # who asked for it has left
                    os.kill(word["pid"], signal.SIGKILL)
                else:
                    asked.set_result(word["pid"])
                continue
            self._ends[word["pid"]] = word["code"]
            if born := self._born.get(word["pid"]):
                self._end(born)
        for asked in self._awaited.values():
            if not asked.done():
                asked.set_exception(Gone())
        for born in self._born.values():  # the kernel has killed them with it
            if born.runs:
                self._ends[born.pid] = -signal.SIGKILL
                self._end(born)

    def _end(self, born: Born) -> None:
        born.code = self._ends.pop(born.pid)
        born.ended.set()


def main() -> None:
    """Fork on order: a JSON line each on standard input, a line for each that began or ended on standard output."""
    for module in IMPORTS:
        importlib.import_module(module)
    assert not set(NOT_YET) & sys.modules.keys(), "what reads its environment is imported by each process itself"
    tell({})
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    watched = selectors.DefaultSelector()
    watched.register(0, selectors.EVENT_READ)
    watched.register(woken, selectors.EVENT_READ)
    held = b""
    while True:
        for key, _ in watched.select():
            if key.fd == woken:
                os.read(woken, 4_096)
                tell_ends()
                continue
            piece = os.read(0, 65_536)
            if not piece:
                return
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                give_birth(json.loads(line))


def tell(word: Mapping[str, Any]) -> None:
    os.write(1, json.dumps(word).encode() + b"\n")


def tell_ends() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def give_birth(order: Mapping[str, Any]) -> None:
    parent = os.getpid()
    if pid := os.fork():
        tell({"number": order["number"], "pid": pid})
        return
    code = 70
    try:
        code = live(order, parent)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def live(order: Mapping[str, Any], parent: int) -> int:
    """In the child, until it ends: its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for to, of in ((0, nothing), (1, log), (2, log)):
        os.dup2(of, to)
    os.closerange(3, 256)
    os.environ.clear()  # noqa: TID251  # it becomes another process
    os.environ.update(order["environment"])  # noqa: TID251
    os.chdir(order["folder"])
    from gateway.cli import run  # noqa: PLC0415

    return run(order["command"])


if __name__ == "__main__":
    main()
