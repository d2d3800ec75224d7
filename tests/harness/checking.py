"""The checker: whether ten things held in a run, decided from its ledgers alone.

    verdict = check(read(folder))
    assert not verdict.violations, verdict.report()

Alone: `python -m tests.harness.checking FOLDER` prints the same report; it ends with 1 if anything was broken, and with 2
where nothing can be said: there are no ledgers, or the run was broken off.

| | |
|---|---|
| I1  | no loss: what was answered 2xx gets a reply or a notice |
| I2  | no double: one answer a message, each of its parts once, nothing half beside it |
| I3  | no double effect: a step of `once` has one effect at most, and where nobody knows, the model is told so |
| I4  | order: answers in the order of the messages, one serial history |
| I5  | one writer: who has lost a conversation writes, sends and does nothing any more |
| I6  | told: within the time that is stated |
| I7  | well-formed: the strict model refuses no request |
| I8  | sealed: the word of a conversation is nowhere else |
| I9  | bounded: the model is not asked much more often than without faults |
| I10 | alone: all is well again without a person, and nothing is left behind |
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.harness.arguments import count
from tests.harness.history import (
    Accepted,
    Asked,
    Began,
    Effect,
    Ended,
    Fault,
    Granted,
    History,
    Letter,
    Torn,
    Wrote,
    read,
)
from tests.harness.judging.answered import buried, doubled, half, lost, noticed, told
from tests.harness.judging.beside import beside
from tests.harness.judging.bounded import alone, bounded
from tests.harness.judging.effects import cards, effects
from tests.harness.judging.order import order
from tests.harness.judging.run import Rules, Run, Violation
from tests.harness.judging.sealed import crossed, malformed
from tests.harness.judging.writers import writers
from tests.harness.talks import talks_of

INVARIANTS: Final = tuple(f"I{number}" for number in range(1, 11))


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was found, and what it was found in."""

    violations: tuple[Violation, ...]
    counts: dict[str, int]

    def broken(self, invariant: str) -> list[Violation]:
        return [one for one in self.violations if one.invariant == invariant]

    def report(self, most: int = 5) -> str:
        """Counts, then each invariant with its violations, at most so many of each."""
        lines = ["  ".join(f"{name} {number}" for name, number in self.counts.items() if number)]
        for invariant in INVARIANTS:
            broken = self.broken(invariant)
            lines.append(f"{invariant:<4}{len(broken)}")
            lines += [f"  {one}" for one in broken[:most]]
        return "\n".join(lines)


def check(history: History, rules: Rules | None = None) -> Verdict:
    """Look at all of it. Without `rules` those hold that the run, or a conversation in it, began with."""
    run = _run(history, rules)
    return Verdict(tuple(found for look in LOOKS for found in look(run)), _counts(run))


def _run(history: History, rules: Rules | None) -> Run:
    own = {} if rules else {one.conversation: Rules(**(one.rules or {})) for one in history.all(Began)}
    rules = rules or own.pop("", Rules())
    ended = next(history.all(Ended), None)
    end_s = ended.at_s if ended else max((event.at_s for event in history.events), default=0.0)
    faults = list(history.all(Fault))
    return Run(history, rules, talks_of(history), faults, end_s, list(_away(faults, end_s)), own)


def _away(faults: Iterable[Fault], end_s: float) -> Iterator[tuple[float, float]]:
    ends = {"away": "back", "hold": "heal", "slow": "heal"}
    since: dict[tuple[str, str], float] = {}
    for fault in faults:
        if fault.target not in {"redis", "model", "platform"}:
            continue
        if end := ends.get(fault.what):
            since.setdefault((fault.target, end), fault.at_s)
        elif begin_s := since.pop((fault.target, fault.what), None):
            yield begin_s, fault.at_s
    for begin_s in since.values():
        yield begin_s, end_s


LOOKS: Final[tuple[Callable[[Run], Iterator[Violation]], ...]] = (
    lost, noticed, buried, doubled, half, effects, cards, order, writers, beside, told, malformed, crossed, bounded, alone,
)  # fmt: skip


def _counts(run: Run) -> dict[str, int]:
    """What there was to look at: a verdict over nothing is worth nothing."""
    faults = Counter(f"{one.what}s" for one in run.faults if one.what in {"kill", "stop", "away", "cut"})
    messages = [message for _, message in run.messages()]
    return {
        "conversations": len(run.talks),
        "messages": len(messages),
        "taken": sum(message.taken is not None for message in messages),
        "deliveries": sum(len(message.posts) for message in messages),
        "replies": sum(bool(message.shown("reply")) for message in messages),
        "notices": sum(bool(message.shown("notice")) for message in messages),
        "repeated": sum(one.repeated for one in run.history.all(Accepted)),
        "remarks": sum(one.what == "remark" for one in run.history.all(Accepted)),
        "calls": sum(1 for _ in run.history.all(Asked)),
        "effects": sum(one.phase == "begun" for one in run.history.all(Effect)),
        "grants": sum(1 for _ in run.history.all(Granted)),
        "writes": sum(1 for _ in run.history.all(Wrote)),
        "letters": sum(1 for _ in run.history.all(Letter)),
        **faults,
    }


def main() -> int:
    """Check the ledgers of folders and files."""
    options = argparse.ArgumentParser(description="Decide from the ledgers of a run whether I1 to I10 held.")
    options.add_argument("paths", nargs="+", type=Path, metavar="FOLDER", help="where the ledgers (*.jsonl) lie")
    options.add_argument("--most", type=count, default=5, help="violations shown of each invariant (default 5)")
    given = options.parse_args()
    try:
        history = read(*given.paths)
    except (OSError, Torn) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    verdict = check(history)
    sys.stdout.write(f"{verdict.report(given.most)}\n")
    if not any(history.all(Ended)):
        sys.stdout.write("this run was broken off: what is lost or late above may only have been under way\n")
        return 2
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
