"""What in Markdown's text means something only as a whole: found by one look from left to right, for who cuts texts.

`gateway.text.dialect` reads the same marks and addresses, with a library that does not say where they were.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple


class Span(NamedTuple):
    """From `start` up to `end`, in characters."""

    start: int
    end: int
    is_marks: bool = False
    """Bold, italic or strike; else a link, an address, code, or a sign behind a backslash."""


def flanks(mark: str, left: str, right: str) -> tuple[bool, bool]:
    """Whether a run of `*`, `_` or `~` between two characters ("" at an end of the text) can open, and can close.

    CommonMark decides by the blanks and punctuation around. Chinese, Japanese and Korean are written without blanks:
    beside them a mark may touch punctuation too, as in `注**「急」**的`.
    """
    blank_left, blank_right = not left or left.isspace(), not right or right.isspace()
    sign_left, sign_right = _is_sign(left), _is_sign(right)
    loose = mark != "_" and (_is_wide(left) or _is_wide(right))
    opens = not blank_right and (loose or not sign_right or blank_left or sign_left)
    closes = not blank_left and (loose or not sign_left or blank_right or sign_right)
    if mark == "_":
        return opens and (not closes or sign_left), closes and (not opens or sign_right)
    return opens, closes


def _is_sign(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "PS"


def _is_wide(character: str) -> bool:
    return bool(character) and unicodedata.east_asian_width(character) in "WFH"


ADDRESS: Final = re.compile(r"(?<![a-z0-9.+-])https?://[a-z0-9._~:/?#@!$&'()*+,;=%-]+", re.IGNORECASE | re.ASCII)
"""A bare address, perhaps with the end of its sentence: see `without_tail`."""


def without_tail(address: str, more: str = "") -> str:
    """An address without what follows it in a sentence, as does a bracket that was opened before it, and without the signs
    in `more`.
    """
    extra = address.count(")") - address.count("(")
    end = len(address)
    while end:
        last = address[end - 1]
        if last == ")" and extra > 0:
            extra -= 1
        elif last not in _TAIL and last not in more:
            break
        end -= 1
    return address[:end]


_TAIL: Final = ".,;:!?'*_~"

_TOKEN: Final = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)"
    r"|(?P<auto><(?:https?://|mailto:)[^\s<>]*>)"
    rf"|(?P<bare>{ADDRESS.pattern})"
    r"|(?P<opening>!?\[)"
    r"|(?P<closing>\])"
    r"|(?P<run>\*+|_+|~~+)",
    re.IGNORECASE | re.ASCII,
)
_TARGET: Final = re.compile(
    r"\(\s{0,9}(?:<[^<>\n]{0,2000}>|(?:[^\s()<>]|\([^\s()<>]{0,500}\)){0,2000})"
    r"(?:\s{1,9}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'))?\s{0,9}\)"
)
_NEXT_BLOCK: Final = re.compile(r"\n(?=[ \t>]*(?:\n|[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|```|~~~|\|))|\Z")
"""Where what was opened is left open."""
_TICKS: Final = re.compile(r"`+")
_DEPTH_MAX: Final = 16
"""Marks and brackets that wait for their end."""


def spans(text: str) -> list[Span]:
    """All of a text, some inside others, in no order. Lines of code blocks are taken for others."""
    return _Look(text).found


@dataclass(slots=True)
class _Run:
    """Marks that may open something."""

    mark: str
    start: int
    count: int


class _Look:
    """One look at a text: where it is, and what is open there."""

    def __init__(self, text: str) -> None:
        self.found: list[Span] = []
        self._text = text
        self._runs: list[_Run] = []
        self._brackets: list[tuple[int, int]] = []  # where each is, and how many runs were open before it
        self._ticks: dict[int, list[int]] = {}
        for ticks in _TICKS.finditer(text):
            self._ticks.setdefault(len(ticks[0]), []).append(ticks.start())
        self._look()

    def _look(self) -> None:
        at = stop = 0
        while token := _TOKEN.search(self._text, at):
            start, at = token.span()
            if start >= stop:
                stop = self._next_block(start)
                self._runs.clear()
                self._brackets.clear()
            match token.lastgroup:
                case "ticks":
                    at = self._code(start, at, stop)
                case "opening":
                    self._brackets = [*self._brackets[-_DEPTH_MAX:], (start, len(self._runs))]
                case "closing":
                    at = self._link(at)
                case "run":
                    self._marks(start, at)
                case "bare":
                    at = start + len(without_tail(token[0]))
                    self.found.append(Span(start, at))
                case _:
                    self.found.append(Span(start, at))

    def _next_block(self, start: int) -> int:
        border = _NEXT_BLOCK.search(self._text, start)
        return border.start() + 1 if border else len(self._text)

    def _code(self, start: int, end: int, stop: int) -> int:
        """Where the text goes on: behind the code, or behind ticks that open none."""
        same = self._ticks.get(end - start, [])
        following = bisect_right(same, start)
        if following == len(same) or same[following] >= stop:
            return end
        closed = same[following] + end - start
        self.found.append(Span(start, closed))
        return closed

    def _link(self, at: int) -> int:
        """Where the text goes on: behind the link, or behind a bracket that closes none."""
        if not self._brackets:
            return at
        start, runs = self._brackets.pop()
        target = _TARGET.match(self._text, at)
        if not target:
            return at
        del self._runs[runs:]
        self.found.append(Span(start, target.end()))
        return target.end()

    def _marks(self, start: int, end: int) -> None:
        mark, text = self._text[start], self._text
        opens, closes = flanks(mark, text[start - 1] if start else "", text[end : end + 1])
        count = end - start
        while closes and count and (opener := self._opener(mark, count)):
            used = 2 if min(opener.count, count) > 1 else 1
            self.found.append(Span(opener.start + opener.count - used, end - count + used, is_marks=True))
            opener.count -= used
            count -= used
            if not opener.count:
                self._runs.pop()
        if opens and count:
            self._runs = [*self._runs[-_DEPTH_MAX:], _Run(mark, end - count, count)]

    def _opener(self, mark: str, count: int) -> _Run | None:
        """The nearest run that the marks close; those behind it stay open for good."""
        least = 2 if mark == "~" else 1
        for at in range(len(self._runs) - 1, -1, -1):
            opener = self._runs[at]
            if opener.mark == mark and min(opener.count, count) >= least:
                del self._runs[at + 1 :]
                return opener
        return None
