"""Parts: a long text in pieces that end where a reader would pause. Joined they are the text again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r"[ \t]*+(?:[-*+>]|\d{1,9}[.)])?[ \t]*+(`{3,}|~{3,})(.*)")
_MARKERS: Final = ("```", "~~~")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]++\S")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the text, and where its line begins, counted in characters."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a text from `offset` on."""

    text: str
    offset: int
    total: int
    """Characters of the whole text."""
    remaining: tuple[Heading, ...] = ()
    """Headings after this part, code blocks left out, where they were asked for."""

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def is_last(self) -> bool:
        return self.end == self.total


class OffsetOutside(ValueError):
    """An offset that is negative or past the end."""


def part(text: str, offset: int, max_bytes: int, *, with_headings: bool = False) -> Part:
    """The part of `text` that begins at `offset` (in characters) and has at most `max_bytes` of UTF-8.

    It ends at a line's end outside code blocks; where a block is longer than the part, at a line's end; where a line
    is, within it. Raises `OffsetOutside`. What follows the part is looked at for headings alone.
    """
    if offset < 0 or (offset >= len(text) and offset > 0):
        raise OffsetOutside(f"offset {offset} is outside: the text has {len(text)} characters, so 0 to {len(text) - 1}")
    reach = offset + len(text[offset : offset + max_bytes].encode()[:max_bytes].decode(errors="ignore"))
    end = reach if reach == len(text) else _pause(text, offset, reach)
    headings = _headings(text, end) if with_headings and end < len(text) else ()
    return Part(text[offset:end], offset, len(text), tuple(headings))


def _pause(text: str, offset: int, reach: int) -> int:
    """The best end of a part that reaches so far."""
    end = text.rfind("\n", offset, reach) + 1
    block = _block_at(text, end)
    return reach if not end else end if block is None or block <= offset else block


def _block_at(text: str, end: int) -> int | None:
    """Where the code block begins that is open at `end`, which is a line's. Only lines that could be a fence are read: a long
    text may have a million others.
    """
    at, fence, begins = 0, "", 0
    found = {marker: text.find(marker, 0, end) for marker in _MARKERS}
    while there := [place for place in found.values() if place >= 0]:
        start = text.rfind("\n", at, min(there)) + 1 or at
        at = text.find("\n", min(there)) + 1 or len(text)
        after = _fence_after(text[start:at], fence)
        begins = start if after and not fence else begins
        fence = after
        found = {one: text.find(one, at, end) if 0 <= place < at else place for one, place in found.items()}
    return begins if fence else None


def _headings(text: str, since: int) -> Iterator[Heading]:
    for line in _lines(text):
        if line.is_heading and line.start >= since:
            yield Heading(line.start, text[line.start : line.end].strip())


def prose(text: str) -> str:
    """The text without its code blocks."""
    kept: list[str] = []
    was_in_code = False
    for line in _lines(text):
        if not (was_in_code or line.in_code):
            kept.append(text[line.start : line.end])
        was_in_code = line.in_code
    return "".join(kept)


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    in_code: bool
    """Whether a code block goes on after it."""
    is_heading: bool


def _lines(text: str) -> Iterator[_Line]:
    fence = ""
    for match in _LINE.finditer(text):
        is_heading = not fence and bool(_HEADING.match(match[0]))
        fence = _fence_after(match[0], fence)
        yield _Line(match.start(), match.end(), bool(fence), is_heading)


def _fence_after(line: str, fence: str) -> str:
    """The marker of the code block that is open after `line`, or nothing."""
    found = _FENCE.match(line)
    if not found:
        return fence
    marker, rest = found.groups()
    if not fence:
        return "" if marker[0] == "`" and "`" in rest else marker
    closes = marker[0] == fence[0] and len(marker) >= len(fence) and not rest.strip()
    return "" if closes else fence
