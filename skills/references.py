"""References: what lies beside a SKILL.md, as a model may read it.

A name is looked up in the snapshot's list of files, and only a path of that list is read. A file that changed on disk since is not
read: the next turn's snapshot has it.
"""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass

from skills import contents, ids, parts
from skills.contents import Changed
from skills.document import FILE_MAX_BYTES
from skills.folders import PROGRAM, File, Skill
from skills.parts import Part


class FileRefused(LookupError):
    """There is no such file for a model to read. `str()` is for the model."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies in one folder of a skill, folders below it included."""

    path: str
    files: tuple[File, ...]


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


def read(skill: Skill, name: str, offset: int, max_bytes: int) -> Part | Folder | Binary:
    """A part of a text file from `offset` (characters) on, or the list of a folder. `.` is the skill's own folder.

    Raises `FileRefused`, and `parts.OffsetOutside` for an offset that is not in the text.
    """
    files = readable(skill)
    wanted = ids.key(name.removeprefix("./")).rstrip("/")
    if file := next((one for one in files if ids.key(one.path) == wanted), None):
        return _read(skill, file, offset, max_bytes)
    inside = files if wanted in {"", "."} else tuple(one for one in files if ids.key(one.path).startswith(wanted + "/"))
    if not inside:
        known = ", ".join(one.path for one in files[:12]) + (", ..." if len(files) > 12 else "")
        raise FileRefused(
            f"{skill.id} has no file {name!r} to read. " + (f"It has: {known}." if files else "It has none.")
        )
    if offset:
        raise FileRefused(f"{name!r} is a folder: it is listed without an offset.")
    return Folder(wanted or ".", inside)


def _read(skill: Skill, file: File, offset: int, max_bytes: int) -> Part | Binary:
    mime = mimetypes.guess_type(file.path)[0] or "application/octet-stream"
    if file.size_bytes > FILE_MAX_BYTES:
        raise FileRefused(f"{file.path} has {file.size_bytes:,} bytes; up to {FILE_MAX_BYTES:,} can be read.")
    try:
        text = contents.read(skill, file.path).decode("utf-8-sig").replace("\r\n", "\n")
    except Changed as error:
        raise FileRefused(f"{error}. What is there now can be read from the next message on.") from error
    except UnicodeDecodeError:
        return Binary(file, mime)
    return Binary(file, mime) if "\0" in text else parts.part(text, offset, max_bytes)


def _is_code(path: str) -> bool:
    first, _, rest = path.partition("/")
    if rest:
        return first not in {"references", "assets"}
    return not path.lower().endswith((".md", ".txt"))
