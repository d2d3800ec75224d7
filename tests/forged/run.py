"""A gateway with a connection of each platform, a count of what is stored, and many senders at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from tests.forged.forging import FORGERIES, fuzzed, genuine
from tests.forged.proofs import PLATFORMS, Delivery, samples
from tests.gateway.served import answer_of
from tests.harness.all_twins import TWINS
from tests.harness.deployment import Deployment
from tests.harness.own_redis import own_redis
from tests.harness.twins import Twin

SENDERS: Final = 12
WITHIN_S: Final = 30.0
"""An answer that takes longer is none."""
FUZZED: Final = 0.2
"""Of all that is sent, what is rightly signed and may be read."""
VERIFICATION_TOKEN: Final = "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV"
"""Of Feishu's samples."""
BAD: Final = 500
GUESSED: Final = "refused again and again"
"""What a gateway tells in its log of all this: so that somebody looks."""


@dataclass(slots=True)
class Found:
    """What became of them."""

    seed: int
    took_s: float = 0.0
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By what was done (`fuzzed`: nothing but that) and the answer; 0: none came."""
    stored: int = 0
    """Events in inboxes that forgeries left there."""
    faults: list[str] = field(default_factory=list)
    """What should not have been: the first ones."""

    @property
    def forged(self) -> int:
        return sum(count for (name, _), count in self.statuses.items() if name != "fuzzed")

    @property
    def accepted(self) -> int:
        """Forgeries that were answered as if they were true."""
        return sum(count for (name, status), count in self.statuses.items() if name != "fuzzed" and 200 <= status < 400)

    @property
    def broken(self) -> int:
        """Of all: answered 5xx, or not at all."""
        return sum(count for (_, status), count in self.statuses.items() if not status or status >= BAD)

    def lines(self) -> Iterator[str]:
        """For people."""
        for name in (*FORGERIES, "fuzzed"):
            answers = ", ".join(
                f"{status or 'none'} {count}" for (one, status), count in sorted(self.statuses.items()) if one == name
            )
            yield f"  {name.replace('_', ' '):20} {answers}"
        total = self.statuses.total()
        yield f"{self.forged} forged: {self.accepted} accepted, {self.stored} stored; {total - self.forged} fuzzed and signed"
        yield f"{total} webhooks, {self.broken} answered 5xx or not at all; {self.took_s:.0f} s, seed {self.seed}"
        yield from self.faults


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[tuple[Deployment, str]]:
    """It runs, and knows who it is on each platform; and the address of its Redis. No worker takes anything away."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(own_redis(folder / "redis"))
        twins: dict[str, Twin] = {}
        for platform, make in TWINS.items():
            twins[platform.replace("_", "-")] = await stack.enter_async_context(make())
        environment: dict[str, str] = {}
        for twin in twins.values():
            environment |= twin.environment
        environment["FEISHU_VERIFICATION_TOKEN"] = VERIFICATION_TOKEN
        feishu = {**twins["feishu"].connection, "window_s": 300}  # as shipped it has none: Feishu sends again for hours
        settings = {
            "connections": {name: twin.connection for name, twin in twins.items()} | {"feishu": feishu},
            "mailbox": {"inbox_max": 100_000, "waiting_max": 1_000_000},
            "log": {"format": "json", "level": "error"},
        }
        deskmate = await stack.enter_async_context(Deployment(folder, server.url, settings, environment))
        await deskmate.start_gateway()
        yield deskmate, server.url


async def forged(count: int, seed: int, folder: Path, tell: Callable[[str], None]) -> Found:
    """So many, by this seed. Raises `AssertionError` where what is genuine is not taken: then nothing was proved."""
    found = Found(seed)
    async with gateway(folder) as (deskmate, redis_url):
        await _are_taken(deskmate)
        before = await _stored(redis_url)
        begun_s = time.monotonic()
        rng = random.Random(seed)
        plans = _forgeries(rng, int(count * (1 - FUZZED)))
        await _send(deskmate, plans, found, tell, count)
        found.stored = await _stored(redis_url) - before
        await _send(deskmate, _fuzz(rng, count - found.forged), found, tell, count)
        found.took_s = time.monotonic() - begun_s
        await _are_taken(deskmate)
        [process] = deskmate.running
        broke = [line for line in process.lines() if line["level"] == "error" and line["event"] != GUESSED]
        found.faults += [f"in the log: {line}" for line in broke[:5]]
    return found


def _forgeries(rng: random.Random, count: int) -> Iterator[tuple[str, Delivery]]:
    names, connections = list(FORGERIES), list(PLATFORMS)
    while count:
        name, connection = rng.choice(names), rng.choice(connections)
        if made := FORGERIES[name](rng, connection, int(time.time())):
            count -= 1
            yield name, made


def _fuzz(rng: random.Random, count: int) -> Iterator[tuple[str, Delivery]]:
    for _ in range(count):
        yield "fuzzed", fuzzed(rng, rng.choice(list(PLATFORMS)), int(time.time()))


async def _send(
    deskmate: Deployment,
    plans: Iterator[tuple[str, Delivery]],
    found: Found,
    tell: Callable[[str], None],
    count: int,
) -> None:
    async def sender() -> None:
        line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for name, one in plans:
            status, line = await _ask(deskmate, one, line)
            found.statuses[name, status] += 1
            is_bad = not status or status >= BAD or (name != "fuzzed" and status < 400)
            if is_bad and len(found.faults) < 10:
                found.faults.append(f"{name} on {one.connection}: {status}: {one.wire('x')[:2_000]!r}")
            if (sent := found.statuses.total()) % 10_000 == 0:
                tell(f"  {sent} of {count} sent; {found.accepted} accepted, {found.broken} answered 5xx or not at all")
        if line:
            line[1].close()

    async with asyncio.TaskGroup() as group:
        for _ in range(SENDERS):
            group.create_task(sender())


async def _ask(
    deskmate: Deployment, one: Delivery, line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None
) -> tuple[int, tuple[asyncio.StreamReader, asyncio.StreamWriter] | None]:
    """Its answer, 0 if there is none, and the connection if it can be used again."""
    kept = line
    for is_first in (True, False):
        try:
            async with asyncio.timeout(WITHIN_S):
                line = line or await asyncio.open_connection("127.0.0.1", deskmate.port)
                line[1].write(one.wire(f"127.0.0.1:{deskmate.port}"))
                answer = await answer_of(line[0], WITHIN_S)
        except (OSError, EOFError, TimeoutError):
            if line:
                line[1].close()
            line = None
            if is_first and kept:
                continue  # the gateway closed it after the answer before
            return 0, None
        if answer.headers.get("connection", "") == "close":
            line[1].close()
            return answer.status, None
        return answer.status, line
    raise AssertionError


async def _are_taken(deskmate: Deployment) -> None:
    """What is genuine: else forgeries are refused for another reason."""
    rng = random.Random(0)
    for connection in PLATFORMS:
        for _ in samples(connection):
            one = genuine(rng, connection, int(time.time()))
            status, line = await _ask(deskmate, one, None)
            assert 200 <= status < 300, f"genuine on {connection}: {status}: {one.wire('x')!r}"
            if line:
                line[1].close()


async def _stored(redis_url: str) -> int:
    async with Redis.from_url(redis_url) as redis:
        return sum([await redis.zcard(key) async for key in redis.scan_iter(match="*:inbox", count=1_000)])
