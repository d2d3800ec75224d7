"""The guards, how one is taken out of a copy of the tree, and what is found without it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import yaml

ROOT: Final = Path(__file__).parents[2]
WITHIN_S: Final = 120.0
"""Within which each has to be found missing."""
COPIED: Final = ("config", "gateway", "skills", "workers", "tests", "pyproject.toml")
SCRIPTS: Final = "gateway/conversation/scripts/{}.lua"
SCENARIO: Final = "gateway/conversation/test_mailbox.py::test_scenario[{}]"
PLAY: Final = "gateway/conversation/model/test_model.py::test_whatever_happens_it_ends_well[{}]"
_PARAMETERS: Final = re.compile(r"\[.*\]$")


@dataclass(frozen=True, slots=True)
class Change:
    """`old` stands in `file` exactly once, and `new` is what is left without the guard."""

    file: str
    old: str
    new: str

    def __call__(self, text: str) -> str:
        """Raises `ValueError` where it is not there as it is described."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {text.count(self.old)} times, and not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Guard:
    """One entry of `guards.yaml`. Each way in which it is missed has the words that have to be found in what is said then."""

    guard: str
    changes: tuple[Change, ...]
    red: Mapping[str, str] = field(default_factory=dict)
    """Tests that fail, as pytest names them, below `tests/`: of those with parameters, one at least."""
    scenario: Mapping[str, str] = field(default_factory=dict)
    """Of `tests.gateway.conversation.scenarios`."""
    play: Mapping[str, str] = field(default_factory=dict)
    """Of `tests.gateway.conversation.model.cases.SMALL`."""
    sweep: Mapping[str, str] = field(default_factory=dict)
    """Arguments of `tests.sweep`."""
    sample: bool = False

    @property
    def tests(self) -> dict[str, str]:
        """All that pytest runs."""
        scenarios = {SCENARIO.format(one): words for one, words in self.scenario.items()}
        return {**self.red, **scenarios, **{PLAY.format(one): words for one, words in self.play.items()}}

    @property
    def ways(self) -> dict[str, str]:
        return {**self.tests, **self.sweep}

    def without(self, tree: Path) -> dict[str, str]:
        """What its files hold without it. Raises `ValueError`."""
        texts: dict[str, str] = {}
        for change in self.changes:
            text = texts.get(change.file) or (tree / change.file).read_text("utf-8")
            texts[change.file] = change(text)
        return texts

    def in_script(self, name: str, text: str) -> str:
        """A script of the mailbox, as it is loaded, without the guard."""
        for change in self.changes:
            if change.file in {SCRIPTS.format("prelude"), SCRIPTS.format(name)}:
                text = change(text)
        return text


