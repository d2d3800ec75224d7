"""The summary of a library: what the log tells of it after a start or a reload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from skills import ids
from skills.index import Index
from skills.library import Library
from skills.visible import one_line


def lines(library: Library) -> list[str]:
    """A line for each skill that is in force, with the length of its description, and for each that is broken, by id."""
    found = [
        (key, f"● {skill.id}  {skill.tier}  {len(skill.head.description):,} characters")
        for key, skill in library.skills.items()
    ]
    found += [
        (ids.key(fault.id), f"✗ {one_line(fault.id or fault.place.name)}  {fault.tier}  ({one_line(fault.told)})")
        for fault in library.faults
    ]
    return [line for _, line in sorted(found)]


def figures(library: Library, index: Index, budget_tokens: int) -> str:
    """In one line: how many skills the index is of, and what room it takes. `budget_tokens`: how long it may be."""
    told = [f"{index.total} of {len(library.skills)} skills on"]
    told += [f"{len(library.faults)} broken"] if library.faults else []
    told += [f"list of {index.tokens:,} of {budget_tokens:,} tokens"]
    told += [f"{index.shortened} descriptions shortened"] if index.shortened else []
    told += [f"{index.shown} of {index.total} named"] if index.shown < index.total else []
    return ", ".join(told)


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
