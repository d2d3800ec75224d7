"""Runs as somebody begins them in a terminal: Ctrl-C ends them, with all that they began."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

HOUSE: Final = Path(__file__).parents[2]
LEADER: Final = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""It is the first in a terminal, and no shell has told it to overlook Ctrl-C."""
ENDS_WITHIN_S: Final = 60.0
"""Far more than it takes: a busy machine is no fault."""


class Terminal:
    """A command in a terminal of its own, what it wrote, and what it began."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", LEADER, *command],
            cwd=HOUSE, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.written = ""

    def lines(self) -> Iterator[str]:
        """As they come, until all who write there have ended."""
        held = b""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while piece := os.read(self._ours, 4_096):
                *lines, held = (held + piece).split(b"\r\n")
                for line in lines:
                    self.written += f"{line.decode()}\n"
                    yield line.decode()

    def begun(self) -> list[psutil.Process]:
        """All processes below it, whatever sessions they are of."""
        return psutil.Process(self._process.pid).children(recursive=True)

    def runs(self) -> bool:
        return self._process.poll() is None

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def ends(self) -> int:
        return self._process.wait(ENDS_WITHIN_S)

    def close(self) -> None:
        if self.runs():
            for one in self.begun():
                one.kill()
            self._process.kill()
        self._process.wait()
        os.close(self._ours)


SWEEP: Final = ("tests.sweep", "--count", "1000", "--kinds", "plain", "--platforms", "keyed", "--lanes", "2")
CROWD: Final = ("tests.chaos", "chaos", "--messages", "100000", "--conversations", "10", "--rate", "2")


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        pytest.param(SWEEP, "points in", id="a sweep"),
        pytest.param(SWEEP, "", id="a sweep that is only being opened"),
        pytest.param(CROWD, "said", id="a crowd"),
    ],
)
@pytest.mark.timeout(240)
def test_ctrl_c_ends_a_run_and_all_that_it_began_and_the_last_line_names_the_ledgers(
    command: tuple[str, ...], begins: str, tmp_path: Path
) -> None:
    terminal = Terminal("-m", *command, "--folder", str(tmp_path / "kept"), "--seed", "3")
    try:
        if begins:
            assert any(begins in line for line in terminal.lines()), terminal.written
        else:
            while not list(tmp_path.glob("kept/*/lane-1")):
                assert terminal.runs(), terminal.written
                time.sleep(0.01)
        begun = terminal.begun()
        assert begun
        terminal.press_ctrl_c()
        code = terminal.ends()
        list(terminal.lines())
        assert code == 130, terminal.written
        assert "Traceback" not in terminal.written
        assert "Unclosed" not in terminal.written
        [place] = (tmp_path / "kept").iterdir()
        assert (
            terminal.written.splitlines()[-1].removeprefix("^C") == f"broken off, seed 3: ledgers and logs in {place}"
        )
        assert list((place / "ledgers").glob("*.jsonl"))
        assert not psutil.wait_procs(begun, timeout=10)[1]
    finally:
        terminal.close()
