"""I3: what tools did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.harness.history import Accepted, Effect
from tests.harness.judging.run import DONE, Run, Violation
from tests.harness.talks import Talk

REACH_S: Final = 30.0
"""So long before the first copy a fault may lie for which something is sent twice."""


def effects(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        steps: dict[str, list[Effect]] = {}
        for effect in talk.effects:
            steps.setdefault(effect.step, []).append(effect)
        for step, seen in steps.items():
            yield from _effect(talk, step, seen)
        yield from _again(talk)
        yield from _made_up(run, talk)
        said = [one for one in talk.visible() if one.what == "note" and one.step]
        for step, times in Counter(one.step for one in said).items():
            twice = [one for one in said if one.step == step]
            if times > 1 and not (
                run.rules_of(talk.id).sending == "repeat" and run.faults_in(twice[0].at_s - REACH_S, twice[-1].at_s)
            ):
                yield Violation("I3", "note twice", talk.id, step, tuple(twice))


def _again(talk: Talk) -> Iterator[Violation]:
    """A step whose result is kept is not run again, whatever kind of tool it is: siblings of one that was lost."""
    kept = {step: one for one in reversed(talk.writes) if one.verdict in DONE for step in one.results}
    for effect in talk.effects:
        write = kept.get(effect.step)
        if effect.phase == "begun" and write and effect.at_s > write.at_s:
            yield Violation("I3", "run again although its result was kept", talk.id, effect.step, (write, effect))


def _made_up(run: Run, talk: Talk) -> Iterator[Violation]:
    """What the model is told of a step is what its tool has said, or that nobody knows, where somebody died with it."""
    receipts: dict[str, set[str]] = {}
    for effect in talk.effects:
        receipts.setdefault(effect.step, set()).update({effect.receipt} if effect.receipt else ())
    for asked in talk.asked:
        for step, _, receipt in (one.rpartition("=") for one in asked.receipts):
            if step in asked.unknown:
                if not run.faults_in(0.0, asked.at_s):
                    yield Violation("I3", "told as unknown without a fault", talk.id, step, (asked,))
            elif receipt not in receipts.get(step, set()):
                seen = [one for one in talk.effects if one.step == step]
                yield Violation("I3", "result that no tool gave", talk.id, step, (*seen[-2:], asked))


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
    later = [one for one in talk.asked if one.at_s > effects[0].at_s and one.purpose == "turn"]
    if any(one.phase == "done" for one in effects) or any(f"{step}=" in one.receipts for one in later):
        return  # what is said of it is judged by what the tool has said
    if later and not any(step in one.unknown for one in later):
        yield Violation("I3", "unknown outcome not told", talk.id, step, (*effects, later[0]))


def cards(run: Run) -> Iterator[Violation]:
    """What asks people for a word is there once: one code of each call counts, and a platform that can know shows one card."""
    for talk in run.talks.values():
        live: dict[str, list[Accepted]] = {}
        for one in talk.visible():
            if one.what == "card" and one.step and one.code:
                live.setdefault(one.step, []).append(one)
        for step, shown in live.items():
            if len({one.code for one in shown}) > 1:
                yield Violation("I3", "two codes for one call", talk.id, step, tuple(shown))
            elif len(shown) > 1 and (
                run.rules_of(talk.id).sending == "keyed" or not run.faults_in(0.0, shown[-1].at_s)
            ):
                yield Violation("I3", "card twice", talk.id, step, tuple(shown))
