"""Depth: JSON that somebody else wrote is read to a depth that everything after the reader can follow.

A reader that just manages what came leaves the recursion's end to whoever copies, compares or writes it later.
"""

from __future__ import annotations

import json
from typing import Any, Final

DEPTH_MAX: Final = 100


class TooDeep(ValueError):
    """`str()` goes on from what it is about."""


def read(text: str | bytes, decoder: json.JSONDecoder | None = None) -> Any:
    """What the JSON says. Raises `ValueError` for what is none, `TooDeep` for what is nested too deeply."""
    written = text.decode() if isinstance(text, bytes) else text
    try:
        value = (decoder or _PLAIN).decode(written)
    except RecursionError:
        raise TooDeep(f"nested deeper than {DEPTH_MAX}") from None
    check(value)
    return value


def check(value: Any) -> None:
    """Without recursion: it may be as deep as it likes. Raises `TooDeep`."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [one for one in level if isinstance(one, (dict, list))]
        if not level:
            return
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    raise TooDeep(f"nested deeper than {DEPTH_MAX}")


_PLAIN: Final = json.JSONDecoder()
