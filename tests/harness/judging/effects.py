"""I3: what tools did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.harness.history import Effect
from tests.harness.judging.run import Run, Violation
from tests.harness.talks import Talk


def effects(run: Run) -> Iterator[Violation]:
    for talk in run.talks.values():
        steps: dict[str, list[Effect]] = {}
        for effect in talk.effects:
            steps.setdefault(effect.step, []).append(effect)
        for step, seen in steps.items():
            yield from _effect(talk, step, seen)
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
