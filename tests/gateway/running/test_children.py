"""Child processes: their own session, stopped in time, gone when we are."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from gateway.running.children import leashed, start_child, stop_child
from tests.harness.processes import is_alive, until

PARENT = """
import asyncio, sys
from gateway.running.children import start_child

async def main():
    child = await start_child(["sleep", "60"])
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


async def test_a_child_has_a_session_of_its_own_so_that_ctrl_c_reaches_only_us() -> None:
    child = await start_child(["sleep", "60"])
    await until(lambda: os.getsid(child.pid) == child.pid)
    await stop_child(child, within_s=5)
    assert child.returncode == -signal.SIGTERM


async def test_what_does_not_stop_in_time_is_killed() -> None:
    child = await asyncio.create_subprocess_exec(
        *leashed([sys.executable, "-c", STUBBORN]), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout
    await child.stdout.readline()
    began = time.monotonic()
    await stop_child(child, within_s=0.1)
    assert child.returncode == -signal.SIGKILL
    assert time.monotonic() - began < 5


async def test_stopping_what_has_ended_is_no_error() -> None:
    child = await start_child(["true"])
    await child.wait()
    await stop_child(child, within_s=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
async def test_kill_9_of_the_parent_ends_the_child() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout
    child = int(await parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
async def test_a_child_whose_parent_died_before_it_began_does_not_begin() -> None:
    script = leashed(["echo", "begun"])
    script[-3] = "1"  # a parent that we never had
    child = await asyncio.create_subprocess_exec(*script, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    assert (child.returncode, said) == (1, b"")
