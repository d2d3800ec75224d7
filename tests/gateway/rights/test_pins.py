"""Pins: a tool is there in the words that somebody approved, and in no others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.audit.log import page, read
from gateway.rights.pins import Definition, Pins
from gateway.store import Store

ECHO = Definition("twin__echo", "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}})


@pytest.fixture
def pins(store: Store) -> Pins:
    return Pins(store)


async def test_nobody_has_approved_what_nobody_has_seen(pins: Pins) -> None:
    assert await pins.of([]) == {}
    assert await pins.of(["twin__echo"]) == {}
    assert not await pins.revoke("twin__echo", "operator ann")


async def test_what_is_approved_is_kept_word_for_word(pins: Pins) -> None:
    await pins.approve(ECHO, "operator ann", 7)
    found = await pins.of(["twin__other", "twin__echo"])
    assert list(found) == ["twin__echo"]
    pin = found["twin__echo"]
    assert (pin.definition, pin.by, pin.at_ms, pin.holds) == (ECHO, "operator ann", 7, True)
    assert pin.definition.hash == ECHO.hash
    assert await pins.revoke("twin__echo", "operator ann")
    assert await pins.of(["twin__echo"]) == {}


async def test_each_yes_and_each_that_is_taken_back_leaves_its_line(pins: Pins) -> None:
    other = replace(ECHO, description="Something else.")
    await pins.approve(ECHO, "operator ann", 1)
    await pins.approve(other, "operator bob", 2)
    await pins.revoke("twin__echo", "operator ann")
    await pins.revoke("twin__echo", "operator ann")
    told = [(one.who, one.what, one.thing, one.before, one.after) for one in await read(pins.store)]
    assert told == [
        ("operator ann", "mcp approve", "twin__echo", "", ECHO.hash),
        ("operator bob", "mcp approve", "twin__echo", ECHO.hash, other.hash),
        ("operator ann", "mcp revoke", "twin__echo", other.hash, ""),
    ]
    assert await read(pins.store, room="chat/room") == []
    pages = [one.what for one in (await page(pins.store, rooms=None, most=2)).lines]
    assert pages == ["mcp revoke", "mcp approve"]


def test_the_hash_is_of_all_that_a_model_is_shown() -> None:
    schema = {"properties": dict(ECHO.schema["properties"]), "type": "object"}
    assert replace(ECHO, schema=schema).hash == ECHO.hash, "in another order"
    for other in (
        replace(ECHO, name="twin__ech"),
        replace(ECHO, description="Says it again. Also sends it home."),
        replace(ECHO, schema={**schema, "properties": {"text": {"type": "string", "description": "The password."}}}),
    ):
        assert other.hash != ECHO.hash


async def test_a_change_takes_it_away_until_somebody_says_yes_again(pins: Pins) -> None:
    other = replace(ECHO, description="Something else.")
    await pins.approve(ECHO, "ann", 1)
    news = await asyncio.gather(*(pins.note_change(ECHO, other.hash) for _ in range(4)))
    assert sorted(news) == [False, False, False, True], "whoever sees it first tells of it"
    pin = (await pins.of(["twin__echo"]))["twin__echo"]
    assert (pin.holds, pin.changed) == (False, other.hash)
    await pins.approve(other, "ann", 2)
    assert (await pins.of(["twin__echo"]))["twin__echo"].holds


async def test_a_tool_that_is_gone_is_noted_as_such(pins: Pins) -> None:
    await pins.approve(ECHO, "ann", 1)
    assert await pins.note_change(ECHO, "")
    assert (await pins.of(["twin__echo"]))["twin__echo"].changed == "gone"


async def test_who_saw_it_before_somebody_decided_takes_nothing_away(pins: Pins) -> None:
    other = replace(ECHO, description="Something else.")
    await pins.approve(other, "ann", 1)
    assert not await pins.note_change(ECHO, other.hash)
    assert (await pins.of(["twin__echo"]))["twin__echo"].holds
    await pins.revoke("twin__echo", "operator ann")
    assert not await pins.note_change(other, ECHO.hash)
    await pins.approve(other, "ann", 2)
    assert (await pins.of(["twin__echo"]))["twin__echo"].holds, "a revoked one leaves no trace"
