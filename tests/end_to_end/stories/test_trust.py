"""A skill that came into one channel has to be trusted, byte for byte."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.end_to_end.requests import blocks, guidance, index, results, texts
from tests.end_to_end.stories.test_own_copy import rows
from tests.end_to_end.stories.world import ANA, LI, MAX, Turn, World, skill
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = ("安全", "性能", "写法")


def load(name: str, **more: str) -> Reply:
    return calls("load_skill", {"name": name, **more})


def is_data(asked: Asked, text: str) -> bool:
    """Whether it stands in results that are marked as data, and nowhere else."""
    inside = [one["content"] for one in results(asked) if text in one["content"]]
    marked = re.compile(r'<data from="load_skill" mark="(\w+)">\n.*?</data mark="\1">', re.DOTALL)
    others = [block for _, block in blocks(asked) if block["type"] != "tool_result" and text in str(block)]
    return bool(inside) and not others and not [one for one in inside if text in marked.sub("", one)]


def whispered(turn: Turn) -> bool:
    """Whether only the person who asked saw the answer."""
    return bool(turn.whispers) and not turn.posts


def digits_of(told: str, name: str) -> str:
    """Of the line that trusts what was shown."""
    return str(re.findall(rf"/skill trust {name} ([0-9a-f]{{12}})", told)[-1])


async def test_a_bundle_is_trusted_byte_for_byte(world: World) -> None:
    dev, ops, name = world.room(), world.room(), world.word("pr-checklist-")
    order = world.word("合并请求的检查顺序：安全、性能、写法 ")
    lines = [f"第 {number} 步 {world.word()}" for number in range(1, 12)]
    lines[8] += "\u200b 看不见"  # the frontmatter has five lines before the body
    body = "\n".join([*lines, f"按 {'、'.join(STEPS)} 的顺序。"])
    files = {
        "SKILL.md": skill(order, body, name=name, version="0.3"),
        "references/examples.md": f"例子 {world.word()}\n",
    }
    line = next(at for at, one in enumerate(files["SKILL.md"].split("\n"), 1) if "\u200b" in one)
    other = {**files, "references/examples.md": files["references/examples.md"].replace("例", "列")}

    added = await world.talk(dev).say(ANA, "/skill add", **world.zipped(name, **files))
    for told in (name, dev, "0.3", "尚未受信任", f"/skill trust {name}", LI):
        assert told in added.reply
    talk = world.talk(dev)
    turn = await talk.say(MAX, f"用 {name} 看看这段改动", load(name), says("它还在等待信任。"))
    assert name not in index(turn.asked[0])
    assert is_data(turn.asked[-1], lines[0])
    assert guidance(turn.asked[-1]) == []
    assert "trust" in results(turn.asked[-1])[-1]["content"].partition(lines[0])[0]
    elsewhere = await world.talk(ops).say(MAX, f"用 {name}", load(name), says("没有。"))
    assert results(elsewhere.asked[-1])[-1]["is_error"]
    assert lines[0] not in texts(elsewhere.asked[-1])
    assert rows((await world.talk(ops).say(MAX, "/skill list")).reply, name) == []

    shown = (await world.talk(dev).say(LI, f"/skill show {name}")).reply
    for told in (f"description: {order}", "version:", "references/examples.md", lines[0], "U+200B", *STEPS):
        assert told in shown
    assert "\u200b 看不见" not in shown
    assert re.search(rf"{line}\D.*U\+200B|U\+200B.*\b{line}\b|第 {line} 行", shown)

    assert whispered(await world.talk(dev).say(MAX, f"/skill trust {name}"))
    assert name not in index((await talk.say(MAX, "好了吗", says("没有。"))).asked[0])
    trusted = (await world.talk(dev).say(LI, f"/skill trust {name}")).reply
    [digits] = set(re.findall(r"\b[0-9a-f]{8,}\b", trusted))
    assert digits in shown
    turn = await talk.say(MAX, f"用 {name} 看看这段改动", load(name), says("先安全，再性能，最后写法。"))
    assert order in index(turn.asked[0])[name]
    [text] = guidance(turn.asked[-1])
    assert body in text
    assert turn.reply.index("安全") < turn.reply.index("性能") < turn.reply.index("写法")

    again = await world.talk(dev).say(ANA, "/skill add", **world.zipped(name, **other))
    assert "尚未受信任" in again.reply
    [row] = rows((await world.talk(dev).say(MAX, "/skill list")).reply, name)
    assert re.search(r"\bno\b", row)
    turn = await talk.say(MAX, "再看看", load(name), says("要等。"))
    assert name not in index(turn.asked[0])
    assert guidance(turn.asked[0]) == []
    assert not [
        one for role, one in blocks(turn.asked[0]) if role == "user" and one["type"] == "text" and body in str(one)
    ]
    assert re.search(rf"\(deskmate: the text of skill {name} stood here", texts(turn.asked[0]))
    assert is_data(turn.asked[-1], lines[0])
    asked = (await world.talk(dev).say(LI, f"/skill trust {name}")).reply
    assert "没有信任任何内容" in asked, "they were not shown what is there now"
    await world.talk(dev).say(LI, f"/skill trust {name} {digits_of(asked, name)}")
    turn = await talk.say(MAX, "现在呢", load(name), says("好了。"))
    assert name in index(turn.asked[0])
    assert body in guidance(turn.asked[-1])[-1]

    first = await world.talk(dev).say(ANA, "/skill add", **world.zipped(name, **files))
    assert "已受信任" in first.reply
    turn = await world.talk(dev).say(MAX, "用它", load(name), says("好了。"))
    assert body in guidance(turn.asked[-1])[0]


async def test_a_bundle_that_nobody_trusts_leaves_the_shipped_skill_in_force(world: World) -> None:
    room, rule = world.room(), world.word("别的做法 ")
    files = {"SKILL.md": skill("别的上网办法", rule, name="web-access")}
    added = await world.talk(room).say(ANA, "/skill add", **world.zipped("web-access", **files))
    assert "builtin" in added.reply
    turn = await world.talk(room).say(MAX, "看网页", load("web-access"), says("看过了。"))
    assert "How to reach the web" in index(turn.asked[0])["web-access"]
    assert "tier builtin" in guidance(turn.asked[-1])[0]
    assert rule not in texts(turn.asked[-1])
    await world.talk(room).say(LI, "/skill trust web-access")
    turn = await world.talk(room).say(MAX, "看网页", load("web-access"), says("看过了。"))
    assert rule in guidance(turn.asked[-1])[0]
    turn = await world.talk(world.room()).say(MAX, "看网页", load("web-access"), says("看过了。"))
    assert rule not in texts(turn.asked[-1])


@pytest.mark.sandbox
async def test_a_program_that_came_into_a_channel_runs_only_as_long_as_its_bytes_are_trusted(world: World) -> None:
    room, name = world.room(), world.word("报数-")
    first, second = world.word("first-"), world.word("second-")

    def files(word: str) -> dict[str, str]:
        main = f"def run(params):\n    return {word!r}\n"
        return {"SKILL.md": skill("报一个数", "x"), "main.py": main, "schema.json": '{"type": "object"}'}

    def program(asked: Asked) -> str | None:
        return next((tool["name"] for tool in asked.request["tools"] if name in tool["description"]), None)

    await world.talk(room).say(ANA, "/skill add", **world.zipped(name, **files(first)))
    turn = await world.talk(room).say(MAX, "报数", says("没有。"))
    assert program(turn.asked[0]) is None
    await world.talk(room).say(LI, f"/skill trust {name}")
    turn = await world.talk(room).say(MAX, "报数", says("有。"))
    tool = program(turn.asked[0])
    assert tool
    assert program((await world.talk(world.room()).say(MAX, "报数", says("没有。"))).asked[0]) is None

    hold, count = asyncio.Event(), len(world.asked)
    held = Reply(calls(tool).content, "tool_use", hold=hold)
    done = await world.talk(room).begin(MAX, "报两次", calls(tool), held, says("一次。"))
    await world.stage.model.until(lambda: len(world.asked) == count + 2)
    await world.talk(room).say(ANA, "/skill add", **world.zipped(name, **files(second)))
    hold.set()
    ran, refused = results((await done()).asked[-1])
    assert first in ran["content"]
    assert refused["is_error"]
    assert not [line for line in ("first-", "second-") if line in refused["content"]]

    asked = (await world.talk(room).say(LI, f"/skill trust {name}")).reply
    await world.talk(room).say(LI, f"/skill trust {name} {digits_of(asked, name)}")
    turn = await world.talk(room).say(MAX, "再报", calls(tool), says("好。"))
    assert second in results(turn.asked[-1])[-1]["content"]
    await world.talk(room).say(ANA, f"/skill off {name}")
    turn = await world.talk(room).say(MAX, "再报", calls(tool), says("没有了。"))
    assert program(turn.asked[0]) is None
    assert results(turn.asked[-1])[-1]["is_error"]


async def test_whoever_adds_a_bundle_is_not_the_one_who_trusts_it(world: World) -> None:
    room, name = world.room(), world.word("own-")
    await world.talk(room).say(ANA, "/skill add", **world.zipped(name, **{"SKILL.md": skill("Its own.", "x")}))
    assert whispered(await world.talk(room).say(ANA, f"/skill trust {name}"))
    assert whispered(await world.talk(room).say(LI, f"/skill remove {name}"))
    assert name not in index((await world.talk(room).say(MAX, "?", says("!"))).asked[0])
    lines = [line for line in await world.audit() if name in line["thing"] and "refused" in line["what"]]
    assert [line["who"] for line in lines] == [f"slack-main/{ANA}", f"slack-main/{LI}"]
    assert all("yaml" in line["rule"] for line in lines), "the line of the profile that decided"
