"""A command that is kept: nothing of it is left, whoever ends first and however."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from skills import inside
from tests.harness.processes import is_alive, until

KEPT = Path(inside.__file__).with_name("kept.py")
FAMILY = "(trap '' TERM; echo $$; while true; do sleep 1; done) & setsid sh -c 'echo $$; exec sleep 100' & "
"""Two who stay: one that does not hear SIGTERM, and one that left the group."""


@contextmanager
def kept(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process, and the end of the leash that we hold."""
    holds, leash = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(KEPT), str(holds), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[holds],
        start_new_session=True,
        text=True,
    )
    os.close(holds)
    try:
        with process:
            yield process, leash
            process.kill()
    finally:
        with suppress(OSError):
            os.close(leash)


def pids(stream: IO[str] | None) -> list[int]:
    assert stream
    return [int(stream.readline()) for _ in range(2)]


async def test_who_lets_go_ends_all_of_it() -> None:
    with kept(["sh", "-c", f"{FAMILY} wait"]) as (process, leash):
        family = pids(process.stdout)
        os.close(leash)
        process.wait(20)
        assert not any(map(is_alive, family))


async def test_a_command_that_ends_leaves_nobody_behind() -> None:
    with kept(["sh", "-c", f"{FAMILY} read line; exit 7"]) as (process, _):
        family = pids(process.stdout)
        assert process.stdin
        process.stdin.close()
        assert process.wait(20) == 7
        assert not any(map(is_alive, family))


async def test_a_command_that_will_not_end_is_killed() -> None:
    with kept(["sh", "-c", "trap '' TERM; echo $$; echo $$; while true; do sleep 1; done"]) as (process, leash):
        [pid, _] = pids(process.stdout)
        os.close(leash)
        process.wait(20)
        assert not is_alive(pid)


async def test_nothing_is_left_after_a_kill_of_the_holder() -> None:
    holder = textwrap.dedent(
        f"""
        import os, subprocess, sys
        holds, leash = os.pipe()
        command = [sys.executable, "-I", "-S", {str(KEPT)!r}, str(holds), "sh", "-c", {FAMILY + " wait"!r}]
        subprocess.Popen(command, pass_fds=[holds], start_new_session=True).wait()
        """
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        family = pids(process.stdout)
        process.kill()
        await until(lambda: not any(map(is_alive, family)))


async def test_a_killed_keeper_takes_the_command_with_it() -> None:
    with kept(["sh", "-c", "echo $$; echo $$; read line"]) as (process, _):
        [pid, _] = pids(process.stdout)
        process.send_signal(signal.SIGKILL)
        await until(lambda: not is_alive(pid))


def test_who_hears_the_command_sees_that_it_closed_its_output() -> None:
    with kept(["sh", "-c", "echo all; exec >&- 2>&-; read line"]) as (process, _):
        assert process.stdout
        assert process.stdout.read() == "all\n"
        assert process.poll() is None


def test_input_output_and_error_are_the_commands_own() -> None:
    with kept(["sh", "-c", "read line; echo got $line; echo oh >&2; exec sleep 0.1 >&- 2>&-"]) as (process, _):
        assert process.communicate("it\n", timeout=20) == ("got it\n", "oh\n")
        assert process.returncode == 0


@pytest.mark.parametrize(("command", "said"), [("no-such-program", "No such file"), ("/", "Permission denied")])
def test_a_command_that_is_none_is_told(command: str, said: str) -> None:
    with kept([command]) as (process, _):
        assert said in process.communicate(timeout=20)[1]
        assert process.returncode == 127
