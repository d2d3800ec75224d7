"""The index: the skills' lines in the system prompt, within a budget, and the rule of their use."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from skills.document import DESCRIPTION_MAX, cut_at_word
from skills.folders import Skill
from skills.library import Catalogue

RULE: Final = (
    "When a task matches a skill, call `load_skill` with its id before anything else, and do as its text says while "
    "that is in context. Load it again when its text is gone."
)
_DESCRIPTION_MIN: Final = 24
"""Below this a description says nothing: names alone leave room for more of them."""


@dataclass(frozen=True, slots=True)
class Index:
    """The section as the model gets it, and what it took to fit."""

    text: str
    total: int
    shown: int
    shortened: int
    """Descriptions that are not whole."""


def section(catalogue: Catalogue, max_tokens: int) -> str:
    """The index as text; empty when there are no skills."""
    return lay_out(catalogue, max_tokens).text


def lay_out(catalogue: Catalogue, max_tokens: int) -> Index:
    """One line a skill, then the rule. Too long for `max_tokens`: all descriptions are shortened to one length, at a
    word; then they go; then, as a last way, so do the last names, and the section says so. The rule is never cut.
    """
    skills = catalogue.skills
    if not skills:
        return Index("", 0, 0, 0)
    described = [_described(skill) for skill in skills]
    longest = max(len(one) for one in described)
    room = max_tokens - tokens(_text([])) - 1

    def lines(limit: int) -> list[str]:
        return [_line(skill, cut_at_word(one, limit)) for skill, one in zip(skills, described, strict=True)]

    def fits(some: list[str]) -> bool:
        return sum(tokens(line + "\n") for line in some) <= room

    low, high = _DESCRIPTION_MIN - 1, longest
    if fits(lines(high)):
        low = high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(lines(middle)) else (low, middle)
    if low >= _DESCRIPTION_MIN or low == longest:
        return Index(_text(lines(low)), len(skills), len(skills), sum(len(one) > low for one in described))
    names = [_line(skill, "") for skill in skills]
    if not fits(names):
        room -= tokens(_rest(len(skills), len(skills)))
        while names and not fits(names):
            names.pop()
    return Index(_text(names, _rest(len(names), len(skills))), len(skills), len(names), len(skills))


def tokens(text: str) -> float:
    """An estimate on the safe side: four letters of ASCII a token, one of any other script."""
    plain = sum(character < "\x80" for character in text)
    return plain / 4 + len(text) - plain


def _text(lines: list[str], rest: str = "") -> str:
    return "\n".join(["## Skills", "", *lines, *([rest] if rest else []), "", RULE])


def _rest(shown: int, total: int) -> str:
    return f"({shown} of {total} skills are listed.)" if shown < total else ""


def _line(skill: Skill, description: str) -> str:
    return f"- **{skill.id}**: {description}" if description else f"- **{skill.id}**"


def _described(skill: Skill) -> str:
    """Description and tags in one line, without characters that show nothing: a line can't pass for two."""
    tags = ", ".join(skill.document.tags)
    text = f"{skill.document.summary} [{tags}]" if tags else skill.document.summary
    visible = (" " if unicodedata.category(one) in {"Cc", "Zl", "Zp"} else one for one in text if not _hides(one))
    return cut_at_word(" ".join("".join(visible).split()), 2 * DESCRIPTION_MAX)


def _hides(character: str) -> bool:
    # The joiners are kept: emoji and Persian need them.
    return unicodedata.category(character) in {"Cf", "Cs", "Co", "Cn"} and character not in "\u200c\u200d"
