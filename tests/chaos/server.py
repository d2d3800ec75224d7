"""A Redis that can die: the server as `deskmate up` starts it, killed and started again on the same files."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Self

from gateway.running.children import leashed
from gateway.running.embedded import answers, find_program, server_command, socket_path, socket_url

START_S = 30.0


class Server:
    """One server and its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._place = socket_path(folder)
        self._place.parent.mkdir(mode=0o700, exist_ok=True)
        self._command = leashed(server_command(find_program(), folder, self._place, fsync=False))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return socket_url(self._place)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait, 20)

    async def start(self) -> None:
        """Until it has read its files and answers."""
        self._process = subprocess.Popen(self._command, start_new_session=True)  # noqa: ASYNC220  # it is only begun
        async with asyncio.timeout(START_S):
            while not await answers(self._place):
                await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """As a crash of it would end it."""
        assert self._process
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
