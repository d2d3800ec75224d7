"""A Redis server of a test's own: for faults that nobody else's data may meet.

async with own_redis(folder) as server:
    store = open_store(server.url, ...)
    server.kill()                 # as a power cut would, but for what the system still writes
    server.cut_off(300)           # the end of its file is gone
    await server.start()
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.running.children import leashed
from gateway.running.embedded import find_program, server_command, socket_path, socket_url


@dataclass
class OwnRedis:
    """One server, which may be ended and started again on its file."""

    folder: Path
    more: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return socket_url(socket_path(self.folder))

    async def start(self) -> None:
        """Until it answers."""
        place = socket_path(self.folder)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = server_command(find_program(), self.folder, place, fsync=False)
        self.process = subprocess.Popen(leashed([*command, *self.more]), start_new_session=True)  # noqa: ASYNC220  # it is quick
        async with asyncio.timeout(30), Redis.from_url(self.url) as redis:
            while True:
                assert self.process.poll() is None, (self.folder / "redis.log").read_text()
                try:
                    await redis.ping()
                except (RedisError, OSError):
                    await asyncio.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(10)

    def pause(self) -> None:
        """It answers nothing until it goes on; what is asked meanwhile it may do then."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process
        os.killpg(self.process.pid, number)

    @property
    def file(self) -> Path:
        """What it appends each write to."""
        [found] = (self.folder / "appendonlydir").glob("*.incr.aof")
        return found

    def cut_off(self, size_bytes: int) -> None:
        """The file is only so long: what came after that never reached the disk."""
        with self.file.open("r+b") as file:
            file.truncate(size_bytes)

    async def ask(self, *command: Any) -> Any:
        redis: Any
        async with Redis.from_url(self.url) as redis:
            return await redis.execute_command(*command)


@asynccontextmanager
async def own_redis(folder: Path, *more: str) -> AsyncIterator[OwnRedis]:
    """`more`: arguments of the server, such as `--replicaof`."""
    folder.mkdir(parents=True, exist_ok=True)
    server = OwnRedis(folder, more)
    await server.start()
    try:
        yield server
    finally:
        server.kill()
