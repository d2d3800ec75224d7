"""A page that only a browser can read: the shipped skill's ladder, from `web_fetch` to the tools of a browser's MCP server.

Real processes, a real Chromium, and `chrome-devtools-mcp` as docs/mcp.md has it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from aiohttp import web

from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import results
from tests.harness.browser import FLAGS, find_program
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import is_alive, until
from tests.harness.web import site

DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"
TOOLS = ("chrome__list_pages", "chrome__navigate_page", "chrome__take_snapshot")
SHELL = """<!doctype html><title>{title}</title><main></main><script>
setTimeout(() => {{ document.querySelector("main").textContent = ["The launch", "is on", "{day}"].join(" "); }}, 50);
</script>"""

DAY = re.compile(r'is on (.+?)"')


def documented() -> dict[str, dict[str, Any]]:
    """The settings and the profile of the example in the docs."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    [settings] = [
        found for block in blocks if "chrome" in (found := yaml.safe_load(block)).get("mcp", {}).get("servers", {})
    ]
    [profile] = [found for block in blocks if "chrome__list_pages" in (found := yaml.safe_load(block)).get("tools", [])]
    server = settings["mcp"]["servers"]["chrome"]
    given = {"chrome-devtools-mcp": shutil.which("chrome-devtools-mcp"), "/usr/bin/chromium": find_program()}
    given["/usr/bin/node"] = shutil.which("node")
    flags = [f"--chromeArg={flag}" for flag in FLAGS if "remote" not in flag and "headless" not in flag]
    server["command"] = [given.get(Path(one).name, given.get(one, one)) for one in server["command"]] + flags
    server["start_timeout_s"] = 60
    return {"settings": {"mcp": settings["mcp"]}, "profile": profile}


def steps(url: str, page: int = 1) -> Iterator[Reply]:
    """What a model does that follows the skill."""
    yield calls("web_fetch", {"url": url})
    yield calls("load_skill", {"name": "web-access"})
    yield from in_the_browser(url, page)


def in_the_browser(url: str, page: int = 1) -> Iterator[Reply]:
    yield calls("chrome__list_pages")
    yield calls("chrome__navigate_page", {"pageId": page, "type": "url", "url": url})
    yield calls("chrome__take_snapshot", {"pageId": page})


def last(asked: Asked) -> str:
    return str(results(asked)[-1]["content"])


def family(pid: int) -> list[int]:
    return [one.pid for one in psutil.Process(pid).children(recursive=True)]


@pytest.mark.browser
@pytest.mark.devtools
async def test_a_page_that_scripts_draw_is_read_on_the_skills_advice(stage: Stage) -> None:
    pages = {
        "/one": web.Response(text=SHELL.format(title="One", day="June 3"), content_type="text/html"),
        "/two": web.Response(text=SHELL.format(title="Two", day="July 8"), content_type="text/html"),
    }
    async with site(pages) as port:
        here = f"http://127.0.0.1:{port}"
        shown = documented()
        shown["settings"]["tools"] = {"web_fetch": {"allow_private": [f"127.0.0.1:{port}"], "ports": [80, 443, port]}}
        stage.set(**shown)
        code, printed = await stage.deskmate.run("mcp", "approve", *TOOLS, "--yes")
        assert code == 0, printed
        await stage.start(1, **shown)
        worker = stage.deskmate.running[-1]

        plan = steps(f"{here}/one")

        def script(asked: Asked) -> Reply:
            return next(plan, None) or says(f"On {DAY.findall(last(asked))[0]}.")

        stage.model.answer_with(script)
        said = await stage.slack.say(stage.hook, f"When is the launch? {here}/one")
        await stage.slack.until(lambda: "On June 3." in stage.posts())
        got = [str(one["content"]) for one in results(stage.model.asked[-1])]
        assert "almost no text without a browser" in got[0], "the light tool says what it could not see"
        assert "June 3" not in "".join(got[:-1])
        assert got[-1].startswith('<data from="chrome__take_snapshot" mark="'), "a page is data"
        assert "browser tools" in stage.model.asked[-1].body.decode(), "the skill says what to do next"

        plan = in_the_browser(f"{here}/two")  # the skill is still there, and so is the browser
        said = await stage.slack.say(stage.hook, f"And the other? {here}/two", thread_ts=said.thread_ts or said.ts)
        await stage.slack.until(lambda: "On July 8." in stage.posts())
        assert f"{here}/one" in results(stage.model.asked[-3])[-1]["content"]

        plan = iter([calls("chrome__list_pages")])

        def look(asked: Asked) -> Reply:
            return next(plan, None) or says("Sees it." if here in last(asked) else "Sees nothing.")

        stage.model.answer_with(look)
        await stage.slack.say(stage.hook, "What is open?")
        await stage.slack.until(lambda: "Sees nothing." in stage.posts())  # each conversation has a browser of its own

        below = family(worker.pid)
        assert len(below) > 10, "two browsers"
        worker.kill()
        await until(lambda: not any(map(is_alive, below)))
