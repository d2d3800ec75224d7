"""Stock: skills as they lie in Redis, read once by each process and laid out on its disk when somebody needs their files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gateway.logs import log
from gateway.rights.access import CHANNEL
from gateway.running.calm import calmly
from gateway.shelf.decisions import Decisions
from gateway.shelf.snapshot import Entry, Snapshot, hash_of
from gateway.store import Store, reading, script_of
from skills import bundles, ids
from skills.bundles import BrokenBundle, Cache
from skills.document import BrokenSkill
from skills.folders import Content, Fault, Skill, skill_of
from skills.library import Library, resolve

logger = logging.getLogger(__name__)

FETCHED_AT_ONCE: Final = 64
FETCHED_AT_ONCE_BYTES: Final = 8 * 1_024 * 1_024
"""How many bundles, and how much of them as they are packed, is in memory at a time: more only for one that is larger."""
SIZES_AT_ONCE: Final = 1_000


class Gone(Exception):
    """Redis does not hold this bundle any more."""


class Stock:
    """One a process."""

    def __init__(self, store: Store, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._made_of: tuple[int, str, str] | None = None
        """Snapshot, its hash, and the organisation's revision that `_library` was made of."""
        self._library = Library({})
        self._in_order: Sequence[Skill] = ()
        """Whatever the organisation has, earlier tiers first."""
        self._faults: tuple[Fault, ...] = ()
        self._snapshot = Snapshot((), (), ())
        self._skills: dict[tuple[str, str, str], Skill] = {}
        """By tier, id and bundle."""
        self._reading = asyncio.Lock()
        self._fetching = asyncio.Lock()

    async def library(self, number: int, hash_: str, org: Decisions) -> Library:
        """What the organisation has: the snapshot, and bundles that were added for all. Raises `Unreachable`, `ValueError`."""
        wanted = (number, hash_, org.revision)
        async with self._reading:
            if wanted != self._made_of:
                await self._make(number, hash_, org)
                self._made_of = wanted
        return self._library

    async def _make(self, number: int, hash_: str, org: Decisions) -> None:
        if self._made_of is None or self._made_of[:2] != (number, hash_):
            self._snapshot = await self.snapshot(number)
        added = [Entry("org", one.id, one.bundle, "", ()) for one in org.installed.values()]
        self._skills, faults = await self._known([*self._snapshot.entries, *added])
        self._faults = (*self._snapshot.faults, *faults)
        self._in_order, self._library = await calmly(self._resolved, added)

    def _resolved(self, added: Sequence[Entry]) -> tuple[Sequence[Skill], Library]:
        """All there is, earlier tiers first; and what of it is in force."""
        ordered = [*self._snapshot.in_order, *added]
        in_order = [self._skills[_name(one)] for one in ordered if _name(one) in self._skills]
        return in_order, resolve([in_order], self._faults, self._snapshot.warnings)

    async def pinned(self, pin: Mapping[str, Any]) -> Library:
        """The library of an earlier moment, as `Here.pin` names it. Raises `Unreachable`, and `ValueError` if it is gone."""
        number, hash_ = pin["snapshot"]
        snapshot = await self.snapshot(number)
        if hash_of(snapshot.dump()) != hash_:
            raise ValueError(f"snapshot {number} is another one")
        org = [Entry("org", name, bundle, "", ()) for name, bundle in pin["org"]]
        own = [Entry(CHANNEL, name, bundle, "", ()) for name, bundle in pin["own"]]
        tiers = [snapshot.in_order, org, own]
        known, faults = await self._known([entry for tier in tiers for entry in tier])
        return await asyncio.to_thread(
            resolve,
            [[known[_name(entry)] for entry in tier if _name(entry) in known] for tier in tiers],
            [*snapshot.faults, *faults],
            snapshot.warnings,
        )

    async def with_channel(self, own: Decisions) -> tuple[Library, Mapping[str, Skill]]:
        """The library with a channel's bundles: the trusted ones are its last tier, the others, by `ids.key`, wait."""
        if not own.installed:
            return self._library, {}
        entries = [Entry(CHANNEL, one.id, one.bundle, "", ()) for one in own.installed.values()]
        known, faults = await self._known(entries)
        trusted = [one for one in known.values() if own.trusts(one.id, one.hash)]
        waiting = {ids.key(one.id): one for one in known.values() if not own.trusts(one.id, one.hash)}
        library = await calmly(resolve, [self._in_order, trusted], [*self._faults, *faults], self._snapshot.warnings)
        return library, waiting

    def place(self, bundle: str) -> Path:
        """Where a bundle's files lie on this machine, once they are laid out."""
        return self._cache.folder / bundle

    async def at_hand(self, skill: Skill) -> None:
        """See that a skill's files lie in its folder on this machine.

        Raises `Gone`, `BrokenBundle`, `OSError` where the disk takes nothing, `Unreachable`.
        """
        if await asyncio.to_thread(self._cache.place, skill.hash):
            return
        raw = (await self._fetch([skill.hash]))[0]
        if raw is None:
            raise Gone(f"{skill.id} {skill.hash[:8]} is not in Redis any more")
        await asyncio.to_thread(self._lay_out, skill.hash, raw)

    def _lay_out(self, bundle: str, raw: bytes) -> None:
        self._cache.lay_out(bundle, bundles.unpack(raw))

    async def bundle(self, bundle: str) -> Mapping[str, Content]:
        """What its files hold, while Redis has it. Raises `Gone`, `BrokenBundle`, `Unreachable`."""
        raw = (await self._fetch([bundle]))[0]
        if raw is None:
            raise Gone(f"{bundle[:8]} is not in Redis any more")
        return await asyncio.to_thread(bundles.unpack, raw)

    async def put(self, bundle: str, contents: Mapping[str, Content]) -> None:
        """Keep a bundle, for a day until somebody names it. Raises `Unreachable`."""
        packed = await asyncio.to_thread(bundles.pack, contents)
        await self._run("put", bundle, packed)

    async def snapshot(self, number: int) -> Snapshot:
        """As it was published. Raises `Unreachable`, and `ValueError` for one that is not kept any more."""
        if number == 0:
            return Snapshot((), (), ())
        with reading():
            text = await self._store.redis.get(f"{self._store.layout.skills_root}:snapshot:{number}")
        if text is None:
            raise ValueError(f"snapshot {number} is not there")
        return await calmly(Snapshot.load, text)

    async def _known(self, entries: Sequence[Entry]) -> tuple[dict[tuple[str, str, str], Skill], list[Fault]]:
        """The skills of these entries; those that are new are read from Redis."""
        known, new = await calmly(self._held, entries)
        faults: list[Fault] = []
        for some in await self._portions(new):
            async with self._fetching:
                fetched = await self._fetch([one.bundle for one in some])
                read = await calmly(self._made, some, fetched)
                del fetched
            for entry, made in zip(some, read, strict=True):
                if isinstance(made, Skill):
                    known[_name(entry)] = made
                else:
                    faults.append(made)
                    log(logger, "skill can't be used", level=logging.WARNING, id=entry.id, reason=str(made))
        return known, faults

    async def _portions(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Those whose bundles may be in memory at a time."""
        portions: list[list[Entry]] = []
        left_bytes = 0
        for at in range(0, len(entries), SIZES_AT_ONCE):
            some = entries[at : at + SIZES_AT_ONCE]
            for entry, size in zip(some, await self._run("sizes", *(one.bundle for one in some)), strict=True):
                if not portions or size > left_bytes or len(portions[-1]) == FETCHED_AT_ONCE:
                    portions.append([])
                    left_bytes = FETCHED_AT_ONCE_BYTES
                portions[-1].append(entry)
                left_bytes -= size
        return portions

    def _held(self, entries: Sequence[Entry]) -> tuple[dict[tuple[str, str, str], Skill], list[Entry]]:
        """The skills that we have already, and the entries of the others."""
        known: dict[tuple[str, str, str], Skill] = {}
        new: list[Entry] = []
        for entry in entries:
            if skill := self._skills.get(_name(entry)):
                known[_name(entry)] = skill
            else:
                new.append(entry)
        return known, new

    def _made(self, entries: Sequence[Entry], fetched: Sequence[bytes | None]) -> list[Skill | Fault]:
        return [self._skill(entry, raw) for entry, raw in zip(entries, fetched, strict=True)]

    def _skill(self, entry: Entry, raw: bytes | None) -> Skill | Fault:
        place = self.place(entry.bundle)
        try:
            if raw is None:
                raise BrokenBundle("its bundle is not in Redis")
            skill = skill_of(entry.id, entry.tier, place, bundles.unpack(raw), entry.warnings)
            if skill.hash != entry.bundle:
                raise BrokenBundle("its bundle is not what its hash says")
        except BrokenSkill as error:
            return Fault(entry.id, entry.tier, Path(entry.place), error.kind, error.reason, error.line)
        except BrokenBundle as error:
            return Fault(entry.id, entry.tier, Path(entry.place), "bundle", str(error))
        return skill

    async def _fetch(self, wanted: Iterable[str]) -> list[bytes | None]:
        root = self._store.layout.skills_root
        with reading():
            found: list[Any] = await self._store.redis.mget([f"{root}:bundle:{one}" for one in wanted])
        return found

    async def _run(self, name: str, *arguments: str | bytes) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._store.layout.skills_root, *arguments)


def _name(entry: Entry) -> tuple[str, str, str]:
    return entry.tier, entry.id, entry.bundle
