"""Keeping: what stays published though the folders say otherwise, so that nobody takes a skill away by accident.

What was published is the memory of what was good: it outlives the process that looked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gateway.shelf.snapshot import Entry, Snapshot, snapshot_of
from skills import document, ids
from skills.folders import NO_PROGRAM, Fault
from skills.library import Found

GONE_S: Final = 10.0
"""A skill whose SKILL.md alone is gone stays this long: editors and checkouts take it away for a moment. Who deletes it
on purpose need not wait: a reload takes what is there."""
WRITING_S: Final = 10.0
"""After so long people are told that somebody writes all the time."""
EMPTY: Final = "it is empty, as what an unmount leaves: its skills stay until there are others, or somebody reloads"

Name = tuple[str, str]
"""Tier and id."""


class Keeping:
    """One a process that packs: it remembers since when something is not as it should be."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, Name], float] = {}
        self.due_s = math.inf
        """When `over` has another answer, though nothing changes in the folders."""

    def over(self, found: Found, before: Snapshot, now_s: float, *, wished: bool) -> Snapshot:
        """What was found, and what stays of `before`.

        Somebody `wished` for what is there: it is taken as it is, but for what can't be read or is being written.
        """
        now = _with_programs_that_worked(snapshot_of(found.skills, found.faults, found.warnings), before)
        there = {(one.tier, one.id) for one in now.entries}
        gone = {(one.tier, one.id): one for one in before.entries if (one.tier, one.id) not in there}
        broken = gone.keys() & {(fault.tier, fault.id) for fault in now.faults}
        faults = [replace(one, kept=True) if (one.tier, one.id) in broken else one for one in now.faults]
        bare = gone.keys() & found.sorting if gone else set[Name]()
        self._remember(now_s, writing=found.moving, gone=bare)

        kept = broken | (gone.keys() & found.moving)
        faults += [
            _fault(found, name, "writing", "somebody is writing to it", is_kept=name in kept)
            for name in sorted(found.moving)
            if not self._is_new("writing", name, now_s, WRITING_S) or wished
        ]
        if not wished:
            for root in found.empty:
                if lost := {name for name in gone if name[0] == root.tier}:
                    kept |= lost
                    faults.append(Fault("", root.tier, root.path, "empty", EMPTY, kept=True))
            for name in sorted(bare):
                if self._is_new("gone", name, now_s, GONE_S):
                    kept.add(name)
                    faults.append(_fault(found, name, "gone", f"{document.NAME} is gone", is_kept=True))
        stays = [gone[name] for name in kept]
        return Snapshot(_in_order([*now.entries, *stays]) if stays else now.entries, tuple(faults), now.warnings)

    def _remember(self, now_s: float, **names: Iterable[Name]) -> None:
        known = self._since_s
        cases = [(kind, name) for kind, each in names.items() for name in each]
        self._since_s = {case: known.get(case, now_s) for case in cases}
        self.due_s = math.inf

    def _is_new(self, kind: str, name: Name, now_s: float, for_s: float) -> bool:
        until_s = self._since_s[kind, name] + for_s
        if until_s <= now_s:
            return False
        self.due_s = min(self.due_s, until_s)
        return True


def _with_programs_that_worked(now: Snapshot, before: Snapshot) -> Snapshot:
    """`now`, and in the place of each skill whose program can't be used the version of `before`, where that one's could."""
    known = {(one.tier, one.id): one for one in before.entries}
    never = {(one.tier, one.id) for one in before.faults if one.kind == NO_PROGRAM and not one.kept}
    wanted = {(one.tier, one.id) for one in now.faults if one.kind == NO_PROGRAM} - never
    kept = {
        (one.tier, one.id): last
        for one in now.entries
        if (one.tier, one.id) in wanted and (last := known.get((one.tier, one.id))) and last.bundle != one.bundle
    }
    if not kept:
        return now
    entries = tuple(kept.get((one.tier, one.id), one) for one in now.entries)
    faults = tuple(replace(one, kept=True) if (one.tier, one.id) in kept else one for one in now.faults)
    return Snapshot(entries, faults, now.warnings)


def _fault(found: Found, name: Name, kind: str, reason: str, *, is_kept: bool) -> Fault:
    tier, id_ = name
    place = next(root.path for root in found.roots if root.tier == tier) / id_
    return Fault(id_, tier, place, kind, reason, kept=is_kept)


def _in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """As they are found in the folders, so that one that stays is at its place."""
    return tuple(sorted(entries, key=lambda one: (one.tier != "builtin", ids.key(one.id), one.id)))
