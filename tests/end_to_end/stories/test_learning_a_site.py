"""A site that only a browser can read: reached on the shipped skill's advice, remembered, forgotten, and known at the next visit.

One conversation with a real Chromium, and `chrome-devtools-mcp` as docs/mcp.md has it.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import yaml
from aiohttp import web

from skills.library import BUILTIN
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import breaks, guidance, index, ran, results, texts, tools
from tests.end_to_end.stories.world import LI, MAX, Turn, World, opened
from tests.harness.browser import FLAGS, find_program
from tests.harness.fake_model import Asked, Script
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import is_alive, until

DOCS: Final = Path(__file__).parents[3] / "docs" / "mcp.md"
SKILL: Final = BUILTIN / "web-access" / "SKILL.md"
BODY: Final = [line for line in SKILL.read_text("utf-8").split("\n---\n", 1)[1].splitlines() if len(line) > 20]
TOOLS: Final = ("chrome__list_pages", "chrome__navigate_page", "chrome__take_snapshot")
SHELL: Final = """<!doctype html><title>News</title><main></main><script>
setTimeout(() => {{ document.querySelector("main").textContent = {words}.join(" "); }}, 50);
</script>"""
LOAD: Final = calls("load_skill", {"name": "web-access"})
NOTES: Final = "references/site-patterns/127.0.0.1.md"
NOTE: Final = "- Pages are drawn by scripts: begin with the browser. (checked 2026-05-30: a fetch brought no text, the browser did)"


def documented() -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the profile of the example in the docs, with the programs of this machine."""
    blocks = [yaml.safe_load(one) for one in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)]
    [settings] = [one for one in blocks if "chrome" in one.get("mcp", {}).get("servers", {})]
    [profile] = [one for one in blocks if TOOLS[0] in one.get("tools", [])]
    server = settings["mcp"]["servers"]["chrome"]
    given = {name: shutil.which(name) for name in ("chrome-devtools-mcp", "node")} | {"chromium": find_program()}
    flags = [f"--chromeArg={flag}" for flag in FLAGS if "remote" not in flag and "headless" not in flag]
    server["command"] = [given.get(Path(one).name, one) for one in server["command"]] + flags
    server["start_timeout_s"] = 60
    return settings, profile


