"""Words of the chat in a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MARKS: Final = re.compile(r"`([^`]*)`|\*\*")
_FENCE: Final = re.compile(r"`{3,}")
_IN_CHAT: Final = "/skill "


def plain(markdown: str) -> str:
    """Without the marks of bold, code and code blocks; what stands in a block stays as it is."""
    return _told(markdown, lambda code: code)


def typed(markdown: str, channel: str | None) -> str:
    """The same, with commands of the chat as they are typed here for that channel."""
    place = f" --channel {channel}" if channel else ""
    return _told(
        markdown,
        lambda code: f"`deskmate skills {code.removeprefix(_IN_CHAT)}{place}`" if code.startswith(_IN_CHAT) else code,
    )


def _told(markdown: str, code: Callable[[str], str]) -> str:
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
