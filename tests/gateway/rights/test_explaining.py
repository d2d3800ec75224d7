"""What may be done in a channel, and the line that decides it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from gateway.admin.operations import operations
from gateway.admin.visits import Caller, House, Visit
from gateway.audit.log import Change
from gateway.cli import deskmate
from gateway.commands import find
from gateway.commands.skill import SUBS
from gateway.conversation.key import key_of
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor, Event
from gateway.intake import Received
from gateway.rights import explaining
from gateway.rights.access import OF_PAGES
from gateway.rights.explaining import NotThere
from gateway.rights.pins import Definition, Pins
from gateway.rights.places import place
from gateway.store import Store
from skills.programs import tool_name
from tests.gateway.commands.test_skill import RUNS
from tests.gateway.commands.world import ANA, MAX, OPS, World
from tests.skills.test_library import write

PROFILE = """\
skills: ["*"]
tools: [load_skill, web_fetch]
language: {language}
roles:
  admin: [slack-main/U-ANA]
  guest: [slack-main/U-EVE]
approvals:
  ask: [web_fetch]
"""


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path, settings="channels: [{match: web/*, profile: default}]\n", profile=PROFILE)
    await made.packer.step()
    return made


async def lines(world: World) -> list[str]:
    here = await world.shelf.here(OPS, world.loaded)
    return list(explaining.told(explaining.channel(world.loaded, OPS, here, {})))


async def test_a_channel_is_told_with_the_line_that_decides_each_thing(world: World) -> None:
    await world.say("/skill off web-access", ANA)
    await world.say("/hitl on", ANA)
    told = await lines(world)
    for line in (
        "profile profile: default (deskmate.yaml: channels (no rule fits slack-main/C-OPS: default))",
        "direct direct chats: open (profiles/default.yaml: direct (not written: open, the platform's default))",
        "approval own yes: yes (profiles/default.yaml: approvals.own (not written: true))",
        "direct guests: talk (profiles/default.yaml: guests (not written: talk))",
        "skill web-access: no, off_here (web-access is switched off in slack-main/C-OPS)",
        "skill skill-writing: yes (profiles/default.yaml line 1: skills)",
        "tool web_fetch: yes (profiles/default.yaml line 2: tools)",
        "tool send_file: no, profile (profiles/default.yaml line 2: tools)",
        "approval calls that ask: web_fetch (profiles/default.yaml line 8: approvals.ask)",
        "approval free of that: none (profiles/default.yaml: approvals.free (not written: allows nothing))",
        "hitl every call with an effect asks: yes (/hitl on was said in slack-main/C-OPS)",
        "role admin slack-main/U-ANA: yes (profiles/default.yaml line 5: roles.admin)",
    ):
        assert line in told


async def test_one_thing_is_told_by_itself(world: World) -> None:
    here = await world.shelf.here(OPS, world.loaded)
    assert [one.answer for one in explaining.skill(here, "WEB-ACCESS")] == ["yes"]
    tool = explaining.tool(here, "web_fetch", {}, world.loaded.settings)
    assert [(one.kind, one.answer) for one in tool] == [("tool", "yes"), ("approval", "ask"), ("hitl", "no")]
    none = "profiles/default.yaml line 5: roles.admin or roles.channel_admin"
    max_ = {one.subject: one for one in explaining.person(here, "slack-main/U-MAX", is_paired=False, is_guest=False)}
    assert (max_["/skill off"].answer, max_["/skill off"].rule) == ("no", none), "either would do"
    ana = {
        one.subject: one.answer for one in explaining.person(here, "slack-main/U-ANA", is_paired=False, is_guest=False)
    }
    assert (ana["admin"], ana["/skill off"], ana["/skill trust"], ana["/skill off everywhere"]) == (
        "yes",
        "yes",
        "no",
        "no",
    )
    eve = {one.subject: one for one in explaining.person(here, "slack-main/U-EVE", is_paired=False, is_guest=False)}
    assert (eve["/help"].answer, eve["/status"].answer, eve["/status"].reason) == ("yes", "no", "guest")
    assert eve["/status"].rule == "profiles/default.yaml line 6: roles.guest"
    with pytest.raises(NotThere, match="there is no skill"):
        explaining.skill(here, "nothing-like-it")
    with pytest.raises(NotThere, match="there is no tool web_fech; perhaps web_fetch"):
        explaining.tool(here, "web_fech", {}, world.loaded.settings)
    with pytest.raises(NotThere, match="/role"):
        explaining.person(here, "Ana", is_paired=False, is_guest=False)


async def test_the_chat_tells_the_same(world: World) -> None:
    told = await world.told("/why channel", MAX)
    assert "tool web_fetch: yes (profiles/default.yaml line 2: tools)" in told
    told = await world.told("/why person @U-ANA", MAX)
    assert "role admin: yes (profiles/default.yaml line 5: roles.admin)" in told
    assert "nobody's id" in await world.told("/why person /", MAX)


async def test_a_member_is_told_what_is_in_force_and_who_looks_after_it_all(world: World) -> None:
    await world.say("/skill off web-access", ANA)
    told = await world.told("/why channel", MAX)
    assert "web-access" not in told
    assert "skill skill-writing: yes" in told
    assert "skill web-access: no, off_here" in await world.told("/why channel", ANA)


async def test_no_name_is_guessed_that_a_member_may_not_know(world: World) -> None:
    write(world.org, "runner")
    for name, text in RUNS.items():
        (world.org / "runner" / name).write_text(text)
    await world.packer.step()
    name = tool_name("runner")
    assert f"Perhaps `{name}`?" in await world.told(f"/why tool {name[:-1]}", ANA)
    assert "Perhaps" not in await world.told(f"/why tool {name[:-1]}", MAX), "its program does not run here"
    assert "may not be called" in await world.told(f"/why tool {name}", MAX), "who knows it hears why not"


@pytest.mark.parametrize("name", ["ops/greet", "Greet", tool_name("ops/greet")])
@pytest.mark.parametrize("asked", ["ops/greet", tool_name("ops/greet")])
async def test_a_program_is_found_by_its_skill_too_and_says_that_its_calls_ask(
    store: Store, tmp_path: Path, asked: str, name: str
) -> None:
    profile = PROFILE.replace("ask: [web_fetch]", f"ask: [web_fetch, {asked}]") + 'programs: ["*"]\n'
    made = World(store, tmp_path, profile=profile)
    write(made.org, "ops/greet")
    for file, text in RUNS.items():
        (made.org / "ops/greet" / file).write_text(text)
    await made.packer.step()
    here = await made.shelf.here(OPS, made.loaded)
    program, approval, _ = explaining.tool(here, name, {}, made.loaded.settings)
    assert (program.kind, program.subject, program.answer) == ("program", tool_name("ops/greet"), "yes")
    assert program.rule == "profiles/default.yaml line 9: programs"
    assert (approval.answer, approval.rule) == ("ask", "profiles/default.yaml line 8: approvals.ask")
    told = await made.told(f"/why tool {name}", MAX)
    assert "it may be called here" in told
    assert "waits for a person's yes, as the profile says" in told
    with pytest.raises(NotThere, match="there is no tool"):
        explaining.tool(here, "web-access", {}, made.loaded.settings)  # a skill without a program
    for one in (line for line in (await made.told("/tool", MAX)).splitlines() if "ops/greet" in line):
        assert "each call waits for a yes (`profiles/default.yaml line 8: approvals.ask`)" in one


async def test_who_was_let_in_is_told_to_themselves_and_to_who_lets_people_in(world: World) -> None:
    for who, about, is_told in ((MAX, "U-MAX", True), (MAX, "U-BO", False), (ANA, "U-BO", True)):
        told = await world.told(f"/why person {about}", who)
        assert ("talk in direct chats" in told) == is_told
        assert "talk in the channel: yes" in told


async def test_only_what_can_be_typed_is_called_a_command_and_acts_of_pages_by_their_name(world: World) -> None:
    told = await world.told("/why person U-ANA", MAX)
    assert "/_over" not in told
    assert "page conversation show: yes" in told
    assert "page dead drop everywhere: no, role" in told
    here = await world.shelf.here(OPS, world.loaded)
    commands = [
        one.subject
        for one in explaining.person(here, "slack-main/U-ANA", is_paired=None, is_guest=False)
        if one.kind == "command"
    ]
    for typed in commands:
        name, *words = typed.removeprefix("/").split()
        assert find(name), typed
        if name == "skill" and words:
            sub = SUBS[" ".join(words).removesuffix(" everywhere")]
            assert typed.endswith(" everywhere") == (sub.last == "everywhere" and "everywhere" in words)
    for act in OF_PAGES:
        name, _, rest = act.partition(" ")
        plain = rest.removesuffix(" everywhere")
        assert not find(name) or plain not in SUBS or SUBS[plain].last != "everywhere", f"/{act} can be typed"


PLACES: Final = """\
connections:
  slack-main: {platform: slack, signing_secret: $SECRET, bot_token: $SECRET}
