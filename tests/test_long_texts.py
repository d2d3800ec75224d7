"""Texts from outside that are made to keep a search busy: every reader takes one way through them.

A reader that goes back and forth needs minutes for these and ends in the time limit; others need a blink.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest

from gateway.commands import SPOKEN
from gateway.text import markdown, mrkdwn
from skills import danger, document, marks, parts, visible
from workers.agent import rehearsed

SIZE: Final = 60_000
LEAD: Final = "Guidance for the task in hand "
"""With it the closer look is taken."""
TEXTS: Final = {
    "a tag and nothing seen": "<" + "\u200b" * SIZE,
    "a tag, blanks and nothing seen": "<" + " \u200b" * SIZE,
    "a tag, blanks, a slash": "data <" + " " * SIZE + "/" + " " * SIZE,
    "a lead and blanks": "Guidance" + " " * SIZE,
    "a note and blanks": "deskmate (" + " " * SIZE + "deskmat",
    "a lead and elements": LEAD + "guidance<b g><b" * SIZE,
    "a lead and entities": LEAD + "guidance&nbsp;" * SIZE,
    "a lead and links": LEAD + "[guidance](guidance" * SIZE,
    "a lead and lines of others": LEAD + "\n> guidance \t" * SIZE,
    "a lead and emphasis": LEAD + "guidance_" + "_*`" * SIZE,
    "a note that is never told": "(deskmate: x) " + "(deskmate t" * SIZE,
    "accents": "guidance g" + "\u0301" * SIZE,
    "blanks": " " * SIZE + "x",
    "tabs and blanks": " \t" * SIZE,
    "lines": "\n" * SIZE,
    "stars": "*_" * SIZE,
    "fences": "~~~`" * SIZE,
    "brackets": "[a](" * SIZE,
    "cells": "| a " * SIZE + "\n" + "|-" * SIZE,
    "a command and blanks": "/help " + " " * SIZE + "\x00",
    "cells and blanks": "a|b\n-" + " " * SIZE + "x|",
    "addresses": "http://" * SIZE,
    "an address of questions": "![a](http://" + "?=" * SIZE,
    "an address of colons": "http://" + "a:" * SIZE,
    "digits": "1" * SIZE + "x",
}
READERS: Final[dict[str, Callable[[str], object]]] = {
    "from_outside": marks.from_outside,
    "of_skill": marks.of_skill,
    "enclosed": lambda text: marks.enclosed("x", text),
    "visible": visible.visible,
    "part": lambda text: parts.part(text, 0, 20_000),
    "prose": parts.prose,
    "document": lambda text: document.parse(f"---\nname: a\ndescription: {text}\n---\n{text}".encode(), "a"),
    "danger": lambda text: list(danger.signs(text, "x.md")),
    "mrkdwn read": mrkdwn.read,
    "mrkdwn write": mrkdwn.write,
    "split": lambda text: markdown.split(text, 4_000),
    "command": SPOKEN.match,
    "rehearsed": rehearsed.orders,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("reader", READERS)
def test_no_text_keeps_a_reader_busy(reader: str) -> None:
    for text in TEXTS.values():
        with suppress(document.BrokenSkill):
            READERS[reader](text)
