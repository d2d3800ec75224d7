"""I5 of workers: who has one for itself is with it alone (docs/reliability.md, "Whose death it was")."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.harness.history import Granted, Wrote
from tests.harness.judging.run import DONE, Run, Violation
from tests.harness.talks import Talk, begin_of

BEGINS: Final = "sole begins"
"""As a write: nothing is beside it any more."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """A conversation has a worker for itself: at least until then."""

    wrote: Wrote
    until_s: float


def beside(run: Run) -> Iterator[Violation]:
    """Nothing else is in such a worker's hands, and no two of one partition have one at a time."""
    died = {one.target: one.at_s for one in run.faults if one.what == "kill"}
    found = [
        _Alone(one, min(_over_s(talk, one.token), died.get(one.process, math.inf)))
        for talk in run.talks.values()
        for one in talk.writes
        if one.script == BEGINS and one.verdict in DONE
    ]
    granted: defaultdict[str, list[Granted]] = defaultdict(list)
    for talk in run.talks.values() if found else ():
        for grant in talk.grants:
            granted[grant.process].append(grant)
    for alone in found:
        mine = alone.wrote
        for grant in granted[mine.process]:
            if grant.conversation == mine.conversation or grant.at_s >= alone.until_s:
                continue
            if _over_s(run.talks[grant.conversation], grant.token) > mine.at_s:
                yield Violation("I5", "something beside it", mine.conversation, grant.conversation, (mine, grant))
    for one in found:
        for other in (other.wrote for other in found if other.wrote.conversation != one.wrote.conversation):
            is_within = one.wrote.at_s < begin_of(other) and other.at_s < one.until_s
            if is_within and other.partition == one.wrote.partition:
                both = (one.wrote, other)
                yield Violation("I5", "two with a worker each", other.conversation, one.wrote.conversation, both)


def _over_s(talk: Talk, token: str) -> float:
    """When what was granted with this token is surely over: given back, or refused, or granted anew."""
    mine = next((one for one in talk.grants if one.token == token), None)
    over = [begin_of(one) for one in talk.writes if one.token == token and (one.releases or one.verdict == "FENCED")]
    later = [begin_of(one) for one in talk.grants if mine and one.fence > mine.fence]
    return min([*over, *later], default=math.inf)
