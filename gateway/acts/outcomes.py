"""Outcomes: what came of an act about skills, as values. Words are found by whoever tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.acts.skill_table import Count
from gateway.acts.standing import Standing
from gateway.shelf.decisions import Installed, Switch
from skills.differences import Difference
from skills.findings import Finding
from skills.folders import Fault, Skill
from skills.index import Index
from skills.notes import Note
from skills.summary import Change

DIGITS: Final = 12
"""How many digits of a hash people are shown: enough to tell two bundles apart."""


class Refusal(Exception):
    """It was not done, or is no longer so. `kind` is a fixed word, `values` are what there is to say about it."""

    def __init__(self, kind: str, /, **values: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.values = values


@dataclass(frozen=True, slots=True)
class Switched:
    room: str
    """Where: `connection/channel`; empty for the whole organisation."""
    id: str
    to: Switch
    standing: Standing | None = None
    """None: it can't be read, or `is_gone`."""
    is_gone: bool = False
    """There is nothing of this id now but its switch."""


@dataclass(frozen=True, slots=True)
class Trusted:
    room: str
    id: str
    hash: str
    standing: Standing
    behind: str = ""
    """The tier of the skill in whose place it stands now."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Added:
    room: str
    id: str
    hash: str
    version: str
    is_trusted: bool
    standing: Standing
    findings: tuple[Finding, ...] = ()
    replaces: Installed | None = None
    in_force: Skill | None = None
    """What answers to the id while the bundle waits."""
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    room: str
    id: str
    hash: str
    back: Skill | None = None
    """What answers to the id now."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What the folders hold now."""

    changes: tuple[Change, ...]
    """Since the reload before this one."""
    count: Count
    index: Index
    budget_tokens: int
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Since:
    hash: str
    difference: Difference | None
    """None: that bundle is not kept any more."""


@dataclass(frozen=True, slots=True)
class Shown:
    room: str
    skill: Skill
    standing: Standing
    waits: bool
    """For trust."""
    findings: tuple[Finding, ...]
    raw: bytes
    """Of the file that was asked for."""
    path: str
    behind: tuple[Skill, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Why a newer version of it is not in force."""
    since: Since | None = None
    """What is otherwise than in the bundle of its id that was trusted here last."""
    other: Skill | None = None
    """The other one of this id: what is in force while this bundle waits."""

    @property
    def digits(self) -> str:
        """What tells it from other bytes, for whoever is going to trust it."""
        return self.skill.hash[:DIGITS]


@dataclass(frozen=True, slots=True)
class Listed:
    """Notes of a channel and those of all channels, newest first."""

    waiting: tuple[Note, ...]
    kept: tuple[Note, ...]
    everywhere: tuple[Note, ...]
    timezone: str
    """In which their ends are told."""


NotedAs = Literal["shown", "approved", "rejected", "reverted", "ends", "promoted"]


@dataclass(frozen=True, slots=True)
class Noted:
    """A note, and what became of it."""

    what: NotedAs
    note: Note
    timezone: str
    """In which its end is told."""


Outcome = Switched | Trusted | Added | Removed | Reloaded | Shown | Listed | Noted