def guards() -> dict[str, Guard]:
    """By name. `both` of an entry are names of others: one stands behind the other, and is missed with it."""
    found: dict[str, Guard] = {}
    for one in yaml.safe_load(Path(__file__).with_name("guards.yaml").read_text("utf-8")):
        name, ways = (
            one["guard"],
            {key: one[key] for key in ("red", "scenario", "play", "sweep", "sample") if key in one},
        )
        if "both" in one:
            changes = tuple(change for other in one["both"] for change in found[other].changes)
        else:
            changes = (Change(one["file"], one["old"], one["new"]),)
        assert name not in found, name
        assert one.keys() <= {"guard", "both", "file", "old", "new", *ways}, name
        found[name] = Guard(name, changes, **ways)
    return found


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


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of tests and of sweeps: all that was said by those that failed, and which went well."""

    red: Mapping[str, str]
    green: Collection[str]
    printed: str

    def said(self, way: str) -> list[str]:
        """By those that failed, of those with parameters by each."""
        return [said for one, said in self.red.items() if way in {one, _PARAMETERS.sub("", one)}]

    def is_green(self, way: str) -> bool:
        return not self.said(way) and any(way in {one, _PARAMETERS.sub("", one)} for one in self.green)

    def why_not(self, way: str, words: str) -> str:
        """Why this way has not found what is missing; empty where it has."""
        said = self.said(way)
        if any(words in one for one in said):
            return ""
        if said:
            return f"fails, and does not say {words!r}:\n{said[0]}"
        return "all is well without it" if self.is_green(way) else f"did not end:\n{self.printed}"


def run_tests(tree: Path, tests: Collection[str], *, within_s: float) -> Ran:
    report = tree.parent / "report.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "--tb=short", f"--junitxml={report}", "-p", "no:cacheprovider", "-p", "no:xdist")
    _, printed = _run(tree, ("pytest", *options, *(f"tests/{one}" for one in tests)), within_s)
    red: dict[str, str] = {}
    green: set[str] = set()
    for case in ET.parse(report).iter("testcase") if report.is_file() else ():  # pytest has just written it
        name = f"{case.get('classname', '').removeprefix('tests.').replace('.', '/')}.py::{case.get('name')}"
        if (failure := case.find("failure")) is not None:
            red[name] = f"{failure.get('message')}\n{failure.text}"
        elif not len(case) or {one.tag for one in case} <= {"system-out", "system-err", "properties"}:
            green.add(name)
    return Ran(red, green, printed)


def run_sweep(tree: Path, arguments: str, *, within_s: float) -> Ran:
    """One fault, in one lane."""
    folder = tree.parent / "sweep"
    shutil.rmtree(folder, ignore_errors=True)
    plain = ("--platforms", "keyed", "--lanes", "1", "--count", "1", "--folder", str(folder))
    code, printed = _run(tree, ("tests.sweep", *plain, *shlex.split(arguments)), within_s)
    made = [str(one) for one in folder.iterdir()] if folder.is_dir() else []
    is_told = code == 1 and printed.rstrip().endswith(*made[:1] or ("?",))  # whoever reads it has to find the ledgers
    return Ran({arguments: printed} if is_told else {}, [arguments] if code == 0 else [], printed)


def _run(tree: Path, module: Collection[str], within_s: float) -> tuple[int | None, str]:
    """Its exit code, and what it printed. None: it took too long."""
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: TID251  # of this very run
    try:
        ran = subprocess.run(
            [sys.executable, "-m", *module],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, f"not within {within_s:g} s\n{(late.stdout or b'').decode()}"
    return ran.returncode, ran.stdout + ran.stderr


@dataclass(frozen=True, slots=True)
class Missed:
    """What came of it that a guard is not there: the ways that have not found it, each with the reason."""

    not_found: Mapping[str, str]
    took_s: float


def miss(guard: Guard, ways: Collection[str], tree: Path, *, within_s: float = WITHIN_S) -> Missed:
    """Take it out of this copy, look for it in these ways, put it back. Raises `ValueError` where it does not apply."""
    before = {file: (tree / file).read_text("utf-8") for file in guard.without(tree)}
    begun_s = time.monotonic()
    try:
        for file, text in guard.without(tree).items():
            (tree / file).write_text(text, "utf-8")
        runs = _ran(tree, ways, within_s=within_s)
    finally:
        for file, text in before.items():
            (tree / file).write_text(text, "utf-8")
    why = {way: ran.why_not(way, guard.ways[way]) for way, ran in runs.items()}
    return Missed({way: reason for way, reason in why.items() if reason}, time.monotonic() - begun_s)


def not_green(tree: Path, ways: Collection[str], *, within_s: float) -> dict[str, str]:
    """Of these ways, those that find something where nothing is taken out, and what: they show nothing of any guard."""
    runs = _ran(tree, ways, within_s=within_s)
    return {way: "\n".join(ran.said(way)) or ran.printed for way, ran in runs.items() if not ran.is_green(way)}


def _ran(tree: Path, ways: Collection[str], *, within_s: float) -> dict[str, Ran]:
    tests = sorted(way for way in ways if "::" in way)
    found = dict.fromkeys(tests, run_tests(tree, tests, within_s=within_s)) if tests else {}
    return {**found, **{way: run_sweep(tree, way, within_s=within_s) for way in ways if way not in found}}
