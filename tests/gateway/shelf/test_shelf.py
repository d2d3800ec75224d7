"""The shelf: decisions of admins, the same for every process, and nothing on when they can't be read."""

from __future__ import annotations

import asyncio
import json
import shutil
import weakref
from pathlib import Path

import pytest

from gateway.audit.log import read
from gateway.conversation.key import ConversationKey
from gateway.rights.access import SkillUse, may
from gateway.shelf import shelf as shelves
from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.shelf import LookAlike, NobodyPacks, OtherBundle
from gateway.store import Store
from skills import contents
from skills.folders import Skill
from tests.gateway.shelf.world import DEV, OPS, World
from tests.skills.test_library import write

HERE = scope_of(OPS.channel_id)


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    for name in ("report", "other"):
        write(made.root, name)
    await made.publish()
    return made


async def add(world: World, skill: Skill) -> None:
    await world.shelf.add(HERE, skill, contents.whole(skill), world.change())


async def test_a_switch_holds_for_its_channel_at_once_and_for_every_process(world: World) -> None:
    elsewhere = world.another_shelf("two")
    assert "report" in [one.id for one in (await world.here(shelf=elsewhere)).catalogue.skills]
    await world.shelf.switch(HERE, "REPORT", "off", world.change())
    assert "report" not in [one.id for one in (await world.here(shelf=elsewhere)).catalogue.skills]
    assert "report" in await world.names(DEV)
    await elsewhere.switch(HERE, "report", "on", world.change())
    assert "report" in await world.names()


async def test_off_for_all_beats_on_in_a_channel(world: World) -> None:
    await world.shelf.switch(HERE, "report", "on", world.change())
    await world.shelf.switch(ORG, "report", "off", world.change())
    assert ["report" in await world.names(key) for key in (OPS, DEV)] == [False, False]
    await world.shelf.switch(ORG, "report", "on", world.change())
    assert "report" in await world.names()


async def test_off_stays_off_whatever_becomes_of_the_skill(world: World) -> None:
    await world.shelf.switch(HERE, "report", "off", world.change())
    write(world.root, "report", body="Newer.\n")
    await world.publish()
    assert "report" not in await world.names()
    shutil.rmtree(world.root / "report")
    await world.publish()
    write(world.root, "report")
    await world.publish()
    assert "report" not in await world.names()
    assert "report" not in [one.id for one in (await world.here(shelf=world.another_shelf("two"))).catalogue.skills]


async def test_where_new_skills_start_off_one_is_on_only_when_switched(world: World) -> None:
    world.settings(new_skills="off")
    assert await world.names() == []
    await world.shelf.switch(HERE, "report", "on", world.change())
    await world.shelf.switch(ORG, "other", "on", world.change())
    assert await world.names() == ["other", "report"]
    assert await world.names(DEV) == ["other"]


async def test_a_running_turn_keeps_its_skills_and_not_its_rights(world: World) -> None:
    begun = await world.here()
    skill = begun.find("report")
    await world.shelf.stock.at_hand(skill)
    write(world.root, "report", body="Newer.\n")
    await world.publish()
    now = (await world.here()).over(begun.library)
    assert now.find("report") is skill
    assert contents.body(skill) == "Do it.\n"
    await world.shelf.switch(HERE, "report", "off", world.change())
    now = (await world.here()).over(begun.library)
    assert may(None, now, SkillUse(skill, "load")).reason == "off_here"
    assert begun.find("report") is skill, "what was asked before does not change under anybody's feet"


async def test_whoever_goes_on_with_a_turn_has_the_skills_that_it_began_with(world: World) -> None:
    channels, everywhere = world.bundle("checklist", body="OWN.\n"), world.bundle("house", body="ALL.\n")
    await add(world, channels)
    await world.shelf.trust(OPS.channel_id, channels, world.change())
    await world.shelf.add(ORG, everywhere, contents.whole(everywhere), world.change())
    begun = await world.here()
    pin = json.loads(json.dumps(begun.pin))
    write(world.root, "report", body="Newer.\n")
    write(world.root, "fresh")
    await world.publish()
    await add(world, world.bundle("checklist", body="Other.\n"))
    await world.shelf.remove(ORG, begun.org.installed["house"], world.change())
    elsewhere = world.another_shelf("two")
    now = await world.here(shelf=elsewhere)
    library = await elsewhere.pinned(pin, now)
    assert [(one.id, one.hash) for one in library.skills.values()] == [
        (one.id, one.hash) for one in begun.library.skills.values()
    ]
    skill = library.skills["report"]
    await elsewhere.stock.at_hand(skill)
    assert contents.body(skill) == "Do it.\n"
    assert may(None, now.over(library), SkillUse(library.skills["checklist"], "load")).reason == "gone"
    assert "fresh" in [one.id for one in (await world.here(shelf=elsewhere)).catalogue.skills], (
        "others have what is new"
    )


