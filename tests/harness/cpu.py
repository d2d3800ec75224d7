"""How much a thread may compute: a guard against work that grows with the square of its input, not a figure."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_within(most_s: float) -> Iterator[None]:
    """Fail if the block takes more. Neither other threads count nor the collector, which looks at all that a whole run of
    tests has imported.
    """
    gc.collect()
    gc.disable()
    begun_s = time.thread_time()
    try:
        yield
        spent_s = time.thread_time() - begun_s
    finally:
        gc.enable()
    assert spent_s < most_s, f"{spent_s:.2f} s of computing, allowed are {most_s:g}"
