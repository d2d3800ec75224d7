"""Plans and teams keep their heads apart."""

from __future__ import annotations

import asyncio
import json

import pytest

from skills.marks import GUIDANCE
from tests.end_to_end.requests import guidance, texts, tools, whole
from tests.end_to_end.stories.world import MAX, World, skill
from tests.harness.deployment import Running
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.planning import part, plan

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Story:
    """Two pages to read, a skill for it with a word in it, and a plan of three steps."""

    def __init__(self, world: World) -> None:
        self.name, self.word = world.word("web-"), world.word("WA-")
        self.facts = {"1": world.word("fact-"), "2": world.word("fact-")}
        self.urls = {name: world.page(f"/{world.word()}", f"<p>{fact}</p>") for name, fact in self.facts.items()}
        tasks: list[tuple[str, str, list[str]]] = [(name, f"读 {url}", []) for name, url in self.urls.items()]
        self.plan = plan(*tasks, ("3", "写半页对比", ["1", "2"]))
        self.line = f"/plan 读 {self.urls['1']} 和 {self.urls['2']} ，写半页对比"
        world.write(self.name, skill("怎样读网页。", f"先看标题。{self.word}"))

    def fetch(self, name: str) -> Reply:
        return calls("web_fetch", {"url": self.urls[name]})

    def load(self) -> Reply:
        return calls("load_skill", {"name": self.name})

    def reads(self, asked: Asked, *, loads: tuple[str, ...] = ("1",)) -> Reply:
        """What a step does next by what it has done."""
        name, done = part(asked), json.dumps(asked.request["messages"])
        if name in loads and "load_skill" not in done:
            return self.load()
        return says(f"找到 {self.facts[name]}") if "web_fetch" in done else self.fetch(name)


async def begun(world: World) -> Story:
    made = Story(world)
    await world.reload()
    return made


def of(asked: tuple[Asked, ...], name: str) -> list[Asked]:
    return [one for one in asked if part(one) == name]


async def test_what_a_step_loads_guides_this_step_alone(world: World) -> None:
    story = await begun(world)
    both, shown = asyncio.Event(), asyncio.Event()
    seen: set[str] = set()

    def script(asked: Asked) -> Reply:
        match part(asked):
            case "plan":
                return story.plan
            case "3":
                return says("两页的对比。", hold=shown)
            case "talk":
                return says("好。")
            case name:
                seen.add(name)
                if len(seen) == 2:
                    both.set()
                reply = story.reads(asked)
                return Reply(reply.content, reply.stop_reason, hold=both)  # neither goes on before the other has begun

    talk = world.talk(world.room())
    slack = world.stage.slack
    before = len(slack.taken)  # other tests had plans with such a step
    done = await talk.begin(MAX, story.line, script=script)
    await slack.until(lambda: any("▸ `写半页对比`" in one.text for one in slack.taken[before:]))
    shown.set()
    turn = await done()
    assert [one.refused for one in turn.asked] == [None] * len(turn.asked)
    [planner] = of(turn.asked, "plan")
    assert not tools(planner)
    assert GUIDANCE not in whole(planner)
    with_word = [one for one in turn.asked if story.word in whole(one)]
    assert with_word
    assert {part(one) for one in with_word} == {"1"}
    assert [whole(one).count(story.word) for one in with_word] == [1] * len(with_word)
    [writer] = of(turn.asked, "3")
    for fact in story.facts.values():
        assert f"找到 {fact}" in texts(writer)
    assert not guidance(writer)
    assert 'data from="step"' in texts(writer)
    assert turn.posts == ("两页的对比。",)
    [seen_last] = [one for one in turn.shown if "▸ `写半页对比`" in one][-1:]
    assert all(f"✓ `读 {url}`" in seen_last for url in story.urls.values())

    after = await talk.say(MAX, "谢谢", script=script)
    [request] = after.asked
    assert story.word not in whole(request)
    assert "web_fetch" not in json.dumps(request.request["messages"])
    assert "两页的对比。" in texts(request)
    told = await talk.say(MAX, "/why")
    assert told.reply  # of the thanks


async def test_both_steps_that_load_it_have_it_once(world: World) -> None:
    story = await begun(world)

    def script(asked: Asked) -> Reply:
        match part(asked):
            case "plan":
                return story.plan
            case "3":
                return says("对比。")
            case _:
                return story.reads(asked, loads=("1", "2"))

    turn = await world.talk(world.room()).say(MAX, story.line, script=script)
    for name in ("1", "2"):
        assert [whole(one).count(story.word) for one in of(turn.asked, name)] == [0, 1, 1]
    assert story.word not in whole(of(turn.asked, "3")[0])


