"""Off is off, and stays off."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.conversation.key import key_of
from tests.end_to_end.requests import guidance, index, results, texts
from tests.end_to_end.stories.world import ANA, LI, MAX, World, skill
from tests.harness.model_replies import Reply, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALIAS = "上网"
EVE = "U0EVE"
"""Another admin."""


def load(name: str, **more: str) -> Reply:
    return calls("load_skill", {"name": name, **more})


def widened(name: str) -> str:
    """In letters that are twice as wide."""
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in name)


@pytest_asyncio.fixture(loop_scope="module")
async def copied(world: World) -> AsyncIterator[str]:
    """The organisation's copy of the shipped skill, with an alias; what its body says."""
    rule = world.word("先问内网 ")
    text = skill("本公司上网办法", f"做法：{rule}", alias=ALIAS, version="7.0.0")
    world.write("web-access", text, **{"references/a.md": f"附注：{rule}\n"})
    await world.reload()
    yield rule
    shutil.rmtree(world.org / "web-access", ignore_errors=True)
    await world.reload()


async def is_off(world: World, room: str) -> bool:
    """Neither listed nor loaded in a new conversation."""
    turn = await world.talk(room).say(MAX, "看网页", load("web-access"), says("看不了。"))
    refused = bool(results(turn.asked[-1])[-1].get("is_error"))
    assert refused is ("web-access" not in index(turn.asked[0]))
    assert refused is not bool(guidance(turn.asked[-1]))
    return refused


async def test_off_bites_in_the_running_turn_and_shows_from_the_next_one(world: World, copied: str) -> None:
    ops, finance = world.room(), world.room()
    talk = world.talk(ops)
    other = load("web-access", file="references/a.md")
    loaded = await talk.say(MAX, "看网页", load("web-access"), other, says("看过了。"))
    assert texts(loaded.asked[-1]).count(copied) == 2, "its text, and a file of it"

    hold = asyncio.Event()
    again = [Reply(other.content, "tool_use", hold=hold), load("web-access"), load(ALIAS), says("不行了。")]
    done = await talk.begin(MAX, "再看看", *again)
    await world.stage.model.until(lambda: world.stage.model.in_flight == 1)
    told = await world.talk(ops).say(ANA, "/skill off web-access")
    assert "web-access" in told.reply
    assert ops in told.reply
    assert world.stage.model.in_flight == 1, "what is on its way is not cut"
    hold.set()
    running = await done()
    assert "不行了。" in running.reply
    assert [bool(one.get("is_error")) for one in results(running.asked[-1])[-3:]] == [True] * 3
    assert copied in texts(running.asked[-1]), "what was loaded stays to the end of the turn"

    site = "references/site-patterns/github.com.md"
    names = ["web-access", "WEB-ACCESS", widened("web-access"), ALIAS]
    note = {"name": "web-access", "file": site, "content": "x"}
    turn = await talk.say(
        MAX,
        "还看",
        *map(load, names),
        load("web-access", file="references/a.md"),
        load("web-access", file=site),
        load("web-access", file="."),
        calls("save_skill_reference", note),
        says("看不了。"),
    )
    for asked in turn.asked:
        assert "web-access" not in index(asked)
        assert copied not in texts(asked)
        assert guidance(asked) == []
    gone = [text for text in texts(turn.asked[0]).split("\n") if "web-access" in text and "switched off" in text]
    assert gone, "a line says that it is gone"
    refused = results(turn.asked[-1])[-8:]
    assert [bool(one.get("is_error")) for one in refused] == [True] * 8
    assert (await is_off(world, ops), await is_off(world, finance)) == (True, False)

    refusal = await world.talk(ops).say(MAX, "/skill on web-access")
    assert (bool(refusal.whispers), refusal.posts) == (True, ())
    assert await is_off(world, ops)
    assert "web-access" in (await world.talk(ops).say(ANA, "/skill on web-access")).reply
    turn = await talk.say(MAX, "现在呢", load("web-access"), says("看过了。"))
    assert "web-access" in index(turn.asked[0])
    assert copied not in texts(turn.asked[0])
    assert results(turn.asked[-1])[-1]["content"].startswith("Loaded web-access")
    assert texts(turn.asked[-1]).count(copied) == 1

    mine = [
        line for line in await world.audit() if line["channel"] == f"slack-main/{ops}" and "web-access" in str(line)
    ]
    changes = [line for line in mine if line["before"] != line["after"]]
    assert [(line["who"], line["what"]) for line in changes] == [
        (f"slack-main/{ANA}", "skill off"),
        (f"slack-main/{ANA}", "skill on"),
    ]
    assert '"off"' in changes[0]["after"]
    assert '"off"' in changes[1]["before"]
    assert '"on"' in changes[1]["after"]
    assert [line["who"] for line in mine if "refused" in line["what"] and "skill on" in line["what"]] == [
        f"slack-main/{MAX}"
    ]


