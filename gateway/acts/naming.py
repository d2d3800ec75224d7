"""Naming: what somebody who looks after skills means by a name, in force or not.

Other than for the model, a name also finds what is off, waits, is broken, or is gone and only its switch is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.rights.access import Here
from gateway.shelf.decisions import Installed
from skills import ids
from skills.folders import Fault, Skill
from skills.library import closest, likeness, matching

LIKE_MIN: Final = 0.6
"""What is less like a name was hardly meant."""


@dataclass(frozen=True, slots=True)
class Meant:
    """Everything here that one id stands for."""

    id: str
    skill: Skill | None = None
    """What the library has, whether or not it may be loaded."""
    waiting: Skill | None = None
    """The channel's bundle, where nobody has said that it is trusted."""
    installed: Installed | None = None
    """The channel's bundle as it was added, broken or not."""
    everywhere: Installed | None = None
    """The bundle that was added for the whole organisation."""
    faults: tuple[Fault, ...] = ()


class Several(LookupError):
    """A name fits several skills."""

    def __init__(self, name: str, ids: tuple[str, ...]) -> None:
        super().__init__(name)
        self.name = name
        self.ids = ids


class Unknown(LookupError):
    """Nothing here is called so."""

    def __init__(self, name: str, closest: str | None) -> None:
        super().__init__(name)
        self.name = name
        self.closest = closest


def find(here: Here, name: str, *, unlisted: bool = True) -> Meant:
    """By id, else by alias or the last part of an id; case and width of letters do not matter.

    `unlisted`: among those, too, that the channel's profile does not list. Raises `Several`, `Unknown`.
    """
    wanted = ids.key(name).strip("/")
    there = {key: id_ for key, id_ in _there(here).items() if unlisted or here.fits(key)}
    found = [there[key] for key in matching(wanted, there, {here.library.owners.get(wanted)})]
    if len(found) == 1:
        return meant(here, found[0])
    if found:
        raise Several(name, tuple(sorted(found, key=ids.key)))
    switches = here.own.switches.keys() | here.org.switches.keys()
    if not ids.fault(wanted) and ids.skeleton(wanted) in switches:
        return Meant(wanted)  # its folder is gone, the switch is still there
    raise Unknown(name, _closest(wanted, there))


def meant(here: Here, id_: str) -> Meant:
    """What an id stands for."""
    key, skeleton = ids.key(id_), ids.skeleton(id_)
    return Meant(
        id_,
        here.library.skills.get(key),
        here.waiting.get(key),
        _same(here.own.installed.get(skeleton), key),
        _same(here.org.installed.get(skeleton), key),
        tuple(fault for fault in here.library.faults if ids.key(fault.id) == key),
    )


def look_alike(here: Here, id_: str) -> str | None:
    """Another id here that this one can be mistaken for."""
    key, skeleton = ids.key(id_), ids.skeleton(id_)
    return next((other for at, other in _there(here).items() if at != key and ids.skeleton(at) == skeleton), None)


def _there(here: Here) -> dict[str, str]:
    """All ids there are, by their key."""
    return {ids.key(id_): id_ for id_ in _all(here)}


def _all(here: Here) -> Iterator[str]:
    yield from (fault.id for fault in here.library.faults if fault.id)
    yield from (one.id for one in here.org.installed.values())
    yield from (one.id for one in here.own.installed.values())
    yield from (skill.id for skill in here.waiting.values())
    yield from (skill.id for skill in here.library.skills.values())


def _same(installed: Installed | None, key: str) -> Installed | None:
    return installed if installed and ids.key(installed.id) == key else None


def _closest(wanted: str, there: dict[str, str]) -> str | None:
    best = next(iter(closest(wanted, there, most=1)), None)
    return there[best] if best and likeness(wanted, best) >= LIKE_MIN else None
