"""Which points are struck, and how: the same seed gives the same, however many points a recording found beside them."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.deaths import SOLE_AFTER
from tests.sweep.kinds import KINDS
from tests.sweep.plan import How, Platform, Stage, stage_of
from tests.sweep.row import WHERE
from tests.sweep.trap import Point

Turn = tuple[str, Platform, Stage]
"""A kind of turn, on which platform, and in which stage."""
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
    deaths: int = SOLE_AFTER
    """With `sole`: so many holders die before the turn has a worker for itself; the others are only written down as dead."""

    @property
    def turns(self) -> list[Turn]:
        """Those whose points are needed."""
        stages = sorted(set(map(stage_of, self.hows)))
        return [(kind, platform, stage) for stage in stages for kind in self.kinds for platform in self.platforms]


def plans(
    order: Order, points: Mapping[Turn, Sequence[Point]], begins: Collection[tuple[Turn, Point]] = ()
) -> Iterator[dict[str, Any]]:
    """Every point in another order each round, as many as are wanted: arguments of `Plan`. `begins`: those that only a process
    comes by which has just begun. Raises `NoPoint`.
    """
    if not order.count:
        return
    queues = {stage_of(how): _queue(order, points, stage_of(how)) for how in order.hows}
    for number, how in enumerate(itertools.islice(itertools.cycle(order.hows), order.count)):
        turn, point = next(queues[stage_of(how)])
        kind, platform, _ = turn
        chance = random.Random(f"{order.seed} {number} {point}")
        yield {
            "kind": kind, "platform": platform, "point": point, "how": how, "follows": chance.random() < FOLLOWS,
            "begins": (turn, point) in begins,
            "second": chance.randrange(1, SECOND_MAX) if how == "twice" else 0,
            **(_way_to_the_row(chance, point, order.deaths) if how == "sole" else {}),
        }  # fmt: skip


def _way_to_the_row(chance: random.Random, point: Point, deaths: int) -> dict[str, Any]:
    """What a neighbour says while its turn lasts is only there to be struck if it comes late."""
    speaks_after = deaths if point.is_beside else chance.randrange(deaths + 1)
    return {"deaths": tuple(chance.choices(WHERE, k=deaths)), "speaks_after": speaks_after}


def _queue(order: Order, points: Mapping[Turn, Sequence[Point]], stage: Stage) -> Iterator[tuple[Turn, Point]]:
    wanted = {
        turn: [point for point in found if point.role in order.roles and re.search(order.at, str(point))]
        for turn, found in sorted(points.items())
        if turn[2] == stage
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
