"""生成日报: a skill that runs, its arguments checked, its source unseen, its versions apart."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiohttp import web

from tests.end_to_end.requests import results, texts
from tests.end_to_end.stories.conftest import WAITER
from tests.end_to_end.stories.world import MAX, World, skill
from tests.harness.fake_model import Asked, Script
from tests.harness.model_replies import calls, says

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.sandbox]

ZONE = ZoneInfo("Asia/Shanghai")
SOURCE = """\
import json
SECRET = "{secret}"
def run(params):
    {first}
    return "{word} " + json.dumps(params, ensure_ascii=False)
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "date": {"type": "string", "format": "date", "description": "The day, as YYYY-MM-DD."},
        "include_metrics": {"type": "boolean", "default": True, "description": "Whether with figures."},
        "count": {"type": "integer", "description": "How many rows."},
    },
    "required": ["date"],
    "additionalProperties": False,
}


def program(world: World, name: str, word: str, *, first: str = "pass") -> Path:
    """A report in the organisation's folder, with one example that holds."""
    source = SOURCE.format(secret=f"canary-of-{name}", first=first, word=word)
    given = {"date": "2024-06-11", "include_metrics": False}
    return world.write(
        name,
        skill("写日报：按天汇总核心数字。", "日期按 YYYY-MM-DD 写。", returns="一张表"),
        **{
            "main.py": source,
            "schema.json": json.dumps(SCHEMA),
            "examples/one.input.json": json.dumps(given),
            "examples/one.expected.txt": f"{word} {json.dumps(given)}",
        },
    )


def tool_of(asked: Asked, name: str) -> str:
    return str(next(tool["name"] for tool in asked.request["tools"] if name in tool["description"]))


def calling(name: str, *arguments: dict[str, Any], then: str) -> Script:
    """The model calls the program with one after the other, and then says something."""
    rest = iter(arguments)

    def script(asked: Asked) -> Any:
        given = next(rest, None)
        return says(then) if given is None else calls(tool_of(asked, name), given)

    return script


async def test_a_report_is_made_from_what_the_model_meant(world: World) -> None:
    name, word = world.word("生成日报-"), world.word()
    program(world, name, word)
    await world.reload()
    noon = datetime(2024, 6, 11, 12, tzinfo=ZONE) + timedelta(days=world.words.randrange(900))
    stamp = int(noon.timestamp())
    day = f"{noon:%Y-%m-%d}"
    attempts = (
        {"date": "前天", "include_metrics": "True", "scope": 3},
        {"date": stamp, "include_metrics": "True"},
        {"date": day},
    )
    table = f"| 项 | 值 |\n|---|---|\n| {word} | 7 |\n\n总体平稳。"
    turn = await world.talk(world.room()).say(
        MAX, f"把 {noon:%Y 年 %m 月 %d 号}的日报做出来", script=calling(name, *attempts, then=table)
    )
    refused, made, by_default = results(turn.asked[-1])
    assert refused["is_error"]
    assert 'date: wanted a date YYYY-MM-DD, came "前天"' in refused["content"]
    assert "scope: not known" in refused["content"]
    assert "Nothing was run" in refused["content"]
    assert f'{word} {{"date": "{day}", "include_metrics": true}}' in made["content"]
    assert f'{word} {{"date": "{day}", "include_metrics": true}}' in by_default["content"]

    events = [line["event"] for line in world.logged() if line.get("fields", {}).get("name", name) == name]
    assert f"argument date: {stamp} → {day} (Asia/Shanghai)" in events
    assert 'argument include_metrics: "True" → true' in events
    assert [one for one in events if one.startswith("argument include_metrics") and "default" in one]
    begun = [line["fields"] for line in world.logged("program") if line["fields"]["id"] == name]
    ended = [line["fields"] for line in world.logged("program ended") if line["fields"]["id"] == name]
    assert (len(begun), len(ended)) == (2, 2), "what was refused did not run"
    assert [one["arguments"] for one in begun] == [{"date": 10, "include_metrics": 4}] * 2
    assert all(one["ms"] > 0 and one["result_bytes"] > 0 for one in ended)

    assert len(turn.posts) == 1
    assert word in turn.reply
    assert "总体平稳" in turn.reply


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"date": 1718035200000}, "date YYYY-MM-DD"),
        ({"date": "2024-6-11"}, "date YYYY-MM-DD"),
        ({"date": "2024-02-30"}, "date YYYY-MM-DD"),
        ({"date": "2024-06-11", "count": "0123"}, "whole number"),
        ({"date": "2024-06-11", "count": 1.5}, "whole number"),
    ],
    ids=str,
)
async def test_what_may_be_meant_otherwise_is_refused(world: World, given: dict[str, Any], wanted: str) -> None:
    name = world.word("生成日报-")
    program(world, name, world.word())
    await world.reload()
    turn = await world.talk(world.room()).say(MAX, "日报", script=calling(name, given, then="不行"))
    [refused] = results(turn.asked[-1])
    assert refused["is_error"]
    assert wanted in refused["content"]
    came = list(given.values())[-1]
    assert json.dumps(came) in refused["content"]
    assert not [line for line in world.logged("program") if line["fields"]["id"] == name]


