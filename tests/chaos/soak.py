"""A soak: an even load for a long time, and whether memory, keys, descriptors and threads stay as they are."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil
from redis.asyncio import Redis

from tests.chaos.people import Crowd, Delivering
from tests.chaos.run import Tell, all_answered
from tests.chaos.town import Plan, Town, town
from tests.harness.checking import Verdict, check
from tests.harness.history import now_s, read

SAMPLE_S: Final = 2.0
TELL_S: Final = 60.0
KEEP_S: Final = 60
"""How long an idle conversation and a known event are kept: the least that the settings allow, so that a run sees it."""
MOST: Final[Mapping[str, float]] = {"memory": 0.05, "keys": 0.05, "descriptors": 0.0, "threads": 0.0}
"""How much more there may be in the last quarter of a run than in the second: of descriptors by their lowest count, as more
turns at once need more of them. What is noted of each turn, so that nothing is
paid for twice, is kept for a day: its keys are told and not counted, and Redis's memory is told alone.
"""
SLACK: Final[Mapping[str, float]] = {"memory": 3.0, "keys": 20.0, "descriptors": 3.0, "threads": 1.0}
"""And this much in any case, MiB or pieces: a sample falls into a turn, or beside it."""
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
    """What it came to: of each thing, what there was in the second quarter and in the last one."""

    order: Order
    verdict: Verdict
    grew: dict[str, tuple[float, float]]
    samples: int

    @property
    def too_much(self) -> list[str]:
        return [
            name
            for name, (before, after) in self.grew.items()
            if (what := name.rpartition(" ")[2]) in self.order.most
            and after > before * (1 + self.order.most[what]) + SLACK[what]
            and (what != "keys" or self.order.minutes >= FORGETS_FROM_MINUTES)
        ]

    def lines(self) -> list[str]:
        counts = self.verdict.counts
        said = (
            f"{counts['messages']} messages in {counts['conversations']} conversations, {self.order.minutes:g} minutes"
        )
        lines = [
            self.verdict.report(),
            f"seed {self.order.seed}: {said}, {self.samples} samples; second quarter -> last quarter:",
        ]
        lines += [f"  {name:24} {before:10.1f} -> {after:10.1f}" for name, (before, after) in self.grew.items()]
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
        rules={"hold_back_s": 0.3, "told_within_s": 120.0, "summarises": True}, think_s=order.think_s,
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
    return Came(order, check(read(folder / "ledgers")), grown(samples), len(samples))


def grown(samples: list[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """Medians of the second and the last quarter of what was seen, by name; of descriptors the least."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter] or samples[:1], samples[-quarter:]
    names = sorted(early[0].keys() & late[-1].keys()) if samples else []
    found = {}
    for name in names:
        of: Callable[[list[float]], float] = min if name.endswith("descriptors") else statistics.median
        found[name] = of([one[name] for one in early if name in one]), of([one[name] for one in late if name in one])
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
            "descriptors": process.num_fds,
            "threads": process.num_threads,
        }
        found |= {f"{one.name} {what}": float(look()) for what, look in read_.items()}
    async with Redis.from_url(place.server.url) as redis:
        notes = sum([1 async for _ in redis.scan_iter(NOTES, count=1_000)])
        found["redis notes"] = float(notes)
        found["redis keys"] = float(await redis.dbsize() - notes)
        found["redis dataset"] = (await redis.info("memory"))["used_memory_dataset"] / 2**20
    return found


async def _progress(
    people: Delivering, samples: list[dict[str, float]], begin_s: float, order: Order, tell: Tell
) -> None:
    while True:
        await asyncio.sleep(min(TELL_S, order.minutes * 20))
        last = samples[-1] if samples else {}
        memory = sum(value for name, value in last.items() if name.endswith("memory"))
        descriptors = sum(value for name, value in last.items() if name.endswith("descriptors"))
        tell(
            f"{(now_s() - begin_s) / 60:6.1f} of {order.minutes:g} min  {len(people.taken)} messages taken; "
            f"{memory:.0f} MiB, {descriptors:.0f} descriptors, {last.get('redis keys', 0):.0f} keys"
        )
