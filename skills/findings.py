"""A finding: something about a skill that its author, or whoever is to trust it, should know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One of them. It works all the same."""

    kind: str
    """A fixed word, such as `description_no_when`."""
    text: str
    """One line for people, with nothing hidden in it."""
    file: str = "SKILL.md"
    line: int = 1
    danger: bool = False
    """A sign of harm, not of weakness."""
