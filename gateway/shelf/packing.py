"""Packing: one process looks at the folders of skills, and publishes what lies in them for all.

Machines whose folders differ agree all the same: what counts is what was published. Gateways compete for the place; who
holds it keeps it as long as it lives.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from config.settings import SkillsSettings
from gateway.logs import log
from gateway.running.calm import calmly
from gateway.shelf.keeping import Keeping
from gateway.shelf.snapshot import Snapshot, hash_of
from gateway.shelf.telling import Known, known_of, told
from gateway.store import Store, Unreachable, reading, script_of
from skills import bundles, contents
from skills.folders import Skill
from skills.library import Found, look, roots

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
"""Between two looks: a change has two seconds to reach all, and a look at thousands of folders takes a tenth of one."""
LEASE_MS: Final = 5_000
RESTS_S: Final = 0.25
"""A change counts when it has rested this long: half a skill must not be taken for all of it, nor one that is exchanged
for one that is gone."""
BUNDLES_EVERY_S: Final = 30.0
"""Between two looks whether Redis has all bundles that the snapshot names."""
NAMES_AT_ONCE: Final = 1_000
NOTHING: Final = Snapshot((), (), ())
AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 1_024 * 1_024
"""How many skills, and about how much of them, is on its way to Redis at a time."""


class Packer:
    """One a process that may pack. `name` is unique among processes."""

    def __init__(self, store: Store, settings: SkillsSettings, name: str, *, rests_s: float = RESTS_S) -> None:
        self._store = store
        self._settings = settings
        self._roots = roots(settings)
        self._name = name
        self._rests_s = rests_s
        self._forget()

    def _forget(self) -> None:
        self._found: Found | None = None
        """What we saw last, published or not."""
        self._published: _Published | None = None
        self._keeping = Keeping()
        self._bundles_due_s = 0.0

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
        ours, number, hash_, is_kept, wanted, done = await self._lease()
        if not ours:
            self._forget()
            return False
        keeping = asyncio.create_task(self._keep_lease(), name="lease of the packer")
        try:
            found = self._found = await self._look()
            if await self._bring(found, _Stands(number, hash_.decode(), is_kept == 1), wished=wanted > done):
                if wanted > done or time.monotonic() >= self._bundles_due_s:
                    await self._put_lost(found)
                if wanted > done:
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

    async def _look(self) -> Found:
        """What lies there. What is new in it has rested for a moment, or is known as moving."""
        before = self._found

        def glance() -> Found:
            return before if before and not before.is_changed() else look(self._roots, before)

        found = await calmly(glance)
        if found is before:
            return found
        await asyncio.sleep(self._rests_s)
        return await calmly(found.rested, before)

    async def _bring(self, found: Found, stands: _Stands, *, wished: bool) -> bool:
        """See that what was found is what is published; if not, the next step tries again."""
        last = self._published
        now_s = time.monotonic()
        if last and last.stands == stands and not wished and now_s < self._keeping.due_s and found.is_same(last.found):
            self._published = replace(last, found=found)
            return True
        if last and (last.stands.number, last.stands.hash) == (stands.number, stands.hash):
            before = last.snapshot
        else:
            before = await self._stored(stands.number)
        snapshot = await calmly(self._keeping.over, found, before, now_s, wished=wished)
        plan = await calmly(_plan, snapshot, before, found.skills)
        is_there = stands.number > 0 and (snapshot == before or plan.hash == stands.hash)
        number = await (self._mend(plan, stands) if is_there else self._publish(plan, stands.number))
        if not number:
            return False
        known = await calmly(known_of, snapshot, found.skills, last.known if last else {})
        self._published = _Published(_Stands(number, plan.hash), snapshot, known, found)
        if not is_there:
            await self._tell(plan, self._published, last)
        return True

    async def _mend(self, plan: _Plan, stands: _Stands) -> int:
        """Have what is published already be as it should be in Redis. Its number, or 0 if that has changed."""
        if stands == _Stands(stands.number, plan.hash):
            return stands.number
        if await self._run("mend", self._name, stands.number, plan.hash, plan.dumped) != b"OK":
            return 0
        log(logger, "snapshot mended: Redis had lost it", level=logging.WARNING, snapshot=stands.number)
        return stands.number

    async def _publish(self, plan: _Plan, number: int) -> int:
        """The new number; 0 if it is not published."""
        if not await self._put(plan.new):
            return 0
        new = [skill.hash for skill in plan.new]
        verdict, now = await self._run(
            "publish", self._name, number, plan.hash, plan.dumped, len(new), *new, *plan.gone
        )
        if verdict != b"OK":
            log(logger, "skills not published", level=logging.WARNING, verdict=verdict.decode())
            return 0
        return int(now)

    async def _tell(self, plan: _Plan, now: _Published, last: _Published | None) -> None:
        before, known = (last.snapshot, last.known) if last else (None, now.known)
        words = await calmly(told, now.snapshot, now.known, before, known, self._settings.index_max_tokens)
        new, gone = len(plan.new), len(plan.gone)
        log(logger, "skills published", snapshot=now.stands.number, new=new, gone=gone, sum=words.figures)
        for line in words.lines:
            log(logger, line)
        for line in words.warnings:
            log(logger, line, level=logging.WARNING)

    async def _put_lost(self, found: Found) -> None:
        """Put bundles again that Redis has lost, as far as they lie in the folders; a new number has readers fetch them.

        Raises `Unreachable`.
        """
        last = self._published
        if not last:
            return
        names = sorted(last.snapshot.bundles)
        lost: set[str] = set()
        for at in range(0, len(names), NAMES_AT_ONCE):
            lost.update(name.decode() for name in await self._run("lost", *names[at : at + NAMES_AT_ONCE]))
        there = {skill.hash: skill for skill in found.skills if skill.hash in lost}
        self._bundles_due_s = time.monotonic() + BUNDLES_EVERY_S
        if lost:
            log(logger, "bundles lost in Redis", level=logging.WARNING, lost=len(lost), put_again=len(there))
        if there and await self._put(there.values()):
            plan = _Plan(await calmly(last.snapshot.dump), last.stands.hash, (), ())  # they are named already
            number = await self._publish(plan, last.stands.number)
            self._published = replace(last, stands=replace(last.stands, number=number)) if number else None

    async def _put(self, skills: Iterable[Skill]) -> bool:
        """False: one of them was changed meanwhile."""
        try:
            for some in _portions(skills):
                packed = await calmly(_packed, some)
                await asyncio.gather(*(self._run("put", bundle, raw) for bundle, raw in packed))
        except contents.Changed as error:
            log(logger, "skills changed while they were packed", reason=str(error))
            return False
        return True

    async def _stored(self, number: int) -> Snapshot:
        """A snapshot as it lies in Redis; one of nothing if it is not there."""
        with reading():
            found: Any = await self._store.redis.get(f"{self._store.layout.skills_root}:snapshot:{number}")
        try:
            return await calmly(Snapshot.load, found) if found else NOTHING
        except ValueError as error:
            log(logger, "snapshot can't be read", level=logging.ERROR, snapshot=number, reason=str(error))
            return NOTHING

    async def _run(self, name: str, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._store.layout.skills_root, *arguments)


@dataclass(frozen=True, slots=True)
class _Stands:
    """What Redis says of the snapshot in force."""

    number: int
    hash: str
    is_kept: bool = True
    """Whether it is there, and stays."""


@dataclass(frozen=True, slots=True)
class _Published:
    """What is in force, as far as we brought or found it."""

    stands: _Stands
    snapshot: Snapshot
    known: Known
    found: Found
    """What it was made of."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What has to be done so that others see what we found."""

    dumped: str
    hash: str
    new: Sequence[Skill]
    """Whose bundles nobody names yet."""
    gone: Sequence[str]
    """Bundles that are no longer named."""


def _plan(snapshot: Snapshot, before: Snapshot, skills: Iterable[Skill]) -> _Plan:
    dumped = snapshot.dump()
    named, named_before = snapshot.bundles, before.bundles
    added = named - named_before
    new = {skill.hash: skill for skill in skills if skill.hash in added}
    return _Plan(dumped, hash_of(dumped), list(new.values()), sorted(named_before - named))


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


async def published(store: Store) -> tuple[int, str]:
    """The number of the snapshot that is in force, 0 for none, and the name of who packs now, if anybody does.

    Raises `Unreachable`.
    """
    root = store.layout.skills_root
    with reading():
        number = await store.redis.hget(f"{root}:meta", "snapshot")
        packer: Any = await store.redis.get(f"{root}:packer")
    return int(number or 0), packer.decode() if packer else ""
