"""Calm: no collection of garbage while thousands of skills come into memory.

Each full collection looks at every object there is, and everything else waits for it, the loop too: a tenth of a second,
again and again, for 10,000 skills. These are in no cycle, and go without a collection when nobody holds them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MANY: Final = 100_000
"""So many new objects are not looked at any more. Fewer cost little, and what is in a cycle by then is never freed."""

_lock = threading.Lock()
_inside = 0


@contextmanager
def calm() -> Iterator[None]:
    """No collections in this process until it ends. For seconds, in any thread."""
    global _inside  # noqa: PLW0603  # collections are the whole process's
    with _lock:
        _inside += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if gc.get_count()[0] > MANY:
                gc.freeze()
            if not _inside:
                gc.enable()
