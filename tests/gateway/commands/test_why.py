"""/why: what the last answer did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.records import Record
from gateway.rights.pins import Definition, Pins
from gateway.store import Store
from skills.programs import tool_name
from tests.gateway.commands.world import MAX, World
from tests.skills.test_library import write


def turn(*records: Record, name: str = "t1", **reply: Any) -> list[Record]:
    return [Record("event", 0, {"turn": name}), *records, Record("reply", 0, {"turn": name, "text": "x", **reply})]


def result(name: str, **more: Any) -> Record:
    return Record("tool_result", 0, {"step": 1, "id": "i", "name": name, "text": "Text.", "shown": name, **more})


async def why(world: World, history: Iterable[Record]) -> str:
    return await world.told("/why", MAX, history=list(history))


async def test_skills_tools_and_failures_are_named(world: World) -> None:
    told = await why(
        world,
        turn(
            Record("skill", 0, {"id": "web-access", "tier": "builtin"}),
            result("load_skill", shown="web-access"),
            result("web_fetch", error=True, rule="profiles/default.yaml line 2: tools"),
            result("load_skill", shown="nope", error=True, text="There is no skill 'nope' here."),
        ),
    )
    assert "loaded the skill `web-access` (builtin)" in told
    assert "ran `load_skill web-access`" in told
    assert "`web_fetch` was refused: `profiles/default.yaml line 2: tools`" in told
    assert "`load_skill nope` did not work: `There is no skill 'nope' here.`" in told
    assert "could have" not in told


async def test_a_refusal_is_told_in_the_persons_language_with_its_rule(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, language="zh")
    await world.packer.step()
    told = await why(
        world,
        turn(
            Record("skill", 0, {"id": "web-access", "tier": "builtin"}),
            result("web_fetch", error=True, rule="p.yaml line 2: tools", reason="profile"),
            result("load_skill", shown="x", error=True, rule="x is switched off in a/b", reason="off_here"),
        ),
    )
    assert "加载了技能 `web-access`，builtin（内置）" in told
    assert "`web_fetch` 被拒绝：不在配置中（`p.yaml line 2: tools`）" in told
    assert "`load_skill x` 被拒绝：已在本频道关闭，依据 `x is switched off in a/b`" in told


@pytest.mark.parametrize("records", [[], [result("current_time")]])
async def test_where_no_skill_was_asked_for_it_says_which_there_were(world: World, records: list[Record]) -> None:
    await world.say("/skill off skill-writing")
    told = await why(world, turn(*records))
    assert "it asked for no skill" in told
    assert "`web-access`" in told
    assert "skill-writing" not in told


async def test_programs_are_among_what_could_have_been_asked_for(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, profile='skills: ["*"]\nprograms: [report]\nlanguage: {language}\n')
    folder = write(world.org, "report")
    (folder / "main.py").write_text("def run(params):\n    return 1\n")
    (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    await world.packer.step()
    assert "it could have run: `report`" in await why(world, turn())
    assert "it asked for no skill" not in await why(world, turn(result(tool_name("report"), shown="report")))


async def test_commands_are_passed_over_and_nothing_is_before_new(world: World) -> None:
    earlier = turn(result("load_skill", shown="web-access"))
    command = turn(name="t2", command=True, notice=True)
    assert "ran `load_skill web-access`" in await why(world, [*earlier, *command])
    assert "no answer here yet" in await why(world, [*earlier, Record("cleared", 0)])
    assert "no answer here yet" in await why(world, [])


async def test_a_plan_is_told_step_by_step(world: World) -> None:
    def step(name: str, task: str) -> dict[str, Any]:
        return {"id": name, "task": task, "needs": []}

    told = await why(
        world,
        turn(
            Record("plan", 0, {"turn": "t1", "steps": [step("a", "read A"), step("b", "read B"), step("c", "write")]}),
            Record("skill", 0, {"id": "web-access", "tier": "builtin"}, "step a"),
            replace(result("load_skill"), branch="step a"),
            replace(result("web_fetch"), branch="step b"),
            Record("step_done", 0, {"id": "a", "text": "A"}),
            Record("step_done", 0, {"id": "b", "text": "It took too long.", "failed": True}),
            Record("review", 0, {"changes": {"a": "again", "b": "again"}}),
            Record("review", 0, {"changes": {}}),
        ),
    )
    assert told.splitlines()[1:-3] == [
        "- carried out the step `read A`",
        "  - loaded the skill `web-access` (builtin)",
        "  - ran `load_skill`",
        "- the step `read B` failed: It took too long.",
        "  - ran `web_fetch`",
        "- the step `write` was not done",
        "- a reviewer sent 2 step(s) back",
        "- a reviewer accepted it",
    ]


# ---- one of them ----

ASKED = turn(
    Record("skill", 0, {"id": "web-access", "tier": "builtin"}),
    result("load_skill", shown="web-access"),
    result("web_fetch", error=True, rule="default.yaml line 2: tools", reason="profile"),
    result("current_time"),
)


async def test_what_the_channel_has_is_told_with_and_without_an_answer(world: World) -> None:
    for history in ([], ASKED):
        told = await why(world, history)
        assert "`load_skill`" in told.splitlines()[-2]
        assert "`web-access`" in told.splitlines()[-2]
        assert "`web_fetch`" not in told.splitlines()[-2]


async def why_one(world: World, what: str, history: Iterable[Record] = ASKED, **said: Any) -> list[str]:
    return (await world.told(f"/why {what}", MAX, history=list(history), **said)).splitlines()


async def test_a_skill_that_was_used(world: World) -> None:
    assert await why_one(world, "skill web-access", skills=["web-access"]) == [
        "The skill `web-access` (builtin):",
        "- it may be loaded here (`profiles/default.yaml line 1: skills`)",
        "- its text is loaded in this conversation",
        "- the last answer loaded it",
    ]


async def test_a_skill_that_was_not_asked_for_and_one_that_is_off(world: World) -> None:
    assert "- in the last answer the model did not ask for it" in await why_one(world, "skill skill-writing")
    await world.say("/skill off skill-writing")
    told = await why_one(world, "skill Skill-Writing", [])
    assert "off in this channel" in told[1]
    assert "no answer here yet" in told[2]


async def test_a_skill_that_was_asked_for_in_vain(world: World) -> None:
    refused = turn(result("load_skill", shown="web-access", error=True, rule="it is off", reason="off_here"))
    told = await why_one(world, "skill web-access", refused)
    assert "- `load_skill web-access` was refused: off in this channel, `it is off`" in told


async def test_a_tool_that_ran_that_was_refused_and_that_was_not_asked_for(world: World) -> None:
    refused = await why_one(world, "tool web_fetch")
    assert "it may not be called here: not in the profile (`profiles/default.yaml" in refused[1]
    assert "was refused" in refused[2]
    told = await why_one(world, "tool load_skill")
    assert "it may be called here (`profiles/default.yaml line 2: tools`)" in told[1]
    assert told[2] == "- ran `load_skill web-access`"
    assert "did not ask for it" in (await why_one(world, "tool unload_skill"))[-1]


async def test_a_tool_whose_calls_wait_for_a_yes(store: Store, tmp_path: Path) -> None:
    profile = "language: {language}\ntools: [send_file]\napprovals: {{ask: [send_file]}}\n"
    world = World(store, tmp_path, profile=profile + "roles: {{admin: [slack-main/U-ANA]}}\n")
    await world.packer.step()
    assert "- each call of it waits for a person's yes, as the profile says" in await why_one(world, "tool send_file")
    await world.say("/hitl on")
    assert any("`/hitl`" in line for line in await why_one(world, "tool send_file"))


async def test_a_tool_of_a_server_is_one_like_ours(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, profile="language: {language}\ntools: [desk__lookup]\n")
    await world.packer.step()
    await Pins(store).approve(Definition("desk__lookup", "Looks.", {"type": "object"}), "ops", 1)
    assert "it may be called here" in (await why_one(world, "tool desk__lookup"))[1]
    assert "`desk__lookup`" in await why(world, [])


async def test_the_program_of_a_skill_is_a_tool_by_the_rule_of_its_skill(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, profile='skills: ["*"]\nlanguage: {language}\n')
    folder = write(world.org, "report")
    (folder / "main.py").write_text("def run(params):\n    return 1\n")
    (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    await world.packer.step()
    assert "its program may not run here: not in the profile" in "\n".join(await why_one(world, "skill report"))
    assert "it may not be called here: not in the profile" in (await why_one(world, f"tool {tool_name('report')}"))[1]


async def test_what_nobody_knows_and_what_a_profile_does_not_list_does_not_exist(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, profile="skills: [skill-writing]\nlanguage: {language}\n")
    await world.packer.step()
    for name in ("web-access", "nope"):
        assert await why_one(world, f"skill {name}") == [f"There is no skill `{name}` here. `/skill list` names all."]
    assert await why_one(world, "tool web_fech") == ["There is no tool `web_fech`. Perhaps `web_fetch`?"]
    assert await why_one(world, "tool zzz") == ["There is no tool `zzz`."]


@pytest.mark.parametrize("rest", ["skill", "tool", "tool a b", "web-access"])
async def test_other_words_are_told_how_it_is_said(world: World, rest: str) -> None:
    assert "nothing was done" in (await why_one(world, rest))[0]


async def test_a_servers_tool_is_there_once_somebody_has_approved_it(store: Store, tmp_path: Path) -> None:
    profile = "tools: [current_time, wiki__search]\nlanguage: {language}\n"
    settings = "mcp: {servers: {wiki: {url: https://wiki.example/mcp}}}\n"
    world = World(store, tmp_path, profile=profile, settings=settings)
    await world.packer.step()
    assert "`wiki__search`" not in await why(world, [])
    assert "nobody has approved its server's words yet" in await world.told("/why tool wiki__search", MAX)
    await Pins(store).approve(Definition("wiki__search", "Searches.", {"type": "object"}), "ops", 1)
    assert "`wiki__search`" in await why(world, [])
    assert "it may be called here" in await world.told("/why tool wiki__search", MAX)


async def test_a_tool_that_ran_is_no_skill_that_was_asked_for(world: World) -> None:
    told = await why(world, turn(result("list_files")))
    assert "ran `list_files`" in told
    assert "it asked for no skill, and for none that runs" in told
