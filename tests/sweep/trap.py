"""What watches the wires of a lane: it writes down who holds what, names each message of a turn, and strikes at one."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import hiredis

from tests.harness.history import Granted, Ledger, Wrote, now_s
from tests.harness.judging.beside import BEGINS
from tests.harness.tap import Message, Place
from tests.harness.telegram_twin import BOT_TOKEN
from tests.sweep.kinds import END
from tests.sweep.row import Row

METHOD: Final = re.compile(rb'"method":\s*"([^"]+)"')
WRITES: Final = {"take", "append", "mark", "bury", "settle", "park", "hand_over", "sole"}
RELEASES: Final = {"settle", "park", "hand_over"}
BACKGROUND: Final = re.compile(
    r"(claim|beat|meta|open|leave|lease|renew|workers|MULTI|EXEC|BLPOP.*|(HELLO|CLIENT|AUTH|SELECT|PING|INFO|CONFIG|"
    r"SCRIPT|COMMAND|SUBSCRIBE|UNSUBSCRIBE)\b.*|[A-Z]+ rq:(worker|suspended|clean).*)$"
)
"""What processes say by the clock, or for themselves, and not for a turn."""
BELLS: Final = re.compile(r"bell$|[A-Z]+ rq:")
"""Who takes nothing more, as a turn has it for itself, rings for others by the clock."""
BESIDE: Final = "beside "
"""How the names of messages of a turn beside it begin."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place of a turn: the nth message of this name that a gateway or worker says on a link, before or after it."""

    role: str
    link: str
    name: str
    nth: int
    place: Place

    @property
    def is_beside(self) -> bool:
        """Of a turn beside it."""
        return self.name.startswith(BESIDE)

    def __str__(self) -> str:
        return f"{self.place} {self.role} {self.link} {self.name} #{self.nth}"


@dataclass(slots=True)
class Trap:
    """Strikes once, at its point. `strike` sets `sprung` when it has; it returns whether the message goes on then."""

    point: Point
    strike: Callable[[Message, Point], Awaitable[bool]]
    countdown: int = 0
    """Instead: at the so manieth place of its role from now on."""
    sprung: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, point: Point) -> bool:
        if not self.countdown:
            return point == self.point
        if point.role == self.point.role:
            self.countdown -= 1
        return not self.countdown


