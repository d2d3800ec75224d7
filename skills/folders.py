"""Folders of skills on disk: which are skills, what lies in them, and whether any of it changed."""

from __future__ import annotations

import hashlib
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from skills import descent, document, ids, schemas
from skills.disk import IGNORED, Mark, below, mark_of, marked, size_of
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

    A link to a folder inside the root or one of the `allowed` folders is followed, once; links to elsewhere are faults. Raises
    `FileNotFoundError` or `NotADirectoryError` for a root that is no folder.
    """
    with ExitStack() as held:
        top = descent.resolved(root.path)
        walk = _Walk(root, [top, *_resolved(allowed)], {one.folder: one for one in before}, held)
        walk.sort_through(top, (), mark_of(top))
        # Links come last, so that a folder is listed under its own name and never a second time under a link's.
        while walk.links:
            walk.follow(*walk.links.pop(0))
    return tuple(_one_for_each_id(sorted(walk.readings, key=lambda one: (ids.key(one.id), one.id))))


def read_one(folder: Path, tier: str) -> Reading:
    """The one skill that lies in `folder`, under the folder's name as its id. Raises `FileNotFoundError`."""
    place = descent.resolved(folder)
    with ExitStack() as held:
        walk = _Walk(Root(tier, Path(place).parent), [place], {}, held)
        walk.sort_through(place, (unicodedata.normalize("NFC", Path(place).name),), mark_of(place))
    return walk.readings[0]


