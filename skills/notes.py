"""Notes: what was written back to a skill's references, as it is kept and read. They are data, never guidance."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

from skills import ids
from skills.visible import one_line

FOLDER: Final = "references"
SUFFIX: Final = ".md"
CALL_MAX_CHARACTERS: Final = 8_000
FILE_MAX_BYTES: Final = 64 * 1_024
PATH_MAX_CHARACTERS: Final = 255

State = Literal["pending", "kept", "replaced", "promoted", "rejected", "reverted", "expired"]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was written back to a file, and what became of it."""

    id: str
    code: str
    """What people call it, such as `KMTR`; one that holds in all channels begins with `A`."""
    skill: str
    file: str
    by: str
    """The id of who had it written, on their platform."""
    by_name: str
    at_ms: int
    conversation: str
    source: str
    """Where it was written down, for people."""
    hash: str
    """SHA-256 of the text, in hexadecimal."""
    text: str
    """Empty once it was rejected or reverted, or has ended."""
    overwrite: bool
    """It stands in the place of the notes before it."""
    state: State
    """`pending`: waits for an approver. `kept`: counts. `replaced`: a later one stands in its place. `promoted`: holds in
    all channels instead. The others have no text any more."""
    until_ms: int | None = None
    """When it ends."""

    @property
    def is_everywhere(self) -> bool:
        """Whether it holds in all channels."""
        return self.code.startswith("A")


def merged(shipped: str, notes: Sequence[Note]) -> str:
    """The text of a file as it is read: first what was shipped, as it is, then the notes under headings of their own.

    What in a note imitates such a heading is quoted, so that nothing in it can pass for another's.
    """
    sections = [
        _section(heading, chosen)
        for heading, chosen in (
            ("Notes of all channels", [note for note in notes if note.is_everywhere]),
            ("Notes of this channel", [note for note in notes if not note.is_everywhere]),
        )
        if chosen
    ]
    gap = "" if not shipped or not sections else "\n" if shipped.endswith("\n") else "\n\n"
    return shipped + gap + "\n".join(sections)


def signed(note: Note) -> str:
    """Who wrote a note and when, in one line."""
    at = datetime.fromtimestamp(note.at_ms / 1_000, UTC)
    return f"{one_line(note.by_name or note.by)[:80]}, {at:%Y-%m-%d %H:%M} UTC"


def _section(heading: str, notes: Sequence[Note]) -> str:
    written = [f"### Note {note.code} by {signed(note)}\n\n{_defused(note.text).rstrip()}\n" for note in notes]
    return "\n".join([f"## {heading}\n", *written])


def _defused(text: str) -> str:
    return "".join(f"> {line}" if _imitates(line) else line for line in text.splitlines(keepends=True))


def _imitates(line: str) -> bool:
    """Whether a line reads as one of our headings, in whatever letters, with or without its `#`."""
    seen = "".join(one for one in unicodedata.normalize("NFKD", line) if unicodedata.category(one) not in {"Cf", "Mn"})
    return bool(_headings().match(re.sub(r"[\W_]+", " ", ids.skeleton(seen)).strip()))


@cache
def _headings() -> re.Pattern[str]:
    notes, this, everywhere, note, by = map(ids.skeleton, ("notes of", "this channel", "all channels", "note", "by"))
    return re.compile(rf"{notes} (?:{this}|{everywhere})\b|{note} [a-z]+ {by}\b")


def file_fault(path: str) -> str | None:
    """Why nothing may be written back to `path`, or none if it may. For the model: it says what came and what is right."""
    return next(_faults(path), None)


def _faults(path: str) -> Iterator[str]:
    if len(path) > PATH_MAX_CHARACTERS:
        yield f"A file's path has up to {PATH_MAX_CHARACTERS} characters; one of {len(path):,} came."
    first, _, rest = path.partition("/")
    if first != FOLDER or not rest.strip("/"):
        yield f"Notes go to a file under {FOLDER}/, such as `{FOLDER}/x{SUFFIX}`; {path!r} came."
    if reason := ids.fault(path):
        yield f"A file is named by letters, digits, '.', '_' and '-', its folders likewise; {path!r} came. {reason}"
    *folders, name = (ids.key(part) for part in path.split("/"))
    if name == "skill.md" or "skill.md" in folders:
        yield f"SKILL.md is a skill's own text and takes no notes; {path!r} came."
    if not path.endswith(SUFFIX):
        yield f"Notes go to files that end in {SUFFIX}; {path!r} came."
    if any(folder.endswith(SUFFIX) for folder in folders):
        yield f"A folder has no name that ends in {SUFFIX}; {path!r} came."
