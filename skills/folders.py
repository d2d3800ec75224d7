"""Folders of skills on disk: which are skills, what lies in them, and whether any of it changed."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from skills import document, ids, schemas
from skills.document import BrokenSkill, Document
from skills.schemas import BrokenSchema, Schema

CATEGORIES_MAX: Final = 4
"""How deep a skill may lie in folders that only sort."""
FILES_MAX: Final = 1_000
MAIN: Final = "main.py"
PROGRAM: Final = frozenset({MAIN, schemas.NAME})
"""A skill that has both is a tool too."""
BUNDLE_MAX_BYTES: Final = 32 * 1_024 * 1_024
_IGNORED: Final = {"__pycache__", "node_modules"}

Mark = bytes
"""What a file's or folder's entry looked like: inode, size, times of content and of entry, packed: a third of a tuple."""
_MARK: Final = struct.Struct("=QQqq")


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of one tier."""

    tier: str
    path: Path


@dataclass(frozen=True, slots=True)
class File:
    """One file of a skill, as it was when the snapshot was made."""

    path: str
    """Under the skill's folder, with `/`."""
    place: str
    """On this machine's disk."""
    size_bytes: int
    hash: str


@dataclass(frozen=True)
class Skill:
    """One skill of a snapshot."""

    id: str
    tier: str
    folder: Path
    document: Document
    files: Mapping[str, File]
    """All but SKILL.md, by path."""
    hash: str
    """Over every path, mode and byte of the folder."""
    warnings: tuple[str, ...] = ()
    program: Schema | None = None
    """What its program takes, where it has one: main.py, and a schema.json that can be used."""
    no_program: str = ""
    """Why it is a plain skill, though it has a file of a program."""

    @property
    def body(self) -> str:
        return self.document.body

    @cached_property
    def body_hash(self) -> str:
        """What tells two bodies apart, wherever they came from."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Fault:
    """A folder that is no skill of the library."""

    id: str
    tier: str
    place: Path
    kind: str
    reason: str
    line: int | None = None
    kept: bool = False
    """Whether the version before it stays in force."""

    def __str__(self) -> str:
        where = f"{self.place}, line {self.line}" if self.line else str(self.place)
        return f"{where}: {self.reason}" + (" (the version before it stays in force)" if self.kept else "")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one folder was found to be: a skill, a fault, both (an older skill is kept), or neither (it only sorts)."""

    folder: str
    marks: Mapping[str, Mark]
    id: str = ""
    skill: Skill | None = None
    faults: tuple[Fault, ...] = ()


def changed(readings: Iterable[Reading]) -> bool:
    """Whether a file or folder that was read looks different now. Only entries are looked at, no bytes."""
    try:
        return any(_mark(path) != mark for reading in readings for path, mark in reading.marks.items())
    except OSError:
        return True


def read_root(root: Root, allowed: Sequence[Path], before: Sequence[Reading]) -> tuple[Reading, ...]:
    """All skills below a root, ordered by id. What looks as it did in `before` is not read again.

    A link to a folder inside one of the `allowed` folders is followed, once; links to elsewhere are faults.
    """
    walk = _Walk(root, [os.path.realpath(path) for path in allowed], {one.folder: one for one in before})
    walk.sort_through(os.path.realpath(root.path), ())
    # Links come last, so that a folder is listed under its own name and never a second time under a link's.
    while walk.links:
        walk.follow(*walk.links.pop(0))
    return tuple(_one_for_each_id(sorted(walk.readings, key=lambda one: (ids.key(one.id), one.id))))


def read_one(folder: Path, tier: str) -> Reading:
    """The one skill that lies in `folder`, under the folder's name as its id."""
    place = os.path.realpath(folder)
    walk = _Walk(Root(tier, Path(place).parent), [place], {})
    walk.sort_through(place, (unicodedata.normalize("NFC", Path(place).name),))
    return walk.readings[0]


