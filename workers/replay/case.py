"""A case: everything that a turn can be run again from, found in Redis or read from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.recordings import RecordedTurn, Recordings
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.files import Files
from gateway.store import reading
from skills.visible import one_line
from workers.agent.moves import is_stop
from workers.prompt.context import begin_after
from workers.reading.attached import shown
from workers.turn import stable_key

GIVEN: Final = frozenset({"event", "overheard", "attached", "forgotten", "card", "file"})
"""Records of what comes from outside. Those that a turn begins with are not made again."""
MADE: Final = frozenset({"call", "answer", "tool_result", "step_done", "dropped", "plan", "review", "asked"})
"""Records of what the turn does itself: what came from outside meanwhile is placed between them."""
OF_A_TOOL: Final = frozenset({"skill", "withheld", "result"})
"""Records that a tool's result brings along."""

TOLD_CHARACTERS: Final = 60
"""Of how a turn began, and of who began it."""


class NotPossible(Exception):
    """This can't be replayed. `str()` says why, and what would be needed."""


@dataclass(frozen=True, slots=True)
class House:
    """Of a case from a file: what its turn runs in."""

    settings: Mapping[str, Any]
    profile: Mapping[str, Any]
    skills: Sequence[Mapping[str, Any]]
    """Each with id, tier and files."""
    approved: Sequence[Mapping[str, Any]] = ()
    """Tools of MCP servers, each with name, description and schema."""
    asks_for_all: bool = False
    tools_off: Sequence[str] = ()
    """Those that were switched off, by skeleton of the name."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a tool call came to."""

    data: Mapping[str, Any]
    """Of its record `tool_result`."""
    records: tuple[Record, ...]
    """What it brought along."""
    question: Mapping[str, Any] | None
    """What it asked people, if it did."""


@dataclass(frozen=True, slots=True)
class Later:
    """Something that came from outside while the turn ran."""

    record: Record
    after: int
    """So many records of `MADE` were there before."""
    meets: str
    """The kind of the last of them: a `call` of the model, or what was `asked`, was under way."""


@dataclass(frozen=True, slots=True)
class Case:
    """One turn."""

    key: ConversationKey
    turn: str
    before: tuple[Record, ...]
    """What still counted when it began."""
    records: tuple[Record, ...]
    """Of the turn, from its first event to its reply."""
    requests: tuple[Mapping[str, Any], ...]
    """As `Recordings.read` gives them."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    """Those that are still kept, by file."""
    house: House | None = None

    @property
    def opening(self) -> tuple[Record, ...]:
        """What it begins with: messages, and what came along with them."""
        begun = next((at for at, record in enumerate(self.records) if record.type in MADE), len(self.records))
        return tuple(record for record in self.records[:begun] if record.type in GIVEN)

    @property
    def reply(self) -> str:
        return next((str(one.data["text"]) for one in reversed(self.records) if one.type == "reply"), "")

    def later(self) -> list[Later]:
        """What came while it ran: messages and /stop, and people's words on what was asked. No commands beside it."""
        found: list[Later] = []
        made: list[str] = []
        for record in self.records:
            if record.type in MADE:
                made.append(record.type)
            elif made and (record.type == "decided" or (record.type == "event" and _is_new(record))):
                found.append(Later(record, len(made), made[-1]))
        return found

    def results(self) -> dict[str, Played]:
        """What the calls of tools came to, by `Call.key`."""
        asked = {
            (one.branch, one.data.get("call")): one.data
            for one in self.records
            if one.type == "asked" and one.data["kind"] == "question"
        }
        found: dict[str, Played] = {}
        for at, record in enumerate(self.records):
            if record.type == "tool_result":
                brought: list[Record] = []
                for one in self.records[at + 1 :]:
                    if one.type not in OF_A_TOOL or one.branch != record.branch:
                        break
                    brought.append(replace(one, branch=""))  # as a tool gives it
                question = asked.get((record.branch, record.data["id"]))
                found[self._key(record)] = Played(record.data, tuple(brought), question)
        return found

    def _key(self, record: Record) -> str:
        branch = [record.branch] if record.branch else []
        return stable_key(self.turn, *branch, str(record.data["step"]), str(record.data["id"]))


def _is_new(record: Record) -> bool:
    """Whether somebody says something to the turn that they have not said before."""
    return "answers" not in record.data and not _is_beside(record)


def _is_beside(record: Record) -> bool:
    """Whether it is a command that was run beside the turn: it has no part in what the model is sent."""
    try:
        return command_of(Event.of(record.data["event"])) is not None and not is_stop(record.data["event"])
    except ValueError:
        return True