@pytest.fixture
async def world(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    settings, profile = documented()
    team = {
        "language": "en",
        "skills": profile["skills"],
        "tools": [*profile["tools"], "save_skill_reference"],
        "approvals": {"ask": ["chrome__navigate_page"]},
        "context": {"keep_messages": 1},
    }
    words = random.Random(request.config.getoption("randomly_seed"))
    async with opened(stage, tmp_path, words, settings, team=team, workers=1) as made:
        code, printed = await stage.deskmate.run("mcp", "approve", *TOOLS, "--yes")
        assert code == 0, printed
        yield made


class Site:
    """A site whose pages are empty until their script has run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.visits: dict[str, list[str]] = {}
        """By address: who came, a browser or a plain fetch."""

    def page(self, sentence: str) -> str:
        """A new page that shows this sentence; its address."""
        path = f"/{self.world.word()}"
        url = f"http://127.0.0.1:{self.world.port}{path}"
        html = SHELL.format(words=json.dumps(sentence.split()))
        visits = self.visits.setdefault(url, [])

        async def answer(request: web.Request) -> web.StreamResponse:
            visits.append("browser" if "Chrome" in request.headers["User-Agent"] else "fetch")
            return web.Response(text=html, content_type="text/html")

        self.world.pages[path] = answer
        return url


def reads(url: str, *first: Reply) -> Script:
    """The model's part: some calls, the page in the browser, and what that shows."""
    browses = [
        calls("chrome__list_pages"),
        calls("chrome__navigate_page", {"pageId": 1, "type": "url", "url": url}),
        calls("chrome__take_snapshot", {"pageId": 1}),
    ]
    plan = iter([*first, *browses])

    def next_reply(asked: Asked) -> Reply:
        if step := next(plan, None):
            return step
        found = re.search(r"The \w+ is on \w+", results(asked)[-1]["content"])
        return says(f"It says: {found[0] if found else 'nothing'}.")

    return next_reply


def bodies(turn: Turn) -> list[int]:
    """Of each request of the turn: how often it holds the skill's body; 0 is not a line of it."""
    counts = [{texts(asked).count(line) for line in BODY} for asked in turn.asked]
    assert all(len(one) == 1 for one in counts), "the body is there whole, or not at all"
    return [one.pop() for one in counts]


@pytest.mark.browser
@pytest.mark.devtools
async def test_a_site_is_learnt_in_one_conversation(world: World) -> None:
    site, talk = Site(world), world.talk(world.room())
    days = [f"The {event} is on {world.word()}" for event in ("launch", "party", "fair", "trip")]
    launch, party, fair, trip = map(site.page, days)

    async def ask(text: str, script: Script) -> Turn:
        """Somebody asks, and lets the browser go where it wants to go."""
        done = await talk.begin(MAX, text, script=script)
        await talk.begin(MAX, f"/approve {await talk.code()}")
        return await done()

    # The light tool sees nothing, the skill says what does, and a person lets it.
    first = await ask(f"When is the launch? {launch}", reads(launch, calls("web_fetch", {"url": launch}), LOAD))
    _, card, _, reply = first.posts  # the steps so far, the question, who said yes; and below it what came of it
    assert "May I do this?" in card
    assert launch in card
    assert reply == f"It says: {days[0]}."
    assert ran(first.asked[-1]) == ["web_fetch", "load_skill", *TOOLS]
    assert site.visits[launch] == ["fetch", "browser"]
    fetched, loaded, *_, seen = [one["content"] for one in results(first.asked[-1])]
    assert "almost no text without a browser" in fetched
    assert loaded.startswith("Loaded web-access")
    assert seen.startswith('<data from="chrome__take_snapshot" mark="'), "a page is data"
    assert bodies(first) == [0, 0, 1, 1, 1, 1]
    assert "The browser tools." in guidance(first.asked[2])[0]

    # What it knows it need not load again, and its browser is still open.
    second = await ask(f"And the party? {party}", reads(party))
    assert f"It says: {days[1]}." in second.posts
    assert ran(second.asked[-1]) == ["web_fetch", "load_skill", *TOOLS, *TOOLS]
    assert site.visits[party] == ["browser"]
    assert launch in results(second.asked[1])[-1]["content"]
    assert bodies(second) == [1, 1, 1, 1]
    assert breaks([*first.asked, *second.asked]) == 0

    # Put away: nothing of the skill gets into the summary, it is offered as before, and loaded when it is needed.
    compacted = await talk.say(MAX, "/compact", says("Found: the launch's day."))
    assert "Put away, in short: 1 of the messages" in compacted.reply
    assert "loaded again when they are needed: `web-access`" in compacted.reply
    assert launch in texts(compacted.asked[0])
    assert bodies(compacted) == [0]
    third = await ask(f"And the fair? {fair}", reads(fair, LOAD))
    assert f"It says: {days[2]}." in third.posts
    before = third.asked[0]
    assert "Found: the launch's day." in texts(before)
    assert "put away with it: the skills web-access." in texts(before)
    assert "web-access" in index(before)
    assert "load_skill" in tools(before)
    assert bodies(third) == [0, 1, 1, 1, 1]

    # What was learnt is written down, and counts when somebody who may say so has seen it.
    save = calls("save_skill_reference", {"name": "web-access", "file": NOTES, "content": NOTE})
    proposed = await talk.say(MAX, "Remember how that site works.", save, says("Proposed."))
    card, reply = proposed.posts
    assert NOTE in card
    assert reply == "Proposed."
    [code] = re.findall(r"/skill approve (\w+)", card)
    approved = await talk.say(LI, f"/skill approve {code}")
    assert f"The note `{code}`" in approved.reply
    assert "counts from now on" in approved.reply

    # Later nothing of all this is known but the note, and the note spares the fetch that sees nothing.
    await talk.say(MAX, "/new")
    note = calls("load_skill", {"name": "web-access", "file": NOTES})
    later = await ask(f"When is the trip? {trip}", reads(trip, LOAD, note))
    assert f"It says: {days[3]}." in later.posts
    assert ran(later.asked[-1]) == ["load_skill", "load_skill", *TOOLS]
    assert site.visits[trip] == ["browser"]
    assert bodies(later) == [0, 1, 1, 1, 1, 1]
    assert [NOTE in texts(asked) for asked in later.asked] == [False, False, True, True, True, True]
    assert NOTE in results(later.asked[2])[-1]["content"]
    assert not [one for one in (*days[:3], launch) if one in texts(later.asked[-1])]

    # No browser outlives its worker.
    [worker] = [one for one in world.stage.deskmate.running if one.name == "worker"]
    below = psutil.Process(worker.pid).children(recursive=True)
    assert len(below) > 5, "a server, and a browser of several processes"
    worker.kill()
    await until(lambda: not any(is_alive(one.pid) for one in below))
