"""Acts that are asked for twice, because a worker died before it answered: told is what was done, not what would be now."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path

import pytest

from gateway.acts import answers
from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts, By
from gateway.rights.access import Operator
from gateway.store import Store
from tests.gateway.shelf.world import OPS, World
from tests.skills.test_library import write


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path)
    write(made.root, "report")
    await made.publish()
    return made


def acts(world: World, turn: str = "") -> Acts:
    """Those of the operator in a channel."""
    by = By(turn or world.change().id, 1, Operator("root"), here=partial(world.shelf.here, OPS, world.loaded))
    return Acts(world.shelf, world.loaded.settings.skills, by)


def zipped(body: str, name: str = "checklist") -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as file:
        file.writestr("SKILL.md", f"---\nname: {name}\ndescription: Checks things.\n---\n{body}\n")
    return raw.getvalue()


async def add(world: World, body: str, turn: str = "") -> str:
    return (await acts(world, turn).add("checklist.zip", zipped(body))).hash


async def test_trust_tells_of_the_bytes_that_it_trusted(world: World) -> None:
    good = await add(world, "Good.")
    first = await acts(world, "t").trust("checklist", good[:8])
    assert await acts(world, "t").trust("checklist", good[:8]) == first
    evil = await add(world, "Evil.")
    lines = await world.audit()
    with pytest.raises(Refusal) as caught:
        await acts(world, "t").trust("checklist")
    assert "`/skill trust` of `checklist` was done already" in answers.refused(caught.value, "en")
    assert not (await world.here()).own.trusts("checklist", evil)
    await acts(world, "t").refused("skill trust", "checklist", caught.value)
    assert await world.audit() == lines, "it was done, and is no refusal"


async def test_trust_names_the_tier_in_whose_place_the_bundle_stands_each_time(world: World) -> None:
    await acts(world).add("report.zip", zipped("Other.", "report"))
    told = [(await acts(world, "t").trust("report")).behind for _ in range(2)]
    assert told == ["org", "org"]


async def test_a_switch_that_somebody_turned_since_is_not_told_as_if_it_held(world: World) -> None:
    first = await acts(world, "t").switch("report", "off")
    assert await acts(world, "t").switch("report", "off") == first
    await acts(world).switch("report", "on")
    with pytest.raises(Refusal) as caught:
        await acts(world, "t").switch("report", "off")
    assert caught.value.kind == "overtaken"
    assert "report" in await world.names()


async def test_remove_tells_of_what_it_took_away(world: World) -> None:
    hash_ = await add(world, "One.")
    first = await acts(world, "t").remove("checklist")
    assert (first.id, first.hash) == ("checklist", hash_)
    assert await acts(world, "t").remove("checklist") == first
    other = await add(world, "Two.")
    with pytest.raises(Refusal) as caught:
        await acts(world, "t").remove("checklist")
    assert caught.value.kind == "overtaken"
    assert (await world.here()).own.installed["checklist"].bundle == other


async def test_add_tells_what_it_replaced_each_time(world: World) -> None:
    before = await add(world, "One.")
    told = [await acts(world, "t").add("checklist.zip", zipped("Two.")) for _ in range(2)]
    assert told[0] == told[1]
    assert told[0].replaces
    assert told[0].replaces.bundle == before
    await add(world, "Three.")
    with pytest.raises(Refusal) as caught:
        await acts(world, "t").add("checklist.zip", zipped("Two."))
    assert caught.value.kind == "overtaken"


async def test_what_is_taken_back_is_told_each_time(world: World) -> None:
    bound = "ab12" * 16
    await acts(world).allow_always(bound, "send_file", '{"name": "a.txt"}')
    told = [(await acts(world, "t").ask_again(bound[:8]))[1] for _ in range(2)]
    assert told[0] == told[1]
    assert (told[0].tool, told[0].form) == ("send_file", '{"name": "a.txt"}')
    with pytest.raises(Refusal) as caught:
        await acts(world).ask_again(bound[:8])
    assert caught.value.kind == "no_always", "of another one"
    await acts(world).allow_always(bound, "send_file", '{"name": "a.txt"}')
    with pytest.raises(Refusal) as caught:
        await acts(world, "t").ask_again(bound[:8])
    assert caught.value.kind == "overtaken"
    assert "`/hitl forget` of `send_file` was done already" in answers.refused(caught.value, "en")
    assert bound in (await world.here()).own.always