class _Walk:
    """One way through a tier's folders."""

    def __init__(self, root: Root, allowed: list[str], before: Mapping[str, Reading]) -> None:
        self._root = root
        self._allowed = allowed
        self._before = before
        self._seen: dict[str, str] = {}
        self.links: list[tuple[str, tuple[str, ...]]] = []
        self.readings: list[Reading] = []

    def sort_through(self, folder: str, parts: tuple[str, ...]) -> None:
        """Read `folder` as a skill, or look for skills in the folders in it."""
        self._seen[folder] = "/".join(parts)
        try:
            mark = _mark(folder)
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(folder, parts, "unreadable", error.strerror or str(error))
            return
        if parts and any(entry.name == document.NAME for entry in entries):
            self.readings.append(self._skill(folder, parts))
            return
        self.readings.append(Reading(folder, {folder: mark}, "/".join(parts), faults=self._misplaced(entries, parts)))
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _IGNORED:
                continue
            inner = (*parts, sys.intern(unicodedata.normalize("NFC", entry.name)))
            if entry.is_symlink():
                self.links.append((entry.path, inner))
            elif entry.is_dir() and len(inner) <= CATEGORIES_MAX + 1:
                self.sort_through(entry.path, inner)

    def follow(self, link: str, parts: tuple[str, ...]) -> None:
        target = os.path.realpath(link)
        if not Path(target).is_dir():
            if not Path(target).exists():
                self._refuse(link, parts, "link_broken", "the link leads nowhere")
        elif not any(target == one or target.startswith(one + os.sep) for one in self._allowed):
            self._refuse(link, parts, "link_outside", "target outside the allowed roots")
        elif target in self._seen:
            self._refuse(link, parts, "link_repeated", f"the same folder as {self._seen[target] or 'the root'}")
        else:
            self.sort_through(target, parts)

    def _refuse(self, place: str, parts: tuple[str, ...], kind: str, reason: str) -> None:
        fault = Fault("/".join(parts), self._root.tier, Path(place), kind, reason)
        self.readings.append(Reading(place, {}, fault.id, faults=(fault,)))

    def _misplaced(self, entries: Sequence[os.DirEntry[str]], parts: tuple[str, ...]) -> tuple[Fault, ...]:
        """What was meant as a skill: `skill.md`, or a SKILL.md that lies in the root."""
        reason = f"the file must be called {document.NAME}" if parts else "a skill needs a folder of its own"
        meant = [entry for entry in entries if entry.name.casefold() == document.NAME.casefold()]
        return tuple(Fault("/".join(parts), self._root.tier, Path(entry.path), "misplaced", reason) for entry in meant)

    def _skill(self, folder: str, parts: tuple[str, ...]) -> Reading:
        name = "/".join(parts)
        before = self._before.get(folder)
        marks: dict[str, Mark] = {}
        links: list[str] = []
        try:
            marks = dict(_entries(folder + os.sep, links))
            if before and before.id == name and before.marks == marks:
                return before
            return Reading(folder, marks, name, _read_skill(name, self._root.tier, folder, marks, links))
        except BrokenSkill as broken:
            place = Path(folder, document.NAME)
            fault = Fault(name, self._root.tier, place, broken.kind, broken.reason, broken.line)
        except OSError as error:
            fault = Fault(name, self._root.tier, Path(folder), "unreadable", error.strerror or str(error))
        kept = before.skill if before and before.id == name else None
        return Reading(folder, marks, name, kept, (replace(fault, kept=kept is not None),))


