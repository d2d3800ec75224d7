"""What is loaded: which skills' texts the context of a conversation holds, read from its records alone.

This is the only place that knows it. Rendering, `load_skill`, `unload_skill` and the check of each call ask here, so that
what the model is told, what it is charged for and what it is held to are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.conversation.records import Record
from workers.prompt.context import in_context, spoken

WAITING_MAX: Final = 3
"""So many skills wait for the person's next message; the newest ones."""

Why = Literal["off", "unsure", "untrusted", "changed", "gone", "unloaded"]
"""Why a text is no longer sent: switched off, nobody can tell whether it is, not trusted, not the bytes that were trusted,
taken away, put away by the model."""


@dataclass(slots=True)
class Course:
    """What became of the records of type `skill`, and of results that hold a skill's files. By their place in the list."""

    sent: list[int] = field(default_factory=list)
    """Texts that stand somewhere in what is sent, the withheld ones too."""
    waiting: dict[str, list[int]] = field(default_factory=dict)
    """Texts that come with the person's next message, by id, the newest id last."""
    drained: dict[int, list[int]] = field(default_factory=dict)
    """By the place of a person's message: the texts that stand in front of it."""
    files: list[int] = field(default_factory=list)
    """Results that hold what was read of a skill, as data."""
    withheld: dict[int, Why] = field(default_factory=dict)
    """Texts and results that stand no more where they stood."""

    def wait(self, at: int, records: Sequence[Record]) -> None:
        """A text joins those of its version that wait, and takes the place of another version's."""
        data = records[at].data
        before = self.waiting.pop(data["id"], [])
        self.waiting[data["id"]] = [*(one for one in before if records[one].data["hash"] == data["hash"]), at]
        if len(self.waiting) > WAITING_MAX:
            del self.waiting[next(iter(self.waiting))]

    def come(self, at: int) -> None:
        """A person writes: what waits comes in front of that."""
        self.drained[at] = [one for each in self.waiting.values() for one in each]
        self.sent += self.drained[at]
        self.waiting = {}

    def withhold(self, ids: Collection[str], why: Why, records: Sequence[Record]) -> None:
        for name in ids:
            self.waiting.pop(name, None)
        for at in self.sent:
            if records[at].data["id"] in ids:
                self.withheld.setdefault(at, why)
        for at in self.files:
            if records[at].data["skill"] in ids:
                self.withheld.setdefault(at, why)


def follow(records: Sequence[Record]) -> Course:
    """Of records that are in context, in their order."""
    course = Course()
    for at, record in enumerate(records):
        match record.type:
            case "skill" if record.data["delivery"] == "next_turn":
                course.wait(at, records)
            case "skill":
                course.sent.append(at)
            case "event" if course.waiting and spoken(record):
                course.come(at)
            case "tool_result" if record.data.get("skill"):
                course.files.append(at)
            case "withheld":
                course.withhold(record.data["ids"], record.data["why"], records)
    return course


@dataclass(frozen=True, slots=True)
class Loaded:
    """What counts as loaded of one skill."""

    id: str
    hash: str
    """Of the body that was delivered last."""
    size_bytes: int
    """Of the budget: all versions that are sent or wait to be."""
    stretches: tuple[tuple[int, int], ...]
    """Of the newest body: from, to, in characters."""
    is_waiting: bool
    """Some of it comes only with the person's next message."""
    sent_hash: str | None
    """Of the newest body that the model has seen."""

    def end_of(self, offset: int) -> int | None:
        """How far the text is there without a gap from `offset` on, or none if it is not there at all."""
        end = None
        for begins, ends in self.stretches:
            if begins <= (offset if end is None else end) and (offset < ends or begins == ends == offset):
                end = max(ends, end or 0)
        return end


def loaded(history: Sequence[Record]) -> dict[str, Loaded]:
    """By id, in the order in which they were first delivered."""
    records = in_context(history)
    course = follow(records)
    waits = {at for each in course.waiting.values() for at in each}
    by_id: dict[str, list[int]] = {}
    for at in sorted({*_in_force(course), *waits}):
        by_id.setdefault(records[at].data["id"], []).append(at)
    return {name: _loaded(name, places, waits, records) for name, places in by_id.items()}


def _loaded(name: str, places: Sequence[int], waits: set[int], records: Sequence[Record]) -> Loaded:
    mine = [records[at].data for at in places]
    newest = mine[-1]["hash"]
    # An older delivery of the same version counts only if no other version came in between.
    start = max((at + 1 for at, data in enumerate(mine) if data["hash"] != newest), default=0)
    seen = [records[at].data["hash"] for at in places if at not in waits]
    return Loaded(
        id=name,
        hash=newest,
        size_bytes=sum(data["bytes"] for data in mine),
        stretches=tuple(sorted((data["offset"], data["offset"] + data["characters"]) for data in mine[start:])),
        is_waiting=any(at in waits for at in places),
        sent_hash=seen[-1] if seen else None,
    )


def narrowing(history: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    """By id of each skill whose text the model has, and which names tools: these names."""
    records = in_context(history)
    course = follow(records)
    newest = {records[at].data["id"]: records[at].data for at in sorted(_in_force(course))}
    return {name: tuple(data["tools"]) for name, data in newest.items() if data.get("tools") is not None}


@dataclass(frozen=True, slots=True)
class Held:
    """Something of a skill that is sent, or would be with the next message."""

    id: str
    bundle: str
    """Hash of the whole skill that it came from."""
    is_guidance: bool
    """Else it is data, whoever trusts it."""
    tier: str = ""
    """Of guidance: where it came from."""


def held(history: Sequence[Record], *, waiting: bool = True) -> tuple[Held, ...]:
    """All of it, each once, guidance first. `waiting`: with what comes only with the person's next message."""
    records = in_context(history)
    course = follow(records)
    waits = [at for each in course.waiting.values() for at in each if waiting]
    texts = (records[at].data for at in sorted([*_in_force(course), *waits]))
    results = (records[at].data for at in course.files if at not in course.withheld)
    guidance = [Held(data["id"], data["bundle"], True, data["tier"]) for data in texts]
    files = [Held(data["skill"], data["bundle"], False) for data in results]
    return tuple(dict.fromkeys([*guidance, *files]))


def withhold(
    history: Sequence[Record], why_not: Callable[[Held], Why | None], *, turn: str, at_ms: int
) -> tuple[Record, ...]:
    """Records for a turn's start: what may no longer be sent is not sent from there on, one record for each reason.

    What is data stays data when trust ends: only a skill that is off or gone takes it along.
    """
    reasons: dict[str, Why] = {}
    for one in held(history):
        why = why_not(one)
        if why and (one.is_guidance or why in {"off", "unsure", "gone"}):
            reasons.setdefault(one.id, why)
    return tuple(
        withheld([name for name in reasons if reasons[name] == why], why, turn=turn, at_ms=at_ms)
        for why in dict.fromkeys(reasons.values())
    )


def withheld(ids: Sequence[str], why: Why, *, at_ms: int, turn: str = "") -> Record:
    """From here on nothing of these skills that came before is sent."""
    return Record("withheld", at_ms, {"ids": list(ids), "why": why, "turn": turn})


def _in_force(course: Course) -> Iterator[int]:
    return (at for at in course.sent if at not in course.withheld)
