"""Everything on one machine: the embedded server, gateways and workers as processes, kept running."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from config.settings import Settings, environment
from gateway.logs import log
from gateway.running.children import start_child, stop_child
from gateway.running.embedded import embedded

logger = logging.getLogger(__name__)

FIRST_S: Final = 5.0
"""A process that ends by itself within this after the very first start will not do better the second time."""
PAUSE_S: Final = (0.2, 10.0)
"""Between the end of a process and its next start: at first, and at most."""
MORE_S: Final = 5.0
"""What a process gets beyond its own time for stopping before it is killed."""


class PortTaken(Exception):
    """The gateway can't listen where it should."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror  # below 0: the name was not found
        super().__init__(f"port {port} on {host or 'all addresses'} can't be used: {why}")
        self.advice = _ADVICE.get(number, "Set gateway.host to an address of this machine")
        """What to do, as a sentence without its full stop."""


_ADVICE: Final = {
    errno.EADDRINUSE: "Stop what uses it, or choose another with --port",
    errno.EACCES: "Choose another with --port: those below 1024 are for root",
    errno.EPERM: "Choose another with --port: those below 1024 are for root",
}


class Failed(Exception):
    """A process can't start, and has said why on stderr."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the gateway says about itself at `/readyz`."""

    redis: bool = False
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What runs, seen from outside."""

    host: str
    port: int
    redis_url: str

    @property
    def address(self) -> str:
        """Where a browser on this machine reaches the gateway."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def readiness(self) -> Readiness | None:
        """None: the gateway does not answer (yet)."""
        try:
            async with asyncio.timeout(2.0):
                found = await self._get("/readyz")
        except (OSError, TimeoutError, ValueError):
            return None
        return Readiness(redis=bool(found.get("redis")), workers=int(found.get("workers", 0)))

    async def until_ready(self, *, workers: int = 1) -> None:
        """Wait for a gateway that accepts messages, and for so many workers."""
        while not ((found := await self.readiness()) and found.redis and found.workers >= workers):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # another process gives no event

    async def _get(self, path: str) -> dict[str, Any]:
        # One GET on loopback: an HTTP client would take longer to import than the gateway to start
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {self.host}:{self.port}\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        found = json.loads(answer.partition(b"\r\n\r\n")[2])
        return found if isinstance(found, dict) else {}


@asynccontextmanager
async def machine(settings: Settings, config: Path, *, listens: bool = False) -> AsyncIterator[Machine]:
    """Run the processes that the settings ask for; leaving the block stops them, workers within their grace time.

    `config` is the settings file for the processes. `listens`: some platforms bring messages over connections that a
    process of its own holds. A port of 0 becomes a free one. Raises `PortTaken`,
    `AlreadyRunning`, `NoServer`, and, at any time, `Failed` in the block.
    """
    async with embedded(settings) as url:
        host, port = settings.gateway.host, free_port(settings.gateway.host, settings.gateway.port)
        own = {} if settings.redis.url else {"REDIS_URL": url}
        here = [sys.executable, "-P", "-m", "gateway.cli", "--config", str(config.absolute())]
        gateway, worker = [*here, "gateway", "--port", str(port)], [*here, "worker"]
        listener = [_Post("listen", [*here, "listen"], MORE_S)] if listens else []
        posts = [
            *listener,
            *_posts("gateway", gateway, settings.gateway.processes, settings.gateway.shutdown_s),
            *_posts("worker", worker, settings.worker.processes, settings.worker.grace_s),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_keep(post, {**environment(), **own}), name=post.name) for post in posts]
                yield Machine(reachable(host), port, url)
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None


def free_port(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises `PortTaken` where something listens or the address is not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(host, port, error) from None
        found: int = probe.getsockname()[1]
        return found


@dataclass(frozen=True, slots=True)
class _Post:
    """A process that should be there."""

    name: str
    command: Sequence[str]
    stop_s: float


def _posts(name: str, command: Sequence[str], number: int, stop_s: float) -> list[_Post]:
    return [
        _Post(f"{name} {index}" if number > 1 else name, command, stop_s + MORE_S) for index in range(1, number + 1)
    ]


async def _keep(post: _Post, variables: dict[str, str]) -> None:
    """Keep a process running until cancelled. Raises `Failed` if its very first run ends at once."""
    clock = asyncio.get_running_loop().time
    pause_s, is_first = PAUSE_S[0], True
    while True:
        started = clock()
        child = await start_child(post.command, variables)
        try:
            status = await child.wait()
        finally:
            await stop_child(child, within_s=post.stop_s)
        lived_s = clock() - started
        if is_first and lived_s < FIRST_S and status > 0:
            raise Failed(f"{post.name} ended at once, status {status}; what it says stands above")
        is_first = False
        pause_s = PAUSE_S[0] if lived_s > FIRST_S else min(pause_s * 2, PAUSE_S[1])
        # who was told to stop, as by `deskmate rq` or SIGTERM, has done nothing wrong
        level = logging.INFO if status in {0, -signal.SIGTERM} else logging.ERROR
        log(logger, f"{post.name} ended, it is started again", level, status=status, pause_s=pause_s)
        await asyncio.sleep(pause_s)


def reachable(host: str) -> str:
    """The address of this machine for a host to listen on, which may mean all addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - not bound here
