"""One input at one target, and how long it took."""

from __future__ import annotations

import time
from typing import Final

from tests.fuzz.targets import TARGETS

LONGEST_S: Final = 0.05
"""Of CPU, for one input of a few thousand bytes: readers run beside others' turns, in one loop."""


class TooSlow(Exception):
    """An input that would hold up everybody."""


def tried(target: str, raw: bytes, longest_s: float = LONGEST_S) -> None:
    """Raises whatever the target raises, and `TooSlow`: the first try may pay for what is set up once."""
    for _ in range(3):
        began_s = time.thread_time()
        TARGETS[target](raw)
        if (took_s := time.thread_time() - began_s) <= longest_s:
            return
    raise TooSlow(f"{target}: {took_s * 1000:.0f} ms for {len(raw):,} bytes")
