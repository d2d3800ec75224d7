"""Packing: one process looks at the folders of skills, and publishes what lies in them for all.

Machines whose folders differ agree all the same: what counts is what was published. Gateways compete for the place; who
holds it keeps it as long as it lives.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from config.settings import SkillsSettings
from gateway.logs import log
from gateway.shelf.snapshot import Snapshot, hash_of, snapshot_of
from gateway.store import Store, Unreachable, reading, script_of
from skills import bundles, contents, document
from skills.folders import Fault, Skill
from skills.index import lay_out
from skills.library import Found, Library, look, resolve, roots
from skills.summary import Summary, changes, summarise

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.7
LEASE_MS: Final = 5_000
LINES_MAX: Final = 500
"""More is not told in the log; the list of skills has all."""
AT_ONCE: Final = 64
"""How many bundles are on their way to Redis at a time."""


class Packer:
    """One a process that may pack. `name` is unique among processes."""

    def __init__(self, store: Store, settings: SkillsSettings, name: str) -> None:
        self._store = store
        self._settings = settings
        self._roots = roots(settings)
        self._name = name
        self._found: Found | None = None
        self._published_as = ("", 0)
        """Hash and number of what Redis held when we last looked."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            begun_s = time.monotonic()
            try:
                await self.step()
            except Unreachable as error:
                log(logger, "skills not looked at", level=logging.DEBUG, reason=str(error))
            except NotADirectoryError as error:
                log(logger, "skills not looked at", level=logging.ERROR, reason=str(error))
            except Exception as error:  # noqa: BLE001  # it tries again; what was published stays in force
                log(logger, "skills not looked at", level=logging.ERROR, error=error)
            # A look at thousands of folders takes a while, and it should not take all of a core.
            await asyncio.sleep(max(LOOK_EVERY_S, 10 * (time.monotonic() - begun_s)))

    async def step(self) -> bool:
        """Look once, and publish what is new. False: another process does that.

        Raises `Unreachable`; `NotADirectoryError` for a folder that was never there.
        """
        ours, number, hash_, wanted, done = await self._run("pack", self._name, LEASE_MS)
        if not ours:
            self._found = None
            return False
        found = await asyncio.to_thread(self._look)
        is_new = found is not self._found or (hash_.decode(), number) != self._published_as
        if is_new and await self._publish(found, number):
            self._found = found
        if wanted > done and found is self._found:
            await self._run("done", self._name, wanted)
        return True

    def _look(self) -> Found:
        before = self._found
        return before if before and not before.is_changed() else look(self._roots, before)

    async def _publish(self, found: Found, number: int) -> bool:
        """Whether it is published now; if not, the next step tries again."""
        before = await self._stored(number)
        snapshot = _with_good_versions(found, before)
        dumped = snapshot.dump()
        skills = {skill.hash: skill for skill in found.skills if skill.hash in snapshot.bundles}
        new = [bundle for bundle in snapshot.bundles - before.bundles if bundle in skills]
        try:
            await self._put([skills[bundle] for bundle in new])
        except contents.Changed as error:
            log(logger, "skills changed while they were packed", reason=str(error))
            return False
        if before == snapshot and number:
            self._published_as = (hash_of(dumped), number)
            return True
        gone = before.bundles - snapshot.bundles
        verdict, now = await self._run(
            "publish", self._name, number, hash_of(dumped), dumped, len(new), *new, *sorted(gone)
        )
        if verdict != b"OK":
            log(logger, "skills not published", level=logging.WARNING, verdict=verdict.decode())
            return False
        self._published_as = (hash_of(dumped), now)
        told = await asyncio.to_thread(self._told, found, self._found)
        log(logger, "skills published", snapshot=now, new=len(new), gone=len(gone), sum=str(told.summary))
        for line in told.lines:
            log(logger, line)
        for line in told.warnings:
            log(logger, line, level=logging.WARNING)
        return True

    def _told(self, found: Found, before: Found | None) -> _Told:
        """At first all skills, later what is otherwise than before."""
        library = resolve(found.tiers, found.faults, found.warnings)
        every = library.catalogue(["*"])
        budget = self._settings.index_max_tokens
        summary = summarise(library, every, lay_out(every, budget), budget)
        if before is None:
            return _Told(summary, [str(row) for row in summary.rows[:LINES_MAX]], _remarks(library))
        last = resolve(before.tiers, before.faults, before.warnings)
        lines = [str(change) for change in changes(last, library)]
        warnings = [remark for remark in _remarks(library) if remark not in set(_remarks(last))]
        return _Told(summary, lines[:LINES_MAX], warnings)

    async def _put(self, skills: Sequence[Skill]) -> None:
        for at in range(0, len(skills), AT_ONCE):
            packed = await asyncio.to_thread(_packed, skills[at : at + AT_ONCE])
            await asyncio.gather(*(self._run("put", bundle, raw) for bundle, raw in packed))

    async def _stored(self, number: int) -> Snapshot:
        with reading():
            text = await self._store.redis.get(f"{self._store.layout.skills_root}:snapshot:{number}")
        return Snapshot.load(text) if text else Snapshot((), (), ())

    async def _run(self, name: str, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._store.layout.skills_root, *arguments)


def _with_good_versions(found: Found, before: Snapshot) -> Snapshot:
    """What was found; and of a skill that can't be read now, the version published before: also where this process
    never saw that one.
    """
    now = snapshot_of(found.skills, found.faults, found.warnings)
    there = {(one.tier, one.id) for one in now.entries}
    last = {(one.tier, one.id): one for one in before.entries}
    entries, faults = list(now.entries), list[Fault]()
    for fault in now.faults:
        good = last.get((fault.tier, fault.id))
        is_kept = good is not None and (fault.tier, fault.id) not in there
        if good and is_kept:
            entries.append(good)
            there.add((fault.tier, fault.id))
        faults.append(replace(fault, kept=True) if is_kept else fault)
    return Snapshot(tuple(entries), tuple(faults), now.warnings)


def _packed(skills: Sequence[Skill]) -> list[tuple[str, bytes]]:
    return [(skill.hash, bundles.pack(contents.whole(skill))) for skill in skills]


@dataclass(frozen=True, slots=True)
class _Told:
    """What the log says of a snapshot."""

    summary: Summary
    lines: Sequence[str]
    warnings: Sequence[str]


def _remarks(library: Library) -> list[str]:
    of_heads = (
        f"{skill.folder / document.NAME}, line {remark.line}: {remark.text}"
        for skill in library.skills.values()
        for remark in skill.head.warnings
    )
    return [*map(str, library.faults), *library.warnings, *of_heads][:LINES_MAX]