class Wires:
    """Of one lane: one turn runs in it at a time, with one beside it at most."""

    def __init__(self, ledger: Ledger, called: Callable[[str], str]) -> None:
        """`called`: the driver's name of a conversation, by its room on the platform."""
        self._ledger = ledger
        self._called = called
        self.names: dict[str, str] = {}
        """The driver's name of a conversation, by the id that its `accept` gave it."""
        self.ids: dict[str, str] = {}
        self._traps: list[Trap] = []
        """The next one, and those after it."""
        self._row: Row | None = None
        self._beside: tuple[bytes, ...] = ()
        self.seen: list[Point] = []
        """All points of the turn so far."""
        self.grants: asyncio.Event = asyncio.Event()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._tools: list[Message] = []
        """Calls of tools that have come by."""
        self._steps: dict[str, str] = {}
        """Of each call that the model has made, by its id."""
        self.looks: Counter[str] = Counter()
        """How often a process has asked for work."""

    def begin(self, traps: list[Trap], row: Row | None = None, beside: Sequence[str] = ()) -> None:
        """The next turn begins: its messages are counted from here, or from where it gets to its row on. One trap is set at a time.
        What a turn beside it says, known by one of these words or its id, has names of its own.
        """
        self._traps = traps
        self._row = row
        self._beside = tuple(word.encode() for word in beside)
        self._tools.clear()
        self._count_anew()

    def _count_anew(self) -> None:
        self.seen = []
        self._counts.clear()

    async def within(self, process: str, step: str) -> bool:
        """A tool has begun what this process asked it for, and has not done it yet: whether it goes on."""
        word = f'"{step}"'.encode()
        asked = next(one for one in reversed(self._tools) if one.process == process and word in one.raw)
        return await self(asked, "within")

    async def __call__(self, message: Message, place: Place) -> bool:
        if message.link == "redis":
            self._note(message, place)
        if message.link == "tools" and place == "before":
            self._tools.append(message)
        if message.is_late:
            return True
        is_beside = self._is_beside(message)
        if row := self._row:
            if row.hears_of(message, place):
                self._count_anew()
            if not await row.lets(message, place, is_beside=is_beside):
                return False
        name = self._name(message)
        if not name or (row and (not row.covers(message) or BELLS.match(name))):
            return True
        name = f"{BESIDE}{name}" if is_beside else name
        role = message.process.split("-")[0]
        if "nth" not in message.seen:
            self._counts[role, message.link, name] += 1
            message.seen["nth"] = self._counts[role, message.link, name]
        point = Point(role, message.link, name, message.seen["nth"], place)
        self.seen.append(point)
        if not self._traps or (row and row.is_past) or not self._traps[0].takes(point):
            return True
        return await self._traps.pop(0).strike(message, point)

    def _name(self, message: Message) -> str:
        """What it is called in a turn; empty for what is none of it."""
        name = message.name
        if message.link == "tools":
            asked = METHOD.search(message.raw)
            return asked[1].decode() if asked else name
        if message.link != "redis":
            return name.removesuffix(f"/{message.process}").replace(f"/bot{BOT_TOKEN}", "")
        # who asks for work says that by the clock; to get some is of a turn
        if name == "claim" and message.seen.get("granted"):
            return "grant"
        if name == "sole":
            return script_of(message)
        if name.startswith("BLPOP") and message.answer and not message.answer.startswith((b"*-1", b"_")):
            return "bell"
        if name == "append":  # what it keeps says which step of a turn it is
            types = dict.fromkeys(str(record.get("type")) for record in records_of(message.words))
            return " ".join(("append", "+".join(types))).strip()
        return "" if BACKGROUND.match(name) else name

    def _note(self, message: Message, place: Place) -> None:
        words, name = message.words, message.name
        if place == "before":
            if name == "accept":
                self._learn(words)
            if name == "claim":
                self.looks[message.process] += 1
            return
        if name not in WRITES and name != "claim":
            return
        answer = _parsed(message.answer)
        if isinstance(answer, hiredis.ReplyError):
            return
        verdict = (answer[0] if isinstance(answer, list) else answer).decode()
        if name in WRITES:
            conversation, token = words[5].decode(), words[6].decode()
            self._ledger.write(
                Wrote(
                    now_s(), conversation=self.names.get(conversation, conversation), process=message.process,
                    token=token, fence=fence_of(token), script=script_of(message), verdict=verdict,
                    begin_s=message.begin_s, releases=name in RELEASES and verdict in {"OK", "DONE"},
                    **self._kept(message.words), partition=message.words[3].decode() if name == "sole" else "",
                )
            )  # fmt: skip
            if name in RELEASES and verdict in {"OK", "DONE"}:
                message.seen["released"] = self.names.get(conversation, conversation)
        if isinstance(answer, list) and len(answer) > 1 and isinstance(answer[1], list):
            for grant in answer[1]:
                conversation, token = grant[0].decode(), grant[1].decode()
                granted = message.seen.setdefault("granted", {})
                granted[self.names.get(conversation, conversation)] = grant[3]
                self.grants.set()
                self._ledger.write(
                    Granted(
                        now_s(), conversation=self.names.get(conversation, conversation), process=message.process,
                        token=token, fence=fence_of(token), begin_s=message.begin_s,
                    )
                )  # fmt: skip

    def _kept(self, words: tuple[bytes, ...]) -> dict[str, tuple[str, ...]]:
        """What of the model and of tools a write keeps: fields of `Wrote`."""
        answers: list[str] = []
        results: list[str] = []
        for record in records_of(words):
            match record.get("type"):
                case "answer":
                    uses = [one for one in record["content"] if one["type"] == "tool_use"]
                    steps = {one["id"]: str(one["input"].get("step", "")) for one in uses}
                    self._steps |= steps
                    texts = [str(one["text"]) for one in record["content"] if one["type"] == "text"]
                    answers += [name for text in texts[-1:] for name in END.findall(text)[-1:]]
                    answers += [step[:-1] for step in steps.values() if step][:1]
                case "summary":
                    answers += END.findall(record["text"])[-1:]
                case "tool_result":
                    results += filter(None, [self._steps.get(record["id"], "")])
        return {"answers": tuple(answers), "results": tuple(results)}

    def _is_beside(self, message: Message) -> bool:
        granted = message.seen.get("granted", {})
        if message.name == "claim" and self._row and granted:
            return self._row.conversation not in granted
        return any(word in message.raw for word in self._beside)

    def _learn(self, words: tuple[bytes, ...]) -> None:
        parts = json.loads(words[7])
        name = self._called(parts[1])
        self.names[words[5].decode()] = name
        self.ids[name] = words[5].decode()
        if name.encode() in self._beside:
            self._beside += (words[5],)


def script_of(message: Message) -> str:
    """As in a ledger: who asks whether a turn may have the worker for itself, and who says that it has, do so by one script."""
    return BEGINS if message.name == "sole" and message.words[7] == b"1" else message.name


def records_of(words: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    """Those that a write brings into a history."""
    return (json.loads(word) for word in words if word.startswith(b'{"v"'))


def fence_of(token: str) -> int:
    return int(token.split("-", 1)[0])


def _parsed(answer: bytes) -> Any:
    reader = hiredis.Reader()
    reader.feed(answer)
    return reader.gets()
