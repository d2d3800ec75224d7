"""S-F4: somebody exchanges folders for links, and files for links, while they are read."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skills.folders import Root, read_file
from skills.library import scan
from tests.skills.test_library import write

SECRET = "WHAT-NOBODY-MAY-READ"
SWAPS = textwrap.dedent("""
    import os, sys
    inside, real, outside = sys.argv[1:]
    print("ready", flush=True)
    while os.getppid() != 1:
        os.rename(inside, real)
        os.symlink(outside, inside)
        os.unlink(inside)
        os.rename(real, inside)
""")


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


@pytest.mark.parametrize("what", ["a file"])
def test_whatever_is_exchanged_for_a_link_meanwhile_nothing_outside_is_read(tmp_path: Path, what: str) -> None:
    root, outside = tmp_path / "skills", tmp_path / "outside"
    folder = write(root, "report")
    (folder / "references").mkdir()
    (folder / "references/a.md").write_text("ours")
    (outside / "references").mkdir(parents=True)
    for name in ("SKILL.md", "a.md", "references/a.md"):
        text = f"---\nname: report\ndescription: {SECRET}\n---\n{SECRET}\n"
        (outside / name).write_text(text)
    inside, target = {
        "a file": (folder / "references/a.md", outside / "a.md"),
    }[what]
    seen: set[str] = set()
    with swapped(inside, tmp_path / "aside", target):
        for _ in range(400):
            found = scan([Root("org", root)])
            for skill in found.skills.values():
                seen |= {skill.head.description, *(file.hash for file in skill.files.values()), skill.skill_md.hash}
    stolen = {hash_of(file) for file in outside.rglob("*") if file.is_file()} | {SECRET}
    assert not seen & stolen
    assert seen, "it was there at times"
    assert os.path.lexists(tmp_path / "outside")


def test_what_became_a_link_or_a_pipe_since_it_was_seen_is_not_read(tmp_path: Path) -> None:
    """The moment between a look and the opening, which the race above meets by chance alone."""
    (tmp_path / "outside").write_text(SECRET)
    (tmp_path / "link.md").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(OSError, match="link"):
        read_file(str(tmp_path / "link.md"))
    assert read_file(str(tmp_path / "pipe.md")).raw == b"", "and nobody waits for who would write"


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
