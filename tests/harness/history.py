"""The ledgers of a run: what was seen from outside, one frozen event a line, one file a source.

    with Ledger(folder / "platform.jsonl", fsync=True) as ledger:
        ledger.write(Accepted(now_s(), conversation="room-1", key="k1", answers=("m1",), text="Noon."))
    history = read(folder)                            # of all files in it, in the order of time

Nothing that deskmate says about itself is an event: only what reached a stand-in, what a person's side sent, what passed
on the wire to Redis, and what was done to processes. `tests.harness.checking` decides from these alone.

Everything is named as the stand-ins name it. A *conversation* is the driver's own name for it. A *message* is what a
person said, by an id of the driver's that stays the same however often, and under however many event ids, it is
delivered. A *step* is one call of a tool, by a name that the scripted model chose. A *process* is a name that the
harness gave at the start (`worker-3`); a process that is started anew has a new one. Times are seconds of
`CLOCK_MONOTONIC`, which all processes of one machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self, TypeVar, get_args, get_origin, get_type_hints


def now_s() -> float:
    """The clock of all ledgers."""
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was seen at one time."""

    kind: ClassVar[str] = ""

    at_s: float
    """When it was over: an answer was written or had come. A thing without extent has only this."""


@dataclass(frozen=True, slots=True)
class Began(Event):
    """First of all: what holds in this run. `rules` are fields of `judging.run.Rules`."""

    kind: ClassVar[str] = "began"

    name: str = ""
    seed: int = 0
    rules: dict[str, Any] | None = None
    conversation: str = ""
    """Whose; empty: of all that have none of their own."""


@dataclass(frozen=True, slots=True)
class Posted(Event):
    """A delivery of a person's message to deskmate, and the answer. A message may be delivered several times."""

    kind: ClassVar[str] = "posted"

    conversation: str
    message: str
    begin_s: float
    status: int
    """Of the answer, 0 for none."""
    place: int
    """Which message of its conversation it is in the platform's order, from 0, in whatever order they are delivered."""
    said_s: float = 0.0
    """When it was said, by the time that the event names; 0: as the first delivery's `begin_s`."""
    delivery: str = ""
    """The event's id on the wire."""
    process: str = ""
    """Which gateway."""
    calls: int = 1
    """How often the model is asked for its turn if nothing goes wrong."""
    wants: Literal["reply", "notice"] = "reply"
    """What answers it then: a command gets a notice."""
    canary: str = ""
    """A word, of letters, digits and hyphens, that stands in this conversation alone."""


@dataclass(frozen=True, slots=True)
class Accepted(Event):
    """The platform took a message of ours, or a change of one. People see it from now on."""

    kind: ClassVar[str] = "accepted"

    conversation: str
    key: str = ""
    """What the platform knows a repetition by, empty where it has no such thing."""
    id: str = ""
    """The platform's name of the message; empty: `key`."""
    what: Literal["reply", "notice", "remark", "growing", "card", "note", "deleted"] = "reply"
    """`reply`: a part of a final answer. `notice`: in place of an answer. `remark`: about another message, such as that it
    may have come twice. `growing`: an answer's beginning that will change. `card`: asks for a decision. `note`: said
    by a tool while the turn goes on. `deleted`: the message `edit_of` is gone.
    """
    answers: tuple[str, ...] = ()
    """The messages that it answers. Empty: the platform does not say."""
    part: int = 1
    parts: int = 1
    text: str = ""
    edit_of: str = ""
    """The id of the message that becomes this."""
    repeated: bool = False
    """The platform knew the key: nobody sees anything new."""
    step: str = ""
    """Of a `note`: the call that said it. Of a `card`: the call that waits for the word."""
    code: str = ""
    """Of a `card`, while its word counts: what one says it with."""
    begin_s: float = 0.0
    """When the request arrived; 0: as `at_s`."""
    process: str = ""


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """The platform took nothing: a status of 400 and more, or no answer, with nothing kept."""

    kind: ClassVar[str] = "refused"

    conversation: str
    status: int
    why: str = ""
    key: str = ""
    process: str = ""


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """A request to the model, when it came in."""

    kind: ClassVar[str] = "asked"

    conversation: str
    problem: str = ""
    """The rule that the request breaks, in the service's words. Empty: it is well-formed."""
    said: tuple[str, ...] = ()
    """The messages that stand in it, in its order, each as often as it stands there."""
    unknown: tuple[str, ...] = ()
    """Steps of which it says that nobody knows what became of them."""
    canaries: tuple[str, ...] = ()
    """Of whichever conversation."""
    tokens: int = 0
    process: str = ""
    purpose: Literal["turn", "summary"] = "turn"
    answer: str = ""
    """A name of what it is answered with, the same whoever asks for it, and how often. Empty: nobody knows."""
    text: str = ""
    """That this answer says to people. Empty: nothing, it calls tools."""
    receipts: tuple[str, ...] = ()
    """`STEP=WORD` of each call in it that has a result: the word that the tool gave with it; `STEP=` where none stands there."""


@dataclass(frozen=True, slots=True)
class Effect(Event):
    """A tool did something outside that can't be undone, in two lines: before it, and after it."""

    kind: ClassVar[str] = "effect"

    conversation: str
    step: str
    phase: Literal["begun", "done"]
    policy: Literal["read", "idempotent", "once"] = "once"
    key: str = ""
    """What the tool knows a repetition by. With `idempotent`, two of one key are one effect."""
    process: str = ""
    receipt: str = ""
    """Of `done`: a word that stands in the tool's answer and nowhere else."""


