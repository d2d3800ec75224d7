"""Long Markdown in parts that each fit a platform's limit, cut where a reader would cut it."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

from gateway.text.spans import Span, spans

Measure = Callable[[str], int]
Written = TypeVar("Written")

FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
"""A line that may open or close a code block: the marks, and what follows them."""
_LANGUAGE: Final = re.compile(r"\S*(?:\s+(?:[-+{\[#.:].*|\S+=.*))?")
"""Behind an opening fence: one word, perhaps with attributes, which Markdown shows to nobody."""
DELIMITER_ROW: Final = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
"""The line below a table's head."""
_BORDERS: Final = ("\n\n", "\n", "。", "！", "？", "；", ". ", "! ", "? ", " ", "，")
"""Where to cut, best first; the border stays with the part before it."""
_LIMIT_LEAST: Final = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text. The `text` of all pieces joined is the whole; `before` and `after` mend what the cut broke."""

    text: str
    before: str = ""
    """Opens again the code block, or repeats the head of the table, that the cut went through."""
    after: str = ""
    """Closes the code block that goes on in the next piece."""

    def __str__(self) -> str:
        return f"{self.before}{self.text}{self.after}"


def chars(text: str) -> int:
    return len(text)


def utf16(text: str) -> int:
    """Length in UTF-16 code units, as several platforms count."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf8(text: str) -> int:
    return len(text.encode("utf-8"))


MEASURES: Final[dict[Literal["chars", "utf16", "bytes"], Measure]] = {"chars": chars, "utf16": utf16, "bytes": utf8}
"""By `Capabilities.limit_unit`."""


def words_of(info: str) -> str:
    """What stands behind an opening fence and is no language: words that somebody wants to be read."""
    return "" if _LANGUAGE.fullmatch(info := info.strip()) else info


def not_empty(text: str) -> str:
    """The text, or a sign for it where nothing in it can be seen: platforms refuse an empty message."""
    return text if text.strip() else "…"


def split(text: str, limit: int, measure: Measure = chars) -> list[Piece]:
    """Pieces of which each, mended, measures at most `limit`; one piece, perhaps empty, if all fits.

    Cuts are between paragraphs, else lines, sentences, words, and at last between graphemes; a grapheme that alone is
    over the limit is cut between its characters. No link, address or code within a line is cut that fits; bold, italic
    and strike are, where else a piece would be less than a third full. `measure` gives every character at least 1, and `limit` is at least
    16 and holds any one character.
    """
    pieces: list[Piece] = []
    before, start = "", 0
    while len(text) - start > limit or measure(before + text[start:]) > limit:
        end, after, again = _cut(before, text, start, limit, measure)
        pieces.append(Piece(text[start:end], before, after))
        before, start = again, end
    return [*pieces, Piece(text[start:], before)]


