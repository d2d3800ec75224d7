"""The library: all skills there are, as one immutable snapshot, and the part of it that a channel may load.

Skills lie in folders of two tiers: `builtin` (shipped) and `org` (the operator's). A skill's id is its folder's path
under the tier's root. A later tier's skill replaces the same id as a whole; one that can't be read replaces nothing.
"""

from __future__ import annotations

import difflib
import heapq
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

from config.settings import SkillsSettings
from skills import ids, seal
from skills.folders import NO_PROGRAM, Fault, Reading, Root, Skill, changed, read_root, rested

BUILTIN: Final = Path(__file__).parent / "builtin"


class SkillNotFound(LookupError):
    """No skill of the catalogue has this name, or several have. `str()` is for the model: it names what there is."""


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill behind another one of the same id."""

    skill: Skill
    by: Skill


@dataclass(frozen=True)
class Library:
    """A snapshot: what is in it never changes."""

    skills: Mapping[str, Skill]
    """In force, by `ids.key` of their id, in the order of that key."""
    shadowed: tuple[Shadowed, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Folders that are no skill, with the reason; they block no other."""
    warnings: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    """By `ids.key` of each alias that one skill alone claims: the key of that skill."""
    found: Found | None = field(default=None, repr=False)
    """What it was made of, where it was made of folders."""
    _catalogues: dict[tuple[str, ...], Catalogue] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def beside(self) -> Mapping[tuple[str, str], Fault]:
        """What is wrong with skills that are in force all the same, by their tier and `ids.key`."""
        there = {(one.tier, key) for key, one in self.skills.items()}
        named = ((one, (one.tier, ids.key(one.id))) for one in self.faults if one.is_beside)
        return {name: one for one, name in named if name in there}

    def catalogue(self, patterns: Sequence[str]) -> Catalogue:
        """The skills whose id fits one of a profile's patterns. In a pattern `*` stands for anything."""
        wanted = tuple(patterns)
        if wanted not in self._catalogues:
            fits = ids.fitting(wanted)
            allowed = {key: skill for key, skill in self.skills.items() if fits.fullmatch(key)}
            self._catalogues[wanted] = Catalogue(allowed, self.owners)
        return self._catalogues[wanted]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What one channel may load, in one snapshot."""

    _by_key: Mapping[str, Skill]
    _owners: Mapping[str, str]

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All of them, by id."""
        return tuple(self._by_key.values())

    def fitting(self, patterns: Sequence[str]) -> tuple[Skill, ...]:
        """Of these skills the ones whose id fits a pattern, by id."""
        fits = ids.fitting(patterns)
        return tuple(skill for key, skill in self._by_key.items() if fits.fullmatch(key))

    def __contains__(self, skill: Skill) -> bool:
        return self._by_key.get(ids.key(skill.id)) is skill

    def find(self, name: str) -> Skill:
        """The skill of this id, else the one that alone has this alias or this last part of its id.

        Case and width of letters do not matter. Raises `SkillNotFound`, which names only what this catalogue holds.
        """
        wanted = ids.key(name).strip("/")
        found = [self._by_key[key] for key in matching(wanted, self._by_key, {self._owners.get(wanted)})]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(repr(skill.id) for skill in found)
            raise SkillNotFound(f"{name!r} fits several skills: {several}. Use one of these ids.")
        raise SkillNotFound(f"There is no skill {name!r} here. {self._nearest(wanted)}")

    def _nearest(self, wanted: str) -> str:
        """The ids that come closest, whichever of their parts is meant."""
        if not self._by_key:
            return "There are no skills in this channel."
        nearest = closest(wanted, self._by_key)
        return f"The closest ids are: {', '.join(self._by_key[key].id for key in nearest)}."


def matching(wanted: str, keys: Collection[str], owners: Collection[str | None]) -> list[str]:
    """Of many keys of ids those that a name means, by its own key: the id itself, else all whose last part it is, and
    `owners`, those that answer to it as an alias. More than one: the name fits several.
    """
    if wanted in keys:
        return [wanted]
    return [key for key in keys if key in owners or key.rpartition("/")[2] == wanted]


