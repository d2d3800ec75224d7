"""The world of a sweep: a Redis of its own, the stand-ins, and lanes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from gateway.running.children import leashed
from gateway.running.embedded import answers, find_program, server_command, socket_path, socket_url
from tests.harness.tap import Ends
from tests.sweep.book import Book
from tests.sweep.lane import BEGINS_WITHIN_S, Lane, Stands, scripts, whose
from tests.sweep.stands import Keyed, Keyless, Model, Searched, Tools


@asynccontextmanager
async def redis_of(folder: Path) -> AsyncIterator[str]:
    """A server of its own, as `deskmate up` starts it; its address."""
    folder.mkdir(parents=True)
    place = socket_path(folder)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    server = subprocess.Popen(  # noqa: ASYNC220  # it is only begun
        leashed(server_command(find_program(), folder, place, fsync=False)), start_new_session=True
    )
    try:
        async with asyncio.timeout(BEGINS_WITHIN_S):
            while not await answers(place):  # a socket that is there may not be listened at yet
                await asyncio.sleep(0.01)
        yield socket_url(place)
    finally:
        server.terminate()
        server.wait(10)


@asynccontextmanager
async def world(
    folder: Path, lanes: int, waits: Mapping[str, Any], model_s: float = 0.0
) -> AsyncIterator[tuple[Stands, list[Lane]]]:
    """Lanes in which nothing runs yet. Ledgers in `folder/ledgers`."""
    opened: list[Lane] = []

    def process(ends: Ends) -> str:
        return whose(opened, ends)

    async def within(asker: str, step: str) -> bool:
        return await next(lane for lane in opened if lane.has(asker)).wires.within(asker, step)

    async with AsyncExitStack() as stack:
        book = stack.enter_context(Book(folder / "ledgers"))
        url = await stack.enter_async_context(redis_of(folder / "redis"))
        async with Redis.from_url(url) as redis:
            for script in scripts():  # else the first call of each is another command than all later ones
                await redis.script_load(script.text)
        stands = Stands(
            book,
            url,
            await stack.enter_async_context(Model(book.pages["model"], process, model_s)),
            await stack.enter_async_context(Keyed(book.pages["platform"])),
            await stack.enter_async_context(Keyless(book.pages["platform"], process)),
            await stack.enter_async_context(Tools(folder, book.pages["tools"], within)),
            await stack.enter_async_context(Searched(book.pages["platform"], process)),
        )
        made = [Lane(number, folder / f"lane-{number}", stands, waits) for number in range(1, lanes + 1)]
        async with (
            asyncio.TaskGroup() as group
        ):  # where one can't be opened, none is still being opened when all is closed
            for lane in made:
                group.create_task(stack.enter_async_context(lane))
        opened += made
        yield stands, opened
