"""People: messages that come by the clock, whatever becomes of them, and platforms that bring them twice and swapped."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from tests.harness.history import Ledger, Posted, now_s
from tests.harness.webhook_twin import sign
from tests.sweep.kinds import KEYED, KINDS, Kind

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Before a delivery that was not answered 2xx is repeated, as platforms do it."""
GIVE_UP_S = 5.0
"""How long a platform waits for an answer."""
SWAP_S = 0.05
"""Between two messages of one person that are delivered the other way round."""
MIX: Final = (("plain", 0.7), ("once", 0.15), ("read", 0.05), ("long", 0.10))
"""Kinds of turn, and how many of each."""


@dataclass(frozen=True, slots=True)
class Saying:
    """One message: when it is said, and when it is delivered, in seconds from the beginning."""

    message: str
    conversation: str
    place: int
    kind: Kind
    said_s: float
    due_s: tuple[float, ...]
    """Of each delivery: the first one, and those that repeat it."""
    room: str = ""
    """The channel, where the conversation is a thread of one. Empty: it is a channel of its own."""

    @property
    def canary(self) -> str:
        return f"QX{self.conversation}Z"


@dataclass(frozen=True, slots=True)
class Crowd:
    """What is said in a run: the same for the same seed."""

    seed: int
    messages: int
    conversations: int
    rate: float
    """Messages a second."""
    doubled: float = 0.05
    swapped: float = 0.10
    kinds: Sequence[tuple[str, float]] = MIX
    lives: int = 0
    """After about so many messages a conversation is over and a new one is in its place: a thread of the same room, with the
    same person. 0: never, each is a room of its own.
    """

    def sayings(self) -> Iterator[Saying]:
        """In the order of their first deliveries, nearly."""
        chance = random.Random(self.seed)
        places: Counter[int] = Counter()
        names, weights = zip(*self.kinds, strict=True)
        said = 0
        while said < self.messages:
            at_s = said / self.rate
            which = chance.randrange(self.conversations)
            if self.lives:
                which += said // (self.conversations * self.lives) * self.conversations
            pair = chance.random() < self.swapped / 2 and said + 1 < self.messages
            for number in range(2 if pair else 1):
                said_s = at_s + number * SWAP_S
                late_s = SWAP_S * 3 if pair and number == 0 else 0.0
                due = [said_s + late_s]
                if chance.random() < self.doubled:
                    due.append(due[0] + chance.uniform(0.0, 5.0))
                kind = KINDS[chance.choices(names, weights)[0]]
                yield self.saying(which, places[which], kind, said_s, due)
                places[which] += 1
                said += 1

    def once_more(self, begin_s: float, rate: float, places: Sequence[int]) -> Iterator[Saying]:
        """Each conversation says one more thing."""
        for which, place in enumerate(places):
            at_s = begin_s + which / rate
            yield self.saying(which, place, KINDS["plain"], at_s, [at_s])

    def saying(self, which: int, place: int, kind: Kind, said_s: float, due_s: Sequence[float]) -> Saying:
        name = f"{KEYED}{which + 1}"
        room = f"room-{which % self.conversations}" if self.lives else ""
        return Saying(f"{name}.{place}", name, place, kind, said_s, tuple(due_s), room)


@dataclass
class Delivering:
    """Brings messages to whoever serves. `serving` gives addresses by the name of their process."""

    ledger: Ledger
    serving: Callable[[], Sequence[tuple[str, str]]]
    http: aiohttp.ClientSession
    chance: random.Random
    taken: dict[str, float] = field(default_factory=dict)
    """When each message was answered 2xx first."""
    deliveries: int = 0
    refused: int = 0
    places: dict[str, int] = field(default_factory=dict)
    """How many messages each conversation has."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def all(self, sayings: Iterator[Saying], begin_s: float) -> None:
        """Each at its time; returns when the last was begun. Late is never left out: an open loop."""
        for saying in sayings:
            await asyncio.sleep(max(0.0, begin_s + saying.said_s - now_s()))
            self.places[saying.conversation] = max(self.places.get(saying.conversation, 0), saying.place + 1)
            for number, due_s in enumerate(saying.due_s):
                task = asyncio.create_task(self._deliver(saying, number, begin_s, begin_s + due_s))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """All deliveries have been taken, or are given up."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _deliver(self, saying: Saying, number: int, begin_s: float, due_s: float) -> None:
        """A repetition has the event's id half of the time, else one of its own."""
        await asyncio.sleep(max(0.0, due_s - now_s()))
        delivery = f"d-{saying.message}" + (f"-{number}" if number and self.chance.random() < 0.5 else "")
        said_s = begin_s + saying.said_s
        raw = _body(saying, datetime.now(UTC).timestamp() - (now_s() - said_s))
        for pause_s in (0.0, *PAUSES_S):
            await asyncio.sleep(pause_s)
            status = await self._once(saying, delivery, raw, said_s)
            if 200 <= status < 300:
                self.taken.setdefault(saying.message, now_s())
                return
            self.refused += 1

    async def _once(self, saying: Saying, delivery: str, raw: str, said_s: float) -> int:
        there = self.serving()
        begin_s = now_s()
        process, status = "", 0
        if there:
            process, url = self.chance.choice(there)
            try:
                timeout = aiohttp.ClientTimeout(total=GIVE_UP_S)
                async with self.http.post(url, data=raw, headers=sign(delivery, raw), timeout=timeout) as answer:
                    status = answer.status
            except (TimeoutError, aiohttp.ClientError):
                status = 0
        self.deliveries += 1
        self.ledger.write(
            Posted(
                now_s(), conversation=saying.conversation, message=saying.message, begin_s=begin_s, status=status,
                place=saying.place, said_s=said_s, delivery=delivery, process=process, calls=saying.kind.calls,
                canary=saying.canary,
            )
        )  # fmt: skip
        return status


def _body(saying: Saying, at_s: float) -> str:
    data: dict[str, Any] = {
        "conversation": saying.room or saying.conversation, "thread": saying.conversation if saying.room else None,
        "message_id": saying.message,
        "user": {"id": f"u-{saying.room or saying.conversation}", "name": "Someone"},
        "text": saying.kind.text(saying.message, saying.canary), "attachments": [],
    }  # fmt: skip
    stamp = datetime.fromtimestamp(at_s, UTC).isoformat()
    return json.dumps({"type": "message.created", "timestamp": stamp, "data": data})
