"""The list of skills as people see it, in a terminal or a chat: what there is, what is in force, and if not, why.

Three forms, by the room there is: a table; a table with each summary on a line of its own; blocks of lines. Ids are
whole in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.phrases import phrases, say
from gateway.rights.access import CHANNEL, Here, SkillUse, Verdict, may
from gateway.text.columns import cut, padded, width, widths, wrapped
from skills import ids
from skills.document import cut_at_word
from skills.folders import Fault, Skill
from skills.library import Shadowed
from skills.visible import one_line

Mark = Literal["●", "○", "✗"]
NONE: Final = "–"
HEADINGS: Final = ("", "id", "tier", "trust", "version", "summary")
SUMMARY_MAX: Final = 200
"""Characters of a description that are shown."""
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
    """The description."""
    why: str = ""
    """Why it is not in force, and what else to know before one trusts it. Unlike a summary it is never cut."""

    @property
    def reason(self) -> str:
        return f"({self.why})" if self.why and self.summary else self.why

    @property
    def text(self) -> str:
        return f"{self.reason} {self.summary}".strip()


@dataclass(frozen=True, slots=True)
class Count:
    """How many skills there are, wherever people are told: in the list, after a reload, on the command line."""

    on: int
    """In force."""
    total: int
    """That can be read, bundles that wait among them."""
    broken: int

    def told(self, language: str) -> str:
        form = "skill.count.broken" if self.broken else "skill.count"
        return say(form, language, on=self.on, total=self.total, broken=self.broken)


def count(here: Here, *, unlisted: bool) -> Count:
    """Of `everything` in a channel."""
    every = everything(here, unlisted=unlisted)
    faults = sum(isinstance(one, Fault) for one in every)
    return Count(len(here.catalogue.skills), len(every) - faults, faults)


def everything(here: Here, *, unlisted: bool) -> list[Skill | Fault]:
    """All that is or was meant as a skill in a channel, by id; bundles that wait too. What is in force although something
    is wrong with it is there once.

    `unlisted`: with what the channel's profile does not list.
    """
    beside = here.library.beside
    faults = [one for one in here.library.faults if beside.get((one.tier, ids.key(one.id))) is not one]
    found: list[Skill | Fault] = [*here.library.skills.values(), *here.waiting.values(), *faults]
    keyed = [(ids.key(one.id), isinstance(one, Fault), at) for at, one in enumerate(found)]
    return [found[at] for key, _, at in sorted(keyed) if unlisted or here.fits(key)]


def row(here: Here, one: Skill | Fault, language: str, harmful: Collection[str] = ()) -> Row:
    """As it is in a channel. What is not in force says why, in that language. `harmful`: hashes of bundles in which the
    scan found signs of harm.
    """
    if isinstance(one, Fault):
        return Row("✗", one_line(one.id or one.place.name), one.tier, why=broken(one, language))
    verdict = may(None, here, SkillUse(one, "load"))
    return Row(
        "●" if verdict.allowed or verdict.as_data else "○",
        one.id,
        one.tier,
        NONE if one.tier != CHANNEL else "yes" if here.own.trusts(one.id, one.hash) else "no",
        version_of(one),
        "" if verdict.reason == "profile" else cut_at_word(one_line(one.head.summary), SUMMARY_MAX),
        "; ".join(_remarks(here, one, verdict, language, is_harmful=one.hash in harmful)),
    )


def _remarks(here: Here, skill: Skill, verdict: Verdict, language: str, *, is_harmful: bool) -> Iterator[str]:
    if is_harmful:
        yield "⚠ " + say("skill.list.signs", language)
    if verdict.reason != "allowed":
        yield one_line(say(f"skill.why.{verdict.reason}", language, rule=verdict.rule))
    if fault := here.library.beside.get((skill.tier, ids.key(skill.id))):
        yield broken(fault, language)
    elif skill.no_program:
        yield one_line(skill.no_program)
    if skill.tier == CHANNEL and skill.program:
        yield say("skill.list.program", language, effect=skill.program.effect)


def broken(fault: Fault, language: str) -> str:
    """What is wrong, in one line; and that the version before is in force, where that is so."""
    reason = one_line(fault.told)
    return say("skill.why.kept", language, reason=reason) if fault.kept else reason


def behind(shadowed: Iterable[Shadowed], language: str) -> list[str]:
    """A line for each skill that stands behind another of its id, in that language."""
    return [
        say(
            "skill.list.behind",
            language,
            id=one.by.id,
            now=edition(one.by, language),
            other=edition(one.skill, language),
        )
        for one in shadowed
    ]


def tier_in(tier: str, language: str) -> str:
    """A tier in a sentence: its fixed word, and what that means where people speak another language."""
    key = f"skill.tier.{tier}"
    return say(key, language) if key in phrases("en") else tier


def edition(skill: Skill, language: str) -> str:
    """`org 1.2`, or `org` where no version is given."""
    version = version_of(skill)
    return tier_in(skill.tier, language) + (f" {version}" if version != NONE else "")


def version_of(skill: Skill) -> str:
    """In one short line, a dash for none. Its author may write anything: nothing that is markup in a chat is left of it."""
    plain = re.sub(r"[^\w.+-]+", " ", one_line(skill.head.text("version"))).strip()
    return cut(plain, 12) or NONE


def lay_out(rows: Sequence[Row], columns: int | None, headings: Sequence[str] = HEADINGS) -> list[str]:
    """The list in pieces that should not be torn apart, in the widest form that `columns` allow.

    Without `columns` there is no fixed width, and each skill is a block of lines. The first piece of a table is its head.
    """
    cells = [(row.mark, row.id, row.tier, row.trust, row.version) for row in rows]
    room = widths([tuple(headings[:-1]), *cells])
    taken = sum(room) + 2 * (len(room) - 1)
    if columns is None or taken > columns:
        return ["\n".join(_block(row, columns, headings)) for row in rows]
    beside = columns - taken - 2
    head = _line(headings[:-1], room) + (f"  {headings[-1]}" if beside >= SUMMARY_MIN else "")
    return [
        head.rstrip(),
        *(_row(row, _line(cell, room), beside, columns) for row, cell in zip(rows, cells, strict=True)),
    ]


def _line(cells: Sequence[str], room: Sequence[int]) -> str:
    return "  ".join(padded(cell, size) for cell, size in zip(cells, room, strict=True))


def _row(row: Row, start: str, beside: int, columns: int) -> str:
    """A row with its text beside it, or below where that has no room."""
    if beside >= SUMMARY_MIN and width(row.reason) <= beside:
        return f"{start}  {cut(row.text, beside)}".rstrip()
    return "\n".join([start.rstrip(), *(f"{_INDENT}{line}" for line in _below(row, columns - len(_INDENT)))])


def _below(row: Row, columns: int) -> list[str]:
    """The text in one line; a reason that is longer in several."""
    if row.why and width(row.reason) > columns:
        return wrapped(row.why, columns)
    return [cut(row.text, columns)] if row.text else []


def _block(row: Row, columns: int | None, headings: Sequence[str]) -> Iterator[str]:
    """Lines of one skill. The id is never cut, however narrow it is."""
    yield f"{row.mark} {row.id}"
    facts = [row.tier]
    facts += [f"{headings[3]} {row.trust}"] if row.trust != NONE else []
    facts += [row.version] if row.version != NONE else []
    yield "  " + " · ".join(facts)
    yield from (f"  {line}" for line in ([row.text] if columns is None else _below(row, columns - 2)) if line)
