"""Ids of skills and names of their files: which are allowed, which count as the same, and which look the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final

PART_MAX: Final = 64

_PLAIN: Final = re.compile(r"(?=[^.])[a-zA-Z0-9._-]{1,64}")
"""What nearly all parts look like: allowed, and quickly seen."""
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks by category that show nothing."""


def key(text: str) -> str:
    """What is compared: two ids with the same key are the same id (`Report`, `ｒｅｐｏｒｔ`)."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold().strip()


def skeleton(text: str) -> str:
    """What is left when all that looks alike is one: two different ids with the same skeleton can be mistaken.

    As UTS 39 has it, on `key`: `web-access` with a Cyrillic `а`, `report-1` and `report-l`, `modern` and `modem`.
    """
    decomposed = unicodedata.normalize("NFD", key(text)).translate(_lookalikes())
    return unicodedata.normalize("NFD", decomposed)


def looks_like(character: str) -> str:
    """What a letter can be taken for, itself if nothing else."""
    return _lookalikes().get(ord(character), character)


def impostors() -> Iterator[str]:
    """Every character that can be taken for another or several, in both cases."""
    return (one for character in map(chr, _lookalikes()) for one in {character, character.upper()} if len(one) == 1)


@cache
def _lookalikes() -> dict[int, str]:
    lines = resources.files("skills").joinpath("lookalikes.txt").read_text("utf-8").splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return {ord(source): shown for shown, sources in pairs for source in sources}


def fitting(patterns: Sequence[str]) -> re.Pattern[str]:
    """Matches the `key` of each id that fits one of a profile's patterns as a whole. `*` stands for anything."""
    return re.compile("|".join(re.escape(key(one)).replace(r"\*", ".*") for one in patterns) or r"(?!)", re.DOTALL)


def fault(path: str) -> str | None:
    """Why `path` (parts joined by `/`) may not name a skill or a file, or none if it may."""
    return next((reason for part in path.split("/") if (reason := _part_fault(part))), None)


def _part_fault(part: str) -> str | None:
    if _PLAIN.fullmatch(part):
        return None
    if not 1 <= len(part) <= PART_MAX:
        return f"{part[:PART_MAX]!r}: a part of a name has 1 to {PART_MAX} characters"
    if part[0] == ".":
        return f"{part!r}: a part of a name has no dot in front"
    if not unicodedata.is_normalized("NFC", part):
        return f"{part!r}: a name must be in Unicode's form NFC"
    for character in part:
        allowed = character in "._-" or unicodedata.category(character)[0] in "LMN"
        if not allowed or _INVISIBLE.match(character):
            return f"{part!r}: letters, digits, '.', '_' and '-' are allowed, not {_shown(character)}"
    return None


def _shown(character: str) -> str:
    return f"{character!r} (U+{ord(character):04X})"
