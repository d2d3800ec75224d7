"""I9, I10: what it costs, and what is left behind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.harness.history import Asked, Fault, Found, Refused
from tests.harness.judging.run import Run, Violation

REFUSED_MAX: Final = 30
"""So often may one part be refused before that is a storm."""


def bounded(run: Run) -> Iterator[Violation]:
    planned = 0
    asked = sum(one.purpose == "turn" for one in run.history.all(Asked))
    for talk, message in run.messages():
        if not message.asked:
            continue
        planned += message.calls
        until_s = message.end_s if message.answers else run.end_s
        woken = [one for one in run.faults_in(until_s, message.asked[-1].at_s) if one.what == "continue"]
        after = [one for one in message.asked if one.at_s > until_s + run.rules.margin_s]
        most = message.calls + len(run.faults_in(message.first_s, until_s)) + len(woken)
        if len(after) > len(woken):
            yield Violation("I9", "asked after the answer", talk.id, message.id, (*message.answers[-1:], *after[:2]))
        elif len(message.asked) > most:
            about = f"{message.id}: {len(message.asked)} calls, {message.calls} planned, at most {most}"
            yield Violation("I9", "retry storm", talk.id, about, tuple(message.asked[-2:]))
    if planned >= run.rules.ratio_from and asked > planned * run.rules.calls_ratio:
        yield Violation("I9", "too many calls", "", f"{asked} calls, {planned} planned")
    refused = Counter((one.conversation, one.key) for one in run.history.all(Refused) if one.key)
    for (conversation, key), times in refused.items():
        if times > REFUSED_MAX:
            yield Violation("I9", "storm of sends", conversation, f"{key} refused {times} times")


def alone(run: Run) -> Iterator[Violation]:
    for found in run.history.all(Found):
        if not found.canary:
            yield Violation("I10", "left behind", found.conversation, f"{found.place}: {found.name}", (found,))
    stopped: dict[str, Fault] = {}
    for fault in run.faults:
        if fault.what in {"away", "hold"}:
            stopped[fault.target] = fault
        elif fault.what in {"back", "heal"}:
            stopped.pop(fault.target, None)
    for fault in stopped.values():
        yield Violation("I10", "never back", "", fault.target, (fault,))
    done = run.faults_in(0.0, run.end_s)
    if run.rules.back_within_s is not None and done:
        yield from _back(run, done[-1], run.rules.back_within_s)


def _back(run: Run, last: Fault, within_s: float) -> Iterator[Violation]:
    for talk in run.talks.values():
        after = [one for one in talk.messages.values() if one.first_s >= last.at_s and one.taken]
        if talk.messages and not after:
            yield Violation("I10", "not asked after the last fault", talk.id, last.target, (last,))
        late = [
            one for one in talk.messages.values() if one.taken and one.end_s > max(last.at_s, one.first_s) + within_s
        ]
        for message in late:
            if message in after or message.end_s is not math.inf:
                about = f"{message.id}: {message.end_s - last.at_s:.1f} s after the last fault"
                yield Violation("I10", "not back", talk.id, about, (last, *message.answers[-1:]))
