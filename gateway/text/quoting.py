"""Words of others in Markdown of ours, so that they can be read and are nothing else; and long lists, cut."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.phrases import say
from skills.visible import one_line

QUOTED_MAX = 600


def quoted(text: str, most: int = QUOTED_MAX) -> str:
    """As code: in one line, nothing hidden, nothing in it markup, and at most so many characters."""
    return f"`{one_line(text.replace('`', chr(39)))[:most]}`"


def fenced(text: str) -> str:
    """As a code block, whatever it holds."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def few(found: Iterable[str], most: int, language: str) -> list[str]:
    """The first ones, and how many more there are."""
    every = list(found)
    rest = [say("skill.more", language, count=len(every) - most)] if len(every) > most else []
    return [*every[:most], *rest]
