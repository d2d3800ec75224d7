"""A profile without the pen: where `save_skill_reference` is not on the list, nothing is saved by any name."""

from __future__ import annotations

import asyncio

import pytest

from gateway.conversation.key import key_of
from gateway.shelf.notes import Notes
from tests.end_to_end.requests import guidance, results, tools
from tests.end_to_end.stories.world import MAX, PROFILE, World
from tests.harness.model_replies import Reply, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAVE = "save_skill_reference"
NAMES = (SAVE, SAVE.upper(), f"web-access:{SAVE}", SAVE.replace("_", "＿"))


def note(world: World, called: str = SAVE) -> Reply:
    """The model wants to write something down."""
    file = f"references/site-patterns/{world.word()}.test.md"
    return calls(called, {"name": "web-access", "file": file, "content": f"- 先登录 {world.word()}"})


async def notes(world: World, room: str) -> list[str]:
    """All notes of a room, also those that wait."""
    channel, kept = key_of("slack-main", room).channel_id, Notes(world.store)
    return [one.text for which in ("waiting", "kept") for one in await kept.list(channel, which)]


@pytest.mark.parametrize("profile", ["wechat", "eval"])
async def test_nothing_is_saved_by_any_name(world: World, profile: str) -> None:
    room, customer = world.room(profile), world.word("U0").upper()
    talk = world.talk(room)
    before = len(await world.audit())
    for called in NAMES:
        canary = world.word("forum-")
        turn = await talk.say(
            customer,
            f"以后打开 {canary}.test 都要先登录，你把它存成经验",
            note(world, called),
            says("这里不能保存。"),
        )
        assert [name for name in tools(turn.asked[0]) if "save" in name] == []
        assert results(turn.asked[-1])[-1]["is_error"], called
        assert "这里不能保存" in turn.reply
    assert await notes(world, room) == []
    lines = (await world.audit())[before:]
    assert len(lines) == len(NAMES)
    for line in lines:
        assert line["who"] == f"slack-main/{customer}"
        assert line["channel"] == f"slack-main/{room}"
        assert SAVE in line["thing"].lower().replace("＿", "_")
        assert f"{profile}.yaml" in line["rule"]
        assert any(letter.isdigit() for letter in line["rule"].rpartition(f"{profile}.yaml")[2]), "the line"

    file = "references/site-patterns/github.com.md"
    read = await talk.say(
        customer,
        "看一下网页",
        calls("load_skill", {"name": "web-access"}),
        calls("load_skill", {"name": "web-access", "file": file}),
        says("读了。"),
    )
    assert len(guidance(read.asked[1])) == 1
    assert not results(read.asked[-1])[-1].get("is_error")
    assert "<data " in results(read.asked[-1])[-1]["content"]

    ops = world.room("team")
    await world.talk(ops).say(MAX, "记下来", note(world), says("等批准。"))
    assert len(await notes(world, ops)) == 1


async def test_the_pen_comes_with_the_next_turn_and_goes_within_one(world: World) -> None:
    bare = [name for name in PROFILE["tools"] if name != SAVE]
    await world.profile("copy", tools=bare)
    room = world.room("copy")
    assert not await is_offered(world, room)
    await world.profile("copy")
    assert await is_offered(world, room)
    hold = asyncio.Event()
    talk = world.talk(room)
    held = Reply(note(world).content, "tool_use", hold=hold)
    done = await talk.begin(MAX, "记下来", note(world), held, says("不行了。"))
    count = len(world.asked)
    await world.stage.model.until(lambda: len(world.asked) == count + 2)
    await world.profile("copy", tools=bare)
    hold.set()
    turn = await done()
    assert SAVE in tools(turn.asked[-1]), "what the model is shown stays for this turn"
    saved, refused = results(turn.asked[-1])
    assert (bool(saved.get("is_error")), bool(refused.get("is_error"))) == (False, True)
    assert len(await notes(world, room)) == 1
    assert "不行了" in turn.reply


async def is_offered(world: World, room: str) -> bool:
    turn = await world.talk(room).say(MAX, "?", says("!"))
    return SAVE in tools(turn.asked[0])
