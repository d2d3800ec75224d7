"""References: what lies beside a SKILL.md, as a model may read it.

A name is looked up in the snapshot's list of files, and only a path of that list is read. A file that changed on disk
since is not read: the next turn's snapshot has it. What was written back to a file is read after it.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass

from skills import contents, ids, parts
from skills.contents import Changed
from skills.document import FILE_MAX_BYTES
from skills.folders import PROGRAM, File, Skill
from skills.notes import Note, merged
from skills.parts import Part


class FileRefused(LookupError):
    """There is no such file for a model to read. `str()` is for the model."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in one folder of a skill, folders below it included."""

    path: str
    files: tuple[File, ...]
    notes: tuple[Note, ...] = ()
    """Of each file in it that something was written back to, the last note."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A file that is no text."""

    file: File
    mime: str


def readable(skill: Skill) -> tuple[File, ...]:
    """The files of a skill that a model may read, in order of their paths. Of a program, not its code and its examples."""
    is_program = not PROGRAM.isdisjoint(skill.files)
    return tuple(
        file for path, file in sorted(skill.files.items()) if not (is_program and _is_code(path)) and "/." not in path
    )


def read(skill: Skill, name: str, offset: int, max_bytes: int, notes: Sequence[Note] = ()) -> Part | Folder | Binary:
    """A part of a text file from `offset` (characters) on, or the list of a folder. `.` is the skill's own folder.

    `notes`: what was written back to that file, or to the files in that folder; a file may have nothing else.
    Raises `FileRefused`, and `parts.OffsetOutside` for an offset that is not in the text.
    """
    files = readable(skill)
    wanted = key_of(name)
    file = next((one for one in files if ids.key(one.path) == wanted), None)
    written = [note for note in notes if ids.key(note.file) == wanted]
    if file or written:
        return _read(skill, file, written, offset, max_bytes)
    inside = tuple(one for one in files if _is_in(one.path, wanted))
    last = {ids.key(note.file): note for note in notes if _is_in(note.file, wanted)}
    noted = tuple(last[key] for key in sorted(last))
    if not inside and not noted:
        known = ", ".join(one.path for one in files[:12]) + (", ..." if len(files) > 12 else "")
        raise FileRefused(
            f"{skill.id} has no file {name!r} to read. " + (f"It has: {known}." if files else "It has none.")
        )
    if offset:
        raise FileRefused(f"{name!r} is a folder: it is listed without an offset.")
    return Folder(wanted or ".", inside, noted)


def key_of(name: str) -> str:
    """What a name of a file or folder is compared by; nothing for the skill's own folder."""
    wanted = ids.key(name.removeprefix("./")).rstrip("/")
    return "" if wanted == "." else wanted


def _is_in(path: str, folder: str) -> bool:
    return not folder or ids.key(path).startswith(f"{folder}/")


def _read(skill: Skill, file: File | None, notes: Sequence[Note], offset: int, max_bytes: int) -> Part | Binary:
    text = _shipped(skill, file) if file else ""
    if isinstance(text, Binary):
        if not notes:
            return text
        text = f"({text.file.path} as it was shipped is no text: {text.mime}, {text.file.size_bytes} bytes.)\n"
    return parts.part(merged(text, notes), offset, max_bytes)


def _shipped(skill: Skill, file: File) -> str | Binary:
    mime = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
    if file.size_bytes > FILE_MAX_BYTES:
        raise FileRefused(f"{file.path} has {file.size_bytes:,} bytes; up to {FILE_MAX_BYTES:,} can be read.")
    try:
        text = contents.read(skill, file.path).decode("utf-8-sig").replace("\r\n", "\n")
    except Changed as error:
        raise FileRefused(f"{error}. What is there now can be read from the next message on.") from error
    except UnicodeDecodeError:
        return Binary(file, mime)
    return Binary(file, mime) if "\0" in text else text


def _is_code(path: str) -> bool:
    first, _, rest = path.partition("/")
    if rest:
        return first not in {"references", "assets"}
    return not path.lower().endswith((".md", ".txt"))
