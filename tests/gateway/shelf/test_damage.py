"""Damage: what somebody wrote to Redis by hand, put back or lost switches nothing on, and is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.shelf.decisions import ORG, scope_of
from gateway.shelf.shelf import OtherBundle, Readable, Shelf
from gateway.store import Refused, Script, Store
from skills import contents
from tests.gateway.shelf.world import DEV, OPS, World
from tests.skills.test_library import write

HERE = scope_of(OPS.channel_id)


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    write(made.root, "report")
    await made.publish()
    return made


def key(world: World, name: str) -> str:
    return f"{world.store.layout.skills_root}:{name}"


async def dumped(world: World, name: str) -> bytes:
    found = await world.store.redis.dump(name)
    assert found
    return found


async def everything(world: World) -> dict[str, bytes]:
    """All that is stored about skills, but for the lease."""
    names = [name.decode() async for name in world.store.redis.scan_iter(key(world, "*"))]
    return {name: await dumped(world, name) for name in names if name != key(world, "packer")}


async def is_on(world: World, shelf: Shelf | None = None) -> bool:
    return "report" in [skill.id for skill in (await world.here(shelf=shelf)).catalogue.skills]


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{line.message} {line.__dict__.get('fields')}" for line in caplog.records)


# ---- revisions ----


@pytest.mark.parametrize("scope", [ORG, HERE])
async def test_switches_that_lost_their_revision_switch_nothing_on(
    world: World, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    await world.shelf.switch(scope, "report", "off", world.change())
    assert not await is_on(world)
    await world.store.redis.hdel(key(world, scope), "rev")
    for shelf in (world.shelf, world.another_shelf("new")):
        here = await world.here(shelf=shelf)
        assert (here.is_readable, here.catalogue.skills) == (False, ())
    assert f"{key(world, scope)}: decisions without a revision" in told(caplog)


@pytest.mark.parametrize("more", [{}, {"rev": "0"}])
async def test_switches_that_were_put_there_by_hand_without_a_revision_are_not_passed_over(
    world: World, more: dict[str, str]
) -> None:
    assert await is_on(world)
    fields: Any = {"s:report": json.dumps({"to": "off"}), **more}
    await world.store.redis.hset(key(world, HERE), mapping=fields)
    for shelf in (world.shelf, world.another_shelf("new")):
        assert not (await world.here(shelf=shelf)).is_readable
    await world.store.redis.hset(key(world, HERE), "rev", "1")
    here = await world.here()
    assert (here.is_readable, await is_on(world)) == (True, False)


@pytest.mark.parametrize("revision", ["abc", "9" * 30, "-1", "1e999", "nan", str(2**63)])
async def test_whatever_the_revision_was_a_change_reaches_every_process(world: World, revision: str) -> None:
    elsewhere = world.another_shelf("two")
    await world.store.redis.hset(key(world, HERE), mapping={"s:other": json.dumps({"to": "off"}), "rev": revision})
    assert await is_on(world, elsewhere)
    await world.shelf.switch(HERE, "report", "off", world.change())
    assert not await is_on(world, elsewhere)
    await world.shelf.switch(HERE, "report", "on", world.change())
    assert await is_on(world, elsewhere)


async def test_older_contents_that_were_put_back_count_and_are_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.shelf.switch(HERE, "report", "on", world.change())
    older = await dumped(world, key(world, HERE))
    await world.shelf.switch(HERE, "report", "off", world.change())
    assert not await is_on(world)
    await world.store.redis.restore(key(world, HERE), 0, older, replace=True)
    assert await is_on(world)
    assert await is_on(world)
    assert told(caplog).count("older than before") == told(caplog).count(HERE) == 1


@pytest.mark.parametrize("scope", [ORG, HERE])
async def test_switches_that_are_gone_altogether_are_told_and_switch_nothing_on(
    world: World, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    await world.shelf.switch(scope, "report", "off", world.change())
    before = world.another_shelf("before")
    assert not await is_on(world, before)
    await world.store.redis.delete(key(world, scope))
    for shelf in (world.shelf, before, world.another_shelf("new")):
        here = await world.here(shelf=shelf)
        assert (here.is_readable, here.catalogue.skills, here.asks_for_all) == (False, (), True)
    assert (await world.here(DEV)).is_readable == (scope == HERE)
    assert f"{key(world, scope)}: what was decided is gone" in told(caplog)
    assert "deskmate skills anew" in told(caplog)


async def test_switches_of_a_version_that_kept_no_list_of_them_are_put_on_it_when_they_are_read(world: World) -> None:
    await world.shelf.switch(HERE, "report", "off", world.change())
    await world.store.redis.delete(key(world, "decided"))
    assert not await is_on(world, world.another_shelf("after the upgrade"))
    await world.store.redis.delete(key(world, HERE))
    assert not (await world.here()).is_readable


async def test_where_all_was_taken_back_nothing_is_lost(world: World) -> None:
    await world.shelf.switch_tool(OPS.channel_id, "web_fetch", "web_fetch", "off", world.change())
    await world.shelf.switch_tool(OPS.channel_id, "web_fetch", "web_fetch", "on", world.change())
    for shelf in (world.shelf, world.another_shelf("new")):
        here = await world.here(shelf=shelf)
        assert (here.is_readable, await is_on(world, shelf)) == (True, True)


async def test_one_decision_does_not_stand_for_all_that_are_gone(world: World) -> None:
    await world.shelf.switch(HERE, "report", "off", world.change())
    await world.store.redis.delete(key(world, HERE))
    before = await everything(world)
    with pytest.raises(Refused, match="what was decided"):
        await world.shelf.switch(HERE, "other", "off", world.change())
    assert await everything(world) == before


@pytest.mark.parametrize("scope", [ORG, HERE])
@pytest.mark.parametrize("left", ["nothing", "of another kind", "a field that is none", "no revision"])
async def test_what_is_gone_or_can_not_be_read_begins_anew_once_somebody_says_so(
    world: World, scope: str, left: str
) -> None:
    await world.shelf.switch(scope, "report", "off", world.change())
    redis, name = world.store.redis, key(world, scope)
    match left:
        case "a field that is none":
            await redis.hset(name, mapping={"s:report": "[", "rev": "5"})
        case "no revision":
            await redis.hdel(name, "rev")
        case _:
            await redis.delete(name)
            if left != "nothing":
                await redis.set(name, "x")
    there = await redis.dump(name)
    assert not (await world.here()).is_readable
    change = world.change()
    await world.shelf.begin_anew(scope, change)
    for shelf in (world.shelf, world.another_shelf("new")):
        assert await is_on(world, shelf)
    assert await redis.dump(key(world, f"aside:{scope}")) == there
    assert there is None or await redis.ttl(key(world, f"aside:{scope}")) > 86_400
    assert (await world.audit())[-1] == ("slack-main/U-ANA", "skill anew")
    await world.shelf.switch(scope, "report", "off", world.change())
    with pytest.raises(Readable):
        await world.shelf.begin_anew(scope, change)
    assert not await is_on(world)


async def test_what_was_mended_by_hand_meanwhile_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.shelf.switch(HERE, "report", "off", world.change())
    kept = await dumped(world, key(world, HERE))
    await world.store.redis.delete(key(world, HERE))
    run = world.store.run

    async def later(script: Script, *rest: Any) -> Any:
        if "anew" in script.name:
            await world.store.redis.restore(key(world, HERE), 0, kept)
        return await run(script, *rest)

    monkeypatch.setattr(world.store, "run", later)
    with pytest.raises(OtherBundle):
        await world.shelf.begin_anew(HERE, world.change())
    assert not await is_on(world)


# ---- values ----


def installed(id_: str, at: str) -> str:
    return f'{{"id": {id_}, "bundle": "{"a" * 64}", "by": "a", "at": {at}}}'


ODD = [
    ("s:report", "[" * 200_000),
    ("s:report", b"\xff\xfe"),
    ("s:report", '{"to": ["off"]}'),
    ("b:x", installed('"x"', "1e999")),
    ("b:x", installed('"x"', "NaN")),
    ("b:x", installed('"x"', "9" * 5_000)),
    ("b:x", installed("7", "1")),
    ("b:x", installed('"../x"', "1")),
    ("b:x", '{"id": "x", "bundle": "../../etc", "by": "a", "at": 1}'),
    ("b:x", '{"id": "x", "bundle": {}, "by": "a", "at": 1}'),
]


@pytest.mark.parametrize(("field", "value"), ODD, ids=[str(number) for number in range(len(ODD))])
async def test_a_value_that_nobody_could_have_decided_leaves_the_channel_without_skills(
    world: World, field: str, value: str | bytes
) -> None:
    await world.store.redis.hset(key(world, HERE), mapping={field: value, "rev": "1"})
    here = await world.here()
    assert (here.is_readable, here.catalogue.skills) == (False, ())


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "[]", "{}", '{"skills": [["org", 7, "a", "b", []]], "faults": [], "warnings": []}', "null"],
    ids=lambda text: text[:20],
)
async def test_a_snapshot_that_is_none_leaves_nobody_without_an_answer(world: World, text: str) -> None:
    await world.store.redis.set(key(world, "snapshot:1"), text)
    here = await world.here(shelf=world.another_shelf("new"))
    assert (here.is_readable, here.catalogue.skills) == (False, ())


@pytest.mark.parametrize(("field", "readable"), [("snapshot", False), ("wanted", True), ("done", True)])
async def test_a_number_that_is_none_is_told(world: World, field: str, *, readable: bool) -> None:
    await world.store.redis.hset(key(world, "meta"), field, "abc")
    assert (await world.here(shelf=world.another_shelf("new"))).is_readable == readable


# ---- all or nothing ----


@pytest.mark.parametrize("name", ["audit", "refs", "decided", HERE])
@pytest.mark.parametrize("act", ["switch", "add", "remove", "trust"])
async def test_a_change_that_can_not_be_written_down_is_not_made(world: World, act: str, name: str) -> None:
    first, second = world.bundle("own", body="one\n"), world.bundle("own", body="two\n")
    await world.shelf.add(HERE, first, contents.whole(first), world.change())
    await world.shelf.stock.put(second.hash, contents.whole(second))
    installed = (await world.here()).own.installed["own"]
    redis = world.store.redis
    kept = await dumped(world, key(world, name))
    await redis.delete(key(world, name))
    await redis.set(key(world, name), "of another kind")
    before = await everything(world)

    async def do() -> None:
        change = world.change(turn="again")
        match act:
            case "switch":
                await world.shelf.switch(HERE, "report", "off", change)
            case "add":
                await world.shelf.add(HERE, second, contents.whole(second), change)
            case "remove":
                await world.shelf.remove(HERE, installed, change)
            case _:
                await world.shelf.trust(OPS.channel_id, first, change)

    with pytest.raises(Refused):
        await do()
    assert await everything(world) == before
    await redis.delete(key(world, name))
    await redis.restore(key(world, name), 0, kept)
    await do()
    lines = len(await world.audit())
    await do()
    assert len(await world.audit()) == lines == 2, "made once, now that it can be"


async def test_a_reload_and_a_refusal_that_can_not_be_written_down_are_not_marked_as_told(world: World) -> None:
    redis = world.store.redis
    for name in ("audit", "refused"):
        await redis.delete(key(world, name))
        await redis.set(key(world, name), "of another kind")
    before = await everything(world)
    with pytest.raises(Refused):
        await world.shelf.reloaded(world.change(turn="r"), 1)
    with pytest.raises(Refused):
        await world.shelf.refused(world.change(turn="a"), "skill off refused", "report")
    assert await everything(world) == before


async def test_a_snapshot_is_not_published_by_half(world: World) -> None:
    write(world.root, "other")
    await world.store.redis.delete(key(world, "refs"))
    await world.store.redis.set(key(world, "refs"), "of another kind")
    with pytest.raises(Refused):
        await world.packer.step()
    assert (await world.shelf.look()).number == 1
    await world.store.redis.delete(key(world, "refs"))
    assert await world.publish() == 2


async def test_a_bundle_stays_while_nobody_knows_how_many_name_it(world: World) -> None:
    skill = world.bundle("own")
    await world.shelf.add(HERE, skill, contents.whole(skill), world.change())
    await world.store.redis.hset(key(world, "refs"), skill.hash, "many")
    await world.shelf.remove(HERE, (await world.here()).own.installed["own"], world.change())
    assert await world.store.redis.ttl(key(world, f"bundle:{skill.hash}")) == -1
