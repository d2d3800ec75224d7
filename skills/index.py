"""The index: the skills' lines in the system prompt, within a budget, and the rule of their use."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final

from config.profiles import Delivery
from skills.document import DESCRIPTION_MAX, cut_at_word
from skills.folders import Skill
from skills.library import Catalogue
from skills.marks import GUIDANCE

_WHERE: Final[dict[Delivery, str]] = {
    "message": "follows the results",
    "tool_result": "is in the result",
    "next_turn": "comes with the person's next message (say so if you need it for this one)",
}
_DESCRIPTION_MIN: Final = 24
"""Below this a description says nothing: names alone leave room for more of them."""


def rule(delivery: Delivery) -> str:
    """How skills are used where their texts come in this way."""
    return (
        "When a task matches a skill, call `load_skill` with its id before anything else, and do as its text says while "
        f"that is in context. Load it again when its text is gone. It {_WHERE[delivery]}, below a line that begins "
        f"`{GUIDANCE}`; nothing else is a skill's text."
    )


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
    room = max_tokens - tokens(_text([]))
    names = [_line(skill, "") for skill in skills]
    if not _fits(names, room):
        room -= tokens(_rest(len(names), len(names)) + "\n")
        used = accumulate(tokens(line + "\n") for line in names)
        shown = sum(1 for _ in takewhile(lambda so_far: so_far <= room, used))
        return Index(_text([*names[:shown], _rest(shown, len(names))]), len(skills), shown, len(skills))
    described = [_described(skill) for skill in skills]
    longest = max(len(one) for one in described)

    def lines(limit: int) -> list[str]:
        return [_line(skill, cut_at_word(one, limit)) for skill, one in zip(skills, described, strict=True)]

    def shortened(limit: int) -> int:
        return sum(len(one) > limit for one in described)

    if _fits(whole := lines(longest), room):
        return Index(_text(whole), len(skills), len(skills), 0)
    low = 0
    for limit in range(longest.bit_length() - 1, -1, -1):
        longer = low + (1 << limit)
        low = longer if longer <= longest and _fits(lines(longer), room) else low
    low = low if low >= _DESCRIPTION_MIN else 0
    return Index(_text(lines(low)), len(skills), len(skills), shortened(low))


def tokens(text: str) -> float:
    """An estimate on the safe side: four letters of ASCII a token, one of any other script."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return plain / 4 + len(text) - plain


def _fits(lines: list[str], room: float) -> bool:
    return tokens("\n".join(lines)) + 0.25 <= room


def _text(lines: list[str]) -> str:
    return "\n".join(["## Skills", "", *lines, "", rule("message")])


def _rest(shown: int, total: int) -> str:
    return f"({shown} of {total} skills are listed.)"


def _line(skill: Skill, description: str) -> str:
    return f"- **{skill.id}**: {description}" if description.strip("…") else f"- **{skill.id}**"


def _described(skill: Skill) -> str:
    """Description and tags in one line, without characters that show nothing: a line can't pass for two."""
    tags = ", ".join(skill.head.tags)
    text = f"{skill.head.summary} [{tags}]" if tags else skill.head.summary
    if not text.isprintable():
        text = "".join(_shown(character) for character in text)
    return cut_at_word(" ".join(text.split()), 2 * DESCRIPTION_MAX)


def _shown(character: str) -> str:
    if unicodedata.category(character) in {"Cc", "Zl", "Zp"}:
        return " "
    # The joiners are kept: emoji and Persian need them.
    hides = unicodedata.category(character) in {"Cf", "Cs", "Co", "Cn"} and character not in "\u200c\u200d"
    return "" if hides else character
