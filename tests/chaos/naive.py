"""The plain way, for comparison: a webhook puts a job into RQ's queue, RQ's worker runs it. The same crowd, the same deaths.

If the checker found nothing broken here, it would be blind. Nothing of deskmate runs: `tests.chaos.plain` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import aiohttp
import psutil
from aiohttp import web
from redis import Redis
from rq import Queue

from tests.chaos.server import Server
from tests.chaos.town import Plan, Platform, Tally, thinking
from tests.harness.deployment import free_port
from tests.harness.history import Began, Ended, Fault, now_s
from tests.sweep.stands import Model

START_S: Final = 30.0


@dataclass(slots=True)
class Process:
    """One process of it, with all that it forked."""

    name: str
    role: str
    process: asyncio.subprocess.Process
    url: str = ""


class Naive:
    """See `tests.chaos.town.Town`: the same from outside."""

    def __init__(self, folder: Path, server: Server, book: Tally, links: tuple[str, str], plan: Plan) -> None:
        self.server = server
        self.book = book
        self._folder = folder
        self._links = links
        self._wanted = {"gateway": plan.gateways, "worker": plan.workers}
        self._running: list[Process] = []
        self._count = 0

    async def __aenter__(self) -> Self:
        for role, number in self._wanted.items():
            for _ in range(number):
                await self._start(role)
        self._keeping = asyncio.create_task(self._keep())
        async with asyncio.timeout(START_S), aiohttp.ClientSession() as http:
            for one in [one for one in self._running if one.url]:
                while not await _serves(http, one.url):
                    await asyncio.sleep(0.05)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        for one in self._running:
            self._end(one)
            await one.process.wait()

    def alive(self, role: str) -> list[Process]:
        """Of workers those that have a job in hand: to start one takes longer than to be killed, and that loses nothing."""
        return [one for one in self._alive(role) if role != "worker" or _has_job(one)]

    def _alive(self, role: str) -> list[Process]:
        return [one for one in self._running if one.role == role and one.process.returncode is None]

    def serving(self) -> list[tuple[str, str]]:
        return [(one.name, one.url) for one in self.alive("gateway")]

    def kill(self, one: Process) -> None:
        self.book.pages["faults"].write(Fault(now_s(), one.name, "kill"))
        self._end(one)

    async def pause(self, one: Process, for_s: float) -> None:
        os.killpg(one.process.pid, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        if one.process.returncode is None:
            os.killpg(one.process.pid, signal.SIGCONT)

    async def kill_redis(self, away_s: float) -> None:
        await self.server.kill()
        await asyncio.sleep(away_s)
        await self.server.start()

    async def at_rest(self) -> bool:
        """Nothing waits; what is lost nobody waits for."""
        return not Queue(connection=Redis.from_url(self.server.url)).count

    def _end(self, one: Process) -> None:
        """With all that it has forked, as a machine that goes down: RQ's work-horse is of a group of its own and would go on."""
        if one.process.returncode is not None:
            return
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(one.process.pid).children(recursive=True):
                child.kill()
        one.process.kill()

    async def _start(self, role: str) -> None:
        self._count += 1
        name, port = f"{role}-{self._count}", free_port()
        given = ("gateway", str(port), self.server.url, *self._links) if role == "gateway" else (role, self.server.url)
        with (self._folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.chaos.plain", *given,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        url = f"http://127.0.0.1:{port}/webhooks/hook" if role == "gateway" else ""
        self._running.append(Process(name, role, process, url))

    async def _keep(self) -> None:
        while True:
            self._running = [one for one in self._running if one.process.returncode is None]
            for role, number in self._wanted.items():
                for _ in range(number - len(self._alive(role))):
                    await self._start(role)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def naive_town(folder: Path, plan: Plan) -> AsyncIterator[Naive]:
    """It runs. Ledgers lie in `folder/ledgers`."""
    async with AsyncExitStack() as stack:
        book = Tally(folder / "ledgers")
        stack.enter_context(book)
        book.pages["faults"].write(Began(now_s(), plan.name, plan.seed, dict(plan.rules)))
        server = await stack.enter_async_context(Server(folder / "redis"))
        model = await stack.enter_async_context(Model(book.pages["model"], lambda _: ""))
        model.answer_with(thinking(plan.think_s))
        platform = await stack.enter_async_context(Platform(book.pages["platform"]))
        links = (model.url, f"{platform.url}/naive")
        yield await stack.enter_async_context(Naive(folder, server, book, links, plan))
        book.pages["faults"].write(Ended(now_s()))


def _has_job(worker: Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(worker.process.pid).children())
    return False


async def _serves(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as answered:
            return answered.status == web.HTTPMethodNotAllowed.status_code
    except aiohttp.ClientError:
        return False
