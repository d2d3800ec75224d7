"""Packing: one process looks at the folders of skills, and publishes what lies in them for all.

Machines whose folders differ agree all the same: what counts is what was published. Gateways compete for the place; who
holds it keeps it as long as it lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from config.settings import SkillsSettings
from gateway.calm import calmly
from gateway.logs import log
from gateway.shelf.snapshot import Snapshot, hash_of, snapshot_of
from gateway.store import Store, Unreachable, reading, script_of
from skills import bundles, contents, document, summary
from skills.folders import Fault, Skill
from skills.index import lay_out
from skills.library import Found, Library, look, resolve, roots

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
"""Between two looks: a change has two seconds to reach all, and a look at thousands of folders takes a tenth of one."""
LEASE_MS: Final = 5_000
LINES_MAX: Final = 500
"""More is not told in the log; the list of skills has all."""
AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 1_024 * 1_024
"""How many skills, and about how much of them, is on its way to Redis at a time."""


class Packer:
    """One a process that may pack. `name` is unique among processes."""

    def __init__(self, store: Store, settings: SkillsSettings, name: str) -> None:
        self._store = store
        self._settings = settings
        self._roots = roots(settings)
        self._name = name
        self._found: Found | None = None
        """What we saw last, published or not."""
        self._published: Found | None = None
        self._published_as = ("", 0)
        """Hash and number of what Redis held when we last looked."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.step()
            except Unreachable as error:
                log(logger, "skills not looked at", level=logging.DEBUG, reason=str(error))
            except NotADirectoryError as error:
                log(logger, "skills not looked at", level=logging.ERROR, reason=str(error))
            except Exception as error:  # noqa: BLE001  # it tries again; what was published stays in force
                log(logger, "skills not looked at", level=logging.ERROR, error=error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def step(self) -> bool:
        """Look once, and publish what is new. False: another process does that.

        Raises `Unreachable`; `NotADirectoryError` for a folder that was never there.
        """
        ours, number, hash_, wanted, done = await self._lease()
        if not ours:
            self._found = self._published = None
            return False
        keeping = asyncio.create_task(self._keep_lease(), name="lease of the packer")
        try:
            found = self._found = await calmly(self._look)
            is_new = found is not self._published or (hash_.decode(), number) != self._published_as
            if is_new and await self._publish(found, number):
                self._published = found
            if wanted > done and found is self._published:
                await self._run("reload_done", self._name, wanted)
        finally:
            keeping.cancel()
        return True

    async def _lease(self) -> Any:
        return await self._run("lease", self._name, LEASE_MS)

    async def _keep_lease(self) -> None:
        """Until cancelled: to read and pack thousands of skills for the first time takes longer than one lease."""
        while True:
            await asyncio.sleep(LEASE_MS / 3_000)
            with suppress(Unreachable):
                await self._lease()

    def _look(self) -> Found:
        before = self._found
        return before if before and not before.is_changed() else look(self._roots, before)

    async def _publish(self, found: Found, number: int) -> bool:
        """Whether it is published now; if not, the next step tries again."""
        stored = await self._stored(number)
        plan = await calmly(_plan, found, stored)
        try:
            await self._put(plan.new)
        except contents.Changed as error:
            log(logger, "skills changed while they were packed", reason=str(error))
            return False
        if plan.is_published and number:
            self._published_as = (plan.hash, number)
            return True
        new = [skill.hash for skill in plan.new]
        verdict, now = await self._run(
            "publish", self._name, number, plan.hash, plan.dumped, len(new), *new, *plan.gone
        )
        if verdict != b"OK":
            log(logger, "skills not published", level=logging.WARNING, verdict=verdict.decode())
            return False
        self._published_as = (plan.hash, now)
        told = await calmly(self._told, found, self._published)
        log(logger, "skills published", snapshot=now, new=len(new), gone=len(plan.gone), sum=told.figures)
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
        figures = summary.figures(library, lay_out(every, budget), budget)
        if before is None:
            return _Told(figures, summary.lines(library)[:LINES_MAX], _remarks(library))
        last = resolve(before.tiers, before.faults, before.warnings)
        lines = [str(change) for change in summary.changes(last.skills, library.skills)]
        known = set(_remarks(last))
        warnings = [remark for remark in _remarks(library) if remark not in known]
        return _Told(figures, lines[:LINES_MAX], warnings)

    async def _put(self, skills: Iterable[Skill]) -> None:
        for some in _portions(skills):
            packed = await calmly(_packed, some)
            await asyncio.gather(*(self._run("put", bundle, raw) for bundle, raw in packed))

    async def _stored(self, number: int) -> bytes:
        """A snapshot as it lies in Redis; nothing if it is not there."""
        with reading():
            found: Any = await self._store.redis.get(f"{self._store.layout.skills_root}:snapshot:{number}")
        return found or b""

    async def _run(self, name: str, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._store.layout.skills_root, *arguments)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What has to be done so that others see what we found."""

    dumped: str
    hash: str
    is_published: bool
    new: Sequence[Skill]
    """Whose bundles nobody names yet."""
    gone: Sequence[str]
    """Bundles that are no longer named."""


def _plan(found: Found, stored: bytes) -> _Plan:
    before = Snapshot.load(stored) if stored else Snapshot((), (), ())
    snapshot = _with_good_versions(found, before)
    dumped = snapshot.dump()
    named, named_before = snapshot.bundles, before.bundles
    added = named - named_before
    new = {skill.hash: skill for skill in found.skills if skill.hash in added}
    return _Plan(dumped, hash_of(dumped), before == snapshot, list(new.values()), sorted(named_before - named))


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


def _portions(skills: Iterable[Skill]) -> Iterator[list[Skill]]:
    """So many that what they hold may be in memory, and on its way to Redis, at a time."""
    portion: list[Skill] = []
    left_bytes = BYTES_AT_ONCE
    for skill in skills:
        portion.append(skill)
        left_bytes -= skill.skill_md.size_bytes + sum(file.size_bytes for file in skill.files.values())
        if len(portion) == AT_ONCE or left_bytes <= 0:
            yield portion
            portion, left_bytes = [], BYTES_AT_ONCE
    if portion:
        yield portion


def _packed(skills: Sequence[Skill]) -> list[tuple[str, bytes]]:
    return [(skill.hash, bundles.pack(contents.whole(skill))) for skill in skills]


async def standing(store: Store) -> tuple[int, str]:
    """The number of the snapshot that is in force, 0 for none, and the name of who packs now, if anybody does.

    Raises `Unreachable`.
    """
    root = store.layout.skills_root
    with reading():
        number = await store.redis.hget(f"{root}:meta", "snapshot")
        packer: Any = await store.redis.get(f"{root}:packer")
    return int(number or 0), packer.decode() if packer else ""


@dataclass(frozen=True, slots=True)
class _Told:
    """What the log says of a snapshot."""

    figures: str
    lines: Sequence[str]
    warnings: Sequence[str]


def _remarks(library: Library) -> list[str]:
    of_heads = (
        f"{skill.folder / document.NAME}, line {remark.line}: {remark.text}"
        for skill in library.skills.values()
        for remark in skill.head.warnings
    )
    return [*map(str, library.faults), *library.warnings, *of_heads][:LINES_MAX]
