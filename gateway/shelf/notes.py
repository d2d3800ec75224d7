"""Notes as Redis holds them: what was written back to skills, each channel's apart from all others'.

A note waits for an approver or counts at once; one that counts is read after the shipped text of its file. Limits, order
and the audit log are kept by the scripts (`scripts/note*.lua`), so that they hold however many write at once.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, cast

from gateway.audit.log import Change
from gateway.store import Script, Store, script_of
from skills import ids
from skills.notes import CALL_MAX_CHARACTERS, FILE_MAX_BYTES, Note, State

EVERYWHERE: Final = "all"
"""The scope of what holds in all channels; a channel's id is longer."""
LETTERS: Final = "BCDFGHJKMNPQRTVWXYZ"
"""Of codes: none can be taken for another or for a digit, and they spell no words."""
CODE_LENGTHS: Final = (4, 4, 4, 4, 5, 5, 6, 8, 12)
"""Codes that are tried until one is free."""


class NoNote(LookupError):
    """No note of this channel has this code. `str()` is for operators."""


class Decided(Exception):
    """The note is not in a state in which this can be done, such as one that was rejected before."""

    def __init__(self, note: Note) -> None:
        super().__init__(f"{note.code} is {note.state}")
        self.note = note


class Since(Exception):
    """This very change was made, and another one of the same kind after it."""

    def __init__(self, note: Note) -> None:
        super().__init__(f"{note.code} was changed since")
        self.note = note


class OtherNotes(Exception):
    """What the note would take the place of is not what the approver was shown. The same again accepts it as it is now."""

    def __init__(self, note: Note, replaces: tuple[Note, ...]) -> None:
        super().__init__(f"what {note.code} replaces has changed")
        self.note = note
        self.replaces = replaces


class Full(Exception):
    """A limit is reached, and nothing was stored. `str()` names the limit and what came, for the model."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be written back."""

    characters: int = CALL_MAX_CHARACTERS
    """Of one note."""
    file_bytes: int = FILE_MAX_BYTES
    """Of the notes of one file that are read, in UTF-8."""
    notes: int = 4_000
    """Of one file, those that were replaced and can come back among them."""
    files: int = 200
    """With notes, of one skill."""
    waiting: int = 50
    """Notes of a channel that wait for an approver."""
    overwrites: int = 10
    """Of one file that can be reverted; what older ones replaced is gone."""
    remember_ms: int = 30 * 24 * 3_600_000
    """How long it is known what became of a note whose text is gone."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wants to have written down."""

    skill: str
    file: str
    text: str
    by_name: str
    conversation: str
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """A note, and the notes that it takes the place of."""

    note: Note
    replaces: tuple[Note, ...] = ()


