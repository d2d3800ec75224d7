"""A worker of `test_notes`: adds 100 notes to one file, one after the other."""

from __future__ import annotations

import asyncio
import sys

from gateway.audit.log import Change
from gateway.shelf.notes import Draft, Notes
from gateway.store import Layout, open_store


async def main(url: str, prefix: str, channel: str, file: str, worker: str) -> None:
    store = open_store(url, Layout(prefix, 1), timeout_s=30.0)
    notes = Notes(store)
    for at in range(100):
        text = f"worker {worker} note {at:03} ".ljust(59, "x") + "\n"
        change = Change(f"{worker} {at}", f"w/{worker}", "w/room", channel, "test")
        await notes.save(change, Draft("web-access", file, text, worker, "c1"), ask=False)
    await store.close()


asyncio.run(main(*sys.argv[1:]))
