"""`make setup` on a machine that is not ready says what is missing; a folder with blanks is no hindrance."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = ("test", "echo", "touch", "sh", "dirname")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder with blanks"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").touch()
    (folder / "constraints.txt").touch()
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def make(clone: Path, *arguments: str, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    command = (shutil.which("make") or "make", *arguments)
    return subprocess.run(
        command, cwd=clone, env={"PATH": path}, capture_output=True, text=True, timeout=30, check=False
    )


def test_without_python_3_11_it_says_so(clone: Path, tmp_path: Path) -> None:
    (programs := tmp_path / "bin").mkdir()
    program(programs, "python3", "exit 1  # an old one refuses")
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name) or name)
    ran = make(clone, "setup", path=str(programs))
    assert ran.returncode != 0
    assert "deskmate needs Python 3.11 or newer" in ran.stderr


@pytest.mark.parametrize("script", ["exit 1  # as 3.9 would", "echo 'no Python at all' >&2; exit 127"])
def test_a_given_python_that_is_too_old_is_told(clone: Path, tmp_path: Path, script: str) -> None:
    python = program(tmp_path, "python3.9", script)
    ran = make(clone, "setup", f"PYTHON={python}")
    assert ran.returncode != 0
    assert f"deskmate needs Python 3.11 or newer, and this is none: PYTHON={python}" in ran.stderr
    assert not (clone / ".venv").exists()


# Stand for the environment's own Python: without pip until `ensurepip` has run, or not running at all
WITHOUT_PIP = 'echo "own $@" >> asked; case "$2" in pip) [ -e pip ];; ensurepip) touch pip;; esac'
HALF_MADE = {"no pip": (WITHOUT_PIP, False), "nothing works": ("exit 1", True)}


@pytest.mark.parametrize("left", HALF_MADE)
def test_an_environment_that_is_half_made_repairs_itself(clone: Path, left: str) -> None:
    script, is_made_anew = HALF_MADE[left]
    (clone / ".venv/bin").mkdir(parents=True)
    program(clone / ".venv/bin", "python", script)
    makes = 'echo "$@" >> asked; [ "$2" != venv ] || { mkdir -p .venv/bin; cp "$0" .venv/bin/python; }'
    python = program(clone, "python", makes)
    ran = make(clone, "setup", f"PYTHON={python}")
    assert ran.returncode == 0, ran.stderr
    asked = (clone / "asked").read_text()
    assert ("-m venv .venv" in asked) == is_made_anew
    assert "-c constraints.txt -e .[speed,test]" in asked


def test_without_ensurepip_it_names_the_package(clone: Path, tmp_path: Path) -> None:
    python = program(tmp_path, "python", 'case "$2" in *ensurepip*) exit 1;; esac')
    ran = make(clone, "setup", f"PYTHON={python}")
    assert ran.returncode != 0
    assert "apt-get install python3-venv" in ran.stderr


def test_a_python_in_a_folder_with_blanks_makes_the_environment_once(clone: Path) -> None:
    # Stands for Python and pip: writes down what it is asked for, and makes what `venv` would
    script = f'echo "$@" >> "{clone}/asked"; [ "$2" != venv ] || {{ mkdir -p .venv/bin; cp "$0" .venv/bin/python; }}'
    python = program(clone, "my python", script)
    for _ in range(2):
        ran = make(clone, "setup", f"PYTHON={python}")
        assert ran.returncode == 0, ran.stderr
    asked = (clone / "asked").read_text()
    assert asked.count("-m venv .venv") == 1
    assert asked.count("-c constraints.txt -e .[speed,test]") == 1


def test_the_list_of_versions_has_those_that_fuzzing_wants() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["fuzz"]) <= set((ROOT / "constraints.txt").read_text().splitlines())


def test_whoever_makes_the_list_anew_keeps_them(clone: Path) -> None:
    """Python here is of one version, and each has one of its own."""
    shutil.copy(ROOT / "pyproject.toml", clone)
    made = 'mkdir -p .venv-lock/bin; cp "$0" .venv-lock/bin/python'
    python = program(clone, "python", f'case "$*" in *freeze*) echo zope==1; echo aiohttp==2;; *venv*) {made};; esac')
    ran = make(clone, "lock", f"PYTHON={python}")
    assert ran.returncode == 0, ran.stderr
    names = [line.partition("==")[0] for line in (clone / "constraints.txt").read_text().splitlines()]
    assert names == ["aiohttp", "atheris", "atheris", "zope"]
