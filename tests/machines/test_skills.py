"""Skills: whatever becomes of the folders, the switches and who packs, all processes have the same, and a turn what it began with."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from gateway.shelf.decisions import ORG, Switch, scope_of
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import OtherBundle, Shelf
from gateway.store import open_store
from skills import contents
from skills.folders import Skill
from tests.gateway.shelf.world import DEV, OPS, World
from tests.machines.conftest import Run
from tests.machines.machine import Machine
from tests.skills.test_library import write

IDS: Final = ("alpha", "beta")
ADDED: Final = ("delta", "epsilon")
BODIES: Final = st.sampled_from(["One.\n", "Two.\n", "Three.\n"])
BROKEN: Final = "broken"
BUILTIN: Final = {"skill-writing", "web-access"}


class SkillsMachine(Machine):
    """One organisation's folder, two processes that may pack it, two machines that read, two channels."""

    def __init__(self, url: str) -> None:
        super().__init__()
        folder = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        store = open_store(url, self.layout, timeout_s=5.0)
        self.opened.push_async_callback(store.close)
        self.world = World(store, folder)
        self.packers = [self.packer(name) for name in ("one", "two")]
        self.shelves = [self.world.shelf, self.world.another_shelf("two")]
        self.folder: dict[str, str] = {}
        """Bodies by id, or `BROKEN`."""
        self.published: dict[str, str] = {}
        self.switches: dict[tuple[str, str], Switch] = {}
        self.added: dict[str, Skill] = {}
        self.trusted: set[tuple[str, str]] = set()
        self.pinned: list[tuple[Any, dict[str, str]]] = []
        self.publish()

    def packer(self, name: str) -> Packer:
        return Packer(self.world.store, self.world.loaded.settings.skills, name, rests_s=0.0)

    # ---- the operator's folder ----

    @rule(id_=st.sampled_from(IDS), body=BODIES, is_seen=st.booleans())
    def a_skill_is_written(self, id_: str, body: str, is_seen: bool) -> None:
        write(self.world.root, id_, body=body)
        self.folder[id_] = body
        if is_seen:
            self.publish()

    @rule(id_=st.sampled_from(IDS), is_seen=st.booleans())
    def a_skill_is_written_wrongly(self, id_: str, is_seen: bool) -> None:
        folder = write(self.world.root, id_)
        (folder / "SKILL.md").write_text("no frontmatter at all")
        self.folder[id_] = BROKEN
        if is_seen:
            self.publish()

    @precondition(lambda self: self.folder)
    @rule(which=st.integers(0, 2))
    def a_skill_is_deleted(self, which: int) -> None:
        id_ = sorted(self.folder)[which % len(self.folder)]
        del self.folder[id_]
        shutil.rmtree(self.world.root / id_)

    @rule()
    def it_is_published(self) -> None:
        self.publish()

    def publish(self) -> None:
        packed = [
            self.do(packer.step()) for packer in self.packers
        ]  # both: a slow machine may end a lease between the two
        assert any(packed)
        is_bare = not self.folder and bool(self.published)  # as an unmount leaves it: nobody's skills go for that
        kept = {id_: body for id_, body in self.published.items() if is_bare or self.folder.get(id_) == BROKEN}
        self.published = {id_: body for id_, body in self.folder.items() if body != BROKEN} | kept

    @rule(which=st.integers(0, 1))
    def a_packer_dies(self, which: int) -> None:
        """Its place is free once its lease ends; another one with that name has seen nothing."""
        self.do(self.world.store.redis.delete(f"{self.layout.skills_root}:packer"))  # type: ignore[arg-type]
        self.packers[which] = self.packer(f"{which}-{len(self.pinned)}")
        self.packers.reverse()

    # ---- admins ----

    @rule(
        id_=st.sampled_from((*IDS, *ADDED)),
        to=st.sampled_from(["on", "off"]),
        everywhere=st.booleans(),
        which=st.integers(0, 1),
        shout=st.booleans(),
    )
    def a_skill_is_switched(self, id_: str, to: Switch, everywhere: bool, which: int, shout: bool) -> None:
        scope = ORG if everywhere else scope_of(OPS.channel_id)
        self.do(self.shelves[which].switch(scope, id_.upper() if shout else id_, to, self.world.change()))
        self.switches[scope, id_] = to

    @rule(id_=st.sampled_from(ADDED), body=BODIES, which=st.integers(0, 1))
    def a_bundle_is_added(self, id_: str, body: str, which: int) -> None:
        skill = self.world.bundle(id_, body=body)
        scope = scope_of(OPS.channel_id)
        self.do(self.shelves[which].add(scope, skill, contents.whole(skill), self.world.change()))
        self.added[id_] = skill

    @precondition(lambda self: self.added)
    @rule(number=st.integers(0, 1), body=BODIES, which=st.integers(0, 1))
    def a_bundle_is_trusted(self, number: int, body: str, which: int) -> None:
        """The one that somebody was shown, which may be another one than is there now."""
        id_ = sorted(self.added)[number % len(self.added)]
        shown = self.world.bundle(id_, body=body)
        is_there = shown.hash == self.added[id_].hash
        try:
            self.do(self.shelves[which].trust(OPS.channel_id, shown, self.world.change()))
        except OtherBundle:
            assert not is_there
        else:
            assert is_there
            self.trusted.add((id_, shown.hash))

    @precondition(lambda self: self.added)
    @rule(number=st.integers(0, 1))
    def a_bundle_is_removed(self, number: int) -> None:
        id_ = sorted(self.added)[number % len(self.added)]
        here = self.do(self.world.here())
        self.do(self.world.shelf.remove(scope_of(OPS.channel_id), here.own.installed[id_], self.world.change()))
        del self.added[id_]

    # ---- turns ----

    @precondition(lambda self: len(self.pinned) < 4)
    @rule(which=st.integers(0, 1))
    def a_turn_begins(self, which: int) -> None:
        here = self.do(self.world.here(shelf=self.shelves[which]))
        self.pinned.append((here.pin, {one.id: one.hash for one in here.library.skills.values()}))

    @precondition(lambda self: self.pinned)
    @rule(number=st.integers(0, 3), which=st.integers(0, 1))
    def another_worker_goes_on_with_it(self, number: int, which: int) -> None:
        pin, began_with = self.pinned[number % len(self.pinned)]
        shelf: Shelf = self.shelves[which]
        here = self.do(self.world.here(shelf=shelf))
        library = self.do(shelf.pinned(pin, here))
        assert {one.id: one.hash for one in library.skills.values()} == began_with

    # ---- what must hold ----

    @invariant()
    def all_have_the_same(self) -> None:
        for key, scopes in ((OPS, (ORG, scope_of(OPS.channel_id))), (DEV, (ORG,))):
            on = {id_ for id_ in self.published if "off" not in {self.switches.get((scope, id_)) for scope in scopes}}
            if key is OPS:
                trusted = {id_ for id_, one in self.added.items() if (id_, one.hash) in self.trusted}
                on |= {id_ for id_ in trusted if "off" not in {self.switches.get((scope, id_)) for scope in scopes}}
            for shelf in self.shelves:
                here = self.do(self.world.here(key, shelf))
                found = {one.id: one for one in here.catalogue.skills}
                assert set(found) - BUILTIN == on
                for id_ in on & set(self.published):
                    skill = found[id_]
                    self.do(shelf.stock.at_hand(skill))
                    assert contents.body(skill) == self.published[id_]


def test_skills(redis_url: str, run: Run) -> None:
    run(lambda: SkillsMachine(redis_url), examples=8, steps=15)