async def test_where_the_start_of_a_turn_is_forgotten_the_skills_of_now_do(world: World) -> None:
    pin = (await world.here()).pin
    write(world.root, "fresh")
    await world.publish()
    here = await world.here()
    for wrong in ({**pin, "snapshot": [99, "x"]}, {**pin, "snapshot": [1, "other"]}, {}):
        assert await world.shelf.pinned(wrong, here) is here.library
    assert await world.shelf.pinned(here.pin, here) is here.library


@pytest.mark.parametrize("kind", ["no JSON", "unknown kind", "no switch", "another type of key"])
async def test_when_the_switches_cannot_be_read_no_skill_is_on_and_the_operator_is_told(
    world: World, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    redis, key = world.store.redis, f"{world.store.layout.skills_root}:{HERE}"
    match kind:
        case "no JSON":
            await redis.hset(key, mapping={"s:report": "off", "rev": "1"})
        case "unknown kind":
            await redis.hset(key, mapping={"x:report": "{}", "rev": "1"})
        case "no switch":
            await redis.hset(key, mapping={"s:report": '{"to": "maybe"}', "rev": "1"})
        case _:
            await redis.set(key, "off")
    here = await world.here()
    assert (here.catalogue.skills, here.is_readable) == ((), False)
    assert "switches can't be read" in caplog.text
    assert "report" in await world.names(DEV), "the others work"
    await world.shelf.begin_anew(HERE, world.change())
    assert "report" in await world.names()


async def test_equal_channels_share_a_catalogue_and_an_unchanged_one_is_the_same_object(world: World) -> None:
    first, again, other = await world.here(), await world.here(), await world.here(DEV)
    assert first is again
    assert first.catalogue is other.catalogue
    await world.shelf.switch(HERE, "report", "off", world.change())
    assert (await world.here()).catalogue is not first.catalogue
    assert (await world.here(DEV)).catalogue is other.catalogue


async def test_channels_are_kept_as_long_as_their_catalogues_are_not_too_large_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = [ConversationKey("slack-main", f"C-{number}") for number in range(3)]
    for room in rooms:
        await world.shelf.switch(scope_of(room.channel_id), "report", "off", world.change())
    size = len((await world.here()).library.skills)
    monkeypatch.setattr(shelves, "SKILLS_KEPT", 2 * size)
    first, second, third = [(await world.here(room)).catalogue for room in rooms]
    assert (await world.here(rooms[2])).catalogue is third
    assert (await world.here(rooms[1])).catalogue is second
    assert (await world.here(rooms[0])).catalogue is not first
    assert (await world.here(rooms[1])).catalogue is second, "the one that was used last is kept"
    assert (await world.here(OPS)).catalogue
    assert (await world.here(rooms[2])).catalogue is not third


async def test_a_catalogue_that_channels_share_outlives_those_of_single_channels(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [ConversationKey("slack-main", f"C-{number}") for number in range(2)]
    for room in alone:
        await world.shelf.switch(scope_of(room.channel_id), "report", "off", world.change())
    shared = await world.here(DEV)
    monkeypatch.setattr(shelves, "SKILLS_KEPT", 2 * len(shared.library.skills))
    late = ConversationKey("slack-main", "C-9")
    seen = [(await world.here(room)).catalogue for room in (DEV, alone[0], OPS, alone[1], late)]
    assert [one is shared.catalogue for one in seen] == [True, False, True, False, True]


async def test_a_warm_shelf_has_read_everything_before_a_turn_asks(world: World) -> None:
    shelf = world.another_shelf("two")
    assert await shelf.warm()
    redis, root = world.store.redis, world.store.layout.skills_root
    await redis.delete(*[name async for name in redis.scan_iter(f"{root}:bundle:*")])
    assert "report" in [skill.id for skill in (await world.here(shelf=shelf)).catalogue.skills]
    await redis.delete(f"{root}:meta")
    assert not await shelf.warm()


async def test_switches_that_cannot_be_read_keep_no_worker_from_starting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.store.redis.hset(f"{world.store.layout.skills_root}:org", mapping={"rev": "9", "s:report": "torn"})
    shelf = world.another_shelf("two")
    assert await shelf.warm()
    assert "switches can't be read" in caplog.text
    assert not (await world.here(shelf=shelf)).catalogue.skills


async def test_an_old_snapshot_is_not_kept_for_a_channel_where_nobody_writes(world: World) -> None:
    old = weakref.ref((await world.here(DEV)).library)
    assert old() is not None
    write(world.root, "third")
    await world.publish()
    assert "third" in await world.names(OPS)
    assert old() is None


async def test_a_bundle_waits_until_its_very_bytes_are_trusted(world: World) -> None:
    first = world.bundle("checklist", body="SAFE.\n")
    await add(world, first)
    here = await world.here()
    assert here.find("checklist").hash == first.hash
    assert "checklist" not in await world.names()
    assert "checklist" not in str((await world.here(DEV)).library.skills)
    await world.shelf.trust(OPS.channel_id, first, world.change("slack-main/U-LI"))
    assert "checklist" in await world.names()
    second = world.bundle("checklist", body="SAFE!\n")
    await add(world, second)
    assert "checklist" not in await world.names()
    assert (await world.here()).find("checklist").hash == second.hash
    with pytest.raises(OtherBundle):
        await world.shelf.trust(OPS.channel_id, first, world.change())
    await add(world, first)
    assert "checklist" in await world.names(), "these bytes were trusted before"
    await world.shelf.stock.at_hand((await world.here()).find("checklist"))
    assert contents.body((await world.here()).find("checklist")) == "SAFE.\n"


async def test_a_bundle_that_nobody_trusts_leaves_the_skill_of_its_name_in_force(world: World) -> None:
    await add(world, world.bundle("report", body="OTHER.\n"))
    assert (await world.here()).find("report").tier == "org"
    trusted = (await world.here()).waiting["report"]
    await world.shelf.trust(OPS.channel_id, trusted, world.change())
    here = await world.here()
    assert (here.find("report").tier, [one.skill.tier for one in here.library.shadowed]) == ("channel", ["org"])
    assert (await world.here(DEV)).find("report").tier == "org"


async def test_a_bundle_for_all_is_of_the_organisation_and_needs_nobodys_word(world: World) -> None:
    skill = world.bundle("checklist")
    await world.shelf.add(ORG, skill, contents.whole(skill), world.change())
    assert (await world.here(DEV)).find("checklist").tier == "org"
    here = await world.here()
    await world.shelf.remove(ORG, here.org.installed["checklist"], world.change())
    assert "checklist" not in await world.names(DEV)


async def test_what_was_removed_is_gone_and_its_bytes_stay_a_day_for_turns_that_run(world: World) -> None:
    skill = world.bundle("checklist")
    await add(world, skill)
    await world.shelf.trust(OPS.channel_id, skill, world.change())
    running = await world.here()
    await world.shelf.remove(HERE, running.own.installed["checklist"], world.change())
    assert "checklist" not in await world.names()
    key = f"{world.store.layout.skills_root}:bundle:{skill.hash}"
    assert 0 < await world.store.redis.ttl(key) <= 86_400
    with pytest.raises(OtherBundle):
        await world.shelf.remove(HERE, running.own.installed["checklist"], world.change())


async def test_two_admins_at_once_leave_one_state_and_two_lines(world: World) -> None:
    await asyncio.gather(
        world.shelf.switch(HERE, "report", "off", world.change("slack-main/U-ANA")),
        world.another_shelf("two").switch(HERE, "report", "off", world.change("slack-main/U-BEN")),
    )
    assert "report" not in await world.names()
    assert sorted(await world.audit()) == [("slack-main/U-ANA", "skill off"), ("slack-main/U-BEN", "skill off")]


async def test_a_change_that_is_made_again_after_a_crash_is_one_change(world: World) -> None:
    await world.shelf.switch(HERE, "report", "off", world.change(turn="t1"))
    await world.shelf.switch(HERE, "report", "on", world.change(turn="t2"))
    await world.shelf.switch(HERE, "report", "off", world.change(turn="t1"))
    assert "report" in await world.names(), "what somebody else decided since is not undone"
    assert [what for _, what in await world.audit()] == ["skill off", "skill on"]


async def test_of_two_bundles_that_look_alike_and_come_at_once_the_second_is_refused(world: World) -> None:
    first, second = world.bundle("modern"), world.bundle("modem")
    await add(world, first)
    with pytest.raises(LookAlike, match="modern"):
        await add(world, second)
    assert [one.id for one in (await world.here()).own.installed.values()] == ["modern"]
    await add(world, world.bundle("Modern", body="Newer.\n"))
    assert [one.id for one in (await world.here()).own.installed.values()] == ["Modern"]


async def test_what_was_refused_and_what_was_changed_in_one_millisecond_are_told_in_order(world: World) -> None:
    done = [f"thing {number}" for number in range(200)]
    for number, thing in enumerate(done):
        if number % 2:
            await world.shelf.switch(HERE, thing, "off", world.change())
        else:
            await world.shelf.refused(world.change(turn=""), "skill off refused", thing)
    lines = await read(world.store, most=10_000)
    assert len({line.at_ms for line in lines}) < len(done), "several share a millisecond"
    assert [line.thing for line in lines] == done


async def test_whoever_is_refused_again_and_again_fills_nothing_up_and_pushes_no_change_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "REFUSALS_KEPT", 100)
    await world.shelf.switch(HERE, "report", "off", world.change())
    for number in range(600):
        await world.shelf.refused(world.change(turn=""), "tool refused", f"tool {number}")
    root = world.store.layout.skills_root
    assert await world.store.redis.xlen(f"{root}:refused") < 400
    lines = await read(world.store, most=10_000)
    assert (lines[0].what, lines[-1].thing) == ("skill off", "tool 599")
    assert [line.thing for line in await read(world.store, most=2)] == ["tool 598", "tool 599"]


async def test_a_reload_that_is_late_takes_no_snapshot_away_and_tells_nothing_twice(world: World) -> None:
    late = world.change()
    old = (await world.shelf.look()).number
    write(world.root, "third")
    new = await world.publish()
    before, now = await world.shelf.reloaded(world.change(), new)
    assert "third" in now.in_force.keys() - before.in_force.keys()
    before, now = await world.shelf.reloaded(late, old)
    assert before.in_force.keys() == now.in_force.keys()
    redis, root = world.store.redis, world.store.layout.skills_root
    assert await redis.ttl(f"{root}:snapshot:{new}") == -1
    assert await redis.hget(f"{root}:meta", "told") == str(new).encode()
    assert await redis.ttl(f"{root}:snapshot:{old}") > 0


async def test_where_redis_lost_the_number_of_the_snapshot_reloads_tell_again(world: World) -> None:
    redis, root = world.store.redis, world.store.layout.skills_root
    await redis.hset(f"{root}:meta", "told", "50")
    await world.shelf.reloaded(world.change(), (await world.shelf.look()).number)
    write(world.root, "third")
    before, now = await world.shelf.reloaded(world.change(), await world.publish())
    assert now.in_force.keys() - before.in_force.keys() == {"third"}


async def test_what_the_last_reload_told_of_is_kept_until_the_next_one(world: World) -> None:
    first = (await world.shelf.look()).number
    await world.shelf.reloaded(world.change(), first)
    for name in ("third", "fourth"):
        write(world.root, name)
        await world.publish()
    assert await world.store.redis.ttl(f"{world.store.layout.skills_root}:snapshot:{first}") == -1
    change = world.change(turn="reload")
    for _ in range(2):
        before, now = await world.shelf.reloaded(change, first + 2)
        assert now.in_force.keys() - before.in_force.keys() == {"third", "fourth"}


async def test_reload_waits_until_somebody_has_looked(world: World) -> None:
    write(world.root, "fresh")
    packing = asyncio.create_task(world.packer.run())
    try:
        await world.shelf.reload(world.change())
        assert "fresh" in await world.names()
    finally:
        packing.cancel()


async def test_reload_says_so_when_nobody_packs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "RELOAD_WAIT_S", 0.2)
    with pytest.raises(NobodyPacks):
        await world.shelf.reload(world.change())


async def test_what_a_skill_needs_is_asked_of_the_profile_and_the_machine(world: World) -> None:
    write(world.root, "metrics", more="env: [CITY]\n")
    (world.path / "profiles").mkdir()
    (world.path / "profiles/default.yaml").write_text('skills: ["*"]\nprogram_env: [CITY]\n')
    world.settings()
    await world.publish()
    assert "metrics" not in await world.names()
    here = await world.here(shelf=world.another_shelf("two", "CITY"))
    assert "metrics" in [one.id for one in here.catalogue.skills]