@dataclass(frozen=True, slots=True)
class About:
    """Whose turn a recording is of, as people know it."""

    place: str
    """`connection/channel/thread`. Empty: nobody knows any more."""
    who: str
    text: str
    """How it began."""

    @classmethod
    def of(cls, parts: Sequence[str | None], first: Event | None) -> About:
        place = "/".join(part for part in parts[:3] if part)
        if first is None:
            return cls(place, "", "")
        text = f"/{first.name} {first.text}" if first.kind == "command" else first.text
        who = one_line(first.actor.name or first.actor.id)
        return cls(place, who[:TOLD_CHARACTERS], one_line(text).strip()[:TOLD_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Archive:
    """Where cases are found."""

    mailbox: Mailbox
    recordings: Recordings
    keeps: bool
    """Whether the settings have recordings kept."""

    async def find(self, conversation: str, turn: str) -> Case:
        """The case of a turn, as people name it. Raises `NotPossible`, `Unreachable`."""
        kept = await self.recordings.turns()
        if not kept:
            raise NotPossible(f"nothing is recorded. {self.how()}")
        ids = sorted({one.conversation for one in kept})
        wanted = await self._of_place(ids, conversation) or _one_of(ids, id_of(conversation), "conversation")
        turns = [one for one in kept if one.conversation == wanted]
        chosen = turns[0] if turn == "last" else _named(turns, turn)
        if chosen.left_out:
            raise NotPossible(
                f"the recording of turn {chosen.turn[:8]} is not whole: {chosen.left_out} of "
                f"{chosen.requests + chosen.left_out} requests did not fit; raise recordings.turn_max_bytes for later ones"
            )
        return await self._case(chosen)

    async def about(self, kept: Sequence[RecordedTurn]) -> list[About]:
        """Whose turns these are. Raises `Unreachable`."""
        layout, redis = self.mailbox.store.layout, cast("Any", self.mailbox.store.redis)
        first: dict[tuple[str, str], Event] = {}
        parts: dict[str, list[str | None]] = {}
        with reading():
            for one in dict.fromkeys(one.conversation for one in kept):
                stored = await redis.hget(layout.key(one), "parts")
                parts[one] = json.loads(stored) if stored else []
                for record in Record.load_all(await redis.lrange(layout.key(one, "history"), 0, -1)):
                    if record.type == "event" and not record.branch:
                        with suppress(ValueError):
                            event = Event.of(record.data["event"])
                            first.setdefault((one, str(record.data.get("turn", ""))), event)
        return [About.of(parts[one.conversation], first.get((one.conversation, one.turn))) for one in kept]

    async def _of_place(self, ids: Sequence[str], place: str) -> str | None:
        """The recorded conversation of `connection/channel/thread`, whoever's it is. Raises `NotPossible`, `Unreachable`."""
        if "/" not in place or place.startswith("[") or id_of(place) in ids:
            return None
        found, layout = [], self.mailbox.store.layout
        with reading():
            for one in ids:
                stored = await cast("Any", self.mailbox.store.redis).hget(layout.key(one), "parts")
                if stored and "/".join(part for part in json.loads(stored)[:3] if part) == place:
                    found.append(one)
        if len(found) > 1:
            raise NotPossible(f"{place!r} is several people's; by their ids: {', '.join(one[:8] for one in found)}")
        return found[0] if found else None

    def how(self) -> str:
        """What to do so that there are recordings."""
        if self.keeps:
            return (
                "The settings say recordings.keep: true; workers that were started with it record the next turn that asks "
                "the model, others after a restart."
            )
        return "Write `recordings: {keep: true}` into the settings, start the workers again, and later turns will be."

    async def _case(self, kept: RecordedTurn) -> Case:
        stored = await self.mailbox.load(kept.conversation)
        records = list(stored.history)
        start = next(
            (at for at, one in enumerate(records) if one.type == "event" and one.data["turn"] == kept.turn), None
        )
        if start is None:
            raise NotPossible(f"turn {kept.turn[:8]} is not in the conversation's history any more")
        end = next(
            (
                at
                for at in range(start, len(records))
                if records[at].type == "reply" and records[at].data["turn"] == kept.turn
            ),
            None,
        )
        if end is None:
            raise NotPossible(f"turn {kept.turn[:8]} is not over yet")
        before = records[:start]
        before = before[begin_after(before, 0) or 0 :]
        turn = records[start : end + 1]
        files, pictures = Files(self.mailbox.store), dict[str, bytes]()
        for file in shown([*before, *turn]):
            if content := await files.find(kept.conversation, file):
                pictures[file] = content
        requests = await self.recordings.read(kept.conversation, kept.turn)
        return Case(stored.key, kept.turn, tuple(before), tuple(turn), tuple(requests), pictures)


def id_of(conversation: str) -> str:
    """An id, or the beginning of one; a key `connection/channel/thread` or its JSON is made into one."""
    if conversation.startswith("["):
        try:
            return ConversationKey(*json.loads(conversation)).id
        except (ValueError, TypeError) as error:
            raise NotPossible(f"{conversation} is no conversation's key: {error}") from error
    if "/" in conversation:
        connection, channel, *rest = conversation.split("/", 2)
        return ConversationKey(connection, channel, rest[0] if rest else None).id
    return conversation


def _named(turns: Sequence[RecordedTurn], name: str) -> RecordedTurn:
    wanted = _one_of([one.turn for one in turns], name, "turn")
    return next(one for one in turns if one.turn == wanted)


def _one_of(names: Sequence[str], wanted: str, what: str) -> str:
    found = [name for name in names if name.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    shown = ", ".join(name[:8] for name in (found or names)[:10])
    why = f"{wanted!r} fits several" if found else f"there is no recording of {what} {wanted!r}"
    raise NotPossible(f"{why}; there are: {shown} (`deskmate replay --list` shows all)")
