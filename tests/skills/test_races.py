"""S-F4: somebody exchanges folders for links, and files for links, or takes them away, while they are read."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

import pytest

from skills import contents, descent
from skills.contents import Changed
from skills.folders import Root, read_file
from skills.library import Library, scan
from tests.skills.test_library import write

SECRET: Final = "WHAT-NOBODY-MAY-READ"
SWAPS: Final = textwrap.dedent("""
    import os, sys
    inside, real, outside = sys.argv[1:]
    print("ready", flush=True)
    while os.getppid() != 1:
        os.rename(inside, real)
        os.symlink(outside, inside)
        os.unlink(inside)
        os.rename(real, inside)
""")
WHAT: Final = {
    "a file": ("report/references/a.md", "a.md"),
    "a folder within": ("report/references", "."),
    "SKILL.md": ("report/SKILL.md", "SKILL.md"),
    "the folder of the skill": ("report", "."),
    "a folder that sorts": ("sorted", "."),
}
"""What is exchanged below the root, and for what below a folder outside."""
LOOKS_AT: Final = {"open", "read", "stat", "lstat", "fstat", "scandir", "readlink", "is_dir", "is_file", "is_symlink"}
"""The calls to the system that a scan is made of."""


@dataclass(frozen=True)
class Place:
    """A root with two skills, and what lies outside."""

    root: Path
    outside: Path
    aside: Path

    @property
    def name(self) -> str:
        """Of the skill that is exchanged, or in which something is."""
        return next(name for name in ("report", "sorted/report") if (self.root / name).exists())

    def look(self, before: Library | None = None) -> Library:
        return scan([Root("org", self.root)], before)

    @property
    def stolen(self) -> set[str]:
        """What nobody may find: hashes of all that lies outside, and the text that is in it."""
        files = [file.read_bytes() for file in self.outside.rglob("*") if file.is_file()]
        return {hashlib.sha256(raw).hexdigest() for raw in files} | {SECRET}

    def exchange(self, what: str) -> None:
        inside, outside = WHAT[what]
        (self.root / inside).rename(self.aside)
        (self.root / inside).symlink_to(self.outside / outside)

    def take(self, what: str) -> None:
        (self.root / WHAT[what][0] if what in WHAT else self.root).rename(self.aside)

    def bring_back(self, what: str) -> None:
        inside = self.root / WHAT[what][0] if what in WHAT else self.root
        if self.aside.exists():
            inside.unlink(missing_ok=True)
            self.aside.rename(inside)


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    root, outside = tmp_path / "skills", tmp_path / "outside"
    for name in ("other", "sorted/report" if "sorts" in str(request.node.name) else "report"):
        folder = write(root, name)
        (folder / "references").mkdir()
        (folder / "references/a.md").write_text("ours")
    for name in ("SKILL.md", "a.md", "references/a.md", "report/SKILL.md", "report/references/a.md"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(f"---\nname: report\ndescription: {SECRET}\n---\n{SECRET}\n")
    return Place(root, outside, tmp_path / "aside")


class Moments:
    """Does things right before one of the calls to the system that a piece of work makes."""

    def __init__(self, **when: tuple[int, Callable[[], None]]) -> None:
        self._due = dict(when.values())
        self.seen = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _hear(self, _frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or called.__name__ not in LOOKS_AT:
            return
        sys.setprofile(None)  # what is done now is no moment
        self._due.get(self.seen, lambda: None)()
        self.seen += 1
        sys.setprofile(self._hear)


def moments_of(work: Callable[[], object]) -> int:
    with Moments() as moments:
        work()
    return moments.seen


def pairs(work: Callable[[], object]) -> Iterator[tuple[int, int]]:
    """Each moment of a piece of work, and one that comes later: soon, or after its end; and the first with each later one."""
    count = moments_of(work)
    assert count >= 9, "the calls are seen"
    yield from ((0, then) for then in range(1, count))
    yield from ((first, first + more) for first in range(1, count) for more in (1, 2, 4, 7))
    yield from ((first, count) for first in range(count))


def told(library: Library) -> set[str]:
    """All that a library says of what it read."""
    files = {one.hash for skill in library.skills.values() for one in (skill.skill_md, *skill.files.values())}
    return files | {skill.head.description for skill in library.skills.values()}


@pytest.mark.parametrize("what", WHAT)
def test_whenever_it_is_exchanged_for_a_link_nothing_outside_is_read(place: Place, what: str) -> None:
    stolen = place.stolen
    for first, then in pairs(place.look):
        there = (first, lambda: place.exchange(what)), (then, lambda: place.bring_back(what))
        with Moments(first=there[0], then=there[1]):
            library = place.look()
        place.bring_back(what)
        assert not told(library) & stolen, (first, then)
        assert "other" in library.skills, (first, then)


@pytest.mark.parametrize("what", WHAT)
def test_whenever_it_is_exchanged_for_a_link_nothing_outside_is_packed(place: Place, what: str) -> None:
    library = place.look()
    skill = library.skills[place.name]
    stolen, packed = place.stolen, set[str]()
    for first, then in pairs(lambda: contents.whole(skill)):
        there = (first, lambda: place.exchange(what)), (then, lambda: place.bring_back(what))
        with Moments(first=there[0], then=there[1]), suppress(Changed):
            packed |= {hashlib.sha256(content.raw).hexdigest() for content in contents.whole(skill).values()}
        place.bring_back(what)
    assert packed == {skill.skill_md.hash, *(file.hash for file in skill.files.values())}
    assert not packed & stolen


@pytest.mark.parametrize("what", [*WHAT, "the root"])
def test_whenever_it_vanishes_the_others_are_there(place: Place, what: str) -> None:
    """At worst it is as if it were not there; where all are away, all stay as they were."""
    whole = place.look()
    (place.root / place.name / "SKILL.md").touch()  # so that it is read again
    before = whole if what == "the root" else None
    for first, then in pairs(lambda: place.look(before)):
        there = (first, lambda: place.take(what)), (then, lambda: place.bring_back(what))
        with Moments(first=there[0], then=there[1]):
            library = place.look(before)
        place.bring_back(what)
        assert library.skills["other"] == whole.skills["other"], (first, then)
        assert {one.id for one in library.faults} <= {place.name}, (first, then)
        assert before is None or library.skills[place.name] == whole.skills[place.name], (first, then)


@contextmanager
def swapped(inside: Path, real: Path, outside: Path) -> Iterator[None]:
    """A process that makes `inside` a link to `outside` and back, as quickly as it can."""
    command = [sys.executable, "-I", "-S", "-c", SWAPS, str(inside), str(real), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
        try:
            assert swapping.stdout
            assert swapping.stdout.readline() == b"ready\n"
            yield
        finally:
            swapping.kill()


@pytest.mark.parametrize("what", WHAT)
def test_whatever_is_exchanged_for_a_link_meanwhile_nothing_outside_is_read(place: Place, what: str) -> None:
    """As chance has it, beside a process that does nothing else."""
    stolen = place.stolen
    inside, outside = WHAT[what]
    with swapped(place.root / inside, place.aside, place.outside / outside):
        for _ in range(100):
            library = place.look()
            assert not told(library) & stolen
            assert "other" in library.skills


def test_what_became_a_link_or_a_pipe_since_it_was_seen_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(SECRET)
    (tmp_path / "link.md").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "pipe.md")
    with descent.begun(tmp_path) as folder:
        with pytest.raises(OSError, match="link"):
            read_file(folder, "link.md")
        with pytest.raises(OSError, match="no plain file"):  # and nobody waits for who would write
            read_file(folder, "pipe.md")
