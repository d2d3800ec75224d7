"""I9, I10: what it costs, and what is left behind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.harness.history import Asked, Fault, Found, Refused
from tests.harness.judging.holders import Holders
from tests.harness.judging.run import DONE, Run, Violation
from tests.harness.talks import Message, Talk

OUTSIDE: Final = frozenset({"redis", "model", "platform"})
OVER: Final = frozenset({"back", "heal"})
"""With these nothing is lost any more."""
FELT_S: Final = 10.0
"""So long a lease that was lost with Redis may be felt."""
REFUSED_MAX: Final = 30
"""So often may one part be refused before that is a storm."""


def bounded(run: Run) -> Iterator[Violation]:
    """The model is asked again for what was lost with whoever asked, and for nothing else."""
    planned = sum(message.calls for _, message in run.messages() if message.taken or message.asked)
    asked = sum(1 for _ in run.history.all(Asked))
    for talk in run.talks.values():
        holders = Holders(talk.grants)
        yield from _kept(run, talk, holders)
        yield from _once_more(run, talk)
        for message in talk.messages.values():
            yield from _after(run, talk, message)
    ratio = run.rules.calls_ratio
    if ratio is not None and planned >= run.rules.ratio_from and asked > planned * ratio:
        yield Violation("I9", "too many calls", "", f"{asked} calls, {planned} planned")
    refused = Counter((one.conversation, one.key) for one in run.history.all(Refused) if one.key)
    for (conversation, key), times in refused.items():
        if times > REFUSED_MAX:
            yield Violation("I9", "storm of sends", conversation, f"{key} refused {times} times")


def _kept(run: Run, talk: Talk, holders: Holders) -> Iterator[Violation]:
    """Nobody asks for an answer that was kept, but who has lost the conversation and does not know it yet."""
    kept = {answer: one for one in reversed(talk.writes) if one.verdict in DONE for answer in one.answers}
    for asked in talk.asked:
        write = kept.get(asked.answer)
        if not write or asked.at_s <= write.at_s:
            continue
        holder = holders.surely_at(asked.at_s - run.rules.margin_s)
        if not (asked.process and holder and asked.process not in {holder.process, holders.perhaps_at(asked.at_s)}):
            yield Violation("I9", "asked for what was kept", talk.id, asked.answer, (write, asked))


def _once_more(run: Run, talk: Talk) -> Iterator[Violation]:
    """Of any two questions for the same answer, something happened to who asked first, between the two."""
    last: dict[str, Asked] = {}
    for asked in talk.asked:
        before = last.get(asked.answer)
        if asked.answer:
            last[asked.answer] = asked
        if before and not _was_struck(run, before, asked):
            yield Violation("I9", "asked again without a fault", talk.id, asked.answer, (before, asked))


def _was_struck(run: Run, one: Asked, other: Asked) -> bool:
    for fault in run.faults_in(one.at_s - FELT_S, other.at_s):
        if fault.target in OUTSIDE or (
            fault.target in {one.process, other.process} and fault.at_s >= one.at_s - run.rules.margin_s
        ):
            return True
    return False


def _after(run: Run, talk: Talk, message: Message) -> Iterator[Violation]:
    if not message.asked:
        return
    until_s = message.end_s if message.answers else run.end_s
    woken = [one for one in run.faults_in(until_s, message.asked[-1].at_s) if one.what == "continue"]
    after = [one for one in message.asked if one.at_s > until_s + run.rules.margin_s]
    who = {one.process for one in message.asked} | {one.process for one in talk.grants} | OUTSIDE
    faults = [one for one in run.faults_in(message.first_s, until_s) if one.what not in OVER]
    touched = [one for one in faults if one.target in who or "" in who]  # of some nobody may know who asked
    most = message.calls + len(touched) + len(woken)
    if len(after) > len(woken):
        yield Violation("I9", "asked after the answer", talk.id, message.id, (*message.answers[-1:], *after[:2]))
    elif len(message.asked) > most:
        about = f"{message.id}: {len(message.asked)} calls, {message.calls} planned, at most {most}"
        yield Violation("I9", "retry storm", talk.id, about, tuple(message.asked[-2:]))


def alone(run: Run) -> Iterator[Violation]:
    for found in run.history.all(Found):
        if not found.canary:
            yield Violation("I10", "left behind", found.conversation, f"{found.place}: {found.name}", (found,))
    for fault in run.faults:
        if fault.what == "ended" and fault.detail != "0":
            yield Violation("I10", f"ended with {fault.detail}", "", fault.target, (fault,))
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
