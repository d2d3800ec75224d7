"""Two skills of one name: they live side by side, and nobody takes one for the other."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.end_to_end.requests import guidance, index, results
from tests.end_to_end.stories.test_own_copy import rows
from tests.end_to_end.stories.world import ANA, LI, MAX, World, skill
from tests.harness.model_replies import Reply, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {"type": "object", "properties": {"week": {"type": "integer", "description": "Which week."}}}


@dataclass
class Pair:
    """Two skills whose last names are the same."""

    world: World
    name: str
    finance: str
    alias: str
    operations: str
    rules: dict[str, str]
    """What each body says, by id."""


@pytest_asyncio.fixture(loop_scope="module")
async def pair(world: World) -> Pair:
    name, alias = world.word("导出报表-"), world.word("财务报表-")
    finance, operations = f"Finance-{world.word()}/{name}", f"Ops-{world.word()}/{name}"
    rules = {finance: world.word("按科目 "), operations: world.word("按活动 ")}
    for id_, more in ((finance, {"alias": alias}), (operations, {})):
        example = {"examples/one.input.json": "{}", "examples/one.expected.txt": rules[id_]}
        source = f"def run(params):\n    return {rules[id_]!r}\n"
        files = {"main.py": source, "schema.json": json.dumps(SCHEMA), "references/a.md": "A\n", **example}
        world.write(id_, skill(f"{rules[id_]}，给人用", f"做法：{rules[id_]}", **more), **files)
    await world.reload()
    return Pair(world, name, finance, alias, operations, rules)


def load(name: str, **more: str) -> Reply:
    return calls("load_skill", {"name": name, **more})


async def test_two_of_one_name_are_listed_loaded_and_shown_by_their_whole_ids(world: World, pair: Pair) -> None:
    room = world.room()
    talk, seen = world.talk(room), asyncio.Event()
    done = await talk.begin(MAX, "导出运营上周的报表", load(pair.operations), says("好了。", hold=seen))
    await world.stage.slack.until(lambda: any(pair.operations in text for text in world.stage.posts()))
    seen.set()
    turn = await done()
    both = {id_: told for id_, told in index(turn.asked[0]).items() if id_ in pair.rules}
    assert set(both) == set(pair.rules)
    assert all(pair.rules[id_] in told for id_, told in both.items())
    assert pair.rules[pair.operations] in guidance(turn.asked[1])[0]
    assert f"skill {pair.operations} " in guidance(turn.asked[1])[0]
    assert pair.operations in {line["fields"].get("shown") for line in world.logged("tool")}
    listed = (await world.talk(room).say(MAX, "/skill list")).reply
    assert all(len(rows(listed, id_)) == 1 for id_ in pair.rules)

    turn = await world.talk(room).say(MAX, "导出报表", load(pair.name), load(pair.alias), says("好了。"))
    unclear, loaded = results(turn.asked[-1])
    assert unclear["is_error"]
    assert all(id_ in unclear["content"] for id_ in pair.rules)
    assert guidance(turn.asked[1]) == []
    assert loaded["content"].startswith(f"Loaded {pair.finance}")
    assert pair.rules[pair.finance] in guidance(turn.asked[2])[0]
    shown = {line["fields"].get("shown") for line in world.logged("tool")}
    assert (pair.finance in shown, pair.alias in shown) == (True, False), "whatever the model called it"


async def test_one_is_switched_off_by_any_of_its_names_and_the_other_stays(world: World, pair: Pair) -> None:
    room = world.room()
    asked = (await world.talk(room).say(ANA, f"/skill off {pair.name}")).reply
    assert all(id_ in asked for id_ in pair.rules), "it asks which"
    assert pair.finance in (await world.talk(room).say(ANA, f"/skill off {pair.finance}")).reply
    names = [pair.finance, pair.alias, pair.finance.upper(), pair.finance.replace("/", "／")]
    turn = await world.talk(room).say(MAX, "导出", *map(load, names), load(pair.operations), says("好了。"))
    *refused, other = results(turn.asked[-1])
    assert [bool(one.get("is_error")) for one in refused] == [True] * 4
    assert other["content"].startswith(f"Loaded {pair.operations}")
    assert pair.finance not in index(turn.asked[0])
    assert pair.operations in index(turn.asked[0])
    assert pair.rules[pair.finance] not in json.dumps(turn.asked[-1].request, ensure_ascii=False)


@pytest.mark.sandbox
async def test_notes_tests_and_programs_of_the_two_are_apart(world: World, pair: Pair) -> None:
    room, told = world.room("save"), world.word("记一条 ")
    note = {"name": pair.finance, "file": "references/a.md", "content": told}
    files = [load(id_, file="references/a.md") for id_ in pair.rules]
    turn = await world.talk(room).say(MAX, "记", calls("save_skill_reference", note), *files, says("好了。"))
    _, own, others = results(turn.asked[-1])
    assert (told in own["content"], told in others["content"]) == (True, False)

    offered = {tool["name"]: tool["description"] for tool in turn.asked[0].request["tools"]}
    by_id = {id_: [name for name, shown in offered.items() if id_ in shown] for id_ in pair.rules}
    assert [len(names) for names in by_id.values()] == [1, 1]
    assert by_id[pair.finance] != by_id[pair.operations]
    runs = [calls(names[0], {}) for names in by_id.values()]
    turn = await world.talk(room).say(MAX, "跑", *runs, says("好了。"))
    for result, rule in zip(results(turn.asked[-1]), pair.rules.values(), strict=True):
        assert rule in result["content"]

    main = world.org / pair.operations / "main.py"
    main.write_text("def run(params):\n    return 'nothing'\n")
    codes = {id_: (await world.stage.deskmate.run("skills", "test", id_))[0] for id_ in pair.rules}
    assert codes[pair.finance] == 0
    assert codes[pair.operations] != 0


async def test_trust_of_the_two_is_apart(world: World) -> None:
    room, name = world.room(), world.word("checklist-")
    for folder in ("one", "two"):
        added = await world.talk(room).say(
            ANA, "/skill add", **world.zipped(f"{name}-{folder}", **{"SKILL.md": skill("Checks.", f"Check {folder}.")})
        )
        assert f"{name}-{folder}" in added.reply
    await world.talk(room).say(LI, f"/skill trust {name}-one")
    turn = await world.talk(room).say(MAX, "check", load(f"{name}-one"), load(f"{name}-two"), says("好了。"))
    assert f"{name}-one" in index(turn.asked[0])
    assert f"{name}-two" not in index(turn.asked[0])
    [text] = guidance(turn.asked[-1])
    assert "Check one." in text
    assert "Check two." not in text


async def test_an_alias_that_two_claim_is_nobodys(world: World, pair: Pair) -> None:
    room, third = world.room(), world.word("third-")
    world.write(third, skill("Is third.", "Third.", alias=pair.alias))
    warned = (await world.talk(room).say(ANA, "/skill reload")).reply
    assert pair.alias in warned
    assert pair.finance.casefold() in warned.casefold()
    assert third in warned
    turn = await world.talk(room).say(MAX, "导出", load(pair.alias), says("好了。"))
    assert results(turn.asked[-1])[-1]["is_error"]
    world.write(third, skill("Is third.", "Third, and gave it up."))
    await world.talk(room).say(ANA, "/skill reload")
    turn = await world.talk(room).say(MAX, "导出", load(pair.alias), says("好了。"))
    assert pair.rules[pair.finance] in guidance(turn.asked[-1])[0]
