"""Text in columns of a fixed-width font: what a terminal and a code block in a chat show."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def width(text: str) -> int:
    """Columns: Chinese signs and emoji take two, combining marks and what is invisible none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(one) in {"Mn", "Me", "Cf"} else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def padded(text: str, columns: int) -> str:
    """With blanks behind it, up to `columns`. Longer text stays whole."""
    return text + " " * (columns - width(text))


def cut(text: str, columns: int) -> str:
    """At most `columns` of it, with an ellipsis where it was longer."""
    if width(text) <= columns:
        return text
    kept = ""
    taken = 1  # the ellipsis
    for character in text:
        taken += width(character)
        if taken > columns:
            break
        kept += character
    return kept.rstrip() + "…" if columns > 0 else ""


def wrapped(text: str, columns: int) -> list[str]:
    """All of it in lines of at most `columns`, cut between words where they are not longer than a line."""
    lines = [""]
    for word in text.split():
        line = f"{lines[-1]} {word}" if lines[-1] else word
        if width(line) <= columns:
            lines[-1] = line
            continue
        lines += [""] if lines[-1] else []
        for character in word:
            if lines[-1] and width(lines[-1] + character) > columns:
                lines.append("")
            lines[-1] += character
    return lines


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Of each column, the widest cell."""
    return [max(map(width, column)) for column in zip(*rows, strict=True)]
