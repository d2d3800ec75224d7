"""A command that changes what may be done does not wait for the turn that runs in its own conversation."""

from __future__ import annotations

import asyncio

import pytest

from tests.end_to_end.requests import results, texts
from tests.end_to_end.stories.world import ANA, MAX, World, skill
from tests.harness.model_replies import calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_off_is_answered_and_holds_while_the_turn_of_its_thread_waits_for_the_model(world: World) -> None:
    name, body = world.word("web-"), world.word("body-")
    world.write(name, skill("How to read pages.", f"Read them. {body}"))
    await world.reload()
    hold = asyncio.Event()
    talk = world.talk(world.room())
    load = calls("load_skill", {"name": name}, hold=hold)
    asked = len(world.asked)
    note = {"name": "web-access", "file": f"references/{name}.md", "content": "试过。"}
    turn = await talk.begin(MAX, "读一下", load, calls("save_skill_reference", note), says("不行"))
    await world.stage.model.until(lambda: len(world.asked) > asked)
    said = await world.stage.slack.say(
        world.stage.hook, f"/skill off {name}", channel=talk.room, user=ANA, thread_ts=talk.thread
    )
    assert set(said.statuses) == {200}
    async with asyncio.timeout(10):
        while not (told := [one.text for one in world.stage.slack.messages if name in one.text and "关闭" in one.text]):
            await asyncio.sleep(0.02)
    hold.set()
    done = await turn()
    assert len(told) == 1
    [first, second, _] = done.asked
    [refused] = results(second)
    assert refused["is_error"]
    assert "switched off" in refused["content"]
    assert texts(second).count(body) == 0
    assert second.body.decode().count("/skill off") == 0
    assert first.body.decode().count(name) >= 1
    posts = [one.text for one in world.stage.slack.messages if one.bot_id and one.channel == talk.room]
    assert sum("关闭" in text for text in posts) == 1, "it is answered once"
    assert "不行" in posts[-1]
    lines = [(line["what"], line["who"]) for line in await world.audit() if name in line["thing"]]
    assert lines == [("skill off", f"slack-main/{ANA}"), ("note save", f"slack-main/{MAX}")], "the turn is still Max's"
