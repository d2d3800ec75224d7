"""Ten thousand skills on their way through Redis: published, read by a worker, changed; and what a turn's look costs.

A real gateway finds the folder, packs and publishes it while webhooks come in at a steady pace; readers do what workers
do at each turn's start. CPU time, unless somebody waits for it.

    python -m bench.shelf [--skills 10000] [--readers 8] [--pace 100] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench._load import post_all, signed_post, slack_events
from bench._reader import KEY, Sight, held
from bench._world import (
    Process,
    Verdicts,
    World,
    measured_core,
    other_core,
    process,
    quantile,
    server,
    slack,
    world,
)
from bench.skills import write_skills
from config.loading import Loaded, load
from gateway.audit.log import Change
from gateway.shelf.decisions import scope_of
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import NobodyPacks, Shelf
from gateway.store import Store
from skills import document
from skills.bundles import Cache

GOALS = {"change": 2.0, "p99": 40.0, "held": 50.0, "memory": 60.0}
LOOKS = 2_000
CHANGE = Change("wish", "bench/ada", "hooks/room-1", KEY.channel_id, "bench")
WITHIN_S = 120.0


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:44} {value:9.2f} {unit}", flush=True)


# ---- the packer alone ----


async def pack(here: World, loaded: Loaded, folder: Path, count: int, verdicts: Verdicts) -> None:
    """In this process, so that its loop can be watched."""
    packer = Packer(here.store, loaded.settings.skills, "bench")
    before = await memory_of(here.store)
    took_s, cpu_s, redis_s, held_s = await timed(here, packer)
    show(f"{count:,} skills: scan, pack, publish, wall", took_s, "s")
    show("  CPU", cpu_s, "s")
    show("  CPU of Redis", redis_s, "s")
    verdicts.tell("  the loop held, at most", held_s * 1_000, GOALS["held"], "ms")
    show("  in Redis", (await memory_of(here.store) - before) / 1e6, "MB")
    seen = await Shelf(here.store, Cache(here.folder), present=()).look()
    size = await here.store.redis.strlen(f"{here.store.layout.skills_root}:snapshot:{seen.number}")
    show("  of it the snapshot", size / 1e6, "MB")
    took_s, cpu_s, _, held_s = await timed(here, packer)
    show("nothing changed: CPU", cpu_s * 1_000, "ms")
    show("  the loop held, at most", held_s * 1_000, "ms")
    change(folder, "by the bench's own packer")
    took_s, cpu_s, _, held_s = await timed(here, packer)
    show("one changed: scan, pack, publish, wall", took_s, "s")
    show("  CPU", cpu_s, "s")
    show("  the loop held, at most", held_s * 1_000, "ms")


async def timed(here: World, packer: Packer) -> tuple[float, float, float, float]:
    """Wall, CPU, CPU of Redis, and how long the loop was held."""
    begun_s, cpu_s, redis_s = time.perf_counter(), time.process_time(), here.redis.cpu_s()
    ours, held_s = await held(packer.step())
    assert ours
    return time.perf_counter() - begun_s, time.process_time() - cpu_s, here.redis.cpu_s() - redis_s, held_s


async def memory_of(store: Store) -> int:
    found: dict[str, Any] = await store.redis.info("memory")
    return int(found["used_memory"])


def change(folder: Path, words: str) -> None:
    file = folder / "skill-00042" / document.NAME
    new = file.with_name(".new")
    new.write_text(f"---\nname: skill-00042\ndescription: Changed {words}.\n---\n{time.time()}\n", encoding="utf-8")
    new.replace(file)


@dataclass(frozen=True, slots=True)
class Pace:
    """Webhooks one after the other, however long the answers take."""

    each_s: int
    """How many a second."""
    bodies: Iterator[bytes]

    async def post(self, url: str, is_over: Callable[[], bool], *, for_s: float) -> list[float]:
        """How long each waited for its 200, in seconds, counted from when it was due."""
        took_s: list[float] = []

        async def one(body: bytes, due_s: float) -> None:
            tally = await post_all(url, [signed_post("/webhooks/slack-main", body, int(time.time()))], connections=1)
            assert tally.statuses == {200: 1}, tally.statuses
            took_s.append(time.perf_counter() - due_s)

        begun_s = time.perf_counter()
        async with asyncio.TaskGroup() as posts:
            for number in itertools.count():
                due_s = begun_s + number / self.each_s
                if due_s > begun_s + for_s or (number % 20 == 0 and is_over()):
                    break
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                posts.create_task(one(next(self.bodies), due_s))
        return took_s


# ---- a gateway that packs while events come in ----


async def publish_under_load(here: World, folder: Path, place: Path, pace: Pace, verdicts: Verdicts) -> None:
    """The folder is filled while a gateway serves: how long webhooks wait, before and meanwhile."""
    with server("sink", "bench._sink", core=other_core()) as (_, sink):
        here.configure(connections={"slack-main": slack(sink)}, skills={"folder": str(place)})
        with here.deskmate("gateway") as gateway:
            line = await here.logged("gateway", "gateway ready")
            url = "http://" + line.partition("http://")[2].split()[0]
            await here.logged("gateway", "skills published")
            usual = await pace.post(url, lambda: False, for_s=4.0)
            cpu_s, begun_s = gateway.cpu_s(), time.perf_counter()
            place.rmdir()
            folder.rename(place)
            log = here.folder / "gateway.log"

            def is_published() -> bool:
                return log.read_text(encoding="utf-8").count("skills published") > 1

            meanwhile = await pace.post(url, is_published, for_s=WITHIN_S)
            assert is_published(), f"nothing was published within {WITHIN_S:g} s"
            show("a serving gateway, from found to published", time.perf_counter() - begun_s, "s")
            show("  CPU of the gateway, events included", gateway.cpu_s() - cpu_s, "s")
    show(f"webhooks at {pace.each_s}/s, p50 otherwise", quantile(usual, 0.5) * 1_000, "ms")
    show("  p99", quantile(usual, 0.99) * 1_000, "ms")
    show("  p50 meanwhile", quantile(meanwhile, 0.5) * 1_000, "ms")
    verdicts.tell(f"p99 of {len(meanwhile)} webhooks meanwhile", quantile(meanwhile, 0.99) * 1_000, GOALS["p99"], "ms")
    show("  the slowest", max(meanwhile) * 1_000, "ms")


# ---- workers ----


async def unchanged(here: World, loaded: Loaded) -> None:
    """What each turn and each call of a tool pays."""
    with tempfile.TemporaryDirectory(prefix="deskmate-bench-") as name:
        shelf = Shelf(here.store, Cache(Path(name)), present=())
        await shelf.here(KEY, loaded)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(3):
            cpu_s, redis_s = time.process_time(), here.redis.cpu_s()
            for _ in range(LOOKS):
                await shelf.here(KEY, loaded)
            ours.append((time.process_time() - cpu_s) / LOOKS * 1e6)
            theirs.append((here.redis.cpu_s() - redis_s) / LOOKS * 1e6)
    show("a turn's look, nothing changed: CPU", statistics.median(ours), "us")
    show("  CPU of Redis", statistics.median(theirs), "us")


async def next_sight(reader: Process) -> Sight:
    assert reader.started.stdout
    async with asyncio.timeout(WITHIN_S):
        return Sight(**json.loads(await asyncio.to_thread(reader.started.stdout.readline)))


async def until_packer(shelf: Shelf) -> None:
    """Wait until the gateway has taken the place of the one before, and has looked."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(NobodyPacks):
                await shelf.reload(CHANGE)
                return