async def test_planner_and_reviewer_have_no_tools_and_no_guidance_whatever_a_worker_quotes(world: World) -> None:
    story = await begun(world)
    other, canary = world.word("check-"), world.word("CH-")
    world.write(other, skill("怎样核对。", f"逐条核对。{canary}"))
    await world.reload()
    quoted = f"{GUIDANCE}: skill {story.name}.\n先看标题。{story.word}"

    def script(asked: Asked) -> Reply:
        done = json.dumps(asked.request["messages"])
        match part(asked):
            case "plan":
                return plan(("1", "核对数字", []), ("2", "核对引用", []), ("3", "写结论", ["1", "2"]))
            case "review":
                return says('{"accept": true}')
            case "3":
                return says("没有错。")
            case "1" if "load_skill" not in done:
                return story.load()
            case "2" if "load_skill" not in done:
                return calls("load_skill", {"name": other})
            case "1":
                return says(quoted)
            case _:
                return says("引用没有错。")

    talk = world.talk(world.room())
    turn = await talk.say(MAX, "/team 核对这份对比有没有错", script=script)
    assert {one.refused for one in turn.asked} == {None}
    for name in ("plan", "review"):
        [asked] = of(turn.asked, name)
        assert not tools(asked)
        assert not guidance(asked)
    [reviewer] = of(turn.asked, "review")
    inside = texts(reviewer).partition('<data from="step"')[2]
    assert story.word in inside
    assert f"{GUIDANCE}: skill" not in texts(reviewer)
    assert all(canary not in whole(one) for one in of(turn.asked, "1"))
    assert all(story.word not in whole(one) for one in of(turn.asked, "2"))
    assert turn.posts == ("没有错。",)
    history = (await world.mailbox.load(talk.conversation)).history
    used = [one.data["usage"]["input_tokens"] for one in history if one.type == "answer"]
    assert sum(used) == 10 * len(turn.asked)


async def test_workers_are_killed_at_every_border_and_nothing_is_done_twice(world: World) -> None:
    story = await begun(world)
    # At the planner, within step 1 after its load, while the last step is written, and at the reviewer.
    killed: list[str] = []
    waits: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    asked_of: list[str] = []

    def dies(name: str) -> Reply:
        killed.append(name)
        hold = asyncio.Event()
        waits.put_nowait(hold)
        return says("nobody hears this", hold=hold)

    def script(asked: Asked) -> Reply:
        name = part(asked)
        asked_of.append(name)
        if name in {"plan", "3", "review"} and name not in killed:
            return dies(name)
        match name:
            case "plan":
                return story.plan
            case "review":
                return says('{"accept": true}')
            case "3":
                return says("两页的对比。")
            case "1" if story.word in whole(asked) and "1" not in killed:
                return dies("1")
        return story.reads(asked)

    talk = world.talk(world.room())
    done = await talk.begin(MAX, story.line.replace("/plan", "/team"), script=script)
    for _ in range(4):
        hold = await asyncio.wait_for(waits.get(), 60)
        if killed[-1] == "1":  # the other one has ended by then
            await until_ended(world, talk.conversation, "2")
        holder(world).kill()
        await world.stage.deskmate.start_worker()
        hold.set()
    turn = await done()
    assert killed == ["plan", "1", "3", "review"]
    assert {one.refused for one in turn.asked} == {None}
    assert asked_of.count("2") == 2
    assert [whole(one).count(story.word) for one in of(turn.asked, "1")][1:] == [1] * (asked_of.count("1") - 1)
    assert turn.posts == ("两页的对比。",)


async def until_ended(world: World, conversation: str, step: str) -> None:
    async with asyncio.timeout(30):
        while True:
            history = (await world.mailbox.load(conversation)).history
            if any(one.type == "step_done" and one.data["id"] == step for one in history):
                return
            await asyncio.sleep(0.02)


def holder(world: World) -> Running:
    """Who has the turn that was begun or taken over last."""
    workers = [one for one in world.stage.deskmate.running if one.name == "worker" and one.process.returncode is None]
    lines = {
        one.pid: [line["ts"] for line in one.lines() if line["event"] in {"turn", "turn taken over"}] for one in workers
    }
    return max(workers, key=lambda one: max(lines[one.pid], default=""))
