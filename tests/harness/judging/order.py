"""I4: order, and one serial history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tests.harness.history import Asked
from tests.harness.judging.holders import Holders
from tests.harness.judging.run import DONE, Run, Violation
from tests.harness.talks import Message, Talk, begin_of

CLAMP_S: Final = 5.0
"""An event that comes later than this after it was said may be taken behind later ones."""
QUIET_S: Final = 1.0
"""So long after its last answer a conversation is surely given back."""


def order(run: Run) -> Iterator[Violation]:
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
        yield from _put_away(run, talk)


def _had_to_wait(run: Run, talk: Talk, first: Message, second: Message) -> bool:
    """Whether `second` was answered before `first` although both waited together, or were held back for each other."""
    if first.taken_s - first.said_s >= CLAMP_S - run.rules_of(talk.id).margin_s:
        return False  # it came so late that its time does not count
    if first.taken_s <= _looked_s(run, talk, second):
        return True
    others = (one for one in talk.messages.values() if one not in (first, second) and one.first_s < second.first_s)
    was_quiet = all(one.end_s < second.first_s - QUIET_S for one in others)
    return was_quiet and first.taken_s < second.first_s + run.rules_of(talk.id).hold_back_s


def _looked_s(run: Run, talk: Talk, message: Message) -> float:
    """When whoever began a turn with it looked at what waited, at the earliest: after what it said to Redis before the take."""
    asked_s = message.asked[0].at_s if message.asked else message.begin_s
    takes = [
        begin_of(one) for one in talk.writes if one.script == "take" and one.verdict in DONE and one.at_s <= asked_s
    ]
    if not takes:
        return asked_s - run.rules_of(talk.id).margin_s
    before = (one.at_s for one in (*talk.grants, *talk.writes) if one.at_s < max(takes))
    return max(before, default=max(takes) - run.rules_of(talk.id).margin_s)


def _serial(run: Run, talk: Talk) -> Iterator[Violation]:
    buried = {one.id for one in talk.messages.values() if one.shown("notice")}
    longest: tuple[tuple[str, ...], Asked] | None = None
    for asked in talk.asked:
        repeated = [message for message, times in Counter(asked.said).items() if times > 1]
        if repeated:
            yield Violation("I4", "twice in the history", talk.id, repeated[0], (asked,))
        said = tuple(message for message in asked.said if message not in buried)
        if longest and not run.rules_of(talk.id).summarises and not _agree(longest[0], said):
            yield Violation(
                "I4", "history rewritten", talk.id, asked.said[-1] if asked.said else "-", (longest[1], asked)
            )
        if longest is None or len(said) > len(longest[0]):
            longest = said, asked


def _put_away(run: Run, talk: Talk) -> Iterator[Violation]:
    """Behind a summary stands what it is not of; until it is kept all of the history stands there. Never a mixture."""
    of = {one.answer: {*one.said} for one in talk.asked if one.purpose == "summary" and one.answer}
    kept = [(one.at_s, of[name]) for one in talk.writes if one.verdict in DONE for name in one.answers if name in of]
    given_up = {one.id for one in talk.messages.values() if one.shown("notice")}
    holders, serial = Holders(talk.grants), list[str]()
    for asked in talk.asked if of else ():
        own = [message for message in asked.said if message in talk.messages and message not in given_up]
        serial += [message for message in own if message not in serial]
        covered = set[str]().union(*(messages for at_s, messages in kept if at_s < asked.at_s))
        holder = holders.surely_at(asked.at_s - run.rules_of(talk.id).margin_s)
        is_late = holder and asked.process and asked.process not in {holder.process, holders.perhaps_at(asked.at_s)}
        if asked.purpose == "summary" or not own or is_late:
            continue
        whole = tuple(message for message in serial if message not in covered)
        if bool(covered) == (asked.said[0] in talk.messages) or not _agree(tuple(own), whole):
            yield Violation("I4", "neither the old history nor the new one", talk.id, own[-1], (asked,))


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one begins with the other: a request of a holder that is too late may be shorter."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]
