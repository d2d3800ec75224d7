"""Each row has a test that names it, here or where the thing itself is tested."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
ROWS: Final = {
    "S-I1": "names, user names and look-alikes of an admin's",
    "S-I3": "ids of groups, channels, threads and bots that equal a listed person's",
    "S-I4": "no sender id, or half of one",
    "S-I5": "an empty list, a list of nothing, a list elsewhere",
    "S-I6": "each way in, with a member's id, asks for what an admin may",
    "S-I8": "an admin says yes to a text that somebody else put there",
    "S-I9": "a member says that an admin said so",
    "S-I10": "a tool that the profile does not list, by any name",
    "S-I11": "a tool or a skill that is taken away in the midst of a turn",
    "S-I13": "arguments that name another conversation, person or channel",
    "S-I14": "a turn that goes on later has the rights of now",
    "S-A1": "a word of somebody who has none",
    "S-A2": "a code of another request, channel or time",
    "S-A4": "arguments that hide something",
    "S-A5": "what runs is not what was said yes to",
    "S-A6": "so many requests that nobody looks",
    "S-A7": "a yes for more than one call",
    "S-L1": "a message that looks like lines of a log",
    "S-L2": "secrets in logs, prompts and what is stored",
    "S-L3": "an exception that holds a token",
    "S-L5": "a model that prints what it was told",
}


def named() -> set[str]:
    """Rows that stand in a docstring or a comment of a test."""
    found: set[str] = set()
    for file in TESTS.rglob("test_*.py"):
        if file != Path(__file__):
            found |= set(re.findall(r"S-[IAL]\d+", file.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_a_test_that_names_it(row: str) -> None:
    assert row in named(), ROWS[row]


def test_nothing_is_named_that_is_no_row() -> None:
    assert named() <= set(ROWS)
