"""One process that reads skills as a worker does, again and again; a line of JSON for each change that it sees."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from config.loading import load
from gateway.conversation.key import ConversationKey
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, open_store
from skills.bundles import Cache

T = TypeVar("T")
KEY = ConversationKey("hooks", "room-1")
EVERY_S = 0.02
TICK_S = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """A change, as one process saw it."""

    number: int
    """Of the snapshot."""
    revision: str
    """Of the channel's decisions."""
    skills: int
    at_s: float
    """Of `time.time()`."""
    took_s: float
    cpu_s: float
    held_s: float
    """How long nothing else could run on this process's loop, at most."""
    memory_mb: float
    """More than before."""


async def held(work: Awaitable[T]) -> tuple[T, float]:
    """Do the work; besides, how long a task that only wants to run again had to wait at most."""
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        while True:
            before_s = time.perf_counter()
            await asyncio.sleep(TICK_S)
            longest_s = max(longest_s, time.perf_counter() - before_s - TICK_S)

    ticking = asyncio.create_task(tick())
    try:
        await asyncio.sleep(0)
        return await work, longest_s
    finally:
        ticking.cancel()


def memory_mb() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1_000_000


async def watch(settings: Path, redis_url: str) -> None:
    """Until killed."""
    loaded = load(settings)
    store = open_store(redis_url, Layout("dm", 1), timeout_s=10.0)
    shelf = Shelf(store, Cache(settings.parent / "cache"), present=())
    seen = (-1, "")
    gc.collect()
    while True:
        before_mb, cpu_s, begun_s = memory_mb(), time.process_time(), time.perf_counter()
        here, held_s = await held(shelf.here(KEY, loaded))
        took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
        now = ((await shelf.look(KEY.channel_id)).number, here.own.revision)
        if now != seen:
            seen = now
            more_mb = memory_mb() - before_mb
            sight = Sight(*now, len(here.catalogue.skills), time.time(), took_s, cpu_s, held_s, more_mb)
            print(json.dumps(dataclasses.asdict(sight)), flush=True)
        await asyncio.sleep(EVERY_S)


if __name__ == "__main__":
    asyncio.run(watch(Path(sys.argv[1]), sys.argv[2]))
