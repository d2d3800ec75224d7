"""`deskmate rq`: what RQ answers by itself needs no Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def rq(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "deskmate.yaml").write_text("data: data\n")
    command = [sys.executable, "-m", "gateway.cli", "--config", str(folder / "deskmate.yaml"), "rq", *arguments]
    here = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=here, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["info", "--help"], ["--version"]])
def test_help_needs_no_redis(tmp_path: Path, arguments: list[str]) -> None:
    ran = rq(tmp_path, *arguments)
    assert ran.returncode == 0, ran.stderr
    assert "deskmate rq" in ran.stdout


def test_what_looks_at_redis_says_what_to_start(tmp_path: Path) -> None:
    ran = rq(tmp_path, "info")
    assert ran.returncode == 1
    assert "`deskmate up` starts one" in ran.stderr
    assert "Traceback" not in ran.stderr
