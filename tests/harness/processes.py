"""Looking at processes from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path


async def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait for a condition that gives no event. Raises `TimeoutError`."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether it runs; who has ended and is not yet waited for does not."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.parent.parent.is_dir() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False
