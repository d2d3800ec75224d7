"""A run as the looks of the checker see it, and what they find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.harness.history import Event, Fault, History, dumped
from tests.harness.talks import Message, Talk

DONE: Final = {"OK", "DONE"}
"""Verdicts of a write that is in."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in a run beside the ten."""

    notices_max: int | None = None
    """So many messages of a conversation may get a notice in place of an answer. None: any number."""
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
    calls_ratio: float | None = 1.2
    """How many calls of the model for one that was planned, over all. None: each turn has a fault of its own."""
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


@dataclass(frozen=True)
class Run:
    """A history, sorted, with what all looks need."""

    history: History
    rules: Rules
    """Of all that have none of their own."""
    talks: dict[str, Talk]
    faults: list[Fault]
    end_s: float
    away: list[tuple[float, float]] = field(default_factory=list)
    """When something outside of deskmate was not there: from, to."""
    own_rules: Mapping[str, Rules] = field(default_factory=dict)
    """Of conversations."""

    def rules_of(self, conversation: str) -> Rules:
        return self.own_rules.get(conversation, self.rules)

    def waited_s(self, since_s: float, until_s: float) -> float:
        """Time between the two, without that in which something was away."""
        away_s = sum(max(0.0, min(until_s, end_s) - max(since_s, begin_s)) for begin_s, end_s in self.away)
        return until_s - since_s - away_s

    def faults_in(self, since_s: float, until_s: float) -> list[Fault]:
        """Those that can have touched what went on between the two: a pause begins before and is felt behind."""
        return [one for one in self.faults if since_s <= one.at_s <= until_s and one.what not in {"started", "ended"}]

    def messages(self) -> Iterator[tuple[Talk, Message]]:
        return ((talk, message) for talk in self.talks.values() for message in talk.messages.values())

    def talk_with(self, message: str) -> Talk | None:
        """The conversation in which it was said."""
        return next((talk for talk in self.talks.values() if message in talk.messages), None)