@dataclass(frozen=True, slots=True)
class Granted(Event):
    """Redis gave a conversation to a process: seen on the wire between the two."""

    kind: ClassVar[str] = "granted"

    conversation: str
    process: str
    token: str
    fence: int
    """The number in the token: a later grant has a greater one."""
    begin_s: float = 0.0
    """When the request passed; 0: as `at_s`. The grant is of some time between the two."""


@dataclass(frozen=True, slots=True)
class Wrote(Event):
    """Redis took a write by whoever named this token, or did not: seen on the wire between the two."""

    kind: ClassVar[str] = "wrote"

    conversation: str
    process: str
    token: str
    fence: int
    script: str
    """Such as `append`, `mark`, `renew`."""
    verdict: str = "OK"
    begin_s: float = 0.0
    """When the request passed; 0: as `at_s`."""
    releases: bool = False
    """With it the token ends (settle, park, hand_over)."""
    answers: tuple[str, ...] = ()
    """The model's answers that it keeps, by their names (`Asked.answer`)."""
    results: tuple[str, ...] = ()
    """The steps whose results it keeps."""
    partition: str = ""
    """Of Redis, with what says that a worker is had for oneself: one at a time has that in each."""


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """Something was done to the world."""

    kind: ClassVar[str] = "fault"

    target: str
    """A process by its name, or `redis`, `model`, `platform`."""
    what: Literal["started", "kill", "stop", "continue", "exit", "away", "back", "hold", "heal", "cut", "slow", "ended"]
    """`kill`: at once, with SIGKILL. `stop`, `continue`: SIGSTOP, SIGCONT. `exit`: asked to end. `away`, `back`: killed, and
    answering again. `ended`: it did, as it was asked, and `detail` is its exit code. The others are of the network.
    """
    detail: str = ""
    """Such as the step where it fell."""


@dataclass(frozen=True, slots=True)
class Found(Event):
    """After the end: a conversation's word, or a thing that should be gone, lay somewhere."""

    kind: ClassVar[str] = "found"

    place: str
    """Such as `redis`, `log worker-1`, `temporary files`."""
    name: str
    """Of the key, file or line."""
    canary: str = ""
    """Whose word it is. Empty: it is something left behind."""
    conversation: str = ""
    """Where it lies, if the place belongs to one; a log belongs to none."""


@dataclass(frozen=True, slots=True)
class Letter(Event):
    """After the end: a dead letter lay in Redis."""

    kind: ClassVar[str] = "letter"

    conversation: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """Last of all: nobody looked any more after this."""

    kind: ClassVar[str] = "ended"


KINDS: Final[dict[str, type[Event]]] = {
    one.kind: one
    for one in (Began, Posted, Accepted, Refused, Asked, Effect, Granted, Wrote, Fault, Found, Letter, Ended)
}
_Of = TypeVar("_Of", bound=Event)


class Torn(Exception):
    """A line of a ledger is none of ours: the file, the line's number, and why."""


@dataclass(frozen=True, slots=True)
class History:
    """All events of a run, in the order of `at_s`."""

    events: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        return cls(tuple(sorted(events, key=lambda event: event.at_s)))  # stable: equal times keep their order

    def all(self, kind: type[_Of]) -> Iterator[_Of]:
        return (event for event in self.events if isinstance(event, kind))


class Ledger:
    """One file of one source, only ever appended to. `fsync`: each line is on the disk before `write` returns."""

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self.path = path
        self._fsync = fsync
        self._file = path.open(
            "ab", buffering=0
        )  # a line is one write, so that writers of several processes do not mix

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, event: Event) -> None:
        self._file.write(dumped(event))
        if self._fsync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def dumped(event: Event) -> bytes:
    """One line. What is as by default is left out."""
    defaults = {one.name: one.default for one in fields(event)}
    given = {
        name: value for name, value in asdict(event).items() if defaults[name] is MISSING or value != defaults[name]
    }
    return json.dumps({"kind": event.kind, **given}, ensure_ascii=False).encode() + b"\n"


def loaded(line: bytes) -> Event:
    """The event of a line. Raises `ValueError` for whatever is none."""
    given = json.loads(line)
    kind = KINDS.get(given.pop("kind", ""))
    if kind is None:
        raise ValueError(f"no such kind of event: {line[:80]!r}")
    known = {one.name: one for one in fields(kind)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{kind.kind} has no {name}")
        if isinstance(value, list):
            given[name] = tuple(value)
    try:
        event = kind(**given)
    except TypeError as error:
        raise ValueError(str(error)) from None
    for name, allowed in _WORDS[kind].items():
        if getattr(event, name) not in allowed:
            raise ValueError(f"{kind.kind}.{name} can't be {getattr(event, name)!r}")
    return event


def read(*paths: Path) -> History:
    """What stands in these files, and in all `*.jsonl` of these folders. Raises `Torn`, and `FileNotFoundError` for none.

    A last line without its end is of a writer that was killed, and no event.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    if not files:
        raise FileNotFoundError(f"no ledgers in {', '.join(map(str, paths))}")
    return History.of(event for file in files for event in _events(file))


def _events(file: Path) -> Iterator[Event]:
    lines: Sequence[bytes] = file.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            yield loaded(line)
        except ValueError as error:
            raise Torn(f"{file}:{number}: {error}") from None


def _words(kind: type[Event]) -> dict[str, tuple[Any, ...]]:
    """Which values the fields with a few words have."""
    return {name: get_args(hint) for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal}


_WORDS: Final = {kind: _words(kind) for kind in KINDS.values()}
