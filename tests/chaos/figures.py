"""Figures of whole deployments: an outage of Redis, more workers, loud and quiet channels, two machines on one Redis."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.chaos.people import Crowd, Delivering, Saying
from tests.chaos.run import Tell, all_answered
from tests.chaos.town import Plan, Town, town
from tests.harness.checking import check
from tests.harness.history import Accepted, Fault, now_s, read
from tests.sweep.kinds import KEYED, KINDS

PLACES = 5
"""`worker.concurrency` where the places of a worker, and not the processor, have to be the limit."""
THINK_S = 2.0


@asynccontextmanager
async def _opened(folder: Path, plan: Plan) -> AsyncIterator[tuple[Town, Delivering]]:
    async with town(folder, plan) as place, aiohttp.ClientSession() as http:
        yield place, Delivering(place.book.pages["people"], place.serving, http, random.Random(plan.seed + 2))


async def outage(seed: int, folder: Path, tell: Tell, away_s: float = 30.0, rate: float = 5.0) -> bool:
    """Redis is away for so long under load: nothing is lost, and the first answer comes soon after it is back."""
    plan = Plan("outage", seed, 1, 2, rules={"told_within_s": 120.0, "notices_max": 0})
    crowd = Crowd(seed, int(rate * (away_s + 30)), 50, rate, swapped=0.0)
    async with _opened(folder, plan) as (place, people):
        talking = asyncio.create_task(people.all(crowd.sayings(), now_s()))
        await asyncio.sleep(10)
        tell(f"Redis is killed, and away for {away_s:g} s")
        await place.kill_redis(away_s)
        tell("it is back")
        await talking
        await all_answered(people, place, 120.0)
    history = read(folder / "ledgers")
    verdict = check(history)
    back_s = next(one.at_s for one in history.all(Fault) if one.what == "back")
    first_s = min(one.at_s for one in history.all(Accepted) if one.at_s > back_s) - back_s
    tell(verdict.report())
    counts = verdict.counts
    tell(
        f"seed {seed}: {counts['messages']} messages, {counts['taken']} taken, {people.refused} deliveries refused and "
        f"repeated; Redis away {away_s:g} s; first answer {first_s:.2f} s after it was back (at most 5 s wanted); "
        f"{len(verdict.violations)} violations"
    )
    return not verdict.violations and first_s <= 5.0


async def scale(seed: int, folder: Path, tell: Tell, turns: int = 80) -> bool:
    """Turns a second of one worker process, and of two."""
    speeds = [await _speed(seed, folder / f"workers-{workers}", turns, workers) for workers in (1, 2)]
    ratio = speeds[1] / speeds[0]
    limit = PLACES / THINK_S
    tell(
        f"seed {seed}, {turns} turns each: 1 worker {speeds[0]:.2f} turns/s, 2 workers {speeds[1]:.2f} turns/s: "
        f"{ratio:.2f} x (at least 1.8 wanted). The limit is the places of a worker: {PLACES} of {THINK_S:g} s each are at "
        f"most {limit:.2f} turns/s; the processor is not"
    )
    return ratio >= 1.8


async def _speed(seed: int, folder: Path, turns: int, workers: int) -> float:
    plan = Plan("scale", seed, 1, workers, waits={"worker": {"concurrency": PLACES}}, think_s=THINK_S)
    async with _opened(folder, plan) as (place, people):
        begin_s = now_s()
        await people.all(iter([_said(number, begin_s=0.0) for number in range(turns)]), begin_s)
        await all_answered(people, place, 300.0)
        answered = sorted(place.book.answered.values())
    # without the first and the last round: the one is claimed, and the other ends, bit by bit
    inner = answered[PLACES * workers : -PLACES * workers]
    return (len(inner) - 1) / (inner[-1] - inner[0])


async def fair(seed: int, folder: Path, tell: Tell, loud: int = 80, quiet: int = 8) -> bool:
    """One channel says a lot at once, another one a little now and then: the quiet one does not wait behind the loud one."""
    plan = Plan("fair", seed, 1, 1, waits={"worker": {"concurrency": PLACES}}, think_s=THINK_S / 2)
    async with _opened(folder, plan) as (place, people):
        begin_s = now_s()
        said = [_said(number, begin_s=0.0, room="loud") for number in range(loud)]
        said += [_said(loud + number, begin_s=2.0 + number, room="quiet") for number in range(quiet)]
        await people.all(iter(said), begin_s)
        await all_answered(people, place, 300.0)
        waits = {one.message: place.book.answered[one.message] - people.taken[one.message] for one in said}
    of = {room: sorted(waits[one.message] for one in said if one.room == room) for room in ("loud", "quiet")}
    rest_s = statistics.median(of["loud"])
    tell(
        f"seed {seed}: {loud} messages of a loud channel at once, {quiet} of a quiet one a second apart, one worker with "
        f"{PLACES} places, {THINK_S / 2:g} s a turn: loud median {rest_s:.2f} s, longest {of['loud'][-1]:.2f} s; quiet median "
        f"{statistics.median(of['quiet']):.2f} s, longest {of['quiet'][-1]:.2f} s"
    )
    return of["quiet"][-1] < rest_s


async def pair(seed: int, folder: Path, tell: Tell, messages: int = 200, rate: float = 5.0) -> bool:
    """Two sets of processes with data folders of their own share a Redis; all of one set die in the midst of it."""
    plan = Plan("pair", seed, 1, 1, rules={"told_within_s": 60.0, "notices_max": 0}, machines=2)
    crowd = Crowd(seed, messages, 30, rate, swapped=0.0)
    async with _opened(folder, plan) as (place, people):
        talking = asyncio.create_task(people.all(crowd.sayings(), now_s()))
        await asyncio.sleep(messages / rate / 2)
        for one in list(place.lanes[0].running):
            place.kill(one)
        await talking
        await all_answered(people, place, 60.0)
    history = read(folder / "ledgers")
    verdict = check(history)
    tell(verdict.report())
    shares = _shares(one.process for one in history.all(Accepted))
    tell(
        f"seed {seed}: {verdict.counts['messages']} messages, answers by machine: {shares}, each with a data folder "
        f"of its own; one machine killed whole and started again; {len(verdict.violations)} violations"
    )
    return not verdict.violations and len(shares) == 2


def _shares(processes: Iterable[str]) -> dict[str, int]:
    """How many answers came from each machine: a process is called `worker-MACHINE.NUMBER`."""
    found: dict[str, int] = {}
    for process in processes:
        machine = process.partition("-")[2].partition(".")[0]
        found[machine] = found.get(machine, 0) + 1
    return dict(sorted(found.items()))


def _said(number: int, **more: Any) -> Saying:
    """One message of a conversation of its own."""
    name = f"{KEYED}{number + 1}"
    begin_s = float(more["begin_s"])
    return Saying(f"{name}.0", name, 0, KINDS["plain"], begin_s, (begin_s,), more.get("room", ""))
