"""A chaos run: a crowd talks while the nemesis rages; then all is quiet, everybody says one more thing, and all is judged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.chaos.nemesis import Nemesis
from tests.chaos.people import MIX, Crowd, Delivering
from tests.chaos.town import Plan, Scene, town
from tests.harness.checking import Verdict, check
from tests.harness.history import now_s, read

HOLD_BACK_MS: Final = 300
TELL_S: Final = 10.0
Tell = Callable[[str], None]
Towns = Callable[[Path, Plan], AbstractAsyncContextManager[Scene]]


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted of a run."""

    seed: int
    messages: int = 20_000
    conversations: int = 1_000
    rate: float = 25.0
    """Messages a second."""
    doubled: float = 0.05
    """How many are delivered twice."""
    waits: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from those shipped, beside `hold_back_ms`."""
    between_s: tuple[float, float] = (0.5, 5.0)
    """Between two deaths."""
    victims: Sequence[str] = ("worker", "gateway")
    pauses: float = 0.1
    """How many of them are stopped for longer than a lease instead."""
    redis_s: float | None = 60.0
    lease_s: float = 6.0
    gateways: int = 2
    workers: int = 3
    think_s: float = 0.3
    kinds: Sequence[tuple[str, float]] = MIX
    told_within_s: float = 60.0
    back_within_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Came:
    """What it came to."""

    order: Order
    verdict: Verdict
    kills: int
    stops: int
    redis_kills: int
    seconds: float
    back_s: float
    """From the last fault until each conversation had answered once more."""
    waits_s: tuple[float, float, float]
    """From 2xx to the end of the answer: median, 99 of 100, longest."""

    def lines(self) -> list[str]:
        counts = self.verdict.counts
        median_s, most_s, longest_s = self.waits_s
        said = (
            f"{counts['messages']} messages ({counts['taken']} answered 2xx) in {counts['conversations']} conversations"
        )
        return [
            self.verdict.report(),
            f"seed {self.order.seed}: {said}, {counts['deliveries']} deliveries, {self.seconds:.0f} s",
            f"{self.kills} processes killed, {self.stops} paused beyond a lease, Redis killed {self.redis_kills} times",
            f"2xx to answer: median {median_s:.2f} s, 99 % {most_s:.2f} s, longest {longest_s:.2f} s",
            f"all {counts['conversations']} conversations had answered again {self.back_s:.1f} s after the last fault",
            f"{len(self.verdict.violations)} violations",
        ]


async def chaos(order: Order, folder: Path, tell: Tell, towns: Towns = town) -> Came:
    """Ledgers and logs in `folder`, which must not be there yet. Some lines of progress go to `tell`."""
    crowd = Crowd(order.seed, order.messages, order.conversations, order.rate, order.doubled, kinds=order.kinds)
    chance = random.Random(order.seed + 1)
    mailbox = {"hold_back_ms": HOLD_BACK_MS, **order.waits.get("mailbox", {})}
    plan = Plan(
        "chaos",
        order.seed,
        order.gateways,
        order.workers,
        waits={**order.waits, "mailbox": mailbox},
        rules={
            "hold_back_s": HOLD_BACK_MS / 1000,
            "told_within_s": order.told_within_s,
            "back_within_s": order.back_within_s,
            "notices_max": 0,
        },
        think_s=order.think_s,
    )
    begun_s = now_s()
    async with towns(folder, plan) as place, aiohttp.ClientSession() as http:
        people = Delivering(place.book.pages["people"], place.serving, http, random.Random(order.seed + 2))
        nemesis = Nemesis(
            place,
            chance,
            order.between_s,
            order.redis_s,
            lease_s=order.lease_s,
            victims=order.victims,
            pauses=order.pauses,
        )
        begin_s = now_s()
        raging = asyncio.create_task(nemesis.rage())
        telling = asyncio.create_task(_progress(people, nemesis, order, begin_s, tell))
        try:
            await people.all(crowd.sayings(), begin_s)
        finally:
            raging.cancel()
            await asyncio.gather(raging, return_exceptions=True)
        last_s = now_s()
        tell(f"{last_s - begin_s:6.0f} s  all said; no more faults; each conversation says one more thing")
        try:
            back_s = await _once_more(crowd, people, place, order, last_s)
            await all_answered(people, place, order.told_within_s)
        finally:
            telling.cancel()
        waits = sorted(
            place.book.answered[one] - at_s for one, at_s in people.taken.items() if one in place.book.answered
        )
    tell("judging")
    verdict = check(read(folder / "ledgers"))
    return Came(
        order, verdict, nemesis.kills, nemesis.stops, nemesis.redis_kills, now_s() - begun_s, back_s, _three(waits)
    )


async def _once_more(crowd: Crowd, people: Delivering, place: Scene, order: Order, last_s: float) -> float:
    """How long after the last fault all have answered; at most as long as is asked for, and what is left shows itself."""
    places = [people.places.get(f"c{which + 1}", 0) for which in range(order.conversations)]
    rate = max(4 * order.rate, order.conversations / (order.back_within_s / 3))
    more = list(crowd.once_more(0.0, rate, places))
    await people.all(iter(more), now_s())
    names = {one.message for one in more}
    while not names <= place.book.answered.keys() and now_s() < last_s + 2 * order.back_within_s:
        place.book.came.clear()
        try:
            async with asyncio.timeout(1.0):
                await place.book.came.wait()
        except TimeoutError:
            continue
    return max((place.book.answered.get(one, float("inf")) for one in names), default=last_s) - last_s


async def all_answered(people: Delivering, place: Scene, within_s: float) -> None:
    """Whatever is still under way may end; what never does is what the checker is for."""
    await people.end()
    until_s = now_s() + within_s
    while now_s() < until_s:
        if people.taken.keys() <= place.book.answered.keys() and await place.at_rest():
            return
        await asyncio.sleep(0.2)


async def _progress(people: Delivering, nemesis: Nemesis, order: Order, begin_s: float, tell: Tell) -> None:
    while True:
        await asyncio.sleep(TELL_S)
        said, all_of_them = sum(people.places.values()), order.messages + order.conversations  # and one more each
        tell(
            f"{now_s() - begin_s:6.0f} s  {said} of {all_of_them} said, {len(people.taken)} taken, "
            f"{len(nemesis.town.book.answered)} answered; {nemesis.kills} kills, {nemesis.stops} pauses, "
            f"{nemesis.redis_kills} times Redis"
        )


def _three(waits: list[float]) -> tuple[float, float, float]:
    if not waits:
        return (0.0, 0.0, 0.0)
    return waits[len(waits) // 2], waits[min(len(waits) - 1, len(waits) * 99 // 100)], waits[-1]
