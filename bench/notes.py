"""Notes added to one file by several at once, and what reading that file costs then.

python -m bench.notes [--writers 8] [--notes 100]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import AsyncExitStack

from bench._world import world
from gateway.audit.log import Change
from gateway.shelf.notes import Draft, Notes
from gateway.store import Layout, Store, open_store

CHANNEL = "c" * 26
FILE = "references/bench.md"
READINGS = 20


async def add(store: Store, writer: int, notes: int) -> None:
    for at in range(notes):
        text = f"writer {writer} note {at:05} ".ljust(59, "x") + "\n"
        draft = Draft("bench", FILE, text, "bench", "c")
        await Notes(store).save(Change(f"{writer} {at}", "bench/1", "bench/room", CHANNEL, "bench"), draft, ask=False)


async def main(writers: int, notes: int) -> None:
    async with world() as here, AsyncExitStack() as stack:
        stores = [open_store(here.redis_url, Layout("dm", 1), timeout_s=10.0) for _ in range(writers)]
        for store in stores:
            stack.push_async_callback(store.close)
        begun_s, cpu_s = time.perf_counter(), here.redis.cpu_s()
        await asyncio.gather(*(add(store, writer, notes) for writer, store in enumerate(stores)))
        took_s, used_s = time.perf_counter() - begun_s, here.redis.cpu_s() - cpu_s
        total = writers * notes
        print(f"{total} notes by {writers} writers: {total / took_s:,.0f}/s, Redis {used_s / total * 1e6:.0f} us each")
        begun_s = time.perf_counter()
        for _ in range(READINGS):
            found = await Notes(stores[0]).read(CHANNEL, "bench", FILE)
        assert len(found) == total
        print(f"reading them: {(time.perf_counter() - begun_s) / READINGS * 1_000:.1f} ms")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--writers", type=int, default=8)
    options.add_argument("--notes", type=int, default=100)
    asyncio.run(main(**vars(options.parse_args())))
