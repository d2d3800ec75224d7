"""Snapshots: the numbered, immutable set of all skills that the folders hold, as one text in Redis.

A snapshot names bundles by their hash and holds none of their bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from gateway.stored import mapping
from skills import ids
from skills.folders import Fault, Skill


@dataclass(frozen=True, slots=True)
class Entry:
    """One skill of a folder."""

    tier: str
    id: str
    bundle: str
    """Its hash."""
    place: str
    """Where it lay on the machine that packed it."""
    warnings: tuple[str, ...]

    @property
    def hash(self) -> str:
        return self.bundle


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Whatever lay in the folders of all tiers, the shadowed too, at one moment."""

    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]

    def dump(self) -> str:
        faults = [(*astuple(one)[:2], str(one.place), *astuple(one)[3:]) for one in self.faults]
        entries = [
            (one.tier, one.id, one.bundle, one.place, one.warnings) for one in self.entries
        ]  # quicker than astuple
        return json.dumps({"skills": entries, "faults": faults, "warnings": self.warnings}, ensure_ascii=False)

    @classmethod
    def load(cls, text: str | bytes) -> Snapshot:
        """Raises `ValueError`."""
        try:
            read = mapping(text)
            return cls(
                tuple(map(_entry, read["skills"])),
                tuple(
                    Fault(name, tier, Path(place), kind, reason, line, kept)
                    for name, tier, place, kind, reason, line, kept in read["faults"]
                ),
                tuple(read["warnings"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no snapshot: {error}") from error

    @property
    def in_order(self) -> Sequence[Entry]:
        """Earlier tiers first."""
        return sorted(self.entries, key=lambda one: one.tier != "builtin")

    @property
    def in_force(self) -> Mapping[str, Entry]:
        """By `ids.key` of the id, without those that stand behind others or look like them."""
        found: dict[str, Entry] = {}
        looks: dict[str, str] = {}
        for entry in self.in_order:
            key = ids.key(entry.id)
            if looks.setdefault(ids.skeleton(key), key) == key:
                found[key] = entry
        return found

    @property
    def bundles(self) -> frozenset[str]:
        return frozenset(one.bundle for one in self.entries)


def _entry(read: object) -> Entry:
    match read:
        case [str(tier), str(id_), str(bundle), str(place), [*told]]:
            return Entry(tier, id_, bundle, place, tuple(map(str, told)))
    raise ValueError(f"no skill of a snapshot: {str(read)[:200]}")


def snapshot_of(skills: Sequence[Skill], faults: Sequence[Fault], warnings: Sequence[str]) -> Snapshot:
    entries = (Entry(one.tier, one.id, one.hash, str(one.folder), one.warnings) for one in skills)
    return Snapshot(tuple(entries), tuple(faults), tuple(warnings))


def hash_of(dumped: str) -> str:
    return hashlib.sha256(dumped.encode()).hexdigest()[:16]
