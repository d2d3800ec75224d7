"""/tool: which tools there are, switched off and on in one channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.rights.pins import Definition, Pins
from gateway.shelf.decisions import tool_field
from gateway.store import Store
from skills.programs import tool_name
from tests.gateway.commands.world import ANA, DEV, LI, MAX, OPS, World, skill_md

PROFILE = """\
skills: ["*"]
programs: ["*"]
tools: [load_skill, web_fetch, send_file, wiki__search]
language: {language}
approvals: {{ask: [send_file]}}
roles:
  admin: [slack-main/U-ANA]
  channel_admin: {{"slack-main/C-DEV": [slack-main/U-LI]}}
"""
SETTINGS = "mcp: {servers: {wiki: {url: https://wiki.example/mcp}}}\n"


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> World:
    made = World(store, tmp_path, profile=PROFILE, settings=SETTINGS)
    folder = made.org / "ops" / "report"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill_md("report", more="alias: daily\n"))
    (folder / "main.py").write_text("def run(params):\n    return 1\n")
    (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    (made.org / "text").mkdir()
    (made.org / "text/SKILL.md").write_text(skill_md("text"))
    await made.packer.step()
    return made


async def row(world: World, tool: str) -> str:
    [line] = [one for one in (await world.told("/tool", MAX)).splitlines() if one.startswith(f"- `{tool}`")]
    return line


async def is_off(world: World, tool: str, key: object = OPS) -> bool:
    here = await world.shelf.here(key, world.loaded)  # type: ignore[arg-type]
    return here.own.is_tool_off(tool)


async def test_the_list_says_of_each_how_it_is_and_which_rule_says_so(world: World) -> None:
    told = await world.told("/tool", MAX)
    assert "- `web_fetch`: on (`profiles/default.yaml line 3: tools`)" in told
    assert "- `send_file`: each call waits for a yes (`profiles/default.yaml line 5: approvals.ask`)" in told
    assert "- `wiki__search`: off (`deskmate mcp: wiki__search is not approved`)" in told
    assert "- `ops/report`: on (`profiles/default.yaml line 2: programs`)" in told
    assert "`/tool on` does not bring them: " in told
    assert "`web_search`" in told.partition("does not bring them: ")[2]
    await Pins(world.store).approve(Definition("wiki__search", "Searches.", {"type": "object"}), "ops", 1)
    assert "on (" in await row(world, "wiki__search")
    await world.say("/tool off web_fetch")
    assert await row(world, "web_fetch") == "- `web_fetch`: off (`web_fetch is switched off in slack-main/C-OPS`)"
    await world.say("/hitl on")
    assert "every call with an effect waits" in await world.told("/tool", MAX)


@pytest.mark.parametrize(
    ("said", "tool"),
    [
        ("web_fetch", "web_fetch"),
        ("Web_Fetch", "web_fetch"),
        ("ｗｅｂ＿ｆｅｔｃｈ", "web_fetch"),
        ("wiki__search", "wiki__search"),
        ("ops/report", tool_name("ops/report")),
        ("OPS/Report", tool_name("ops/report")),
        ("report", tool_name("ops/report")),
        ("daily", tool_name("ops/report")),
        (tool_name("ops/report"), tool_name("ops/report")),
        ("web_search", "web_search"),
    ],
)
async def test_off_is_said_by_any_of_its_names_and_holds_for_one_channel(world: World, said: str, tool: str) -> None:
    told = await world.told(f"/tool off {said}")
    assert "is off in `slack-main/C-OPS`" in told
    assert (await is_off(world, tool), await is_off(world, tool, DEV)) == (True, False)
    [line] = await world.audit()
    thing = f"ops/report {tool}" if tool.startswith("skill_") else tool
    assert (line["who"], line["what"], line["thing"], line["before"]) == ("slack-main/U-ANA", "tool off", thing, "")
    assert '"off"' in line["after"]
    assert "roles.admin" in line["rule"]


async def test_on_takes_an_off_back_and_goes_no_further_than_the_profile(world: World) -> None:
    await world.say("/tool off web_fetch")
    assert "switched off in `slack-main/C-OPS` no longer" in await world.told("/tool on WEB_FETCH")
    assert not await is_off(world, "web_fetch")
    line = (await world.audit())[-1]
    assert (line["what"], line["after"]) == ("tool on", "")
    assert '"off"' in line["before"]
    told = await world.told("/tool on web_search")
    assert "This channel's profile does not list `web_search`" in told
    assert "`web_search`" in (await world.told("/tool")).partition("does not bring them: ")[2]


@pytest.mark.parametrize("tool", ["web_search", "ops/report"])
async def test_on_takes_back_an_off_that_the_profile_has_hidden_since(world: World, tool: str) -> None:
    name = tool_name(tool) if "/" in tool else tool
    profile = world.folder / "profiles/default.yaml"
    listing = profile.read_text().replace("web_fetch,", "web_fetch, web_search,")
    without = listing.replace('skills: ["*"]', "skills: [text]").replace("web_search, ", "")
    profile.write_text(listing)
    world.reload()
    await world.say(f"/tool off {tool}")
    profile.write_text(without)
    world.reload()
    assert f"which `/tool on` takes back: `{tool}`" in await world.told("/tool")
    told = await world.told(f"/tool on {tool}")
    assert "switched off in `slack-main/C-OPS` no longer" in told
    assert "It may not be called, though" in told
    assert not await is_off(world, name)
    assert "takes back" not in await world.told("/tool")
    profile.write_text(listing)
    world.reload()
    assert "on (" in await row(world, tool)


async def test_a_program_whose_skill_is_off_is_told_not_to_run_yet(world: World) -> None:
    await world.say("/skill off ops/report")
    await world.say("/tool off ops/report")
    told = await world.told("/tool on ops/report")
    assert "It may not be called, though: off in this channel" in told
    assert "`ops/report is switched off in slack-main/C-OPS`" in told


@pytest.mark.parametrize("to", ["on", "off"])
async def test_who_may(world: World, to: str) -> None:
    refused = await world.say(f"/tool {to} web_fetch", MAX)
    assert refused.is_private
    assert "needs the role" in refused.text
    assert not await is_off(world, "web_fetch")
    [line] = await world.audit()
    assert (line["who"], line["what"], line["thing"]) == ("slack-main/U-MAX", f"tool {to} refused", "web_fetch")
    assert "needs the role" in (await world.say(f"/tool {to} web_fetch", LI, OPS)).text
    assert "needs the role" not in (await world.say(f"/tool {to} web_fetch", LI, DEV)).text
    assert "needs the role" not in (await world.say(f"/tool {to} web_fetch", ANA, OPS)).text


async def test_a_name_that_fits_several_names_them_as_people_write_them(world: World) -> None:
    for group in ("a", "b"):
        folder = world.org / group / "sum"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(skill_md("sum"))
        (folder / "main.py").write_text("def run(params):\n    return 1\n")
        (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    await world.packer.step()
    assert "`sum` fits several skills: `a/sum`, `b/sum`." in await world.told("/tool off sum")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("read_result", "can't be switched off"),
        ("unload_skill", "can't be switched off"),
        ("find_skills", "`find_skills` comes with `load_skill`"),
        ("text", "`text` is a skill without a program"),
        ("web_fech", "Perhaps `web_fetch`?"),
        ("wеb_fetch", "Perhaps `web_fetch`?"),
        ("zzz", "There is no tool `zzz` here"),
    ],
)
async def test_what_is_no_tool_with_a_switch_is_told_why(world: World, said: str, told: str) -> None:
    assert told in await world.told(f"/tool off {said}")
    assert [line["what"] for line in await world.audit()] == ["tool off refused"]


@pytest.mark.parametrize("rest", ["off", "on a b", "web_fetch", "list"])
async def test_other_words_are_told_how_it_is_said(world: World, rest: str) -> None:
    assert "nothing was done" in await world.told(f"/tool {rest}")


@pytest.mark.parametrize("name", ["web_fetch", "ops/report"])
async def test_the_same_command_run_again_is_one_change_and_an_overtaken_one_says_so(world: World, name: str) -> None:
    for _ in range(2):
        assert f"`{name}` is off in" in (await world.say(f"/tool off {name}", turn="t")).text
    assert len(await world.audit()) == 1
    await world.say(f"/tool on {name}")
    assert "somebody has changed the same again" in (await world.say(f"/tool off {name}", turn="t")).text


async def test_switches_that_nobody_can_read_switch_nothing(world: World) -> None:
    scope = f"{world.store.layout.skills_root}:ch:{OPS.channel_id}"
    await world.store.redis.hset(scope, mapping={"rev": "5", tool_field("web_fetch"): '{"to": "maybe"}'})
    assert "can't be read" in await world.told("/tool off web_fetch")
    assert "can't be read" in await world.told("/tool")


async def test_why_says_the_rule(world: World) -> None:
    await world.say("/tool off web_fetch")
    await world.say("/tool off ops/report")
    told = await world.told("/why tool web_fetch", MAX)
    assert "it may not be called here: off in this channel, `web_fetch is switched off in slack-main/C-OPS`" in told
    told = await world.told("/why skill ops/report", MAX)
    assert "the program of ops/report is switched off in slack-main/C-OPS" in told
    told = await world.told("/why channel", MAX)
    assert "tool web_fetch: no, off_here (web_fetch is switched off in slack-main/C-OPS)" in told
    assert "`web_fetch`" not in (await world.told("/why", MAX)).partition("Skills")[0].partition("has")[2]


async def test_in_chinese(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, language="zh", profile=PROFILE, settings=SETTINGS)
    await world.packer.step()
    assert "`web_fetch` 在 `slack-main/C-OPS` 已关闭" in await world.told("/tool off web_fetch")
    assert "`web_fetch`：关闭（`web_fetch is switched off in slack-main/C-OPS`）" in await world.told("/tool", MAX)
