"""What may be done in a channel, and the line that decides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import deskmate
from gateway.rights import explaining
from gateway.rights.explaining import NotThere
from gateway.store import Store
from tests.gateway.commands.world import ANA, MAX, OPS, World

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
    return list(explaining.told(explaining.channel(world.loaded, OPS, here)))


async def test_a_channel_is_told_with_the_line_that_decides_each_thing(world: World) -> None:
    await world.say("/skill off web-access", ANA)
    await world.say("/hitl on", ANA)
    told = await lines(world)
    for line in (
        "profile profile: default (deskmate.yaml: channels (no rule fits slack-main/C-OPS: default))",
        "direct guests: talk (profiles/default.yaml: guests (not written: talk))",
        "skill web-access: no, off_here (web-access is switched off in slack-main/C-OPS)",
        "skill skill-writing: yes (profiles/default.yaml line 1: skills)",
        "tool web_fetch: yes (profiles/default.yaml line 2: tools)",
        "tool send_file: no, profile (profiles/default.yaml line 2: tools)",
        "approval calls that ask: web_fetch (profiles/default.yaml line 8: approvals.ask)",
        "hitl every call with an effect asks: yes (/hitl on was said in slack-main/C-OPS)",
        "role admin slack-main/U-ANA: yes (profiles/default.yaml line 5: roles.admin)",
    ):
        assert line in told


async def test_one_thing_is_told_by_itself(world: World) -> None:
    here = await world.shelf.here(OPS, world.loaded)
    assert [one.answer for one in explaining.skill(here, "WEB-ACCESS")] == ["yes"]
    tool = explaining.tool(here, "web_fetch")
    assert [(one.kind, one.answer) for one in tool] == [("tool", "yes"), ("approval", "ask"), ("hitl", "no")]
    ana = {one.subject: one.answer for one in explaining.person(here, "slack-main/U-ANA", is_paired=False)}
    assert (ana["admin"], ana["/skill off"], ana["/skill trust"], ana["/skill off everywhere"]) == (
        "yes",
        "yes",
        "no",
        "no",
    )
    eve = {one.subject: one for one in explaining.person(here, "slack-main/U-EVE", is_paired=False)}
    assert (eve["/help"].answer, eve["/status"].answer, eve["/status"].reason) == ("yes", "no", "guest")
    assert eve["/status"].rule == "profiles/default.yaml line 6: roles.guest"
    for ask in (explaining.skill, explaining.tool):
        with pytest.raises(NotThere, match="there is no"):
            ask(here, "nothing-like-it")
    with pytest.raises(NotThere, match="/role"):
        explaining.person(here, "Ana", is_paired=False)


async def test_the_chat_tells_the_same(world: World) -> None:
    told = await world.told("/why channel", MAX)
    assert "tool web_fetch: yes (profiles/default.yaml line 2: tools)" in told
    told = await world.told("/why person @U-ANA", MAX)
    assert "role admin: yes (profiles/default.yaml line 5: roles.admin)" in told
    assert "nobody's id" in await world.told("/why person /", MAX)


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
