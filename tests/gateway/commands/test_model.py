"""/model: what it shows, what it takes, and what it leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.conversation.records import Record, carry
from gateway.model_choice import chosen
from gateway.store import Store
from tests.gateway.commands.world import MAX, OPS, World

PROFILE = """\
language: {language}
model: own-1
models: [fast-1, Deep-1]
fallback_model: other-1
"""


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    return World(store, tmp_path, profile=PROFILE)


def chose(name: str) -> Record:
    return Record("model", 0, {"turn": "t", "name": name, "by": "U-MAX"})


async def test_it_tells_what_answers_what_stands_in_and_what_else_there_is(world: World) -> None:
    assert (await world.told("/model", MAX)).split("\n") == [
        "The model `own-1` answers here.",
        "While it is away, `other-1` answers.",
        "You can choose with `/model NAME`: `fast-1`, `Deep-1`",
    ]
    told = await world.told("/model", MAX, history=[chose("fast-1")])
    assert told.startswith(
        "The model `fast-1` answers here: it was chosen for this conversation. This channel's own is `own-1`."
    )
    assert "`own-1`, `Deep-1`" in told


@pytest.mark.parametrize(("said", "name"), [("fast-1", "fast-1"), ("DEEP-1", "Deep-1")])
async def test_what_is_allowed_is_chosen_by_a_record(world: World, said: str, name: str) -> None:
    done = await world.say(f"/model {said}", MAX)
    assert f"From the next message on `{name}` answers" in done.text
    [record] = done.records
    assert (record.type, record.data["name"], record.data["by"]) == ("model", name, "U-MAX")


async def test_one_goes_back_to_the_own_one_and_asks_for_the_same_in_vain(world: World) -> None:
    [record] = (await world.say("/model own-1", MAX, history=[chose("fast-1")])).records
    assert record.data["name"] == ""
    assert "`own-1` answers here." in await world.told("/model", MAX, history=[chose("fast-1"), record])
    assert (await world.say("/model own-1", MAX)).records == ()
    assert "already" in await world.told("/model fast-1", MAX, history=[], open=[chose("fast-1")])


@pytest.mark.parametrize("name", ["gpt", "fast", "fast-1x", "other-1"])
async def test_what_is_not_allowed_is_answered_with_what_is(world: World, name: str) -> None:
    done = await world.say(f"/model {name}", MAX)
    assert done.records == ()
    assert done.text == f"`{name}` can't be chosen here. Allowed are: `own-1`, `fast-1`, `Deep-1`"
    assert "nothing was done" in await world.told(f"/model {name} now", MAX)


async def test_where_the_operator_allows_no_other_it_says_so(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path)
    assert await world.told("/model", MAX) == "The model `rehearsal` answers here.\nThe operator allows no other here."


def test_a_choice_outlives_what_was_said_and_not_the_operators_leave(world: World) -> None:
    profile = world.loaded.profile_for(OPS.connection, OPS.channel)
    cleared = Record("cleared", 0, {"carried": carry([chose("fast-1")])})
    assert chosen([cleared], profile) == "fast-1"
    assert chosen([chose("fast-1"), chose("gone-1")], profile) is None
    assert chosen([], profile) is None
