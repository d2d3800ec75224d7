"""The claim: one worker's right to write one conversation, for as long as its lease lasts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field


class Lost(Exception):
    """The conversation is not ours any more: no write, no send, no start of a tool after this."""


class Fenced(Lost):
    """Another worker holds it, or nobody."""


class Behind(Lost):
    """Redis has lost what we built on. Forget what is in memory, hand over."""


class Leaving(Lost):
    """This worker ends: hand over at the border of a step."""


@dataclass(slots=True)
class Claim:
    """The right to write one conversation. Lives in one worker, changes with each write."""

    conversation: str
    root: str
    token: str
    rev: int
    tries: int
    """How many holders died with it since the last finished step."""
    begin: int
    """The place in history where what still counts begins; what is older is not read for a turn."""
    deadline_s: float
    """By the local clock that also runs in suspend; nothing may be started after it."""
    lost: bool = False
    unheard: bool = False
    """Redis was asked in time to lengthen the lease, and has not answered."""
    cut_off: bool = False
    """The lease ended while Redis did not answer: nobody is to blame."""
    leaving: bool = False
    """The worker ends: stop at the next border of a step."""
    writes: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody wrote to the inbox or to control meanwhile."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One write at a time: each builds on the revision of the one before."""

    def seconds_left(self) -> float:
        return 0.0 if self.lost else self.deadline_s - boot_clock_s()

    def check(self) -> None:
        """Raise `Lost` unless it is certainly still ours."""
        if self.seconds_left() <= 0:
            self.cut_off = self.cut_off or (self.unheard and not self.lost)
            self.lost = True
            raise Fenced(self.conversation)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What `claim`, `settle` and `park` give besides their own verdict."""

    grants: tuple[Claim, ...] = ()
    ring: bool = False
    wait_ms: int | None = None
    """When the next conversation is due; none: nothing is."""


def boot_clock_s() -> float:
    """A clock that goes on while the machine sleeps, as the server's does."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
