"""Folders of skills on disk: which are skills, what lies in them, and whether any of it changed."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from skills import document, ids, schemas
from skills.disk import IGNORED, Mark, below, mark_of, size_of
from skills.document import BrokenSkill, Head
from skills.schemas import BrokenSchema, Schema

CATEGORIES_MAX: Final = 4
"""How deep a skill may lie in folders that only sort."""
FILES_MAX: Final = 1_000
PATH_MAX: Final = 512
"""Of a file's path under its skill, in characters."""
MAIN: Final = "main.py"
PROGRAM: Final = frozenset({MAIN, schemas.NAME})
"""A skill that has both is a tool too."""
NO_PROGRAM: Final = "program"
"""The kind of fault of a skill that can be read, while the program that it brings can't be used."""
BUNDLE_MAX_BYTES: Final = 32 * 1_024 * 1_024


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of one tier."""

    tier: str
    path: Path
    sealed: bool = False
    """Whether only those skills are in force that `skills.seal` knows, as they shipped."""


class Content(NamedTuple):
    """What a file holds, and whether it may be run."""

    raw: bytes
    runs: bool


@dataclass(frozen=True, slots=True)
class File:
    """One file of a skill, as it was when the snapshot was made."""

    path: str
    """Under the skill's folder, with `/`."""
    size_bytes: int
    hash: str
    runs: bool


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of a snapshot, without what its files hold: `skills.contents` reads that."""

    id: str
    tier: str
    folder: Path
    """Where its files lie on this machine."""
    head: Head
    files: Mapping[str, File]
    """All but SKILL.md, by path and in its order."""
    skill_md: File
    hash: str
    """Over every path, mode and byte: two folders or bundles with the same hash are the same skill."""
    body_hash: str
    """What tells two bodies apart, wherever they came from."""
    body_characters: int
    body_bytes: int
    """In UTF-8."""
    warnings: tuple[str, ...] = ()
    program: Schema | None = None
    """What its program takes, where it has one: main.py, and a schema.json that can be used."""
    no_program: str = ""
    """Why it is a plain skill, though it has a file of a program."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A folder that is no skill of the library, or (`NO_PROGRAM`) not the one that it was meant to be."""

    id: str
    tier: str
    place: Path
    kind: str
    reason: str
    line: int | None = None
    kept: bool = False
    """Whether the version before it stays in force."""

    @property
    def is_beside(self) -> bool:
        """Whether there is a skill of this tier and id all the same."""
        return self.kept or self.kind == NO_PROGRAM

    @property
    def told(self) -> str:
        """File, line and reason, with nothing of where it lies on the machine."""
        return f"{self.place.name} line {self.line}: {self.reason}" if self.line else self.reason

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
    moves: bool = False
    """Whether somebody wrote while it was looked at: nobody can tell yet what it is."""


def changed(readings: Iterable[Reading]) -> bool:
    """Whether a file or folder that was read looks different now. Only entries are looked at, no bytes."""
    try:
        return any(mark_of(path) != mark for reading in readings for path, mark in reading.marks.items())
    except OSError:
        return True


def rested(readings: Iterable[Reading], before: Iterable[Reading]) -> Iterator[Reading]:
    """Of what was just read, what still looks as it did then; the rest moves. What is as it was in `before` is believed."""
    last = {reading.folder: reading for reading in before}
    moving: list[str] = []
    for reading in readings:
        known = last.pop(reading.folder, None)
        is_known = known is not None and known.marks == reading.marks and not known.moves
        if is_known or not changed([reading]):
            yield reading
        else:
            moving.append(reading.folder + os.sep)
            yield replace(reading, skill=None, faults=(), moves=True)
    for reading in last.values():
        # Gone for a moment only, as far as anybody can tell yet
        is_back = os.path.lexists(reading.folder) or reading.folder.startswith(tuple(moving))
        if is_back and (reading.skill or reading.moves):
            yield replace(reading, skill=None, faults=(), moves=True)


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
        name = self._seen[folder] = "/".join(parts)
        before = self._before.get(folder)
        # No folder is listed where no entry changed, which takes a third of the time
        if before and before.id == name and before.skill and before.marks and not changed([before]):
            self.readings.append(before)
            return
        marks: dict[str, Mark] = {}
        try:
            marks[folder] = mark_of(folder)
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(folder, parts, "unreadable", error.strerror or str(error), marks)
            return
        if parts and any(entry.name == document.NAME for entry in entries):
            self.readings.append(self._skill(folder, parts))
            return
        self.readings.append(Reading(folder, marks, "/".join(parts), faults=self._misplaced(entries, parts)))
        for entry in entries:
            if entry.name.startswith(".") or entry.name in IGNORED:
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

    def _refuse(
        self, place: str, parts: tuple[str, ...], kind: str, reason: str, marks: Mapping[str, Mark] | None = None
    ) -> None:
        fault = Fault("/".join(parts), self._root.tier, Path(place), kind, reason)
        self.readings.append(Reading(place, marks or {}, fault.id, faults=(fault,)))

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
            marks.update(below(folder + os.sep, links))  # where that can't go on, what it saw tells when to try again
            skill = _read_skill(name, self._root.tier, folder, marks, links)
            return Reading(folder, marks, name, skill, tuple(_unusable(skill)))
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


