"""/why: what the last answer did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.records import Record
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
    assert "without asking for a skill" in told
    assert "`web-access`" in told
    assert "skill-writing" not in told


async def test_programs_are_among_what_could_have_been_asked_for(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, profile='skills: ["*"]\nprograms: [report]\nlanguage: {language}\n')
    folder = write(world.org, "report")
    (folder / "main.py").write_text("def run(params):\n    return 1\n")
    (folder / "schema.json").write_text('{"type": "object", "properties": {}}')
    await world.packer.step()
    assert "it could have run: `report`" in await why(world, turn())
    assert "without asking" not in await why(world, turn(result(tool_name("report"), shown="report")))


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
    assert told.splitlines()[1:] == [
        "- carried out the step `read A`",
        "  - loaded the skill `web-access` (builtin)",
        "  - ran `load_skill`",
        "- the step `read B` failed: It took too long.",
        "  - ran `web_fetch`",
        "- the step `write` was not done",
        "- a reviewer sent 2 step(s) back",
        "- a reviewer accepted it",
    ]
