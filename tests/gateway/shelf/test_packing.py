"""Packing: what lies in the folders is published for all, by one process at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.shelf import packing
from gateway.shelf.snapshot import Snapshot
from gateway.store import Store, script_of
from skills import contents
from tests.gateway.shelf.world import World
from tests.skills.test_library import write


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    return World(store, tmp_path)


async def bundles(world: World) -> dict[str, int]:
    """Of each bundle in Redis, how long it is kept: -1 for as long as it is named."""
    redis, root = world.store.redis, world.store.layout.skills_root
    names = [name.decode() async for name in redis.scan_iter(f"{root}:bundle:*")]
    return {name.rpartition(":")[2]: await redis.ttl(name) for name in names}


async def test_what_lies_in_the_folders_is_published_and_read_by_a_process_on_another_machine(world: World) -> None:
    folder = write(world.root, "ops/triage", body="Look FIRST.\n", more="alias: first-aid\n")
    (folder / "references").mkdir()
    (folder / "references/a.md").write_text("facts")
    (folder / "run.sh").write_text("true")
    (folder / "run.sh").chmod(0o755)
    assert await world.publish() == 1
    shutil.rmtree(world.root)
    elsewhere = world.another_shelf("two")
    here = await world.here(shelf=elsewhere)
    skill = here.find("first-aid")
    assert (skill.id, skill.tier, skill.head.description) == ("ops/triage", "org", "Does it.")
    await elsewhere.stock.at_hand(skill)
    assert contents.body(skill) == "Look FIRST.\n"
    assert contents.read(skill, "references/a.md") == b"facts"
    assert (skill.folder / "run.sh").stat().st_mode & 0o111
    assert {one.id for one in here.catalogue.skills} == {"ops/triage", "skill-writing", "web-access"}


async def test_a_number_is_given_only_to_what_is_new(world: World) -> None:
    write(world.root, "other")
    write(world.root, "report")
    assert await world.publish() == 1
    assert await world.publish() == 1
    write(world.root, "report", body="Another.\n")
    assert await world.publish() == 2
    shutil.rmtree(world.root / "report")
    assert await world.publish() == 3
    assert await world.names() == ["other", "skill-writing", "web-access"]


async def test_a_packer_that_comes_later_publishes_nothing_that_is_there(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    await world.store.redis.delete(f"{world.store.layout.skills_root}:packer")
    assert await world.another_packer("two").step()
    assert (await world.shelf.look()).number == 1


async def test_one_packs_and_the_others_wait_until_it_is_gone(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    other = world.another_packer("two")
    write(world.root, "other")
    assert not await other.step()
    assert (await world.shelf.look()).number == 1
    await world.store.redis.delete(f"{world.store.layout.skills_root}:packer")  # its lease ran out
    assert await other.step()
    assert not await world.packer.step()
    assert (await world.shelf.look()).number == 2


async def test_who_packs_for_longer_than_a_lease_keeps_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(world.root, "atlas")
    (folder / "maps.bin").write_bytes(os.urandom(24_000_000))  # about a second of compression
    monkeypatch.setattr(packing, "LEASE_MS", 300)
    assert await world.publish() == 1


async def test_bundles_are_kept_while_they_are_named_and_a_day_longer(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    first = await bundles(world)
    assert set(first.values()) == {-1}
    write(world.root, "report", body="Another.\n")
    await world.publish()
    second = await bundles(world)
    old = [name for name, left_s in second.items() if left_s != -1]
    assert set(second) > set(first)
    assert [86_000 < second[name] <= 86_400 for name in old] == [True]
    write(world.root, "report")
    await world.publish()
    assert (await bundles(world))[old[0]] == -1, "the first version is named again"


async def published(world: World) -> Snapshot:
    return await world.shelf.stock.snapshot((await world.shelf.look()).number)


async def test_a_program_that_breaks_keeps_its_last_version_for_a_packer_that_never_saw_it_too(world: World) -> None:
    folder = write(world.root, "report", body="FIRST.\n")
    (folder / "main.py").write_text("def run(params): ...\n")
    (folder / "schema.json").write_text("{")
    await world.publish()
    [first] = [one for one in (await published(world)).entries if one.id == "report"]
    write(world.root, "report", body="SECOND.\n")
    await world.publish()
    [second] = [one for one in (await published(world)).entries if one.id == "report"]
    assert second != first, "it never worked: what is there now counts, as a text"
    (folder / "schema.json").write_text("{}")
    await world.publish()
    (folder / "schema.json").write_text("{")
    for _ in range(2):
        await world.publish()
        now = await published(world)
        [kept] = [one for one in now.entries if one.id == "report"]
        assert kept not in {first, second}
        assert [one.kept for one in now.faults] == [True]
        await world.store.redis.delete(f"{world.store.layout.skills_root}:packer")
        world.packer = world.another_packer("two")


async def test_a_half_written_skill_keeps_its_last_version_for_a_packer_that_never_saw_it_too(world: World) -> None:
    folder = write(world.root, "report", body="WORKED.\n")
    await world.publish()
    (folder / "SKILL.md").write_text("---\nname: report\n")
    for packer in (world.packer, world.another_packer("two")):
        await world.store.redis.delete(f"{world.store.layout.skills_root}:packer")
        assert await packer.step()
        here = await world.here()
        await world.shelf.stock.at_hand(here.find("report"))
        assert contents.body(here.find("report")) == "WORKED.\n"
        (fault,) = here.library.faults
        assert (fault.id, fault.kept, fault.reason) == ("report", True, "no closing ---")


async def test_a_folder_that_is_gone_keeps_its_skills(world: World) -> None:
    write(world.root, "report")
    await world.publish()
    world.root.rename(world.path / "away")
    await world.publish()
    assert "report" in await world.names()


async def test_a_bundle_that_redis_lost_is_told_and_costs_no_other_skill(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write(world.root, "report")
    await world.publish()
    bundle = (await world.here()).find("report").hash
    await world.store.redis.delete(f"{world.store.layout.skills_root}:bundle:{bundle}")
    here = await world.here(shelf=world.another_shelf("two"))
    assert [skill.id for skill in here.catalogue.skills] == ["skill-writing", "web-access"]
    told = [record.__dict__["fields"] for record in caplog.records]
    assert [(one["id"], "bundle is not in Redis" in one["reason"]) for one in told] == [("report", True)]


async def test_a_bundle_that_is_not_what_its_hash_says_is_no_skill(world: World) -> None:
    write(world.root, "report")
    write(world.root, "other")
    await world.publish()
    here = await world.here()
    root = world.store.layout.skills_root
    forged: Any = await world.store.redis.get(f"{root}:bundle:{here.find('other').hash}")
    await world.store.redis.set(f"{root}:bundle:{here.find('report').hash}", forged)
    seen = await world.here(shelf=world.another_shelf("two"))
    assert "report" not in [skill.id for skill in seen.catalogue.skills]


async def test_what_was_published_is_told_skill_by_skill(world: World, caplog: pytest.LogCaptureFixture) -> None:
    write(world.root, "report", description="Makes the report.")
    write(world.root, "bad").joinpath("SKILL.md").write_text("no skill")
    write(world.root, "日报")
    with caplog.at_level("INFO", "gateway.shelf.packing"):
        await world.publish()
        told = [record.getMessage() for record in caplog.records]
        assert "● report  org  17 characters" in told
        assert any(line.startswith("● web-access  builtin  ") for line in told)
        assert any(line.startswith("✗ bad  org  (SKILL.md line 1: ") for line in told)
        (published,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "skills published"]
        assert published["snapshot"] == 1
        assert published["sum"].startswith("4 of 4 skills on, 1 broken, list of ")
        assert not any("names of a-z" in line for line in told), "a name in Chinese is no fault"
        caplog.clear()
        write(world.root, "report", description="Makes another report.")
        await world.publish()
        told = [record.getMessage() for record in caplog.records]
        assert "report: org, changed" in told
        assert not any("web-access" in line for line in told), "what is as it was is not told again"


async def test_thousands_are_published_only_if_all_are_there_and_all_are_kept(world: World) -> None:
    run, root = world.store.run, world.store.layout.skills_root
    names = [f"{number:064x}" for number in range(2_500)]
    await run(script_of("gateway.shelf", "lease"), root, "one", 60_000)
    await asyncio.gather(*(run(script_of("gateway.shelf", "put"), root, one, b"x") for one in names[:-1]))

    async def publish() -> tuple[bytes, int]:
        verdict, number = await run(
            script_of("gateway.shelf", "publish"), root, "one", 0, "hash", "{}", len(names), *names
        )
        return verdict, number

    assert await publish() == (b"NO_BUNDLE", 0)
    await run(script_of("gateway.shelf", "put"), root, names[-1], b"x")
    assert await publish() == (b"OK", 1)
    assert await bundles(world) == dict.fromkeys(names, -1)
    assert set(await world.store.redis.hvals(f"{root}:refs")) == {b"1"}


def test_a_snapshot_is_what_was_dumped() -> None:
    with pytest.raises(ValueError, match="no snapshot"):
        Snapshot.load('{"skills": 1}')


@pytest.mark.parametrize("loss", ["gone", "runs out", "its hash"])
async def test_a_snapshot_that_redis_lost_is_put_again(world: World, loss: str) -> None:
    write(world.root, "report")
    number = await world.publish()
    redis, root = world.store.redis, world.store.layout.skills_root
    for packer in ("the same", "another"):
        if loss == "gone":
            await redis.delete(f"{root}:snapshot:{number}")
        elif loss == "runs out":
            await redis.expire(f"{root}:snapshot:{number}", 100)
        else:
            await redis.hset(f"{root}:meta", "hash", "other")
        if packer == "another":
            await redis.delete(f"{root}:packer")
            world.packer = world.another_packer("two")
        assert await world.publish() == number
        assert await redis.ttl(f"{root}:snapshot:{number}") == -1
        here = await world.here(shelf=world.another_shelf(packer))
        assert "report" in [skill.id for skill in here.catalogue.skills]
        assert set(await redis.hvals(f"{root}:refs")) == {b"1"}


@pytest.mark.parametrize("odd", ["abc", "-1", "1e400", "0", "99"])
async def test_a_number_of_the_snapshot_that_is_none_is_given_anew(world: World, odd: str) -> None:
    write(world.root, "report")
    await world.publish()
    await world.store.redis.hset(f"{world.store.layout.skills_root}:meta", "snapshot", odd)
    await world.publish()
    here = await world.here(shelf=world.another_shelf("two"))
    assert "report" in [skill.id for skill in here.catalogue.skills]


async def test_bundles_that_redis_lost_are_put_again_and_read_by_those_who_missed_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(world.root, "report")
    number = await world.publish()
    lost = await bundles(world)
    await world.store.redis.delete(*(f"{world.store.layout.skills_root}:bundle:{one}" for one in lost))
    missed = world.another_shelf("two")
    assert not (await world.here(shelf=missed)).catalogue.skills
    assert await world.publish() == number, "it looks only now and then"
    monkeypatch.setattr(world.packer, "_bundles_due_s", 0.0)
    assert await world.publish() == number + 1
    assert await bundles(world) == dict.fromkeys(lost, -1)
    assert set(await world.store.redis.hvals(f"{world.store.layout.skills_root}:refs")) == {b"1"}
    assert [one.id for one in (await world.here(shelf=missed)).catalogue.skills] == await world.names()
    assert "report" in await world.names()
    assert await world.publish() == number + 1


async def test_a_bundle_that_would_run_out_though_it_is_named_stays(world: World) -> None:
    await world.publish()
    for one in await bundles(world):
        await world.store.redis.expire(f"{world.store.layout.skills_root}:bundle:{one}", 100)
    world.packer = world.another_packer("one")
    await world.publish()
    assert set((await bundles(world)).values()) == {-1}
