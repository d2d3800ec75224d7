"""deskmate as an operator runs it: gateways and workers as processes of their own, on a Redis that a test gives.

    async with Deployment(folder, redis_url, {"model": {...}, "connections": {...}}) as deskmate:
        await deskmate.start_gateway()
        worker = await deskmate.start_worker()
        worker.kill()

Everything is told by settings, nothing by hooks. Logs are JSON lines in `folder`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from gateway.running.children import leashed

STOP_S = 60.0


@dataclass
class Running:
    """One process of deskmate."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(STOP_S):
            return await self.process.wait()

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What it logged, by event; what varies stands in `fields`."""
        written = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in written if not event or line["event"] == event]


@dataclass
class Deployment:
    """Its settings, and what runs of it."""

    folder: Path
    redis_url: str
    settings: Mapping[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
    prefix: str = field(default_factory=lambda: f"e{secrets.token_hex(6)}")
    running: list[Running] = field(default_factory=list)
    port: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def __aenter__(self) -> Self:
        self.port = self.port or free_port()
        self.write(self.settings)
        self.http = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self.running:
            if one.process.returncode is None:
                one.process.kill()
                await one.process.wait()
        await self.http.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hook(self, connection: str) -> str:
        """Where a platform sends to."""
        return f"{self.url}/webhooks/{connection}"

    def write(self, settings: Mapping[str, Any], profile: Mapping[str, Any] | None = None) -> None:
        """The settings file, with what a test machine needs; and the default profile, if given."""
        whole = {
            "data": str(self.folder / "data"),
            "log": {"format": "json", "level": "info"},
            **settings,
            "redis": {"key_prefix": self.prefix, "url": "$REDIS_URL", **settings.get("redis", {})},
            "rq": {"key_prefix": f"{self.prefix}:rq", **settings.get("rq", {})},
            "gateway": {"port": self.port, **settings.get("gateway", {})},
        }
        (self.folder / "deskmate.yaml").write_text(yaml.safe_dump(whole, allow_unicode=True))
        if profile is not None:
            (self.folder / "profiles").mkdir(exist_ok=True)
            (self.folder / "profiles" / "default.yaml").write_text(yaml.safe_dump(dict(profile), allow_unicode=True))

    async def begin(self, name: str, *arguments: str) -> Running:
        """A gateway or a worker of which nothing is waited for."""
        return await self._start(name, name, *arguments)

    async def readiness(self, port: int) -> dict[str, Any]:
        """What the gateway at this port says of itself. Raises `aiohttp.ClientError`."""
        async with self.http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def start_gateway(self, port: int | None = None) -> Running:
        """A gateway that has seen Redis."""
        port = port or self.port
        started = await self._start("gateway", "gateway", "--port", str(port), "--shared")

        async def sees_redis() -> bool:
            return bool((await self.readiness(port))["data"])

        await self._until(started, sees_redis)
        return started

    async def start_worker(self, *arguments: str) -> Running:
        """A worker that takes work."""
        started = await self._start("worker", "worker", *arguments)

        async def is_ready() -> bool:
            return bool(started.lines("worker ready"))

        await self._until(started, is_ready)
        return started

    async def start_listener(self, *connections: str) -> Running:
        """A process that holds connections over which messages come."""
        started = await self._start("listen", "listen", *connections)

        async def is_ready() -> bool:
            return bool(started.lines("listening"))

        await self._until(started, is_ready)
        return started

    async def run(self, *command: str) -> tuple[int, str]:
        """A command of deskmate's command line: its exit code, and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *self._command(*command),
            env=self._environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
        )
        async with asyncio.timeout(STOP_S):
            printed, _ = await process.communicate()
        return process.returncode or 0, printed.decode()

    async def _start(self, name: str, *command: str) -> Running:
        log = self.folder / f"{name}-{next(self._numbers)}.log"  # several may start at once
        with log.open("w") as written:
            process = await asyncio.create_subprocess_exec(
                *leashed(self._command(*command)),
                env=self._environment(),
                stdout=written,
                stderr=written,
                cwd=self.folder,
            )
        started = Running(name, process, log)
        self.running.append(started)
        return started

    def _command(self, *command: str) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", "--config", str(self.folder / "deskmate.yaml"), *command]

    def _environment(self) -> dict[str, str]:
        here = str(Path(__file__).parents[2])
        return {"PATH": os.defpath, "PYTHONPATH": here, "REDIS_URL": self.redis_url, **self.environment}

    async def _until(self, started: Running, holds: Any) -> None:
        async with asyncio.timeout(STOP_S):
            while True:
                assert started.process.returncode is None, started.log.read_text()
                try:
                    if await holds():
                        return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