async def change_reaches_all(here: World, folder: Path, readers: list[Process], verdicts: Verdicts) -> None:
    shelf = Shelf(here.store, Cache(here.folder), present=())
    with here.deskmate("gateway", core=other_core()):
        await until_packer(shelf)
        for number in range(3):
            begun_s = time.time()
            change(folder, f"for the {number}th time")
            sights = await asyncio.gather(*map(next_sight, readers))
            last_s = max(sight.at_s for sight in sights) - begun_s
            verdicts.tell(f"a changed file, until {len(readers)} processes see it", last_s, GOALS["change"], "s")
        show("  a reader, CPU", statistics.median(sight.cpu_s for sight in sights) * 1_000, "ms")
        begun_s = time.time()
        await shelf.switch(scope_of(KEY.channel_id), "skill-00007", "off", replace(CHANGE, id="switch"))
        sights = await asyncio.gather(*map(next_sight, readers))
        last_s = max(sight.at_s for sight in sights) - begun_s
        verdicts.tell(f"a switch, until {len(readers)} processes see it", last_s, GOALS["change"], "s")


async def bench(count: int, readers: int, pace: int, seed: int) -> None:
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory(prefix="deskmate-bench-") as name, ExitStack() as stack:
        folder, empty = Path(name, "skills"), Path(name, "empty")
        folder.mkdir()
        empty.mkdir()
        write_skills(folder, count, seed)
        async with world() as here:
            here.configure(skills={"folder": str(folder)})
            await pack(here, load(here.settings), folder, count, verdicts)
        async with world() as here:
            os.sched_setaffinity(0, {other_core()})  # the gateway has the first core for itself
            await publish_under_load(here, folder, empty, Pace(pace, slack_events(seed)), verdicts)
            folder = empty
            loaded = load(here.settings)
            cores = (measured_core(), other_core())
            command = [sys.executable, "-m", "bench._reader", str(here.settings), here.redis_url]

            def reader(number: int) -> Process:
                return stack.enter_context(
                    process(f"reader {number}", command, core=cores[number % 2], stdout=subprocess.PIPE)
                )

            watching = [reader(0)]
            sight = await next_sight(watching[0])
            assert sight.skills >= count, sight
            show("a worker's first look: wall", sight.took_s, "s")
            show("  CPU", sight.cpu_s, "s")
            verdicts.tell("  memory more", sight.memory_mb, GOALS["memory"], "MB")
            verdicts.tell("  its loop held, at most", sight.held_s * 1_000, GOALS["held"], "ms")
            os.sched_setaffinity(0, {measured_core()})
            await unchanged(here, loaded)
            watching += [reader(number) for number in range(1, readers)]
            await asyncio.gather(*map(next_sight, watching[1:]))
            await change_reaches_all(here, folder, watching, verdicts)
            stack.close()
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--skills", type=int, default=10_000)
    options.add_argument("--readers", type=int, default=8)
    options.add_argument("--pace", type=int, default=100, help="events a second")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    given = options.parse_args()
    print(f"{given.skills:,} skills, seed {given.seed}; load of the machine {os.getloadavg()[0]:.1f}")
    os.sched_setaffinity(0, {measured_core()})
    asyncio.run(bench(given.skills, given.readers, given.pace, given.seed))


if __name__ == "__main__":
    main()
