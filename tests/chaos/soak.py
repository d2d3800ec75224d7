"""A soak: an even load for a long time, and whether memory, keys, descriptors and threads stay as they are."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import psutil
from redis.asyncio import Redis

from tests.chaos.people import Crowd, Delivering
from tests.chaos.run import Tell, all_answered
from tests.chaos.town import Plan, Town, town
from tests.harness.checking import Verdict, check
from tests.harness.history import Granted, History, Posted, Wrote, now_s, read

SAMPLE_S: Final = 2.0
TELL_S: Final = 60.0
KEEP_S: Final = 60
"""How long an idle conversation and a known event are kept: the least that the settings allow, so that a run sees it."""
MOST: Final[Mapping[str, float]] = {
    "memory": 0.05, "keys": 0.05, "threads": 0.0, "descriptors": 0.0, "connections": 0.0,
}  # fmt: skip
"""How much more there may be later in a run than before: of memory, keys and threads by the medians of the last quarter and the
second. What is noted of each turn, so that nothing is paid for twice, is kept for an hour after its end: its keys are told and not
counted, and Redis's memory is told alone.

Descriptors go by the most that there were in either half, each kind by itself. Files, pipes and the like stay as they are
from the beginning. Connections are kept by pools, so there are as many as were ever wanted at once: there may be as many more as there
were more turns at once. What leaks rises with the turns that there were, however many at once.
"""
SLACK: Final[Mapping[str, float]] = {
    "memory": 3.0, "keys": 20.0, "threads": 1.0, "descriptors": 3.0, "connections": 3.0,
}  # fmt: skip
"""And this much in any case, MiB or pieces: a sample falls into a turn, or beside it."""
BY_THE_MOST: Final = ("descriptors", "connections")
NOTES: Final = "*:of:*"
FORGETS_FROM_MINUTES: Final = 6.0
"""In less time nothing is forgotten yet, so that keys only grow."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted of a soak."""

    seed: int
    minutes: float = 60.0
    rate: float = 8.0
    conversations: int = 50
    """At a time; each is over after some twenty messages."""
    think_s: float = 0.3
    waits: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=lambda: MOST)