def fitting(
    markdown: str, limit: int, measure: Measure, write: Callable[[str], Written], size: Callable[[Written], int]
) -> list[tuple[str, Written]]:
    """The text in parts, each with its written form: neither the one, by `measure`, nor the other, by `size`, is over
    the limit. None where nothing can be seen.

    `limit` holds what `write` makes of any 16 characters.
    """

    def parts(text: str, room: int) -> Iterator[tuple[str, Written]]:
        for piece in split(text, room, measure):
            source = str(piece).strip("\n")
            written = write(source)
            if size(written) > limit and room > _LIMIT_LEAST:  # a table grows when it is aligned
                yield from parts(source, max(room // 2, _LIMIT_LEAST))
            elif size(written):
                yield source, written

    return list(parts(markdown, limit))


@dataclass(frozen=True, slots=True)
class _Block:
    """A code block or a table: it begins at `start`, its rows are from `body` to `tail`, it is over at `stop`."""

    start: int
    body: int
    tail: int
    stop: int
    head: str
    """What begins it again in the next piece."""
    mark: str
    """What closes it; nothing closes a table."""


def _cut(before: str, text: str, start: int, limit: int, measure: Measure) -> tuple[int, str, str]:
    """Where the piece that begins at `start` ends, what closes it, and what begins the next."""
    room = limit - measure(before)
    # To the end of the line in which the limit falls: a block's last line is known only when it is whole.
    seen = text[start : min(text.find("\n", start + limit) + 1 or len(text), start + 2 * limit)]
    blocks = _blocks(before, seen)
    whole = _whole(text[start : start + 2 * limit], blocks, limit, measure)
    reserve = 0
    while True:
        longest = _longest(seen[:limit], room - reserve, measure)
        end = _border(seen, longest, whole)
        block = next((one for one in blocks if one.start < end < one.stop), None)
        if block is None:
            return start + end, "", ""
        if block.start > 0 and (block.start >= longest // 3 or end <= block.body):
            return start + block.start, "", ""  # the whole block goes into the next piece
        line = seen.rfind("\n", 0, end) + 1
        if line == block.tail:  # nothing but its last line would be left of the block
            line = seen.rfind("\n", 0, line - 1) + 1
        if line > max(block.body, 0):
            end = line
        mends = measure(block.head) + len(block.mark) <= limit // 4 and end > block.body
        if not mends or not (block.mark or line == end):
            return start + end, "", ""  # its head is as long as a piece, or a row is: nothing to mend it with
        after = block.mark if line == end else f"\n{block.mark}"
        if not block.mark:
            return start + end, "", block.head
        if measure(seen[:end] + after) <= room:
            return start + end, after, block.head
        reserve = max(reserve + 1, len(after))


def _blocks(before: str, text: str) -> list[_Block]:
    """The code blocks and tables of a text that goes on after `before`."""
    found: list[_Block] = []
    begun: _Block | None = None
    previous = ""
    at = -len(before)
    for line in _lines(before + text):
        bare = line.rstrip("\n")
        fence = FENCE.fullmatch(bare)
        if begun and begun.mark:
            if fence and fence[1].startswith(begun.mark) and not fence[2].strip():
                found.append(replace(begun, tail=at, stop=at + len(line)))
                begun = None
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            if begun:
                found.append(replace(begun, tail=at, stop=at))
            # Words behind the fence are said once.
            head = bare[: fence.end(1)] if words_of(fence[2]) else bare
            begun = _Block(at, at + len(line), at, at, f"{head}\n", fence[1])
        elif begun:
            if "|" not in bare:
                found.append(replace(begun, tail=at, stop=at))
                begun = None
        elif "|" in previous and "|" in bare and DELIMITER_ROW.fullmatch(bare):
            begun = _Block(at - len(previous), at + len(line), at, at, f"{previous}{bare}\n", "")
        previous = line
        at += len(line)
    if begun:
        found.append(replace(begun, tail=at + 1, stop=at + 1))
    return found


def _lines(text: str) -> list[str]:
    """Lines by newlines alone, which stay at their ends."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [text[text.rfind("\n") + 1 :]]


def _longest(text: str, room: int, measure: Measure) -> int:
    """How many characters of the text fit; at least one."""
    low, high = 1, max(len(text), 1)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


class _Whole:
    """Stretches of a text that a cut should leave whole."""

    def __init__(self, stretches: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end, _ in sorted(stretches):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def before(self, at: int) -> int:
        """The last place to cut that is not behind `at`."""
        found = bisect_left(self._starts, at) - 1
        return self._starts[found] if found >= 0 and at < self._ends[found] else at


def _whole(text: str, blocks: Iterable[_Block], limit: int, measure: Measure) -> tuple[_Whole, _Whole]:
    """Of a text what is to be left whole, at best and at least."""
    code = [block for block in blocks if block.mark]
    found = [
        span
        for span in spans(text)
        if span.end - span.start <= limit
        and measure(text[span.start : span.end]) <= limit
        and not any(block.start <= span.start < block.stop for block in code)
    ]
    return _Whole(found), _Whole(span for span in found if not span.is_marks)


def _border(text: str, longest: int, whole: tuple[_Whole, _Whole]) -> int:
    """The best place to cut in the last two thirds of what fits; before them, if only there nothing whole is cut."""
    at_best, at_least = whole
    third = longest // 3
    return (
        _after_border(text, third, longest, at_best)
        or _after_grapheme(text, max(third, 1), longest, at_best)
        or _after_border(text, third, longest, at_least)
        or _after_grapheme(text, 1, longest, at_least)
        or _after_border(text, third, longest, _Whole([]))
        or _after_grapheme(text, 1, longest, _Whole([]))
        or longest
    )


def _after_border(text: str, low: int, high: int, whole: _Whole) -> int:
    """0 if there is none."""
    for border in _BORDERS:
        end = high
        while (at := text.rfind(border, low, end)) >= 0:
            end = at + len(border)
            uncut = whole.before(end)
            if uncut == end and not _looks_like_fence(text, end):
                return end
            end = min(uncut, end - 1)
    return 0


def _after_grapheme(text: str, low: int, high: int, whole: _Whole) -> int:
    """0 if there is none near."""
    end = high
    for _ in range(64):
        end = whole.before(end)
        if end < low:
            return 0
        if _between_graphemes(text, end):
            return end
        end -= 1
    return 0


def _looks_like_fence(text: str, at: int) -> bool:
    """Whether a piece that begins here would begin with a code block that is none in the whole."""
    return text[at - 1] != "\n" and text[at : at + 4].lstrip(" ").startswith(("`", "~"))


def _between_graphemes(text: str, at: int) -> bool:
    """Whether a cut here leaves what people see as one sign in one piece (the common rules of Unicode's UAX 29)."""
    if not 0 < at < len(text):
        return True
    left, right = text[at - 1], text[at]
    joined = (
        (left == right and left in "`~*_")  # marks that mean something only together
        or (left == "\r" and right == "\n")
        or (left == "\u200d" or right in "\u200c\u200d")
        or unicodedata.category(right) in {"Mn", "Me", "Mc"}
        or ("\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f")
        or _is_joined_hangul(left, right)
    )
    if joined:
        return False
    if _is_flag_half(left) and _is_flag_half(right):
        run = 0
        while run < at and _is_flag_half(text[at - 1 - run]):
            run += 1
        return run % 2 == 0
    return True


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_joined_hangul(left: str, right: str) -> bool:
    if "\u1100" <= left <= "\u115f":
        return "\u1100" <= right <= "\u11a7" or "\uac00" <= right <= "\ud7a3"
    return "\u1160" <= right <= "\u11ff" and ("\u1160" <= left <= "\u11ff" or "\uac00" <= left <= "\ud7a3")
