from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.running.address import address_noted, noted_address


def test_an_address_is_noted_for_the_time_of_the_block(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    assert noted_address(data) is None
    with address_noted(data, "http://127.0.0.1:4711"):
        assert noted_address(data) == "http://127.0.0.1:4711"
    assert noted_address(data) is None
    assert list(data.iterdir()) == []


def test_what_a_killed_one_left_behind_does_not_count(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from gateway.running.address import address_noted\n"
        "with address_noted(Path(sys.argv[1]), 'http://127.0.0.1:1'): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=30, check=False).returncode == 9
    assert (tmp_path / "address").read_text() == "http://127.0.0.1:1\n"
    assert noted_address(tmp_path) is None
    with address_noted(tmp_path, "http://127.0.0.1:2"):
        assert noted_address(tmp_path) == "http://127.0.0.1:2"


def test_the_first_one_counts_and_the_second_only_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with address_noted(tmp_path, "http://127.0.0.1:1"):
        with address_noted(tmp_path, "http://127.0.0.1:2"):
            assert noted_address(tmp_path) == "http://127.0.0.1:1"
        assert noted_address(tmp_path) == "http://127.0.0.1:1"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_folder_that_can_not_be_is_no_hindrance(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with address_noted(tmp_path / "file", "http://127.0.0.1:1"):
        assert noted_address(tmp_path / "file") is None
    assert "address not noted" in caplog.text
