"""Child processes that never outlive us, and that Ctrl-C reaches only through us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.running import leash

Child = asyncio.subprocess.Process


def leashed(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` until it ends or this process is gone."""
    return [sys.executable, "-I", "-S", str(Path(leash.__file__)), str(os.getpid()), *command]


async def start_child(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int | None = None,
) -> Child:
    """Start a command in a session of its own: a terminal's Ctrl-C goes to us, and we stop it in the right order.

    Without `environment` and `stdout` it gets ours; without `stdin` it gets none.
    """
    return await asyncio.create_subprocess_exec(
        *leashed(command),
        stdin=stdin,
        stdout=stdout,
        env=environment,
        start_new_session=True,
    )


async def stop_child(child: Child, *, within_s: float) -> None:
    """SIGTERM, and SIGKILL for what is still there after `within_s`."""
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(within_s):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
