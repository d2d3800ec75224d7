"""Records: the typed, append-only history of a conversation.

State (which skills are loaded, what runs) is read from types and fields, never from text. Each record is stored as one
JSON line with its version; unknown fields and types of a later version are kept as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

VERSION: Final = 1
"""Of records and of events. A higher one is for what an older version could only get wrong: it leaves such a conversation
to a newer worker. New types and new fields need none.
"""
_VERSION: Final = re.compile(rb'\s*\{\s*"v"\s*:\s*(\d{1,9})')


def is_newer(line: bytes) -> bool:
    """Did a later version write this record or event, in a form that this one does not know?"""
    found = _VERSION.match(line)
    return found is not None and int(found[1]) > VERSION


_NO_RECORD: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Record:
    """One entry. `data` by `type`:

    `event`        event (as dumped), turn: what a person did, taken into a turn. answers (a code): it was
                   taken before, and is said once more to whoever asked
    `withdrawn`    event, turn: what a person said and took back before any turn began with it (`/queue clear`), or what a card
                   has answered (a plain yes beside a call that waits, a /stop that was not theirs to say): no model answers it, and
                   it stops nothing
    `hint`         turn, of (the first dedupe key of an event), skills: ids for each of its files, in their order
    `attached`     turn, of (as in hint), number (which of its files), name, kind (text, image, unread) and with it text, mark,
                   left_out (characters), or file and mime (in `gateway.files`), or reason, told (the chat was told as well);
                   forwarded (who sent it only passed it on)
    `forgotten`    turn, files: these pictures are not kept any more, or too many: they are not sent from here on. why: `refused`,
                   if it is because the model's service refused one
    `overheard`    turn, until_ms, said (who, text), mark: what was said in the channel and not to us
    `prompt`       hash, turn: the system prompt and tools changed from here on (an expected cache miss)
    `model`        turn, name, by (id): people chose this model (empty: the profile's own), from the next turn on
    `switched`     turn, model: another model than before is asked from here on; what that one thought is not sent to it
    `call`         step, turn, model (its name as it is asked for): about to ask the model
    `answer`       step, content (blocks as the API gave them), stop_reason, usage, model, bad_inputs
    `tool_start`   step, id, name, shown (what people call it), program (whose it is: a skill's id): about to run this tool
    `tool_result`  step, id, name, shown, text, error, rule and reason (what forbade it), refused (a person said no), untrusted, own (of what people here trust), mark (the random word that encloses it), note
                   (our own words in front of that), addresses (that it read or found), skill, bundle (whose file it holds)
    `skill`        id, tier, hash (of the body), bundle, offset, characters, bytes, replaces, delivery, call (the tool_use
                   it answers), tools (that alone may be used beside it), lead, text (of the body), rest: guidance
    `withheld`     ids, why (off, unsure, untrusted, changed, gone, unloaded), turn: nothing of these skills before this is sent
    `result`       id, from, text: the whole of a result that was too long for one page; `read_result` reads on in it
    `dropped`      step, why: an answer under way was dropped (interrupt, empty, too_long), or never asked for (budget): nothing of it is sent
    `asked`        turn, step, code, kind (approval, question, plan), call (the tool_use that waits), tool, requester, bound (hash of
                   all that the word is about), files (of the channel that it is about too: hashes by path), text, question, choices, until_ms, rows (of its card), after (the number of
                   the last message that waited then), closes (the message that grew: what comes stands below its card): a person has to say a word before it goes on
    `decided`      turn, code, word (yes, no, answer, expired), by (id), name, text, messages (that are the answer: the first
                   dedupe key of each): that word
    `unclear`      turn, messages: each could be the answer to several questions; whoever wrote them was asked which one
    `reply`        turn, text (Markdown), notice (by the product itself), command: what the person was told; rule: the line of the profile that
                   took the answer's place
    `failed`       turn, reason: the turn was closed without an answer; with part: that part was not delivered
    `card`         turn, text (Markdown), buttons (label, command, style of each), of (as in hint: what it answers beside the turn): what the product said in the midst of a
                   turn; the model is not told
    `file`         turn, file (an attachment): what a tool sent to the chat; the model is not told
    `cleared`      carried: nothing before this is sent any more
    `summary`      turn, begin, since, text, mark, by (model, rules), skills, tainted, usage, model, carried: of all that was before
                   the place `begin` in history, where the turn `since` begins; skills: ids that were put away with it
    `shortened`    turn, results, files: of these results (ids) and attached texts (of, number) only a part is sent from here on
    `plan`         turn, steps (id, task, needs): the task in steps. Each is carried out in a branch, `step <id>`
    `given`        turn, how (step, again, fault, edit, review, closing), what, step, results (id, task, text, failed), mark: what a branch is
                   told of its own
    `step_done`    turn, id, text (the branch's answer, or why there is none), failed
    `review`       turn, changes (text by step): what a reviewer wants to have changed; none: it is accepted
    `unreadable`   line: what is no record; it keeps its place and means nothing
    """

    type: str
    at_ms: int
    data: dict[str, Any] = field(default_factory=dict)
    branch: str = ""
    """Stored as `in`: the branch of its turn that it belongs to, such as `step 1`. Empty: the conversation's main line."""

    def dump(self) -> str:
        head: dict[str, Any] = {"v": VERSION, "type": self.type, "at": self.at_ms}
        return json.dumps({**head, **({"in": self.branch} if self.branch else {}), **self.data}, ensure_ascii=False)

    @classmethod
    def load(cls, line: str | bytes) -> Record:
        return cls._of(json.loads(line))

    @classmethod
    def load_all(cls, lines: Sequence[bytes]) -> list[Record]:
        """The same of many lines. Read as one text they share the strings of their keys: half the memory of a history."""
        try:
            return [cls._of(data) for data in json.loads(b"[%b]" % b",".join(lines))]
        except _NO_RECORD:
            return [cls._any(line) for line in lines]

    @classmethod
    def _any(cls, line: bytes) -> Record:
        """Whatever it is: one bad line must not make a conversation unanswerable."""
        try:
            return cls.load(line)
        except _NO_RECORD:
            return cls("unreadable", 0, {"line": line[:200].decode(errors="replace")})

    @classmethod
    def _of(cls, data: dict[str, Any]) -> Record:
        data.pop("v", None)
        return cls(data.pop("type"), data.pop("at"), data, data.pop("in", ""))


def turns_of(records: Sequence[Record]) -> list[str]:
    """Which turn each belongs to: its own word, else that of the call of the model before it."""
    found, asks = [], ""
    for record in records:
        named = str(record.data.get("turn") or "")
        asks = named if record.type == "call" else asks
        found.append(named or asks)
    return found


_OUTLIVES: Final = {"overheard": "until_ms", "model": "name"}
"""Fields whose newest value still counts when the record itself does not any more."""


def latest(records: Sequence[Record], kind: str) -> Any:
    """What the newest record of this kind says in the field that outlives it; None: there was none."""
    put_away = None
    for record in reversed(records):
        if record.branch:
            continue
        if record.type == kind:
            return record.data[_OUTLIVES[kind]]
        if put_away is None:
            put_away = (record.data.get("carried") or {}).get(kind)
        if record.type == "cleared":  # a summary leaves records before it that are newer than what it carries
            break
    return put_away


def carry(records: Sequence[Record]) -> dict[str, Any]:
    """For the field `carried` of a record that puts away what was before it."""
    return {kind: value for kind in _OUTLIVES if (value := latest(records, kind)) is not None}


class History(Sequence[Record]):
    """A conversation's records. Those that were stored before are read when somebody looks at them, and are bytes again
    after `rest`: many turns wait at once, and a record read is several times its bytes.

    What no longer counts is not among them: they begin at the place `first` of all that is stored.
    """

    def __init__(self, lines: Sequence[bytes], first: int = 0) -> None:
        self.first = first
        self._stored = tuple(lines)
        self._read: list[Record] | None = None
        """All of them, those that are new as well: one that looks at each by its place must not copy them each time."""
        self._new: list[Record] = []

    def __len__(self) -> int:
        return len(self._stored) + len(self._new)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._all())

    def __reversed__(self) -> Iterator[Record]:
        return reversed(self._all())

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        before = len(self._stored)
        if isinstance(index, slice) and index.stop is None and (index.start or 0) >= before:
            return self._new[(index.start or 0) - before :]  # a turn reads its own records at each step
        return self._all()[index]

    @property
    def end(self) -> int:
        """The place of the next record."""
        return self.first + len(self)

    def since(self, place: int) -> list[Record]:
        return self[max(0, place - self.first) :]

    def before(self, place: int) -> list[Record]:
        return self[: max(0, place - self.first)]

    def extend(self, records: Iterable[Record]) -> None:
        before = len(self._new)
        self._new.extend(records)
        if self._read is not None:
            self._read.extend(self._new[before:])

    def _all(self) -> list[Record]:
        if self._read is None:
            self._read = [*Record.load_all(self._stored), *self._new]
        return self._read

    def rest(self) -> None:
        """Nobody will look for a while."""
        self._read = None