def closest(wanted: str, keys: Iterable[str], most: int = 3) -> list[str]:
    """Of many keys of ids the ones that are most like `wanted`, whichever of their parts is meant, best first."""
    pairs = _pairs(wanted)
    likely = heapq.nsmallest(20, keys, key=lambda key: (-len(pairs & _pairs(key)), key))
    return sorted(likely, key=lambda key: (-likeness(wanted, key), key))[:most]


def likeness(wanted: str, key: str) -> float:
    """From 0 to 1."""
    return max(difflib.SequenceMatcher(None, wanted, one).ratio() for one in (key, key.rpartition("/")[2]))


def _pairs(text: str) -> set[str]:
    """Neighbouring characters: enough to tell which of thousands of ids are worth a closer look."""
    return {text[at : at + 2] for at in range(len(text) - 1)}


def roots(settings: SkillsSettings) -> tuple[Root, ...]:
    """The tiers' folders in the order of their precedence, the strongest last."""
    shipped = Root("builtin", BUILTIN, sealed=True)
    return (shipped, Root("org", settings.folder)) if settings.folder else (shipped,)


@dataclass(frozen=True)
class Found:
    """What lies in the folders of all tiers. Whose copy counts is not decided yet."""

    roots: tuple[Root, ...]
    readings: Mapping[Path, tuple[Reading, ...]]
    """By root."""
    tiers: tuple[tuple[Skill, ...], ...]
    """Earlier tiers first."""
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]
    moving: frozenset[tuple[str, str]]
    """Tier and id of folders that somebody wrote to while they were looked at. They are no skills and no faults here."""
    empty: tuple[Root, ...]
    """Roots that hold nothing at all, as an unmounted one does."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        return tuple(chain.from_iterable(self.tiers))

    @property
    def sorting(self) -> frozenset[tuple[str, str]]:
        """Tier and id of folders that are there and hold no SKILL.md."""
        return frozenset(
            (root.tier, one.id)
            for root in self.roots
            for one in self.readings[root.path]
            if one.skill is None and not one.faults and not one.moves
        )

    def is_changed(self) -> bool:
        """Whether a file or folder looks different now. Only entries are looked at, no bytes."""
        return changed(reading for each in self.readings.values() for reading in each)

    def is_same(self, other: Found) -> bool:
        """Whether it makes no difference which of the two is published."""
        if self is other:
            return True
        ours, theirs = (
            (one.tiers, one.faults, one.warnings, one.moving, one.empty, one.sorting) for one in (self, other)
        )
        return ours == theirs

    def rested(self, before: Found | None) -> Found:
        """The same a moment later: what looks different already is `moving`. Only what is new since `before` is looked at."""
        known = before.readings if before else {}
        readings = {path: tuple(rested(each, known.get(path, ()))) for path, each in self.readings.items()}
        return _found(self.roots, readings, self.warnings)


def look(roots: Sequence[Root], before: Found | None = None) -> Found:
    """Read all skills below `roots`. With `before`, only what changed since.

    A folder that had a skill in `before` and now can't be read keeps that skill, and a root that is gone keeps all
    of them, with a fault or warning. Without `before` a root that is no folder raises `NotADirectoryError`.
    """
    known = before.readings if before else {}
    warnings: list[str] = []
    readings: dict[Path, tuple[Reading, ...]] = {}
    for root in roots:
        try:
            readings[root.path] = read_root(root, [one.path for one in roots], known.get(root.path, ()))
        except (FileNotFoundError, NotADirectoryError) as error:
            if root.path not in known:
                raise NotADirectoryError(f"skills.folder: {root.path} is no folder") from error
            readings[root.path] = known[root.path]
            warnings.append(f"{root.path} is gone: its skills stay as they were")
    return _found(roots, readings, warnings)


def _found(roots: Sequence[Root], readings: Mapping[Path, tuple[Reading, ...]], warnings: Iterable[str]) -> Found:
    faults = [fault for each in readings.values() for reading in each for fault in reading.faults]
    moving = [(root.tier, reading.id) for root in roots for reading in readings[root.path] if reading.moves]
    tiers: list[tuple[Skill, ...]] = []
    for root in roots:
        skills = tuple(reading.skill for reading in readings[root.path] if reading.skill)
        if root.sealed:
            known = [fault.id for fault in faults] + [id_ for tier, id_ in moving if tier == root.tier]
            broken = seal.faults(root, skills, known)
            altered = {fault.id for fault in broken}
            skills = tuple(skill for skill in skills if skill.id not in altered)
            faults += broken
        tiers.append(skills)
    empty = tuple(root for root in roots if len(readings[root.path]) <= 1 and _is_empty(root.path))
    return Found(tuple(roots), readings, tuple(tiers), tuple(faults), tuple(warnings), frozenset(moving), empty)


def _is_empty(folder: Path) -> bool:
    """Whether it holds nothing but what is hidden."""
    try:
        return all(entry.name.startswith(".") for entry in folder.iterdir())
    except OSError:
        return False


def scan(roots: Sequence[Root], before: Library | None = None) -> Library:
    """The library of some folders, the later ones with precedence. See `look`."""
    found = look(roots, before.found if before else None)
    return replace(resolve(found.tiers, found.faults, found.warnings), found=found)


def resolve(tiers: Sequence[Sequence[Skill]], faults: Sequence[Fault] = (), warnings: Sequence[str] = ()) -> Library:
    """What is in force of the skills of all tiers, the later ones with precedence, and who answers to which name.

    `faults` and `warnings` are what was found already; what is found here is added.
    """
    in_force: dict[str, Skill] = {}
    shadowed: list[Shadowed] = []
    seen: dict[str, str] = {}
    look_alikes: list[Fault] = []
    for skill in chain.from_iterable(tiers):
        key = sys.intern(ids.key(skill.id))
        if (first := seen.setdefault(ids.skeleton(key), key)) != key:
            look_alikes.append(_look_alike(skill, in_force[first]))
            continue
        if key in in_force:
            shadowed.append(Shadowed(in_force[key], by=skill))
        in_force[key] = skill
    in_force = dict(sorted(in_force.items()))
    said = [*warnings]
    told = {(fault.tier, fault.id) for fault in faults if fault.kind == NO_PROGRAM}
    for skill in in_force.values():
        no_program = "" if (skill.tier, skill.id) in told else skill.no_program
        said += [f"{skill.id}: {one}" for one in (*skill.warnings, no_program) if one]
    owners = _owners(in_force, said)
    return Library(in_force, tuple(shadowed), (*faults, *look_alikes), tuple(said), owners)


def _look_alike(skill: Skill, first: Skill) -> Fault:
    """Whoever was there first keeps its looks: an earlier tier, or an earlier id in the order of the index."""
    reason = f"its id looks like {first.id} ({first.tier}) and is another"
    return Fault(skill.id, skill.tier, skill.folder, "look_alike", reason)


def _owners(skills: Mapping[str, Skill], warnings: list[str]) -> dict[str, str]:
    """Who answers to which alias. One that is claimed twice, or is somebody's id, belongs to nobody."""
    claims: dict[str, list[str]] = {}
    looks = {ids.skeleton(key): key for key in skills} if any(one.head.aliases for one in skills.values()) else {}
    for key, skill in skills.items():
        for alias in dict.fromkeys(ids.key(one) for one in skill.head.aliases):
            if reason := ids.fault(alias):
                warnings.append(f"{skill.id}: alias {reason}")
            elif alias in skills and alias != key:
                warnings.append(f"{skill.id}: alias {alias!r} is the id of another skill")
            elif looks.get(ids.skeleton(alias), key) != key:
                warnings.append(f"{skill.id}: alias {alias!r} looks like the id of another skill")
            else:
                claims.setdefault(alias, []).append(key)
    for alias, keys in claims.items():
        if len(keys) > 1:
            warnings.append(f"alias {alias!r} is claimed by {', '.join(skills[key].id for key in keys)}: nobody has it")
    return {alias: keys[0] for alias, keys in claims.items() if len(keys) == 1}
