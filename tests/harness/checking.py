"""The checker: whether ten things held in a run, decided from its ledgers alone.

    verdict = check(read(folder))
    assert not verdict.violations, verdict.report()

Alone: `python -m tests.harness.checking FOLDER` prints the same report; it ends with 1 if anything was broken.

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
import math
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, Literal

from tests.harness.history import (
    Accepted,
    Asked,
    Began,
    Effect,
    Ended,
    Event,
    Fault,
    Found,
    Granted,
    History,
    Refused,
    Wrote,
    dumped,
    read,
)
from tests.harness.talks import Message, Talk, begin_of, parts_of, talks_of

INVARIANTS: Final = tuple(f"I{number}" for number in range(1, 11))
CLAMP_S: Final = 5.0
"""An event that comes later than this after it was said may be taken behind later ones."""
QUIET_S: Final = 1.0
"""So long after its last answer a conversation is surely given back."""
REFUSED_MAX: Final = 30
"""So often may one part be refused before that is a storm."""
WORD: Final = re.compile(r"[\w-]+")
DONE: Final = {"OK", "DONE"}
"""Verdicts of a write that is in."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in a run beside the ten."""

    sending: Literal["keyed", "repeat", "skip"] = "keyed"
    """Whether a message may come twice (`repeat`) or not at all (`skip`) where the platform knows no repetitions. Either has to
    be told by a remark, and needs a fault beside it.
    """
    hold_back_s: float = 0.0
    """`mailbox.hold_back_ms`."""
    told_within_s: float = 60.0
    """From the 2xx to the end of the answer, without the time in which Redis, the model or the platform were away."""
    back_within_s: float | None = None
    """So soon after the last fault each conversation has answered once more. None: nobody looks."""
    margin_s: float = 0.25
    """So much later than it happened a stand-in may see something."""
    calls_ratio: float = 1.2
    """How many calls of the model for one that was planned, over all."""
    ratio_from: int = 200
    """With fewer planned calls the ratio says nothing."""
    summarises: bool = False
    """The history may be put away: then it is not compared."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be, and the events that show it."""

    invariant: str
    what: str
    conversation: str
    about: str
    evidence: tuple[Event, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.invariant} {self.what}: {self.conversation or '-'}, {self.about}"]
        return "\n    ".join([*lines, *(dumped(event).decode().strip() for event in self.evidence)])


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


@dataclass(frozen=True)
class Run:
    """A history, sorted, with what all looks need."""

    history: History
    rules: Rules
    talks: dict[str, Talk]
    faults: list[Fault]
    end_s: float
    away: list[tuple[float, float]] = field(default_factory=list)
    """When something outside of deskmate was not there: from, to."""

    def waited_s(self, since_s: float, until_s: float) -> float:
        """Time between the two, without that in which something was away."""
        away_s = sum(max(0.0, min(until_s, end_s) - max(since_s, begin_s)) for begin_s, end_s in self.away)
        return until_s - since_s - away_s

    def faults_in(self, since_s: float, until_s: float) -> list[Fault]:
        """Those that can have touched what went on between the two: a pause begins before and is felt behind."""
        return [one for one in self.faults if since_s <= one.at_s <= until_s and one.what != "started"]

    def messages(self) -> Iterator[tuple[Talk, Message]]:
        return ((talk, message) for talk in self.talks.values() for message in talk.messages.values())


def check(history: History, rules: Rules | None = None) -> Verdict:
    """Look at all of it. Without `rules` those hold that the run began with."""
    run = _run(history, rules)
    return Verdict(tuple(found for look in LOOKS for found in look(run)), _counts(run))


def _run(history: History, rules: Rules | None) -> Run:
    began = next(history.all(Began), None)
    rules = rules or Rules(**(began.rules or {} if began else {}))
    ended = next(history.all(Ended), None)
    end_s = ended.at_s if ended else max((event.at_s for event in history.events), default=0.0)
    faults = list(history.all(Fault))
    return Run(history, rules, talks_of(history), faults, end_s, list(_away(faults, end_s)))


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


# ---- I1, I2, I6: what a message became ----