def _one_for_each_id(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Of skills whose ids count as the same in one tier, the first has it."""
    taken: dict[str, Skill] = {}
    for reading in readings:
        skill = reading.skill
        if skill is None:
            yield reading
            continue
        first = taken.setdefault(ids.key(skill.id), skill)
        if first is skill:
            yield reading
            continue
        reason = f"its id counts as the same as {first.id}"
        fault = Fault(skill.id, skill.tier, skill.folder, "same_id", reason)
        yield replace(reading, skill=None, faults=(*reading.faults, fault))


def _mark(path: str) -> Mark:
    stat = os.stat(path)  # noqa: PTH116 - tens of thousands in one check; a Path each would double it
    return _MARK.pack(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _size(mark: Mark) -> int:
    size: int = _MARK.unpack(mark)[1]
    return size


def _entries(folder: str, links: list[str]) -> Iterator[tuple[str, Mark]]:
    """Marks of a skill's folders (their paths end in a slash) and files. Hidden ones are no part of it.

    Links are no part of it either; they are named in `links`.
    """
    yield folder, _mark(folder)
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name in _IGNORED:
            continue
        if entry.is_symlink():
            links.append(entry.path)
        elif entry.is_dir():
            yield from _entries(entry.path + os.sep, links)
        elif entry.is_file():
            yield entry.path, _mark(entry.path)


def _read_skill(name: str, tier: str, folder: str, marks: Mapping[str, Mark], links: Sequence[str]) -> Skill:
    if reason := ids.fault(name):
        raise BrokenSkill("id", f"a folder's name can't be an id: {reason}")
    if f"{folder}{os.sep}{document.NAME}" in links:
        raise BrokenSkill("link", f"{document.NAME} is a link")
    paths = [path for path in marks if not path.endswith(os.sep)]
    size = sum(_size(marks[path]) for path in paths)
    if len(paths) > FILES_MAX or size > BUNDLE_MAX_BYTES:
        limits = f"{FILES_MAX:,} files of {BUNDLE_MAX_BYTES:,} bytes in all"
        raise BrokenSkill("bundle_too_large", f"{len(paths):,} files of {size:,} bytes, allowed are {limits}")
    warnings = [f"{os.path.relpath(link, folder)} is a link and left out" for link in links]
    bundle = hashlib.sha256()
    files: dict[str, File] = {}
    parsed: Document | None = None
    schema = b""
    for path in sorted(paths):
        inner = unicodedata.normalize("NFC", path[len(folder) + 1 :].replace(os.sep, "/"))
        raw, runs = read_file(path)
        file = File(inner, path, len(raw), hashlib.sha256(raw).hexdigest())
        bundle.update(f"{len(inner.encode())}:{inner} {'x' if runs else '-'} {file.hash}\n".encode())
        if inner == document.NAME:
            parsed = document.parse(raw, name.rpartition("/")[2])
        elif reason := ids.fault(inner):
            warnings.append(f"left out, for its name: {reason}")
        else:
            files[inner] = file
            schema = raw if inner == schemas.NAME else schema
    if parsed is None:
        raise BrokenSkill("no_file", f"{document.NAME} is no file")
    return Skill(name, tier, Path(folder), parsed, files, bundle.hexdigest(), tuple(warnings), *_program(files, schema))


def _program(files: Mapping[str, File], schema: bytes) -> tuple[Schema | None, str]:
    """What its program takes, or why it has none; neither for a skill with no file of a program."""
    there = PROGRAM & files.keys()
    if len(there) == 1:
        return None, f"{min(there)} alone is no program: {MAIN} and {schemas.NAME} belong together"
    if not there:
        return None, ""
    try:
        return schemas.read(schema), ""
    except BrokenSchema as error:
        return None, f"its program is not offered: {schemas.NAME}: {error}"


def read_file(path: str) -> tuple[bytes, bool]:
    """The bytes of a file that is no link, and whether it may be run. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        stat = os.fstat(handle)
        # One more than there should be: a read that comes back shorter has met the end. Only a file that grows, or one
        # whose size the system does not tell, takes another.
        raw = os.read(handle, wanted := min(stat.st_size, BUNDLE_MAX_BYTES) + 1)
        if len(raw) == wanted:
            with os.fdopen(handle, "rb", closefd=False) as file:
                raw += file.read(BUNDLE_MAX_BYTES + 1 - wanted)
    finally:
        os.close(handle)
    if len(raw) > BUNDLE_MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return raw, stat.st_mode & 0o111 != 0
