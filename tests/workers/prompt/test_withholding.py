"""Withholding: what of a skill that was loaded may no longer be shown, and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.shelf.decisions import scope_of
from gateway.store import Store
from skills import contents
from skills.folders import Skill
from tests.gateway.shelf.world import OPS, World
from tests.skills.test_library import write
from workers.prompt.loaded import Held, Why
from workers.prompt.withholding import why_withheld

HERE = scope_of(OPS.channel_id)


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    write(made.root, "report")
    write(made.root, "stays")  # a folder that is empty at once is taken for one that is away
    await made.publish()
    return made


def guidance(skill: Skill) -> Held:
    return Held(skill.id, skill.hash, is_guidance=True, tier=skill.tier)


async def why(world: World, held: Held) -> Why | None:
    return why_withheld(await world.here(), held)


async def trusted(world: World, id_: str) -> Skill:
    skill = world.bundle(id_)
    await world.shelf.add(HERE, skill, contents.whole(skill), world.change())
    await world.shelf.trust(OPS.channel_id, skill, world.change())
    return skill


async def test_what_is_on_stays_and_so_does_an_older_version_of_it(world: World) -> None:
    held = guidance((await world.here()).find("report"))
    assert await why(world, held) is None
    write(world.root, "report", body="Newer.\n")
    await world.publish()
    assert await why(world, held) is None


async def test_what_is_off_or_gone_leaves_its_files_too(world: World) -> None:
    held = guidance((await world.here()).find("report"))
    file = Held(held.id, held.bundle, is_guidance=False)
    await world.shelf.switch(HERE, "report", "off", world.change())
    assert (await why(world, held), await why(world, file)) == ("off", "off")
    await world.shelf.switch(HERE, "report", "on", world.change())
    shutil.rmtree(world.root / "report")
    await world.publish()
    assert (await why(world, held), await why(world, file)) == ("gone", "gone")


async def test_where_switches_cannot_be_read_everything_leaves(world: World) -> None:
    held = guidance((await world.here()).find("report"))
    await world.store.redis.set(f"{world.store.layout.skills_root}:{HERE}", "x")
    assert await why(world, held) == "unsure"


@pytest.mark.parametrize("id_", ["checklist", "report"])
async def test_a_body_of_the_channel_leaves_when_other_bytes_come_and_returns_with_trust(
    world: World, id_: str
) -> None:
    """Also where a skill of the organisation has its id, and is in force meanwhile."""
    held = guidance(await trusted(world, id_))
    assert await why(world, held) is None
    other = world.bundle(id_, body="Other.\n")
    await world.shelf.add(HERE, other, contents.whole(other), world.change())
    assert await why(world, held) == "changed"
    assert await why(world, Held(id_, held.bundle, is_guidance=False)) is None, "what is data stays data"
    await world.shelf.trust(OPS.channel_id, other, world.change())
    assert await why(world, held) is None, "it is replaced when it is loaded again, as any newer version"


async def test_a_body_of_the_channel_leaves_when_its_bundle_is_removed(world: World) -> None:
    held = guidance(await trusted(world, "checklist"))
    await world.shelf.remove(HERE, (await world.here()).own.installed["checklist"], world.change())
    assert await why(world, held) == "gone"


async def test_a_body_of_the_organisation_is_gone_where_only_an_untrusted_one_has_its_id(world: World) -> None:
    held = guidance((await world.here()).find("report"))
    shutil.rmtree(world.root / "report")
    await world.publish()
    other = world.bundle("report", body="Other.\n")
    await world.shelf.add(HERE, other, contents.whole(other), world.change())
    assert await why(world, held) == "changed"
