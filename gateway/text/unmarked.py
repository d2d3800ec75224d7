"""Words of the chat where nothing makes Markdown look like something: in a terminal, on a page, in an answer to a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MARKS: Final = re.compile(r"`([^`]*)`|\*\*")
_FENCE: Final = re.compile(r"`{3,}")


def plain(markdown: str) -> str:
    """Without the marks of bold, code and code blocks; what stands in a block stays as it is."""
    return unmarked(markdown, lambda code: code)


def unmarked(markdown: str, code: Callable[[str], str]) -> str:
    """The same, with what stood as code made into something else."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        if fence and line == fence:
            fence = ""
        elif fence:
            lines.append(line)
        elif block := _FENCE.match(line):
            fence = block[0]
        else:
            lines.append(_MARKS.sub(lambda mark: "" if mark[1] is None else code(mark[1]), line))
    return "\n".join(lines)