class _Walk:
    """One way through a tier's folders. Those that it begins at are opened once, and held for as long as `held` says."""

    def __init__(self, root: Root, allowed: list[str], before: Mapping[str, Reading], held: ExitStack) -> None:
        self._root = root
        self._allowed = allowed
        self._before = before
        self._held = held
        self._begun: dict[str, int] = {}
        self._seen: dict[str, str] = {}
        self.links: list[tuple[str, tuple[str, ...]]] = []
        self.readings: list[Reading] = []

    def sort_through(self, folder: str, parts: tuple[str, ...], mark: Mark) -> None:
        """Read `folder`, which lies in an allowed one and looked like `mark`, as a skill, or look for skills in those in it.

        Raises `FileNotFoundError` where it is gone, and `NotADirectoryError` for a root that is none.
        """
        name = self._seen[folder] = "/".join(parts)
        before = self._before.get(folder)
        # No folder is listed where no entry changed, which takes a third of the time
        if before and before.id == name and before.skill and before.marks and not changed([before]):
            self.readings.append(before)
            return
        marks = {folder: mark}
        try:
            with self._opened(folder) as handle:
                entries = descent.entries(handle)
                if parts and any(entry.name == document.NAME for entry in entries):
                    self.readings.append(self._skill(folder, handle, parts))
                    return
                folders = list(self._folders(folder, entries, parts))
        except OSError as error:
            if isinstance(error, FileNotFoundError) or (not parts and isinstance(error, NotADirectoryError)):
                raise
            self._refuse(folder, parts, "unreadable", error.strerror or str(error), marks)
            return
        self.readings.append(Reading(folder, marks, name, faults=self._misplaced(folder, entries, parts)))
        for inner in folders:
            with suppress(FileNotFoundError):
                self.sort_through(*inner)

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        top = next(one for one in self._allowed if _is_in(one, folder))
        if top not in self._begun:
            self._begun[top] = self._held.enter_context(descent.begun(top))
        with descent.folder(self._begun[top], folder[len(top) :].strip(os.sep)) as handle:
            yield handle

    def _folders(
        self, folder: str, entries: Iterable[os.DirEntry[str]], parts: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...], Mark]]:
        """What to look at in a folder that only sorts. Links are put aside."""
        for entry in entries:
            if entry.name.startswith(".") or entry.name in IGNORED:
                continue
            inner = (*parts, sys.intern(unicodedata.normalize("NFC", entry.name)))
            path = os.path.join(folder, entry.name)  # noqa: PTH118 - ten thousand of them
            if entry.is_symlink():
                self.links.append((path, inner))
            elif entry.is_dir(follow_symlinks=False) and len(inner) <= CATEGORIES_MAX + 1:
                with suppress(FileNotFoundError):  # what is gone by now is not there
                    yield path, inner, marked(entry.stat(follow_symlinks=False))

    def follow(self, link: str, parts: tuple[str, ...]) -> None:
        try:
            target = descent.resolved(link)
        except FileNotFoundError:
            self._refuse(link, parts, "link_broken", "the link leads nowhere")
            return
        if not Path(target).is_dir():
            return
        if not any(_is_in(one, target) for one in self._allowed):
            self._refuse(link, parts, "link_outside", "target outside the allowed roots")
        elif target in self._seen:
            self._refuse(link, parts, "link_repeated", f"the same folder as {self._seen[target] or 'the root'}")
        else:
            try:
                self.sort_through(target, parts, mark_of(target))
            except FileNotFoundError:
                self._refuse(link, parts, "link_broken", "the link leads nowhere")

    def _refuse(
        self, place: str, parts: tuple[str, ...], kind: str, reason: str, marks: Mapping[str, Mark] | None = None
    ) -> None:
        fault = Fault("/".join(parts), self._root.tier, Path(place), kind, reason)
        self.readings.append(Reading(place, marks or {}, fault.id, faults=(fault,)))

    def _misplaced(self, folder: str, entries: Sequence[os.DirEntry[str]], parts: tuple[str, ...]) -> tuple[Fault, ...]:
        """What was meant as a skill: `skill.md`, or a SKILL.md that lies in the root."""
        reason = f"the file must be called {document.NAME}" if parts else "a skill needs a folder of its own"
        meant = [Path(folder, one.name) for one in entries if one.name.casefold() == document.NAME.casefold()]
        return tuple(Fault("/".join(parts), self._root.tier, place, "misplaced", reason) for place in meant)

    def _skill(self, folder: str, handle: int, parts: tuple[str, ...]) -> Reading:
        name = "/".join(parts)
        before = self._before.get(folder)
        marks: dict[str, Mark] = {}
        links: list[str] = []
        try:
            for path, seen in below(handle, links):  # where that can't go on, what it saw tells when to try again
                marks[f"{folder}/{path}"] = seen
            sizes = {path[len(folder) + 1 :]: size_of(seen) for path, seen in marks.items() if not path.endswith("/")}
            warnings = [f"{link} is a link and left out" for link in links]
            skill = skill_of(name, self._root.tier, Path(folder), _contents(handle, sizes, links), warnings)
            return Reading(folder, marks, name, skill, tuple(_unusable(skill)))
        except BrokenSkill as broken:
            place = Path(folder, document.NAME)
            fault = Fault(name, self._root.tier, place, broken.kind, broken.reason, broken.line)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not os.path.lexists(folder):
                raise
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


def _contents(folder: int, sizes: Mapping[str, int], links: Iterable[str]) -> dict[str, Content]:
    """What the files of a skill hold, by their paths below its folder, which is open."""
    if document.NAME in links:
        raise BrokenSkill("link", f"{document.NAME} is a link")
    _check_size(len(sizes), sum(sizes.values()))
    return {path: read_file(folder, path) for path in sizes}


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


def read_file(folder: int, path: str) -> Content:
    """The file at `path` below a folder that is open, with no link on the way. Raises `OSError`."""
    raw, mode = descent.read(folder, path, BUNDLE_MAX_BYTES)
    return Content(raw, mode & 0o111 != 0)


def _resolved(folders: Iterable[Path]) -> Iterator[str]:
    """Of those that are there."""
    for folder in folders:
        with suppress(FileNotFoundError):
            yield descent.resolved(folder)


def _is_in(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
