"""Telling: what the log of the process that packs says of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.shelf.snapshot import Entry, Snapshot
from skills import document, lint, summary
from skills.folders import Skill
from skills.index import lay_out
from skills.library import Library, resolve

LINES_MAX: Final = 500
"""More is not told in the log; the list of skills has all."""

Known = Mapping[tuple[str, str, str], Skill]
"""By tier, id and hash."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the log says of a snapshot."""

    figures: str
    lines: Sequence[str]
    warnings: Sequence[str]


def told(now: Snapshot, known: Known, before: Snapshot | None, known_before: Known, budget_tokens: int) -> Told:
    """At first all skills, later what is otherwise than before. Those that are not `known` count for no figure."""
    library = _library(now, known)
    figures = summary.figures(library, lay_out(library.catalogue(["*"]), budget_tokens), budget_tokens)
    if before is None:
        return Told(figures, summary.lines(library)[:LINES_MAX], _remarks(library))
    last = _library(before, known_before)
    lines = [str(change) for change in summary.changes(last.skills, library.skills)]
    told_already = set(_remarks(last))
    warnings = [remark for remark in _remarks(library) if remark not in told_already]
    return Told(figures, lines[:LINES_MAX], warnings)


def known_of(now: Snapshot, found: Iterable[Skill], before: Known) -> Known:
    """The skills of a snapshot: as they were found, or as they were known before."""
    fresh = {(one.tier, one.id, one.hash): one for one in found}
    names = [(one.tier, one.id, one.hash) for one in now.entries]
    return {name: skill for name in names if (skill := fresh.get(name) or before.get(name))}


def _library(snapshot: Snapshot, known: Known) -> Library:
    def skill_of(entry: Entry) -> Skill | None:
        return known.get((entry.tier, entry.id, entry.hash))

    skills = [skill for entry in snapshot.in_order if (skill := skill_of(entry))]
    return resolve([skills], snapshot.faults, snapshot.warnings)


def _remarks(library: Library) -> list[str]:
    of_heads = (
        f"{skill.folder / document.NAME}, line {remark.line}: {remark.text}"
        for skill in library.skills.values()
        for remark in lint.remarks(skill.head)
    )
    return [*map(str, library.faults), *library.warnings, *of_heads][:LINES_MAX]
