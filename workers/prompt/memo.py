"""Memo: what was worked out of a turn's texts. The same ones are asked of again and again, at each call and at each piece of
an answer that is shown, and the long ones among them may be as long as the model reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Of one turn with its branches. Texts are known by their hash: a record's own is let go and read anew meanwhile."""

    def __init__(self) -> None:
        self._known: dict[tuple[Callable[[str], Any], bytes], Any] = {}

    def of(self, work: Callable[[str], T], text: str) -> T:
        """What `work` makes of a text, each time the same: it is done once. It must be a function of a module."""
        key = (work, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        if key not in self._known:
            self._known[key] = work(text)
        made: T = self._known[key]
        return made
