"""The summary of a library: what a start or a reload tells, for the log and for chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from skills import ids
from skills.folders import Fault, Skill
from skills.index import Index
from skills.library import Catalogue, Library
from skills.visible import one_line

Mark = Literal["●", "○", "✗"]
"""In force; there and not in force; broken."""


@dataclass(frozen=True, slots=True)
class Row:
    """One skill, or what was meant to be one."""

    mark: Mark
    id: str
    tier: str
    description_characters: int = 0
    """As parsed, uncut."""
    why: str = ""
    """Why it is not in force, or what is wrong with it."""

    def __str__(self) -> str:
        length = f"  {self.description_characters:,} characters" if self.mark != "✗" else ""
        return f"{self.mark} {self.id}  {self.tier}{length}" + (f"  ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class Summary:
    """A library as one profile or channel has it."""

    rows: tuple[Row, ...]
    """By id; broken ones included."""
    index: Index
    budget_tokens: int
    """How long the index may be."""

    @property
    def on(self) -> int:
        """How many are in force."""
        return self._counted("●")

    @property
    def total(self) -> int:
        """How many could be."""
        return self.on + self._counted("○")

    @property
    def broken(self) -> int:
        """How many folders are no skill."""
        return self._counted("✗")

    def _counted(self, mark: Mark) -> int:
        return sum(row.mark == mark for row in self.rows)

    def __str__(self) -> str:
        """The figures in one line."""
        index = self.index
        figures = [f"{self.on} of {self.total} skills on"]
        figures += [f"{self.broken} broken"] if self.broken else []
        figures += [f"list of {index.tokens:,} of {self.budget_tokens:,} tokens"]
        figures += [f"{index.shortened} descriptions shortened"] if index.shortened else []
        figures += [f"{index.shown} of {index.total} named"] if index.shown < index.total else []
        return ", ".join(figures)


def summarise(
    library: Library,
    catalogue: Catalogue,
    index: Index,
    budget_tokens: int,
    why_not: Callable[[Skill], str] = lambda _: "",
) -> Summary:
    """`why_not` says of a skill outside the catalogue why it is not in force there."""
    rows = [_row(skill, "" if skill in catalogue else why_not(skill), catalogue) for skill in library.skills.values()]
    rows += [
        Row("✗", one_line(fault.id or fault.place.name), fault.tier, why=_reason(fault)) for fault in library.faults
    ]
    return Summary(tuple(sorted(rows, key=lambda row: (ids.key(row.id), row.mark))), index, budget_tokens)


def _row(skill: Skill, why: str, catalogue: Catalogue) -> Row:
    return Row("●" if skill in catalogue else "○", skill.id, skill.tier, len(skill.head.description), why)


def _reason(fault: Fault) -> str:
    where = f"{Path(fault.place).name}{f' line {fault.line}' if fault.line else ''}"
    return one_line(f"{where}: {fault.reason}" + (" (the version before it stays in force)" if fault.kept else ""))


@dataclass(frozen=True, slots=True)
class Change:
    """What a reload did to one id."""

    id: str
    kind: Literal["new", "gone", "replaced", "changed"]
    """`replaced`: another tier's skill has the id now."""
    tier: str
    """Where it comes from now; of one that is gone, where it came from."""
    was: str = ""
    """The tier before, where the id was replaced."""

    def __str__(self) -> str:
        return f"{self.id}: {self.tier}, " + (f"was {self.was}" if self.kind == "replaced" else self.kind)


class Version(Protocol):
    """What tells what an id stands for: a skill, or what is known of one."""

    @property
    def id(self) -> str: ...
    @property
    def tier(self) -> str: ...
    @property
    def hash(self) -> str: ...


def changes(before: Mapping[str, Version], after: Mapping[str, Version]) -> Iterator[Change]:
    """What is otherwise than before, by `ids.key` of the id. Nothing for a skill whose files are the same."""
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if new is None and old is not None:
            yield Change(old.id, "gone", old.tier)
        elif new is not None and old is None:
            yield Change(new.id, "new", new.tier)
        elif old is not None and new is not None and old.tier != new.tier:
            yield Change(new.id, "replaced", new.tier, old.tier)
        elif old is not None and new is not None and (old.hash, old.id) != (new.hash, new.id):
            yield Change(new.id, "changed", new.tier)
