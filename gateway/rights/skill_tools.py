"""The names of the tools about skills; and of every tool, whether a profile's list lets it be called, what switches it, and what
it can do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

LOAD: Final = "load_skill"
UNLOAD: Final = "unload_skill"
FIND: Final = "find_skills"
SAVE: Final = "save_skill_reference"
READ_ON: Final = "read_result"
"""Reads on in what a program gave: it reaches nothing that was not given before."""

ABOUT_SKILLS: Final = frozenset({LOAD, UNLOAD, FIND, SAVE, READ_ON})
"""A skill that narrows the tools leaves these."""
OF_THE_TALK: Final = frozenset({LOAD, UNLOAD})
"""What they change is what the model knows in this conversation, and nothing that anybody else has."""
COMES_WITH: Final[Mapping[str, str]] = {UNLOAD: LOAD, FIND: LOAD}
"""Tools that need no place of their own in a profile, and the tool that brings them."""
ALWAYS_ON: Final = frozenset({READ_ON, UNLOAD})
"""Nobody switches them off in a channel: one reads on in what was given before, the other only takes away."""

DOES: Final[Mapping[str, tuple[str, str]]] = {
    "run_command": ("once", "inside"),
    SAVE: ("once", "inside"),
    "web_fetch": ("read", "address"),
    "web_search": ("read", "free"),
}
"""Effect and reach of our tools (`workers.tools`), where a call can't be repeated or something of it leaves the house."""


def is_listed(name: str, listed: Collection[str]) -> bool:
    """Whether a profile that lists these tools lets this one be called."""
    return name == READ_ON or COMES_WITH.get(name, name) in listed


def switched_with(name: str) -> str:
    """The tool that admins switch this one with: mostly itself. Empty: it can't be switched off."""
    return "" if name in ALWAYS_ON else COMES_WITH.get(name, name)


def offered(listed: Iterable[str], *, has_skills: bool, is_whole: bool) -> list[str]:
    """Of the tools that a profile lists those that are of use, as they stand there; then those that come with them.

    `has_skills`: whether any may be loaded; `is_whole`: whether the list of skills shows all of them.
    """
    names = [name for name in listed if name not in COMES_WITH and (has_skills or name not in {LOAD, SAVE})]
    return names + [name for name, by in COMES_WITH.items() if by in names and not (name == FIND and is_whole)]