async def test_the_model_sees_no_line_of_the_source(world: World) -> None:
    name = world.word("生成日报-")
    program(world, name, world.word(), first="raise ValueError(SECRET.upper()[:3])")
    await world.reload()

    def script(asked: Asked) -> Any:
        steps = [
            lambda: calls("load_skill", {"name": name, "file": "main.py"}),
            lambda: calls("load_skill", {"name": name, "file": "."}),
            lambda: calls(tool_of(asked, name), {"date": "2024-06-11"}),
            lambda: says("坏了"),
        ]
        return steps[len(results(asked))]()

    turn = await world.talk(world.room()).say(MAX, "给我看源码", script=script)
    file, listed, crashed = results(turn.asked[-1])
    assert file["is_error"]
    assert "main.py" not in listed["content"]
    assert crashed["is_error"]
    for asked in turn.asked:
        for line in ("import json", "SECRET", "def run", f"canary-of-{name}", "json.dumps"):
            assert line not in texts(asked)


async def test_a_question_that_needs_no_report_runs_nothing_and_why_says_so(world: World) -> None:
    name = world.word("生成日报-")
    program(world, name, world.word())
    await world.reload()
    talk = world.talk(world.room())
    turn = await talk.say(MAX, "这两天数字走势怎么样", says("看着平稳"))
    assert results(turn.asked[-1]) == []
    assert not [line for line in world.logged("program") if line["fields"]["id"] == name]
    why = await talk.say(MAX, "/why")
    told = "\n".join([why.reply, *why.whispers])
    assert "没有请求技能" in told
    assert "web-access" in told.partition("请求这些技能")[2]
    assert name in told.partition("本可以运行")[2]


async def test_a_run_ends_on_the_version_that_it_began_with(world: World) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(_: web.Request) -> web.Response:
        begun.set()
        await go_on.wait()
        return web.Response(text="go on")

    path = f"/{world.word()}"
    world.pages[path] = held
    old, new = world.word("old-"), world.word("new-")
    wait = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{world.port}{path}').read()"
    program(world, WAITER, old, first=wait)
    await world.reload()
    room = world.room()
    done = await world.talk(room).begin(MAX, "日报", script=calling(WAITER, {"date": "2024-06-11"}, then="好了"))
    await asyncio.wait_for(begun.wait(), 30)
    program(world, WAITER, new)
    await world.reload()
    go_on.set()
    turn = await done()
    assert old in results(turn.asked[-1])[0]["content"]
    # In another conversation: what the network gave was text from outside, after which the program would ask.
    turn = await world.talk(room).say(MAX, "再来", script=calling(WAITER, {"date": "2024-06-11"}, then="好了"))
    assert new in results(turn.asked[-1])[0]["content"]


async def test_examples_pass_until_a_fault_is_put_in(world: World) -> None:
    name, word = world.word("生成日报-"), world.word()
    program(world, name, word)
    code, printed = await world.stage.deskmate.run("skills", "test", name)
    assert code == 0, printed
    assert name in printed
    main = world.org / name / "main.py"
    main.write_text(main.read_text().replace(f'"{word} "', f'"{word[::-1]} "'))
    code, printed = await world.stage.deskmate.run("skills", "test", name)
    assert code != 0
    for told in ("one", word, word[::-1]):
        assert told in printed
