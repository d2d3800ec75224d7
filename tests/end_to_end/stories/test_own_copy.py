"""An organisation's own copy takes the place of a shipped skill, and goes again."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

from skills.library import BUILTIN
from tests.end_to_end.requests import guidance, index, results, texts
from tests.end_to_end.stories.world import ANA, MAX, World, skill
from tests.harness.model_replies import Reply, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHIPPED = [
    line
    for line in (BUILTIN / "web-access" / "SKILL.md").read_text("utf-8").split("\n---\n", 1)[1].split("\n")
    if len(line) > 20
]
SITES = sorted(one.name for one in (BUILTIN / "web-access" / "references" / "site-patterns").iterdir())
LOAD = calls("load_skill", {"name": "web-access"})
LIST = calls("load_skill", {"name": "web-access", "file": "references/site-patterns"})


def rows(listed: str, name: str) -> list[str]:
    """The rows of the table for one skill."""
    return [line for line in listed.split("\n") if re.match(rf"[●○✗]\s+{re.escape(name)}(\s|$)", line)]


async def restart_gateway(world: World) -> None:
    deskmate = world.stage.deskmate
    gateway = next(one for one in deskmate.running if one.name == "gateway")
    await gateway.stop()
    await deskmate.start_gateway()


async def test_a_copy_takes_the_place_of_the_shipped_one_and_goes_again(world: World) -> None:
    room = world.room()
    admin, talk, running = world.talk(room), world.talk(room), world.talk(room)
    await admin.say(ANA, "/skill reload")
    before = await admin.say(ANA, "/skill list")
    [row] = rows(before.reply, "web-access")
    assert row.startswith("●")
    assert all(told in row for told in ("builtin", "1.0.0"))

    hold = asyncio.Event()
    ends = await running.begin(MAX, "看一下", Reply(LOAD.content, "tool_use", hold=hold), says("看过了。"))
    await world.stage.model.until(lambda: world.stage.model.in_flight == 1)
    told, password = f"本公司上网办法：内网优先 {world.word()}", world.word("ORG-")
    version = f"7.{world.words.randrange(100)}.0"
    text = skill(told, f"先问内网。口令 {password}。", name="web-access", version=version)
    world.write("web-access", text)
    reloaded = await admin.say(ANA, "/skill reload")
    assert re.search(r"web-access\W+org\W.*builtin", reloaded.reply)
    assert "共 2 个技能，2 个生效" in reloaded.reply
    assert re.search(r"列表占 \d+ / 4,?000 个 token", reloaded.reply)
    listed = (await admin.say(MAX, "/skill list")).reply
    [row] = rows(listed, "web-access")
    assert all(one in row for one in ("●", "org", version))
    assert re.search(r"web-access.*builtin.*1\.0\.0", listed.replace(row, "")), "what is behind it"
    hold.set()
    old = await ends()
    assert told not in "".join(map(texts, old.asked))
    assert SHIPPED[0] in guidance(old.asked[-1])[0]

    url = world.page(f"/{world.word()}", "<title>x</title><main><p>a page</p></main>")
    turn = await talk.say(MAX, f"看一下 {url} 写了什么", LOAD, LIST, says("看过了。"))
    assert told in index(turn.asked[0])["web-access"]
    assert password in guidance(turn.asked[1])[0]
    assert not [line for line in SHIPPED if line in texts(turn.asked[-1])]
    assert not [site for site in SITES if site in texts(turn.asked[-1])]

    half = text.rpartition("---")[0]
    (world.org / "web-access" / "SKILL.md").write_text(half.replace(version, "8.0.0"))
    broken = (await admin.say(ANA, "/skill reload")).reply
    assert "web-access" in broken
    assert "SKILL.md" in broken
    assert re.search(r"line 1|第 1 行", broken)
    assert "---" in broken
    await restart_gateway(world)  # the next process never saw the copy that worked
    await admin.say(ANA, "/skill reload")
    turn = await world.talk(room).say(MAX, "再看一下", LOAD, says("看过了。"))
    assert told in index(turn.asked[0])["web-access"]
    assert password in guidance(turn.asked[1])[0]

    shutil.rmtree(world.org / "web-access")
    await admin.say(ANA, "/skill reload")
    listed = (await admin.say(MAX, "/skill list")).reply
    [row] = rows(listed, "web-access")
    assert all(one in row for one in ("●", "builtin", "1.0.0"))
    assert listed.count("web-access") == 1, "nothing is behind it"
    turn = await talk.say(MAX, "再看一下", LOAD, LIST, says("看过了。"))
    assert password in texts(turn.asked[0])
    assert [line for line in SHIPPED if line not in guidance(turn.asked[1], last=True)[0]] == []
    assert [site for site in SITES if site not in results(turn.asked[-1])[-1]["content"]] == []