channels:
- {match: slack-main/D-*, profile: other}
"""


async def let_in(world: World, id_: str, channel: str) -> None:
    """Who writes directly in that chat."""
    pairing, key = world.shelf.pairing, key_of("slack-main", channel)
    event = Event(kind="message", conversation=key, actor=Actor(id_), dedupe_keys=(id_,), at_ms=1, text="hello")
    asked = await pairing.ask(place(world.loaded, key), event)
    waits = await pairing.find(asked.code, "operator root")
    assert waits
    assert await pairing.accept(waits, asked.code, Change(id_, "operator root", "", "", "the command line"))


async def test_who_was_let_in_under_another_profile_is_no_matter_of_an_admin_of_this_one(
    store: Store, tmp_path: Path
) -> None:
    paired = PROFILE + "direct: paired\n"
    (tmp_path / "profiles").mkdir(exist_ok=True)
    (tmp_path / "profiles/other.yaml").write_text("direct: paired\nroles: {admin: [slack-main/U-LI]}\n")
    world = World(store, tmp_path, settings=PLACES, profile=paired)
    await world.packer.step()
    for id_, channel in (("U-BO", "D-BO"), ("U-CY", "E-CY")):
        await let_in(world, id_, channel)
    lets = "talk in direct chats: yes (slack-main/{} was let in with a code)"
    nobody = "talk in direct chats: no, unpaired"
    assert lets.format("U-CY") in await world.told("/why person U-CY", ANA), "by the profile that she is an admin of"
    assert nobody in await world.told("/why person U-BO", ANA)
    assert nobody in await world.told("/why person U-NEW", ANA), "the same of whom nobody let in"
    assert lets.format("U-BO") in await world.told("/why person U-BO", Actor("U-BO")), "their own matter"


SERVERS: Final = "mcp: {servers: {wiki: {url: https://wiki.example/mcp}}}\nconnections: {slack-main: {platform: slack, signing_secret: $SECRET, bot_token: $SECRET}}\n"
WIKI: Final = Definition("wiki__search", "Searches.", {"type": "object"})


@pytest.mark.parametrize(
    ("state", "reason"), [("nobody", "unapproved"), ("yes", "allowed"), ("changed", "reworded"), ("again", "allowed")]
)
async def test_a_tool_of_a_server_is_told_as_it_was_approved_on_every_way(
    store: Store, tmp_path: Path, state: str, reason: str
) -> None:
    """The command line, the chat and the page ask one and the same."""
    made = World(
        store, tmp_path, settings=SERVERS, profile=PROFILE.replace("[load_skill,", "[wiki__search, load_skill,")
    )
    await made.packer.step()
    pins = Pins(store)
    if state != "nobody":
        await pins.approve(WIKI, "operator root", 1)
    if state in {"changed", "again"}:
        await pins.note_change(WIKI, "other")
    if state == "again":
        await pins.approve(replace(WIKI, description="Searches all."), "operator root", 2)
    here = await made.shelf.here(OPS, made.loaded)
    found = await pins.of(explaining.pinned(here, "wiki__search"))
    answer = "yes" if reason == "allowed" else "no"
    [one, *_] = explaining.tool(here, "wiki__search", found, made.loaded.settings)
    assert (one.answer, one.reason) == (answer, reason)
    assert one in explaining.channel(made.loaded, OPS, here, found)
    assert ("it may be called here" in await made.told("/why tool wiki__search", MAX)) == (answer == "yes")
    assert f"tool wiki__search: {answer}" in await made.told("/why channel", MAX)
    has = next(line for line in (await made.told("/why", MAX)).splitlines() if "has the tools" in line)
    assert ("`wiki__search`" in has) == (answer == "yes")
    mailbox = Mailbox(store, made.loaded.settings.mailbox)
    house = House(store, mailbox, made.shelf, made.notes, lambda: made.loaded, nobody_says)
    show = operations()["channels.show"]
    visit = Visit(house, Caller(operator="root"), "v", 1, made.loaded)
    shown = await show(visit, show.input.model_validate({"channel": "slack-main/C-OPS"}))
    [tool] = [tool for tool in shown.tools if tool.name == "wiki__search"]
    assert (tool.is_on, tool.rule) == (answer == "yes", one.rule)


UNWRITTEN: Final = "profiles/default.yaml: approvals.tainted (not written: ask)"


@pytest.mark.parametrize(
    ("approvals", "name", "told"),
    [
        ("{}", "run_command", [("ask", UNWRITTEN)]),
        ("{}", "web_fetch", [("ask, unless the address was given", UNWRITTEN)]),
        ("{tainted: allow}", "web_search", [("allow", "profiles/default.yaml line 3: approvals.tainted")]),
        ("{free: [run_command]}", "run_command", [("allow", "profiles/default.yaml line 3: approvals.free")]),
        ("{ask: [run_command]}", "run_command", []),
        ("{}", "send_file", []),
        ("{}", "save_skill_reference", []),
        ("{}", "wiki__search", [("ask", UNWRITTEN)]),
        ("{}", "wiki__look", []),
    ],
)
async def test_a_tool_says_whether_its_calls_ask_after_text_from_outside(
    store: Store, tmp_path: Path, approvals: str, name: str, told: list[tuple[str, str]]
) -> None:
    servers = SERVERS.replace("/mcp}", "/mcp, tools: {look: {effect: read, reach: inside}}}")
    profile = f"language: {{language}}\ntools: [{name}]\napprovals: {{{approvals}}}\n"
    made = World(store, tmp_path, settings=servers, profile=profile)
    await made.packer.step()
    here = await made.shelf.here(OPS, made.loaded)
    found = [one for one in explaining.tool(here, name, {}, made.loaded.settings) if one.kind == "tainted"]
    assert [(one.answer, one.rule) for one in found] == told
    if name == "run_command":
        says = "once text from outside was read" in await made.told(f"/why tool {name}", MAX)
        assert says == any(answer == "ask" for answer, _ in told)


async def nobody_says(events: Sequence[Event]) -> list[Received]:
    raise AssertionError(events)


def test_the_command_line_tells_the_same_and_programs_get_json(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "deskmate.yaml").write_text(
        f"redis: {{url: $REDIS_URL, key_prefix: explain{tmp_path.name[-4:]}}}\ndata: {tmp_path}\nconnections: {{}}\n"
    )
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("tools: [load_skill]\n")
    run = CliRunner(env={"REDIS_URL": redis_url}).invoke
    given = ["--config", str(tmp_path / "deskmate.yaml"), "explain", "web/web"]
    done = run(deskmate, [*given, "--tool", "load_skill", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["channel"] == "web/web"
    assert found["answers"][0] == {
        "kind": "tool",
        "subject": "load_skill",
        "answer": "yes",
        "rule": "profiles/default.yaml line 1: tools",
        "reason": "allowed",
    }
    assert "there is no tool nope" in run(deskmate, [*given, "--tool", "nope"]).output
    assert run(deskmate, [*given, "--tool", "a", "--skill", "b"]).exit_code == 2
    assert "tool load_skill: yes (profiles/default.yaml line 1: tools)" in run(deskmate, given).output
