"""What was begun is seen to its end, also where whoever waits for it is called off."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. A cancellation comes after its end, and what it raises then is nobody's any more.

    For writes: cut between the server's answer and what we note of it, we would know less than the server.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise
