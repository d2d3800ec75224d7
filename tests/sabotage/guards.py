"""The guards, and how one is taken out and missed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
WITHIN_S: Final = 60.0
"""Within which tests have to fail. Beside other work a machine takes longer: `SABOTAGE_WITHIN_S` in the environment."""
COPIED: Final = ("config", "gateway", "skills", "workers", "tests", "pyproject.toml")
_FAILED: Final = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Guard:
    """`old` stands in `file` exactly once, and `new` is what is left without the guard."""

    guard: str
    file: str
    old: str
    new: str
    red: tuple[str, ...]
    """Tests that have to fail, as pytest names them, below `tests/`: of those with parameters, one at least."""
    sample: bool = False

    def without(self, tree: Path) -> str:
        """The file's text without the guard. Raises `ValueError` where it is not there as it is described."""
        text = (tree / self.file).read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {text.count(self.old)} times, and not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Missed:
    """What came of it."""

    guard: Guard
    red: tuple[str, ...]
    green: tuple[str, ...]
    took_s: float
    printed: str


def guards() -> list[Guard]:
    listed = yaml.safe_load(Path(__file__).with_name("guards.yaml").read_text("utf-8"))
    return [Guard(**{**one, "red": tuple(one["red"])}) for one in listed]


@contextmanager
def a_copy(folder: Path) -> Iterator[Path]:
    """The tree, to be changed."""
    tree = folder / "tree"
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    try:
        yield tree
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def miss(guard: Guard, tree: Path, *, within_s: float = WITHIN_S) -> Missed:
    """Take it out of this copy, run its tests, put it back. Raises `ValueError` where it does not apply."""
    file = tree / guard.file
    before = file.read_text("utf-8")
    file.write_text(guard.without(tree), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-x"] if len(guard.red) == 1 else []  # of those with parameters one is enough
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: TID251  # of this very run
    begun_s = time.monotonic()
    try:
        ran = subprocess.run(
            [*command, *(f"tests/{one}" for one in guard.red)],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        printed = ran.stdout + ran.stderr
    except subprocess.TimeoutExpired as late:
        printed = f"not within {within_s:g} s\n{(late.stdout or b'').decode()}"
    finally:
        file.write_text(before, "utf-8")
    failed = [one.removeprefix("tests/") for one in _FAILED.findall(printed)]
    red = tuple(one for one in guard.red if any(name == one or name.startswith(f"{one}[") for name in failed))
    return Missed(guard, red, tuple(one for one in guard.red if one not in red), time.monotonic() - begun_s, printed)
