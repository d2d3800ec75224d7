"""A tool that is off in one room: real processes, a call that is on its way, a program by its alias."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skills.programs import tool_name
from tests.end_to_end.requests import results
from tests.end_to_end.stories.test_running import program
from tests.end_to_end.stories.world import ANA, MAX, World, skill
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.sandbox]


def tools(asked: Asked) -> set[str]:
    return {str(tool["name"]) for tool in asked.request["tools"]}


async def test_off_bites_at_the_next_call_of_the_running_turn_in_this_room_alone(world: World) -> None:
    name, word, alias, page = (world.word(begin) for begin in ("报告-", "", "日报-", "/"))
    folder = program(world, name, word)
    (folder / "SKILL.md").write_text(skill("写日报。", "日期按 YYYY-MM-DD 写。", alias=alias, returns="一张表"))
    await world.reload()
    address, report = world.page(page, word), tool_name(name)
    tried: list[tuple[str, dict[str, Any]]] = [(report, {"date": "2024-06-11"}), ("web_fetch", {"url": address})]
    ops, finance = world.room(), world.room()
    replies = [calls(*one) for one in tried]

    talk, hold = world.talk(ops), asyncio.Event()
    done = await talk.begin(MAX, "看看", Reply(replies[0].content, "tool_use", hold=hold), replies[1], says("不行了。"))
    await world.stage.model.until(lambda: world.stage.model.in_flight == 1)
    for said in (alias, "WEB_FETCH"):
        told = await world.talk(ops).say(ANA, f"/tool off {said}")
        assert ops in told.reply
    hold.set()
    running = await done()
    assert {"web_fetch", report} <= tools(running.asked[-1]), "what it was offered stays to the end of the turn"
    refused = results(running.asked[-1])
    assert [bool(one.get("is_error")) for one in refused] == [True, True]
    assert word not in str(refused)
    assert all("is switched off in this channel" in one["content"] for one in refused)

    turn = await talk.say(MAX, "再看", *replies, calls("load_skill", {"name": alias}), says("看不了。"))
    assert not {"web_fetch", report} & tools(turn.asked[0])
    assert [bool(one.get("is_error")) for one in results(turn.asked[-1])[-3:]] == [True, True, False]
    turn = await world.talk(finance).say(MAX, "看看", *replies, says("看过了。"))
    assert [word in str(one["content"]) for one in results(turn.asked[-1])] == [True, True]

    refusal = await world.talk(ops).say(MAX, "/tool on web_fetch")
    assert (bool(refusal.whispers), refusal.posts) == (True, ())
    for said in (name, "web_fetch"):
        await world.talk(ops).say(ANA, f"/tool on {said}")
    turn = await talk.say(MAX, "现在呢", *replies, says("看过了。"))
    assert [word in str(one["content"]) for one in results(turn.asked[-1])[-2:]] == [True, True]
    mine = [one for one in await world.audit() if one["channel"] == f"slack-main/{ops}"]
    assert [(one["what"], one["thing"]) for one in mine if one["before"] != one["after"]] == [
        ("tool off", f"{name} {report}"),
        ("tool off", "web_fetch"),
        ("tool on", f"{name} {report}"),
        ("tool on", "web_fetch"),
    ]
    assert [(one["thing"], one["rule"]) for one in mine if one["what"] == "tool refused"] == [
        (name, f"the program of {name} is switched off in slack-main/{ops}"),
        ("web_fetch", f"web_fetch is switched off in slack-main/{ops}"),
    ] * 2
