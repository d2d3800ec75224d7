"""Which points are struck, and how: the same seed gives the same, however many points a recording found beside them."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.sweep.kinds import KINDS
from tests.sweep.plan import How, Platform
from tests.sweep.trap import Point

Turn = tuple[str, Platform, bool]
"""A kind of turn, on which platform, and whether alone in a child process."""
PLATFORMS: Final[tuple[Platform, ...]] = ("keyed", "keyless", "skipping", "searched")
FOLLOWS: Final = 0.25
"""In so many trials another message comes right behind the fault."""
SECOND_MAX: Final = 40
"""Of `twice`, the second fault comes at most so many places after the takeover."""


class NoPoint(Exception):
    """Nothing that was recorded is asked for."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be swept."""

    seed: int
    count: int
    """How many faults."""
    kinds: Sequence[str] = tuple(KINDS)
    platforms: Sequence[Platform] = PLATFORMS
    hows: Sequence[How] = ("kill",)
    waits: str = "short"
    lanes: int = 10
    model_s: float = 0.0
    """Each answer of the model takes a while, up to so long: then turns last, and faults fall anywhere in a lease."""
    roles: Sequence[str] = ("gateway", "worker")
    spread: bool = False
    """Take points evenly from all kinds instead of all points in turn: for a short run."""
    at: str = ""
    """Only points of which this regular expression finds something."""
    gateways: int = 1
    """In each lane; every message is delivered to each of them."""

    @property
    def turns(self) -> list[Turn]:
        """Those whose points are needed."""
        alone = sorted({how == "parent" for how in self.hows})
        return [(kind, platform, one) for one in alone for kind in self.kinds for platform in self.platforms]


def plans(
    order: Order, points: Mapping[Turn, Sequence[Point]], begins: Collection[tuple[Turn, Point]] = ()
) -> Iterator[dict[str, Any]]:
    """Every point in another order each round, as many as are wanted: arguments of `Plan`. `begins`: those that only a process
    comes by which has just begun. Raises `NoPoint`.
    """
    if not order.count:
        return
    queues = {alone: _queue(order, points, alone=alone) for alone in (False, True)}
    for number, how in enumerate(itertools.islice(itertools.cycle(order.hows), order.count)):
        turn, point = next(queues[how == "parent"])
        kind, platform, _ = turn
        chance = random.Random(f"{order.seed} {number} {point}")
        yield {
            "kind": kind, "platform": platform, "point": point, "how": how, "follows": chance.random() < FOLLOWS,
            "begins": (turn, point) in begins,
            "second": chance.randrange(1, SECOND_MAX) if how == "twice" else 0,
        }  # fmt: skip


def _queue(order: Order, points: Mapping[Turn, Sequence[Point]], *, alone: bool) -> Iterator[tuple[Turn, Point]]:
    wanted = {
        turn: [point for point in found if point.role in order.roles and re.search(order.at, str(point))]
        for turn, found in sorted(points.items())
        if turn[2] == alone
    }
    if not any(wanted.values()):
        raise NoPoint(f"no point of {', '.join(order.kinds)} is like {order.at!r}")
    for number in itertools.count():

        def place(one: tuple[Turn, Point], number: int = number) -> bytes:
            return hashlib.sha256(f"{order.seed} {number} {one}".encode()).digest()

        rounds = [sorted(((turn, point) for point in found), key=place) for turn, found in wanted.items()]
        if order.spread:
            by_turn = itertools.zip_longest(*rounds)
            yield from (one for row in by_turn for one in row if one is not None)
        else:
            yield from sorted(itertools.chain(*rounds), key=place)
