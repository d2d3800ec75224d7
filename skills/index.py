"""The index: the skills' lines in the system prompt, within a budget, and the rule of their use."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final

from config.profiles import Delivery
from skills.document import DESCRIPTION_MAX, cut_at_word
from skills.folders import Skill
from skills.library import Catalogue
from skills.marks import GUIDANCE, from_outside

SEARCH: Final = "The list is not whole: `find_skills` searches the whole descriptions of all skills."
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
    """Descriptions that are not whole, those of skills that are not shown included."""

    @property
    def is_whole(self) -> bool:
        return self.shown == self.total and not self.shortened

    @property
    def tokens(self) -> int:
        """About how long it is."""
        return math.ceil(tokens(self.text))


def lay_out(catalogue: Catalogue, max_tokens: int, order: Sequence[str] = (), delivery: Delivery = "message") -> Index:
    """One line a skill, then the rule. Those that fit a pattern of `order` come first, as the patterns do, then by id.

    Too long for `max_tokens`: all descriptions are shortened to one length, at a word; then they go; then, as a last
    way, so do the last names. Then the last line says how skills are searched. The rule is never cut.
    """
    skills = tuple(ordered(catalogue, order))
    if not skills:
        return Index("", 0, 0, 0)
    names = [line(skill, "") for skill in skills]
    use = rule(delivery)
    room = max_tokens - tokens(_text([], use))
    room_beside_search = max_tokens - tokens(_text([], use, SEARCH))
    if not _fits(names, room):  # of thousands, so no description needs a look
        return _first_names(names, use, room_beside_search)
    described = [summary(skill) for skill in skills]
    if _fits(whole := [line(skill, one) for skill, one in zip(skills, described, strict=True)], room):
        return Index(_text(whole, use), len(skills), len(skills), 0)
    if not _fits(names, room_beside_search):
        return _first_names(names, use, room_beside_search)
    return _shortened(skills, described, use, room_beside_search)


def _shortened(skills: Sequence[Skill], described: Sequence[str], use: str, room: float) -> Index:
    """All names, and of each description as much as there is room for, the same length for all."""

    def lines(limit: int) -> list[str]:
        return [line(skill, cut_at_word(one, limit)) for skill, one in zip(skills, described, strict=True)]

    longest = max(len(one) for one in described)
    low = 0
    for limit in range(longest.bit_length() - 1, -1, -1):
        longer = low + (1 << limit)
        low = longer if longer <= longest and _fits(lines(longer), room) else low
    low = low if low >= _DESCRIPTION_MIN else 0
    shortened = sum(len(one) > low for one in described)
    return Index(_text(lines(low), use, SEARCH), len(skills), len(skills), shortened)


def _first_names(names: Sequence[str], use: str, room: float) -> Index:
    """As many names as there is room for, and how many there are."""
    room -= tokens(_rest(len(names), len(names)) + "\n")
    used = accumulate(tokens(name + "\n") for name in names)
    shown = sum(1 for _ in takewhile(lambda so_far: so_far <= room, used))
    return Index(_text([*names[:shown], _rest(shown, len(names))], use, SEARCH), len(names), shown, len(names))


def ordered(catalogue: Catalogue, order: Sequence[str]) -> Iterator[Skill]:
    """All skills, those that fit one of the patterns in front. Of several patterns that fit, the first counts."""
    found = {id(skill): skill for pattern in order for skill in catalogue.fitting([pattern])}
    yield from found.values()
    yield from (skill for skill in catalogue.skills if id(skill) not in found)


def tokens(text: str) -> float:
    """An estimate on the safe side: four letters of ASCII a token, one of any other script."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return plain / 4 + len(text) - plain


def _fits(lines: list[str], room: float) -> bool:
    return tokens("\n".join(lines)) + 0.25 <= room


def _text(lines: list[str], *last: str) -> str:
    return "\n".join(["## Skills", "", *lines, "", *last])


def _rest(shown: int, total: int) -> str:
    return f"({shown} of {total} skills are listed.)"


def line(skill: Skill, description: str) -> str:
    """A skill as it stands in the list."""
    return f"- **{skill.id}**: {description}" if description.strip("…") else f"- **{skill.id}**"


def summary(skill: Skill) -> str:
    """Description and tags in one line, without characters that show nothing: a line can't pass for two."""
    tags = ", ".join(skill.head.tags)
    text = f"{skill.head.summary} [{tags}]" if tags else skill.head.summary
    is_plain = text.isprintable()  # and then its only white space is blanks
    if not is_plain:
        text = "".join(_shown(character) for character in text)
    if not is_plain or "  " in text:
        text = " ".join(text.split())
    return cut_at_word(from_outside(text.strip()), 2 * DESCRIPTION_MAX)


def _shown(character: str) -> str:
    if unicodedata.category(character) in {"Cc", "Zl", "Zp"}:
        return " "
    # The joiners are kept: emoji and Persian need them.
    hides = unicodedata.category(character) in {"Cf", "Cs", "Co", "Cn"} and character not in "\u200c\u200d"
    return "" if hides else character