def _read_skill(name: str, tier: str, folder: str, marks: Mapping[str, Mark], links: Sequence[str]) -> Skill:
    if f"{folder}{os.sep}{document.NAME}" in links:
        raise BrokenSkill("link", f"{document.NAME} is a link")
    paths = [path for path in marks if not path.endswith(os.sep)]
    _check_size(len(paths), sum(size_of(marks[path]) for path in paths))
    warnings = [f"{os.path.relpath(link, folder)} is a link and left out" for link in links]
    contents = {path[len(folder) + 1 :].replace(os.sep, "/"): read_file(path) for path in paths}
    return skill_of(name, tier, Path(folder), contents, warnings)


def skill_of(id_: str, tier: str, folder: Path, contents: Mapping[str, Content], warnings: Sequence[str] = ()) -> Skill:
    """The skill that is made of files with these paths, which lie in `folder`. Raises `BrokenSkill`.

    Files whose names are not allowed are no part of it; its warnings, after those that are given, name them.
    """
    if reason := ids.fault(id_):
        raise BrokenSkill("id", f"a folder's name can't be an id: {reason}")
    _check_size(len(contents), sum(len(content.raw) for content in contents.values()))
    said = list(warnings)
    files: dict[str, File] = {}
    taken: dict[str, str] = {}
    for path in sorted(contents):
        if reason := path_fault(path):
            said.append(f"left out, for its name: {reason}")
        elif (first := taken.setdefault(ids.key(path), path)) != path:
            said.append(f"left out: {path} counts as the same name as {first}")
        else:
            files[path] = file_of(path, contents[path])
    if document.NAME not in files:
        raise BrokenSkill("no_file", f"{document.NAME} is no file")
    parsed = document.parse(contents[document.NAME].raw, id_.rpartition("/")[2])
    bundle_hash = hash_of(files.values())
    skill_md = files.pop(document.NAME)
    body = parsed.body.encode()
    return Skill(
        id_,
        tier,
        folder,
        parsed.head,
        files,
        skill_md,
        bundle_hash,
        hashlib.sha256(body).hexdigest(),
        len(parsed.body),
        len(body),
        tuple(said),
        *_program(files, contents),
    )


def file_of(path: str, content: Content) -> File:
    return File(path, len(content.raw), hashlib.sha256(content.raw).hexdigest(), content.runs)


def hash_of(files: Iterable[File]) -> str:
    """The hash of a bundle of these files, SKILL.md among them. They must come in the order of their paths."""
    bundle = hashlib.sha256()
    for file in files:
        bundle.update(f"{len(file.path.encode())}:{file.path} {'x' if file.runs else '-'} {file.hash}\n".encode())
    return bundle.hexdigest()


def path_fault(path: str) -> str | None:
    """Why no file of a skill may have this path, or none if one may."""
    if len(path) > PATH_MAX:
        return f"{path[:PATH_MAX]!r}...: a path of {len(path):,} characters, allowed are {PATH_MAX}"
    return ids.fault(path)


def _check_size(count: int, size_bytes: int) -> None:
    if count > FILES_MAX or size_bytes > BUNDLE_MAX_BYTES:
        limits = f"{FILES_MAX:,} files of {BUNDLE_MAX_BYTES:,} bytes in all"
        raise BrokenSkill("bundle_too_large", f"{count:,} files of {size_bytes:,} bytes, allowed are {limits}")


def _program(files: Mapping[str, File], contents: Mapping[str, Content]) -> tuple[Schema | None, str]:
    """What its program takes, or why it has none; neither for a skill with no file of a program."""
    there = PROGRAM & files.keys()
    if len(there) == 1:
        return None, f"{min(there)} alone is no program: {MAIN} and {schemas.NAME} belong together"
    if not there:
        return None, ""
    try:
        return schemas.read(contents[schemas.NAME].raw), ""
    except BrokenSchema as error:
        return None, f"its program is not offered: {schemas.NAME}: {error}"


def _unusable(skill: Skill) -> Iterator[Fault]:
    if skill.program is None and skill.files.keys() >= PROGRAM:
        yield Fault(skill.id, skill.tier, skill.folder / schemas.NAME, NO_PROGRAM, skill.no_program)


def read_file(path: str) -> Content:
    """A file that is no link. Raises `OSError`."""
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
    return Content(raw, stat.st_mode & 0o111 != 0)