@dataclass(frozen=True, slots=True)
class Came:
    """What it came to: of each thing, what there was before and later."""

    order: Order
    verdict: Verdict
    grew: dict[str, tuple[float, float]]
    samples: int
    at_once: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By process: how many turns, or deliveries, it had in hand at most, in either half."""

    @property
    def too_much(self) -> list[str]:
        return [
            name
            for name, (before, after) in self.grew.items()
            if (what := name.rpartition(" ")[2]) in self.order.most
            and after > before * (1 + self.order.most[what]) + SLACK[what] + self._wanted_more(name, what)
            and (what != "keys" or self.order.minutes >= FORGETS_FROM_MINUTES)
        ]

    def _wanted_more(self, name: str, what: str) -> int:
        before, after = self.at_once.get(name.partition(" ")[0], (0, 0))
        return max(0, after - before) if what == "connections" else 0

    def lines(self) -> list[str]:
        counts = self.verdict.counts
        said = (
            f"{counts['messages']} messages in {counts['conversations']} conversations, {self.order.minutes:g} minutes"
        )
        lines = [
            self.verdict.report(),
            f"seed {self.order.seed}: {said}, {self.samples} samples; before -> later:",
        ]
        lines += [f"  {name:32} {before:10.1f} -> {after:10.1f}" for name, (before, after) in self.grew.items()]
        lines += [f"  {f'{name} at once':32} {one:10} -> {two:10}" for name, (one, two) in self.at_once.items()]
        if self.order.minutes < FORGETS_FROM_MINUTES:
            lines.append(f"  keys are not judged: nothing is forgotten before {KEEP_S} s are over")
        return [*lines, f"{len(self.verdict.violations)} violations; too much: {', '.join(self.too_much) or 'nothing'}"]


async def soak(order: Order, folder: Path, tell: Tell) -> Came:
    """Nothing is killed. Ledgers and logs in `folder`, which must not be there yet."""
    messages = max(1, int(order.minutes * 60 * order.rate))
    crowd = Crowd(order.seed, messages, order.conversations, order.rate, lives=20)
    mailbox = {"hold_back_ms": 300, "retention_s": KEEP_S, "dedupe_s": KEEP_S, **order.waits.get("mailbox", {})}
    plan = Plan(
        "soak", order.seed, 1, 2, waits={**order.waits, "mailbox": mailbox},
        rules={"hold_back_s": 0.3, "told_within_s": 120.0, "notices_max": 0, "summarises": True}, think_s=order.think_s,
    )  # fmt: skip
    samples: list[dict[str, float]] = []
    async with town(folder, plan) as place, aiohttp.ClientSession() as http:
        people = Delivering(place.book.pages["people"], place.serving, http, random.Random(order.seed + 2))
        begin_s = now_s()
        watching = asyncio.create_task(_watch(place, samples))
        telling = asyncio.create_task(_progress(people, samples, begin_s, order, tell))
        try:
            await people.all(crowd.sayings(), begin_s)
        finally:
            watching.cancel()
        await all_answered(people, place, 60.0)
        telling.cancel()
    tell("judging")
    history = read(folder / "ledgers")
    return Came(order, check(history), grown(samples), len(samples), at_once(history))


def at_once(history: History) -> dict[str, tuple[int, int]]:
    """By process: the most turns (of a gateway: deliveries) that it had in hand at once, in either half of the run."""
    posts = list(history.all(Posted))
    steps = sorted(
        [
            *((one.at_s, one.process, 1) for one in history.all(Granted)),
            *((one.at_s, one.process, -1) for one in history.all(Wrote) if one.releases),
            *((one.begin_s, one.process, 1) for one in posts),
            *((one.at_s, one.process, -1) for one in posts),
        ]
    )
    middle_s = (steps[0][0] + steps[-1][0]) / 2 if steps else 0.0
    held: Counter[str] = Counter()
    most: dict[str, tuple[int, int]] = {}
    for at_s, process, more in steps:
        held[process] += more
        before, after = most.get(process, (0, 0))
        most[process] = (max(before, held[process]), after) if at_s < middle_s else (before, max(after, held[process]))
    return most


def grown(samples: list[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """Medians of the second and the last quarter of what was seen, by name; of descriptors the most in each half."""
    quarter, half = max(1, len(samples) // 4), max(1, len(samples) // 2)
    quarters = samples[quarter : 2 * quarter] or samples[:1], samples[-quarter:]
    halves = samples[:half], samples[-half:]
    found: dict[str, tuple[float, float]] = {}
    for name in sorted({name for one in samples for name in one}):
        is_most = name.endswith(BY_THE_MOST)
        of: Callable[[list[float]], float] = max if is_most else statistics.median
        before, after = ([one[name] for one in part if name in one] for part in (halves if is_most else quarters))
        if after and (before or is_most):  # a kind that is only there later has grown
            found[name] = of(before) if before else 0.0, of(after)
    return found


async def _watch(place: Town, samples: list[dict[str, float]]) -> None:
    while True:
        await asyncio.sleep(SAMPLE_S)
        samples.append(await _sample(place))


async def _sample(place: Town) -> dict[str, float]:
    """MiB and pieces, by process."""
    found: dict[str, float] = {}
    for one in (*place.alive("gateway"), *place.alive("worker")):
        process = psutil.Process(one.born.pid)
        read_: dict[str, Callable[[], float]] = {
            "memory": lambda process=process: process.memory_info().rss / 2**20,  # type: ignore[misc]
            "threads": process.num_threads,
        }
        found |= {f"{one.name} {what}": float(look()) for what, look in read_.items()}
        ports = {urlsplit(one.tap.redis_url).port: "redis"} | place.ports()
        held = descriptors(process, ports)
        found |= {f"{one.name} {name}": float(number) for name, number in held.items()}
    async with Redis.from_url(place.server.url) as redis:
        notes = sum([1 async for _ in redis.scan_iter(NOTES, count=1_000)])
        found["redis notes"] = float(notes)
        found["redis keys"] = float(await redis.dbsize() - notes)
        found["redis dataset"] = (await redis.info("memory"))["used_memory_dataset"] / 2**20
    return found


def descriptors(process: psutil.Process, ports: Mapping[int | None, str]) -> dict[str, int]:
    """How many a process has open, by where they lead; `ports`: whose each is. What is kept of a pool is `connections`."""
    sockets = {one.fd: one for one in process.net_connections("all")}
    own = {one.laddr.port for one in sockets.values() if one.status == psutil.CONN_LISTEN}
    kinds: Counter[str] = Counter(dict.fromkeys((f"{to} connections" for to in (*ports.values(), "served")), 0))
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed
            leads_to = str(entry.readlink())
            socket = sockets.get(int(entry.name))
            if not leads_to.startswith("socket:"):
                kinds[f"{'file' if leads_to.startswith('/') else leads_to.partition(':')[0]} descriptors"] += 1
            elif not socket or isinstance(socket.laddr, str):
                kinds["unix descriptors"] += 1
            elif socket.status != psutil.CONN_LISTEN and socket.laddr.port in own:
                kinds["served connections"] += 1
            elif socket.raddr and socket.raddr.port in ports:
                kinds[f"{ports[socket.raddr.port]} connections"] += 1
            else:
                kinds["other descriptors"] += 1
    return dict(kinds)


async def _progress(
    people: Delivering, samples: list[dict[str, float]], begin_s: float, order: Order, tell: Tell
) -> None:
    while True:
        await asyncio.sleep(min(TELL_S, order.minutes * 20))
        last = samples[-1] if samples else {}
        memory = sum(value for name, value in last.items() if name.endswith("memory"))
        descriptors = sum(value for name, value in last.items() if name.endswith(BY_THE_MOST))
        tell(
            f"{(now_s() - begin_s) / 60:6.1f} of {order.minutes:g} min  {len(people.taken)} messages taken; "
            f"{memory:.0f} MiB, {descriptors:.0f} descriptors, {last.get('redis keys', 0):.0f} keys"
        )
