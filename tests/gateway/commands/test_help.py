"""/help, and what people get who say a command wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gateway import commands
from gateway.commands import ALSO, TALK, command_of, find, names, spoken, unknown
from gateway.events import Actor, Event
from gateway.phrases import LANGUAGES, phrases, say
from tests.gateway.commands.world import MAX, OPS, World


def event(**fields: Any) -> Event:
    made: dict[str, Any] = {"conversation": OPS, "actor": Actor("u"), "dedupe_keys": ("k",)}
    return Event(**made, at_ms=0, **fields)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_command_has_a_line_and_a_usage_that_names_it(language: str) -> None:
    for name in names():
        assert say(f"command.{name}.summary", language)
        assert not say(f"command.{name}.summary", language)[0].isupper(), "they go on from the command's name"
        assert f"`/{name}" in say(f"command.{name}.usage", language)


async def test_help_has_one_line_for_each_and_names_other_words_for_it(world: World) -> None:
    told = await world.told("/help", MAX)
    assert re.findall(r"^- `/(\w+)`", told, re.MULTILINE) == list(names())
    assert "`/new`, `/clear` begins" in told


@pytest.mark.parametrize("name", names())
async def test_help_of_one_says_how_it_is_said_and_what_becomes_of_it_meanwhile(world: World, name: str) -> None:
    command = find(name)
    assert command
    told = await world.told(f"/help {name}", MAX)
    assert say(f"command.{name}.usage", "en") in told
    assert say(f"command.busy.{command.WHEN_BUSY}", "en") in told


async def test_help_takes_other_words_and_the_slash_too(world: World) -> None:
    assert await world.told("/help /clear", MAX) == await world.told("/help NEW", MAX)
    assert "no command /nwe. Perhaps `/new`" in await world.told("/help nwe", MAX)
    assert "nothing was done" in await world.told("/help new stop", MAX)


@pytest.mark.parametrize(
    "said",
    [
        {"text": "/clear"},
        {"text": "/Clear@deskmate_bot"},
        {"kind": "command", "name": "clear"},
        {"kind": "action", "value": "clear"},
    ],
)
def test_clear_is_new_however_it_is_said(said: dict[str, Any]) -> None:
    assert command_of(event(**{"kind": "message", **said})) == ("new", "")


def test_other_words_are_no_commands_of_their_own_and_mean_one() -> None:
    assert set(ALSO).isdisjoint(names())
    assert set(ALSO.values()) <= set(names())
    assert set(spoken()) == {*names(), *ALSO}


async def test_what_stands_behind_new_is_not_lost_in_silence(world: World) -> None:
    done = await world.say("/new plan my day", MAX)
    assert "nothing was done" in done.text
    assert done.records == ()
    assert [one.type for one in (await world.say("/new", MAX)).records] == ["cleared"]


def test_an_unknown_command_is_told_which_come_near() -> None:
    assert "Perhaps `/skill`?" in unknown("skil", "en").text
    assert unknown("qqq", "en").text == say("command.unknown", "en", name="/qqq")


def test_names_and_lines_fit_the_menus_of_platforms() -> None:
    """https://core.telegram.org/bots/api#botcommand: 100 commands, 32 of a-z, 0-9 and _, 256 characters."""
    assert len(spoken()) <= 100
    for name in spoken():
        assert re.fullmatch(r"[a-z0-9_]{1,32}", name)
        assert commands.SPOKEN.fullmatch(f"/{name}")
        for language in LANGUAGES:
            assert 1 <= len(phrases(language)[f"command.{ALSO.get(name, name)}.summary"]) <= 256


def test_the_documentation_has_each_command_and_what_becomes_of_it_meanwhile() -> None:
    table = (Path(__file__).parents[3] / "docs/commands.md").read_text(encoding="utf-8")
    rows = {row[1]: row[0] for row in re.findall(r"^(\| `/(\w+)[^\n]*\|)$", table, re.MULTILINE)}
    assert rows.keys() == set(names())
    words = {"waits": "waits", "beside": "beside it", "overtakes": "overtakes"}
    for name, row in rows.items():
        command = find(name)
        assert command
        assert row.split("|")[-2].strip() == words[command.WHEN_BUSY], name
    for name in TALK:
        assert f"`/{name} [--ask] TASK`" in rows[name]
        assert all("--ask" in phrases(language)[f"command.{name}.usage"] for language in LANGUAGES)