def _lost(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        if message.taken is None:
            continue
        if not message.answers:
            if run.rules.sending == "skip" and _was_touched(run, message, message.remarks):
                continue
            waited_s = run.waited_s(message.taken_s, run.end_s)
            what = "lost" if waited_s >= run.rules.told_within_s else "unjudged, as the run ended too early"
            yield Violation("I1", what, talk.id, message.id, (message.taken, *message.asked[-1:]))
            continue
        replies = message.shown("reply")
        parts = max((one.parts for one in replies), default=0)
        missing = [part for part in range(1, parts + 1) if part not in parts_of(replies)]
        if missing and not message.remarks:
            yield Violation("I1", f"part {missing[0]} of {parts} missing", talk.id, message.id, tuple(replies))


def _doubled(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        replies, notices = message.shown("reply"), message.shown("notice")
        if replies and notices:
            yield Violation("I2", "reply and notice", talk.id, message.id, (*replies[:1], *notices[:1]))
        twice = [part for part, times in parts_of(replies).items() if times > 1]
        if twice and not (run.rules.sending == "repeat" and _was_touched(run, message, message.remarks)):
            all_of_it = len(twice) == max(one.parts for one in replies)
            what = "doubled" if all_of_it else f"part {twice[0]} twice"
            yield Violation("I2", what, talk.id, message.id, tuple(one for one in replies if one.part == twice[0]))
        if any(times > 1 for times in parts_of(notices).values()):
            yield Violation("I2", "notice doubled", talk.id, message.id, tuple(notices))
    for talk in run.talks.values():
        for one in talk.visible():
            if one.what == "growing":
                yield Violation("I2", "half left", talk.id, one.id or one.key, (one,))
            strangers = [name for name in one.answers if name not in talk.messages]
            if strangers and not _elsewhere(run, strangers[0]):
                yield Violation("I2", "answer to nothing", talk.id, strangers[0], (one,))


def _was_touched(run: Run, message: Message, remarks: list[Accepted]) -> bool:
    """What no platform without keys can spare people: it needs a fault beside it, and has to be told."""
    return bool(remarks) and bool(run.faults_in(message.first_s, remarks[-1].at_s))


def _elsewhere(run: Run, message: str) -> Talk | None:
    return next((talk for talk in run.talks.values() if message in talk.messages), None)


def _told(run: Run) -> Iterator[Violation]:
    for talk, message in run.messages():
        if message.taken is None or not message.answers:
            continue
        waited_s = run.waited_s(message.taken_s, message.end_s)
        if waited_s > run.rules.told_within_s:
            last = max(message.answers, key=lambda one: one.at_s)
            yield Violation("I6", f"told after {waited_s:.1f} s", talk.id, message.id, (message.taken, last))


# ---- I3: effects ----


def _effects(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        steps: dict[str, list[Effect]] = {}
        for effect in talk.effects:
            steps.setdefault(effect.step, []).append(effect)
        for step, effects in steps.items():
            yield from _effect(talk, step, effects)
        said = [one for one in talk.accepted if one.what == "note" and one.step and not one.repeated]
        for step, times in Counter(one.step for one in said).items():
            if times > 1:
                yield Violation("I3", "note twice", talk.id, step, tuple(one for one in said if one.step == step))


def _effect(talk: Talk, step: str, effects: list[Effect]) -> Iterator[Violation]:
    begun = [one for one in effects if one.phase == "begun"]
    if any(one.policy == "read" for one in effects):
        return
    if any(one.policy == "idempotent" for one in effects):
        if len({one.key for one in begun}) > 1:
            yield Violation("I3", "effect under two keys", talk.id, step, tuple(effects))
        return
    if len(begun) > 1:
        yield Violation("I3", "effect twice", talk.id, step, tuple(effects))
        return
    if any(one.phase == "done" for one in effects):
        return
    later = [one for one in talk.asked if one.at_s > effects[0].at_s and one.purpose == "turn"]
    if later and not any(step in one.unknown for one in later):
        yield Violation("I3", "unknown outcome not told", talk.id, step, (*effects, later[0]))


# ---- I4: order ----


def _order(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        answered = sorted((one for one in talk.messages.values() if one.answers), key=lambda one: one.begin_s)
        seen: list[Message] = []
        highest = -1
        for message in answered:
            if message.place < highest:  # rare: only then all before are looked at
                for before in seen:
                    if before.place > message.place and _had_to_wait(run, talk, message, before):
                        evidence = (message.posts[0], before.posts[0], before.answers[0], message.answers[0])
                        yield Violation("I4", "swapped", talk.id, f"{before.id} before {message.id}", evidence)
            highest = max(highest, message.place)
            seen.append(message)
        for one, other in pairwise(answered):
            if other.begin_s < one.end_s and not {id(part) for part in one.answers} & {
                id(part) for part in other.answers
            }:
                mixed = (one.answers[-1], other.answers[0])
                yield Violation("I4", "interleaved", talk.id, f"{one.id} and {other.id}", mixed)
        yield from _serial(run, talk)


def _had_to_wait(run: Run, talk: Talk, first: Message, second: Message) -> bool:
    """Whether `second` was answered before `first` although both waited together, or were held back for each other."""
    if first.taken_s - first.said_s >= CLAMP_S - run.rules.margin_s:
        return False  # it came so late that its time does not count
    if first.taken_s <= _looked_s(run, talk, second):
        return True
    others = (one for one in talk.messages.values() if one not in (first, second) and one.first_s < second.first_s)
    was_quiet = all(one.end_s < second.first_s - QUIET_S for one in others)
    return was_quiet and first.taken_s < second.first_s + run.rules.hold_back_s


def _looked_s(run: Run, talk: Talk, message: Message) -> float:
    """When whoever began a turn with it looked at what waited, at the earliest: after what it said to Redis before the take."""
    asked_s = message.asked[0].at_s if message.asked else message.begin_s
    takes = [
        begin_of(one) for one in talk.writes if one.script == "take" and one.verdict in DONE and one.at_s <= asked_s
    ]
    if not takes:
        return asked_s - run.rules.margin_s
    before = (one.at_s for one in (*talk.grants, *talk.writes) if one.at_s < max(takes))
    return max(before, default=max(takes) - run.rules.margin_s)


def _serial(run: Run, talk: Talk) -> Iterator[Violation]:
    buried = {one.id for one in talk.messages.values() if one.shown("notice")}
    longest: tuple[tuple[str, ...], Asked] | None = None
    for asked in talk.asked:
        repeated = [message for message, times in Counter(asked.said).items() if times > 1]
        if repeated:
            yield Violation("I4", "twice in the history", talk.id, repeated[0], (asked,))
        said = tuple(message for message in asked.said if message not in buried)
        if longest and not run.rules.summarises and not _agree(longest[0], said):
            yield Violation(
                "I4", "history rewritten", talk.id, asked.said[-1] if asked.said else "-", (longest[1], asked)
            )
        if longest is None or len(said) > len(longest[0]):
            longest = said, asked


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one begins with the other: a request of a holder that is too late may be shorter."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


# ---- I5: one writer ----


def _writers(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        if not talk.grants:
            continue
        for one, other in pairwise(talk.grants):
            if other.fence <= one.fence and begin_of(other) > one.at_s:
                yield Violation("I5", "fence went back", talk.id, other.token, (one, other))
        holders = Holders(talk.grants)
        ended: dict[str, Wrote] = {}
        for wrote in talk.writes:
            if wrote.verdict in DONE:
                yield from _write(talk, wrote, holders, ended.get(wrote.token))
                if wrote.releases:
                    ended[wrote.token] = wrote
        yield from _late(run, talk, holders)


class Holders:
    """Who held a conversation when."""

    def __init__(self, grants: list[Granted]) -> None:
        self.by_token = {grant.token: grant for grant in grants}
        self._grants = grants
        self._times = [grant.at_s for grant in grants]
        self._begins = sorted((begin_of(grant), grant.process) for grant in grants)
        by_fence = sorted(grants, key=lambda grant: grant.fence, reverse=True)
        earliest = accumulate(by_fence, _earlier)
        self._newer = list(zip([-grant.fence for grant in by_fence], earliest, strict=True))

    def newer(self, fence: int) -> Granted | None:
        """Of the grants behind this one, the one that was made first."""
        place = bisect_left(self._newer, -fence, key=lambda one: one[0])
        return self._newer[place - 1][1] if place else None

    def surely_at(self, at_s: float) -> Granted | None:
        """The last grant whose answer was there by then."""
        place = bisect_left(self._times, at_s)
        return self._grants[place - 1] if place else None

    def perhaps_at(self, at_s: float) -> str:
        """The process whose question for a grant passed last by then."""
        place = bisect_left(self._begins, (at_s, "\U0010ffff"))
        return self._begins[place - 1][1] if place else ""


def _earlier(one: Granted, other: Granted) -> Granted:
    return one if one.at_s <= other.at_s else other


def _write(talk: Talk, wrote: Wrote, holders: Holders, ended: Wrote | None) -> Iterator[Violation]:
    mine = holders.by_token.get(wrote.token)
    if mine is None:
        yield Violation("I5", "write without a grant", talk.id, wrote.token, (wrote,))
        return
    newer = holders.newer(wrote.fence)
    if newer and newer.at_s < begin_of(wrote):
        yield Violation("I5", "two writers", talk.id, f"{wrote.process} beside {newer.process}", (mine, newer, wrote))
    elif ended and ended.at_s < begin_of(wrote) and wrote.verdict == "OK":
        yield Violation("I5", "write after the end", talk.id, wrote.token, (mine, ended, wrote))


def _late(run: Run, talk: Talk, holders: Holders) -> Iterator[Violation]:
    """Sends and effects of a process while another one holds the conversation."""
    done: list[tuple[str, float, str, Event]] = [
        ("late send", begin_of(one), one.process, one) for one in talk.accepted if one.process
    ]
    done += [("late tool", one.at_s, one.process, one) for one in talk.effects if one.process and one.phase == "begun"]
    for what, at_s, process, event in done:
        holder = holders.surely_at(at_s - run.rules.margin_s)
        if holder and process not in {holder.process, holders.perhaps_at(at_s)}:
            yield Violation("I5", what, talk.id, f"{process} while {holder.process} holds it", (holder, event))


# ---- I7, I8 ----


def _malformed(run: Run) -> Iterator[Violation]:
    for asked in run.history.all(Asked):
        if asked.problem:
            yield Violation("I7", "malformed", asked.conversation, asked.problem, (asked,))


def _crossed(run: Run) -> Iterator[Violation]:
    owners = {canary: talk.id for talk in run.talks.values() for canary in talk.canaries}
    for talk in run.talks.values():
        for one in talk.accepted:
            foreign = [word for word in owners.keys() & _words(one.text) if owners[word] != talk.id]
            if foreign:
                yield Violation("I8", "crossed in a message", talk.id, f"{foreign[0]} of {owners[foreign[0]]}", (one,))
            for name in one.answers:
                if name not in talk.messages and (other := _elsewhere(run, name)):
                    yield Violation("I8", "answered elsewhere", talk.id, f"{name} of {other.id}", (one,))
        for asked in talk.asked:
            foreign = [word for word in asked.canaries if owners.get(word, talk.id) != talk.id]
            if foreign:
                about = f"{foreign[0]} of {owners[foreign[0]]}"
                yield Violation("I8", "crossed to the model", talk.id, about, (asked,))
    for found in run.history.all(Found):
        if found.canary and (not found.conversation or owners.get(found.canary) != found.conversation):
            where = f"{found.place}: {found.name} holds {found.canary}"
            yield Violation("I8", "crossed at rest", found.conversation, where, (found,))


def _words(text: str) -> set[str]:
    return set(WORD.findall(text))


# ---- I9, I10 ----


def _bounded(run: Run) -> Iterator[Violation]:
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


def _alone(run: Run) -> Iterator[Violation]:
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


LOOKS: Final[tuple[Callable[[Run], Iterator[Violation]], ...]] = (
    _lost, _doubled, _effects, _order, _writers, _told, _malformed, _crossed, _bounded, _alone,
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
        **faults,
    }


def main() -> int:
    """Check the ledgers of folders and files."""
    options = argparse.ArgumentParser(description="Decide from the ledgers of a run whether I1 to I10 held.")
    options.add_argument("paths", nargs="+", type=Path, metavar="FOLDER", help="where the ledgers (*.jsonl) lie")
    options.add_argument("--most", type=int, default=5, help="violations shown of each invariant (default 5)")
    given = options.parse_args()
    verdict = check(read(*given.paths))
    sys.stdout.write(f"{verdict.report(given.most)}\n")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
