"""A sweep: which points there are, and each of them struck, several lanes side by side."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.harness.checking import check
from tests.harness.history import Began, Ended, now_s, read
from tests.harness.judging.run import Violation
from tests.harness.leavings import Leavings
from tests.sweep.choosing import Order, Turn, plans
from tests.sweep.kinds import CANARY, KEYED, KEYLESS, KINDS, SEARCHED, SKIPPING, owner_of
from tests.sweep.lane import SHIPPED, SHORT, Lane
from tests.sweep.plan import Outcome, Plan, Platform, Stage
from tests.sweep.trap import Point
from tests.sweep.trial import Trial
from tests.sweep.world import world

WAITS: Final[Mapping[str, Mapping[str, Any]]] = {"short": SHORT, "shipped": SHIPPED}
BEGINS: Final[Mapping[Platform, str]] = {
    "keyed": KEYED, "keyless": KEYLESS, "skipping": SKIPPING, "searched": SEARCHED,
}  # fmt: skip
RECORDED: Final[Mapping[Stage, Mapping[str, Any]]] = {
    "": {"how": "kill"}, "alone": {"how": "parent"}, "sole": {"how": "sole", "deaths": ("grant",), "speaks_after": 1},
}  # fmt: skip
"""How a turn without a fault gets to its stage. That a neighbour is in the same hands when it begins there takes a death."""
SHOWN_MAX: Final = 20
STUCK_S: Final = 420.0
"""No trial takes so long, whatever it finds: then the sweep itself is broken."""


@dataclass(slots=True)
class Result:
    """What a sweep came to."""

    order: Order
    points: dict[Turn, list[Point]] = field(default_factory=dict)
    begins: set[tuple[Turn, Point]] = field(default_factory=set)
    """Points that only processes came by which had just begun."""
    outcomes: list[Outcome] = field(default_factory=list)
    whole: list[Violation] = field(default_factory=list)
    """What only all turns together show: what was left behind, and words in places of others."""
    seconds: float = 0.0

    @property
    def struck(self) -> list[Outcome]:
        """Those that came by their point."""
        return [one for one in self.outcomes if one.plan.point and not one.missed]

    @property
    def violations(self) -> list[tuple[Plan, Violation]]:
        return [(one.plan, violation) for one in self.outcomes for violation in one.violations]

    @property
    def is_good(self) -> bool:
        """A sweep that struck nothing has shown nothing."""
        return bool(self.struck) and not self.violations and not self.whole

    def takeovers_s(self) -> list[float]:
        """Sorted, of workers that were killed."""
        return sorted(
            one.takeover_s for one in self.struck if one.takeover_s is not None and one.plan.how in {"kill", "group"}
        )


async def sweep(order: Order, folder: Path, tell: Callable[[str], None]) -> Result:
    """Ledgers and logs lie in `folder`. `tell` gets a line now and then. Raises `NoPoint`."""
    result = Result(order)
    begun_s = time.monotonic()
    waits = WAITS[order.waits]
    numbers = itertools.count(1)
    async with world(folder, order.lanes, waits, order.model_s) as (stands, lanes):
        rules = {"calls_ratio": None, "notices_max": 0}
        stands.book.pages["faults"].write(Began(now_s(), "sweep", order.seed, rules))
        again_s = 1.6 * float(waits.get("mailbox", {}).get("lease_s", 6.0))

        async def one(lane: Lane, *, kind: str, platform: Platform, **more: Any) -> Outcome:
            plan = Plan(f"{BEGINS[platform]}{next(numbers)}", KINDS[kind], platform, gateways=order.gateways, **more)
            async with asyncio.timeout(STUCK_S):
                outcome = await Trial(lane, plan, again_s).run()
            result.outcomes.append(outcome)
            for violation in outcome.violations:
                again = f"--kinds {kind} --platforms {platform} --how {plan.how} --gateways {plan.gateways} "
                again += f"--at '^{re.escape(str(plan.point))}$'" if plan.point else "--count 0"
                tell(f"BROKEN {again}\n  {violation}")
            return outcome

        # first without faults: what is said on the wires then are the points
        turns = order.turns
        async with asyncio.TaskGroup() as group:
            for at, lane in enumerate(lanes):
                group.create_task(_record(one, lane, turns[at :: len(lanes)], result))
        chosen = iter(list(plans(order, result.points, result.begins)))
        tell(
            f"{sum(map(len, result.points.values()))} points in {len(turns)} kinds of turn without fault, "
            f"{len(result.begins)} of them only where processes had just begun; "
            f"{order.count} faults, seed {order.seed}, {order.lanes} lanes, waits: {order.waits}"
        )

        async def work(lane: Lane) -> None:
            for plan in chosen:
                await one(lane, **plan)

        progress = asyncio.create_task(_progress(result, tell, begun_s))
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes:
                    group.create_task(work(lane))
        finally:
            progress.cancel()
        names = {id_: name for lane in lanes for id_, name in lane.wires.names.items()}
        logs, folders = folder.glob("lane-*/*.log"), [lane.folder / "data" for lane in lanes]
        async for one_left in Leavings(names, CANARY, owner_of, logs, folders).all(stands.redis_url):
            stands.book.pages["faults"].write(one_left)
        stands.book.pages["faults"].write(Ended(now_s()))
    told = {str(violation) for _, violation in result.violations}
    result.whole = [one for one in check(read(folder / "ledgers")).violations if str(one) not in told]
    result.seconds = time.monotonic() - begun_s
    return result


async def _record(one: Any, lane: Lane, turns: Sequence[Turn], result: Result) -> None:
    """Each turn in processes that have just begun, and in those once more: what comes only then is struck only then. One that is
    broken without any fault has shown enough.
    """
    for turn in turns:
        kind, platform, stage = turn
        found: list[list[Point]] = []
        for begins in (True, False)[: 1 if stage else 2]:  # who finds it in a later stage has just begun
            outcome: Outcome = await one(lane, kind=kind, platform=platform, begins=begins, **RECORDED[stage])
            found.append([point for point in outcome.points if not stage or point.role == "worker"])
            if outcome.violations:
                break
        result.points[turn] = list(dict.fromkeys(itertools.chain(*found)))
        result.begins |= {(turn, point) for point in found[0] if point not in found[-1]}


async def _progress(result: Result, tell: Callable[[str], None], begun_s: float) -> None:
    while True:
        await asyncio.sleep(15)
        done = len(result.struck)
        passed_s = time.monotonic() - begun_s
        tell(
            f"{passed_s:5.0f} s  {done} of {result.order.count} struck, "
            f"{len(result.outcomes) - done} turns without, {len(result.violations)} broken"
        )


def summary(result: Result) -> list[str]:
    """Figures with their counts."""
    lines = []
    by = Counter((one.plan.kind.name, one.plan.platform, one.plan.stage, one.plan.how) for one in result.struck)
    for turn, points in sorted(result.points.items()):
        kind, platform, stage = turn
        shown = ", ".join(f"{number} {key[3]}" for key, number in sorted(by.items()) if key[:3] == turn) or "none"
        name = f"{platform}, {stage}" if stage else platform
        lines.append(f"  {kind:7} {name:15} {len(points):4} points  struck: {shown}")
    struck = sum(one.struck for one in result.struck)
    broken = len({id(plan) for plan, _ in result.violations})
    missed = sum(one.missed for one in result.outcomes)
    lines.append(
        f"{struck} faults, {broken} turns broken"
        + (f" (0 in {struck}: below {300 / struck:.2g} % at 95 %)" if struck and not broken else "")
        + f"; {missed} points did not come by again; {sum(one.remarks for one in result.outcomes)} times people were "
        f"told that a message may have come twice; {result.seconds:.0f} s"
    )
    took = result.takeovers_s()
    if took:
        p50, p99 = took[len(took) // 2], took[min(len(took) - 1, len(took) * 99 // 100)]
        lines.append(
            f"takeover, kill to the first effect of the next worker: p50 {p50:.2f} s, p99 {p99:.2f} s, "
            f"max {took[-1]:.2f} s ({len(took)} kills, waits: {result.order.waits})"
        )
    lines += [f"BROKEN in all together: {one}" for one in result.whole[:SHOWN_MAX]]
    return lines
