"""Calm: the loop keeps answering while threads bring many thousands of objects into memory.

Each full collection of garbage looks at every object there is, and everything else waits for it: a tenth of a second,
again and again, for 10,000 skills. Such objects are in no cycle, and go without a collection when nobody holds them. And a thread
that computes gives way to the loop only after a while, for each of the steps that one request takes.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MANY: Final = 100_000
"""So many new objects are not looked at any more. Fewer cost little, and what is in a cycle by then is never freed."""
GIVES_WAY_S: Final = 0.0005
"""A tenth of what Python usually takes."""

_lock = threading.Lock()
_inside = 0
_usual_s = sys.getswitchinterval()


@contextmanager
def calm() -> Iterator[None]:
    """No collections in this process until it ends, and threads that give way. For seconds, in any thread."""
    global _inside  # noqa: PLW0603  # collections are the whole process's
    with _lock:
        _inside += 1
        gc.disable()
        sys.setswitchinterval(GIVES_WAY_S)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if gc.get_count()[0] > MANY:
                gc.freeze()
            if not _inside:
                gc.enable()
                sys.setswitchinterval(_usual_s)


async def calmly(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Compute something in a thread, in calm."""

    def in_calm() -> T:
        with calm():
            return work(*arguments, **named)

    return await asyncio.to_thread(in_calm)