class Notes:
    """All methods raise `Unreachable`."""

    def __init__(self, store: Store, limits: Limits | None = None) -> None:
        self._store = store
        self._limits = limits or Limits()
        self._limits_as_json = json.dumps(asdict(self._limits))

    async def save(self, change: Change, draft: Draft, *, ask: bool) -> Saved:
        """Store a note; with `ask` it waits for an approver. The same change again is the same note. Raises `Full`."""
        note_id = _digest(change.channel_id, change.id)
        hashed = hashlib.sha256(draft.text.encode()).hexdigest()
        codes = _codes(note_id)
        given = {
            "hash": hashed,
            "skill": draft.skill,
            "file": draft.file,
            "by": change.who,
            "by_name": draft.by_name,
            "conversation": draft.conversation,
            "source": change.room,
        }
        verdict, *found = await self._run(
            _script("note_save"),
            change.channel_id,
            note_id,
            self._limits_as_json,
            change.line("note save", f"{draft.skill} {draft.file}"),
            "pending" if ask else "kept",
            ids.skeleton(draft.skill),
            ids.key(draft.file),
            ids.skeleton(draft.file),
            int(draft.overwrite),
            draft.text,
            len(codes),
            *codes,
            *(word for pair in given.items() for word in pair),
        )
        self._refuse(verdict, found, draft.file, len(draft.text.encode()))
        first, *replaced = (_note(one) for one in found)
        return Saved(first, tuple(replaced))

    async def find(self, channel: str, code: str) -> Note:
        """The note that people call so in this channel. Raises `NoNote`."""
        scope, code = _scope(channel, code)
        found = await self._run(_script("note_find"), scope, code)
        if not found:
            raise NoNote(code)
        return _note(found)

    async def approve(self, change: Change, code: str) -> Note:
        """From now on it counts. Raises `NoNote`, `Decided`, `Full`, `OtherNotes`."""
        return await self._change("note_approve", "note approve", change, code)

    async def reject(self, change: Change, code: str) -> Note:
        """Nothing of a note that waits is left to read. Raises `NoNote`, `Decided`."""
        return await self._change("note_forget", "note reject", change, code, "pending", "rejected")

    async def revert(self, change: Change, code: str) -> Note:
        """Take back a note that counts; what it had replaced is read again. Raises `NoNote`, `Decided`."""
        return await self._change("note_forget", "note revert", change, code, "kept", "reverted")

    async def expire(self, change: Change, code: str, until_ms: int | None) -> Note:
        """Let a note that counts end at a time of the server's clock, at once if that is past, or never (None).

        What it had replaced does not come back. Raises `NoNote`, `Decided`, `Since`.
        """
        till = "" if until_ms is None else str(until_ms)
        return await self._change("note_expire", "note expire", change, code, till)

    async def promote(self, change: Change, code: str) -> Note:
        """Let a note of this channel hold in all channels instead, under a code that begins with `A`.

        Raises `NoNote`, `Decided`, `Full`.
        """
        codes = ("A" + one for one in _codes(_digest(change.channel_id, code)))
        return await self._change("note_promote", "note promote", change, code, *codes)

    async def read(self, channel: str, skill_id: str, path: str) -> tuple[Note, ...]:
        """The notes of one file, those of all channels first. Where `path` is none of their files: of each file in that
        folder (of all, for an empty path) the last note, without its text.
        """
        wanted = ids.key(path).strip("/")
        found = await self._run(_script("note_read"), channel, ids.skeleton(skill_id), wanted)
        return tuple(_note(one) for one in found)

    async def list(
        self, channel: str, which: Literal["waiting", "kept"], *, start: int = 0, most: int = 20
    ) -> tuple[Note, ...]:
        """Notes of a channel, newest first. `EVERYWHERE` in its place: those of all channels."""
        found = await self._run(_script("note_list"), channel, which, start, start + most - 1)
        return tuple(_note(one) for one in found)

    async def _change(self, script: str, what: str, change: Change, code: str, *more: str) -> Note:
        note = await self.find(change.channel_id, code)
        scope, _ = _scope(change.channel_id, code)
        said = change.line(what, f"{note.skill} {note.file} {note.code}")
        verdict, *found = await self._run(_script(script), scope, note.id, self._limits_as_json, said, change.id, *more)
        self._refuse(verdict, found, note.file, len(note.text.encode()))
        first, *replaced = (_note(one) for one in found)
        match verdict:
            case b"DECIDED":
                raise Decided(first)
            case b"SINCE":
                raise Since(first)
            case b"CHANGED":
                raise OtherNotes(first, tuple(replaced))
        return first

    def _refuse(self, verdict: bytes, found: Sequence[Any], file: str, size: int) -> None:
        limits = self._limits
        match verdict, found:
            case b"CHARACTERS", [came]:
                raise Full(f"A note has up to {limits.characters:,} characters; {came:,} came. Say it in fewer.")
            case b"FULL", [used, notes] if notes >= limits.notes:
                raise Full(f"{file} has {notes:,} notes, and no file may have more. Let an admin revert some.")
            case b"FULL", [used, _]:
                raise Full(
                    f"The notes of one file have up to {limits.file_bytes:,} bytes; {file} has {used:,}, and {size:,} "
                    "more came.",
                )
            case b"FILES", [most]:
                raise Full(f"Up to {most:,} files of a skill may have notes, and {file} would be one more.")
            case b"WAITING", [waiting]:
                raise Full(f"{waiting:,} notes of this channel wait for approval, and no more may.")
            case b"ALIKE", [other]:
                raise Full(f"{file!r} looks like {other.decode()!r}, which has notes, and is another file.")

    async def _run(self, script: Script, *arguments: str | int) -> Any:
        return await self._store.run(script, self._store.layout.skills_root, *arguments)


def _script(name: str) -> Script:
    return script_of("gateway.shelf", "note", name)


def is_everywhere(code: str) -> bool:
    """Whether it is the code of a note that holds in all channels."""
    return code.strip().upper().startswith("A")


def _scope(channel: str, code: str) -> tuple[str, str]:
    """Where a code is to be looked up, and its form: people write it as they like."""
    return (EVERYWHERE if is_everywhere(code) else channel), code.strip().upper()


def _codes(seed: str) -> tuple[str, ...]:
    return tuple(_code(f"{seed} {number}", length) for number, length in enumerate(CODE_LENGTHS))


def _code(seed: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big")
    letters = ""
    for _ in range(length):
        number, at = divmod(number, len(LETTERS))
        letters += LETTERS[at]
    return letters


def _digest(*parts: str) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        hashed.update(b"%d:" % len(raw) + raw)
    return base64.b32encode(hashed.digest()).decode().lower()[:26]


def _note(stored: Sequence[bytes]) -> Note:
    h = {name.decode(): value.decode() for name, value in _pairs(stored)}
    return Note(
        id=h["id"],
        code=h["code"],
        skill=h["skill"],
        file=h["file"],
        by=h["by"],
        by_name=h["by_name"],
        at_ms=int(h["at"]),
        conversation=h["conversation"],
        source=h["source"],
        hash=h["hash"],
        text=h["text"],
        overwrite=h["overwrite"] == "1",
        state=cast("State", h["state"]),
        until_ms=int(h["until"]) if h["until"] else None,
    )


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