async def test_it_stays_off_whatever_becomes_of_its_folder(world: World, copied: str) -> None:
    room = world.room()
    admin = world.talk(room)
    called = world.words.choice(["WEB-Access", widened("web-access"), ALIAS])
    assert "web-access" in (await admin.say(ANA, f"/skill off {called}")).reply
    assert await is_off(world, room)
    newer = skill("本公司上网办法", f"做法：{copied}，更新", alias=ALIAS, version="8.0.0")
    world.write("web-access", newer)
    await admin.say(ANA, "/skill reload")
    assert await is_off(world, room)
    files = {"SKILL.md": skill("另一个办法", "做法", name="web-access", version="9.0.0")}
    await admin.say(ANA, "/skill add", **world.zipped("web-access", **files))
    await admin.say(LI, "/skill trust web-access")
    assert await is_off(world, room), "a trusted bundle of the channel is no way round"
    kept = world.folder / world.word("kept-")
    shutil.move(world.org / "web-access", kept)
    await admin.say(ANA, "/skill reload")
    assert await is_off(world, room), "the shipped one does not come forward"
    shutil.move(kept, world.org / "web-access")
    await admin.say(ANA, "/skill reload")
    assert await is_off(world, room)
    assert not await is_off(world, world.room())


async def test_a_channel_cannot_switch_on_what_is_off_for_all(world: World) -> None:
    name, room = world.word("everywhere-"), world.room()
    world.write(name, skill("For all.", "For all."))
    await world.reload()
    code, printed = await world.stage.deskmate.run("skills", "off", name, "--everywhere")
    assert code == 0, printed
    refused = await world.talk(room).say(ANA, f"/skill on {name}")
    assert "全组织" in "\n".join([*refused.posts, *refused.whispers])
    turn = await world.talk(room).say(MAX, "?", load(name), says("不行。"))
    assert name not in index(turn.asked[0])
    assert results(turn.asked[-1])[-1]["is_error"]


async def test_two_admins_at_once_leave_one_state_and_two_lines(world: World) -> None:
    await world.profile("copy", roles={"admin": [f"slack-main/{ANA}", f"slack-main/{EVE}"]})
    name, room = world.word("both-"), world.room("copy")
    world.write(name, skill("For both.", "For both."))
    await world.reload()
    assert not (await world.talk(room).say(EVE, f"/skill off {name}")).whispers
    before = len(await world.audit())
    talks = [(world.talk(room), who, to) for who, to in ((ANA, "on"), (EVE, "off"))]
    await asyncio.gather(*(talk.say(who, f"/skill {to} {name}") for talk, who, to in talks))
    lines = [line for line in (await world.audit())[before:] if name in line["thing"]]
    assert {(line["who"], line["what"]) for line in lines} == {
        (f"slack-main/{ANA}", "skill on"),
        (f"slack-main/{EVE}", "skill off"),
    }
    assert lines[1]["before"] == lines[0]["after"]
    turn = await world.talk(room).say(MAX, "?", says("!"))
    assert (name in index(turn.asked[0])) is (lines[1]["what"] == "skill on")


async def test_without_switches_no_skill_is_on_and_the_operator_is_told(world: World) -> None:
    room = world.room()
    await world.talk(room).say(ANA, "/skill off web-access")
    channel = key_of("slack-main", room).channel_id
    place = f"{world.store.layout.skills_root}:ch:{channel}"
    assert await world.redis.hset(place, mapping={"rev": "999999999999999999", "s:web-access": "{broken"}) >= 0
    turn = await world.talk(room).say(MAX, "在吗", says("在。"))
    assert "在。" in turn.reply
    assert index(turn.asked[0]) == {}
    assert world.logged("switches can't be read: no skill and no tool is on")
    turn = await world.talk(world.room()).say(MAX, "在吗", says("在。"))
    assert "web-access" in index(turn.asked[0])
