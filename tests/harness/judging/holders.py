"""Who held a conversation when."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from tests.harness.history import Granted
from tests.harness.talks import begin_of


class Holders:
    """Of one conversation, by its grants."""

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
