"""The second use costs nothing, a changed text comes once, and a full budget takes nothing away."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.requests import breaks, guidance, results, texts
from tests.end_to_end.stories.world import ANA, MAX, World, skill
from tests.harness.model_replies import calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_loaded_skill_is_there_once_in_each_later_request(world: World) -> None:
    name, old, new = world.word("web-"), world.word("old-"), world.word("new-")
    urls = [
        world.page(f"/{world.word()}", f"<title>x</title><main><p>{world.word()} {'word ' * 60}</p></main>")
        for _ in range(2)
    ]
    world.write(name, skill("How to read pages.", f"Read them. {old}"))
    await world.reload()
    talk = world.talk(world.room())
    load = calls("load_skill", {"name": name})
    first = await talk.say(MAX, f"帮忙读 {urls[0]}", load, calls("web_fetch", {"url": urls[0]}), says("三点"))
    second = await talk.say(
        MAX, f"再读 {urls[1]} ，和刚才那篇比一比", calls("web_fetch", {"url": urls[1]}), says("一样")
    )
    assert "一样" in second.reply
    assert [texts(one).count(old) for one in (*first.asked, *second.asked)] == [0, 1, 1, 1, 1]
    assert breaks([*first.asked, *second.asked]) == 0

    third = await talk.say(MAX, "还要", load, says("还在"))
    told = results(third.asked[1])[-1]
    assert not told.get("is_error")
    assert "already in context" in told["content"]
    assert texts(third.asked[1]).count(old) == 1
    assert breaks([*first.asked, *second.asked, *third.asked]) == 0

    world.write(name, skill("How to read pages.", f"Read them otherwise. {new}"))
    assert name in (await world.talk(talk.room).say(ANA, "/skill reload")).reply
    fourth = await talk.say(MAX, "再来", load, calls("load_skill", {"name": name}), says("新的"))
    before, after, again = fourth.asked
    assert texts(before).count(new) == 0
    [text] = [one for one in guidance(after) if new in one]
    assert "takes the place of the older text" in text.partition("\n\n")[0]
    assert (texts(after).count(new), texts(again).count(new)) == (1, 1)
    assert "already in context" in results(again)[-1]["content"]
    assert breaks([*third.asked, *fourth.asked]) == 0


async def test_a_full_budget_refuses_one_more_and_keeps_what_is_there(world: World) -> None:
    sizes = {world.word("big-"): size for size in (20_000, 18_000, 19_000, 12_000)}
    canaries = {name: world.word("canary-") for name in sizes}
    for name, size in sizes.items():
        lines = f"{canaries[name]}\n" + "Do one thing after the other, and look at each.\n" * (size // 48)
        world.write(name, skill("Is long.", lines[:size]))
    await world.reload()
    loads = [calls("load_skill", {"name": name}) for name in sizes]
    turn = await world.talk(world.room()).say(MAX, "all", *loads, says("三个"))
    *fitting, over = results(turn.asked[-1])
    assert not [one for one in fitting if one.get("is_error")]
    assert over["is_error"]
    *there, last = sizes
    for name in there:
        assert name in over["content"], "it names what is loaded"
    left = 65_536 - sum(int(re.findall(r"(\d+) characters", one["content"])[0]) for one in fitting)
    assert f"{left / 1024:.1f} KB are left" in over["content"]
    seen = texts(turn.asked[-1])
    assert [seen.count(canaries[name]) for name in sizes] == [1, 1, 1, 0], last
    assert breaks(turn.asked) == 0
