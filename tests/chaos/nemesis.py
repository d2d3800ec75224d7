"""The nemesis: kills and pauses processes, and kills Redis, by the clock of a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.town import Scene


@dataclass
class Nemesis:
    """`pauses`: how often a process is stopped for longer than a lease in place of killed."""

    town: Scene
    chance: random.Random
    between_s: tuple[float, float] = (0.5, 5.0)
    redis_s: float | None = 60.0
    redis_away_s: float = 1.0
    lease_s: float = 6.0
    pauses: float = 0.1
    victims: Sequence[str] = ("worker", "gateway")
    kills: int = 0
    stops: int = 0
    redis_kills: int = 0
    _paused: set[asyncio.Task[None]] = field(default_factory=set)
    _away: set[asyncio.Task[None]] = field(default_factory=set)
    """Of Redis: never broken off."""

    async def rage(self) -> None:
        """Until it is cancelled; then what sleeps is woken, and Redis comes back."""
        tasks = [asyncio.create_task(self._processes())]
        if self.redis_s:
            tasks.append(asyncio.create_task(self._redis(self.redis_s)))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in (*tasks, *self._paused):
                task.cancel()
            await asyncio.gather(*tasks, *self._paused, *self._away, return_exceptions=True)

    async def _processes(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(*self.between_s))
            alive = [one for role in self.victims for one in self.town.alive(role)]
            if not alive:
                continue
            victim = self.chance.choice(alive)
            if self.chance.random() < self.pauses:
                self.stops += 1
                task = asyncio.create_task(self.town.pause(victim, self.lease_s * self.chance.uniform(1.2, 3.0)))
                self._paused.add(task)
                task.add_done_callback(self._paused.discard)
            else:
                self.kills += 1
                self.town.kill(victim)

    async def _redis(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.redis_kills += 1
            kill = asyncio.create_task(self.town.kill_redis(self.redis_away_s))
            self._away.add(kill)
            kill.add_done_callback(self._away.discard)
