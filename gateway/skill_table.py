"""The list of skills as people see it, in a terminal or a chat: what there is, what is in force, and if not, why.

Three forms, by the room there is: a table; a table with each summary on a line of its own; blocks of lines. Ids are
whole in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.access import CHANNEL, Here, SkillUse, may
from gateway.columns import cut, padded, width, widths
from gateway.phrases import say
from skills import ids
from skills.document import Head
from skills.folders import Fault, Skill
from skills.library import Catalogue, Library
from skills.visible import visible

Mark = Literal["●", "○", "✗"]
NONE: Final = "–"
HEADINGS: Final = ("", "id", "tier", "trust", "version", "summary")
SUMMARY_MIN: Final = 20
"""Columns: with less a summary says nothing beside its row."""
_INDENT: Final = "   "


@dataclass(frozen=True, slots=True)
class Row:
    """One skill, or what was meant to be one."""

    mark: Mark
    """`●` in force, `○` not in force here, `✗` broken."""
    id: str
    tier: str
    trust: str = NONE
    """`yes` or `no`; a dash where nobody has to say so."""
    version: str = NONE
    summary: str = ""
    """The description, or why it is not in force."""


def rows(library: Library, catalogue: Catalogue, why_not: str) -> list[Row]:
    """All skills of a snapshot in the order of their ids; those outside the catalogue say `why_not`."""
    found = [
        (key, Row("●", skill.id, skill.tier, NONE, _version(skill.head), _one_line(skill.head.summary)))
        if skill in catalogue
        else (key, Row("○", skill.id, skill.tier, NONE, _version(skill.head), why_not))
        for key, skill in library.skills.items()
    ]
    found += [
        (ids.key(fault.id), Row("✗", _one_line(fault.id or fault.place.name), fault.tier, summary=_why(fault)))
        for fault in library.faults
    ]
    return [row for _, row in sorted(found, key=lambda one: (one[0], one[1].mark))]


def rows_here(here: Here, language: str, *, unlisted: bool) -> list[Row]:
    """All skills as they are in one channel, bundles that wait too. What is not in force says why, in that language.

    `unlisted`: with those that the channel's profile does not list.
    """
    found = [(key, _row_here(here, skill, language)) for key, skill in here.library.skills.items()]
    found += [(key, _row_here(here, skill, language)) for key, skill in here.waiting.items()]
    found += [
        (
            ids.key(fault.id),
            Row("✗", _one_line(fault.id or fault.place.name), fault.tier, summary=_why_in(fault, language)),
        )
        for fault in here.library.faults
    ]
    listed = [one for one in found if unlisted or here.fits(one[0])]
    return [row for _, row in sorted(listed, key=lambda one: (one[0], one[1].mark))]


def _row_here(here: Here, skill: Skill, language: str) -> Row:
    verdict = may(None, here, SkillUse(skill, "load"))
    summary = "" if verdict.reason == "profile" else _one_line(skill.head.summary)
    if not verdict.allowed or verdict.as_data:
        why = say(f"skill.why.{verdict.reason}", language, rule=verdict.rule)
        summary = say("skill.why.then", language, why=why, summary=summary) if summary else why
    is_on = verdict.allowed or verdict.as_data
    trust = NONE if skill.tier != CHANNEL else "yes" if here.own.trusts(skill.id, skill.hash) else "no"
    return Row("●" if is_on else "○", skill.id, skill.tier, trust, _version(skill.head), summary)


def _why_in(fault: Fault, language: str) -> str:
    reason = fault.told
    return _one_line(say("skill.why.kept", language, reason=reason) if fault.kept else reason)


def behind_here(library: Library, language: str) -> list[str]:
    """A line for each skill that stands behind another of its id, in that language."""
    return [
        say(
            "skill.list.behind",
            language,
            id=one.by.id,
            tier=one.by.tier,
            version=version_of(one.by),
            other=one.skill.tier,
            old=version_of(one.skill),
        )
        for one in library.shadowed
    ]


def version_of(skill: Skill) -> str:
    """In one short line; a dash for none."""
    return _version(skill.head)


def behind(library: Library) -> list[str]:
    """A line for each skill that stands behind another of its id."""
    return [
        f"{one.by.id}: {one.by.tier} {_version(one.by.head)} takes the place of {one.skill.tier} {_version(one.skill.head)}"
        for one in library.shadowed
    ]


def lay_out(rows: Sequence[Row], columns: int | None, headings: Sequence[str] = HEADINGS) -> list[str]:
    """The list in pieces that should not be torn apart, in the widest form that `columns` allow.

    Without `columns` there is no fixed width, and each skill is a block of lines. The first piece of a table is its head.
    """
    cells = [tuple(headings), *((row.mark, row.id, row.tier, row.trust, row.version, row.summary) for row in rows)]
    room = widths([row[:-1] for row in cells])
    before = sum(room) + 2 * len(room)
    if columns is not None and before + SUMMARY_MIN <= columns:
        return [_line(row, room, columns) for row in cells]
    if columns is not None and before - 2 <= columns:
        head, *others = [_line((*row[:-1], ""), room, columns) for row in cells]
        summaries = (cut(row.summary, columns - len(_INDENT)) for row in rows)
        return [
            head,
            *(f"{line}\n{_INDENT}{text}" if text else line for line, text in zip(others, summaries, strict=True)),
        ]
    return ["\n".join(_block(row, columns, headings)) for row in rows]


def _line(row: Sequence[str], room: Sequence[int], columns: int) -> str:
    cells = [padded(cell, size) for cell, size in zip(row[:-1], room, strict=True)]
    start = "  ".join(cells) + "  "
    return (start + cut(row[-1], columns - width(start))).rstrip()


def _block(row: Row, columns: int | None, headings: Sequence[str]) -> Iterator[str]:
    """Lines of one skill. The id is never cut, however narrow it is."""
    yield f"{row.mark} {row.id}"
    facts = [row.tier]
    facts += [f"{headings[3]} {row.trust}"] if row.trust != NONE else []
    facts += [row.version] if row.version != NONE else []
    yield "  " + " · ".join(facts)
    if row.summary:
        yield "  " + (row.summary if columns is None else cut(row.summary, columns - 2))


def _version(head: Head) -> str:
    return cut(_one_line(head.text("version")), 12) or NONE


def _why(fault: Fault) -> str:
    return _one_line(fault.told + (" (the version before stays in force)" if fault.kept else ""))


def _one_line(text: str) -> str:
    """Nothing that could start a second row, or hide in one."""
    return re.sub(r"\s+", " ", visible(text)).strip()


def counted(rows: Sequence[Row]) -> Mapping[Mark, int]:
    """How many there are of each mark."""
    marks: tuple[Mark, ...] = ("●", "○", "✗")
    return {mark: sum(row.mark == mark for row in rows) for mark in marks}
