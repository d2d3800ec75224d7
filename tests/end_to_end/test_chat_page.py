"""The chat page in a real Chromium, on real processes: what a person sees when all is well, and when something dies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.end_to_end.conftest import Stage
from tests.gateway.web.conftest import browser, devtools, visitor  # noqa: F401  # fixtures
from tests.harness.browser import Page, Visitor
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import until
from tests.harness.web import site

pytestmark = pytest.mark.browser

REPLIES = "[...document.querySelectorAll('.reply .markdown')].map((one) => one.innerText)"
AWAY = re.compile(r"(net::ERR_(CONNECTION_|EMPTY_RESPONSE|INCOMPLETE_CHUNKED)|status of 503).* http://\S+/chat/api/")
"""The browser tells of requests that nobody answered, and of those that a gateway answered while it stopped."""
IDLE = "document.querySelector('#stop').hidden"


async def opened(visitor: Visitor, stage: Stage) -> Page:  # noqa: F811
    page = await visitor.page(f"{stage.deskmate.url}/chat")
    await page.until("!document.querySelector('#welcome').hidden")
    return page


async def say(page: Page, text: str) -> None:
    await page.evaluate("document.querySelector('#message').focus()")
    await page.type(text)
    await page.press("Enter")


async def replies(page: Page, wanted: list[str]) -> None:
    """Exactly these replies are shown, and nothing runs any more."""
    await page.until(f"{IDLE} && JSON.stringify({REPLIES}) === JSON.stringify({json.dumps(wanted)})")


@pytest.fixture
async def notes() -> AsyncIterator[str]:
    """A page on this machine, under an address that only the operator can allow."""
    body = "<!doctype html><title>Notes</title><main><p>The kettle boils at noon.</p></main>"
    async with site({"/notes": web.Response(text=body, content_type="text/html")}) as port:
        yield f"http://127.0.0.1:{port}/notes"


async def rehearse(stage: Stage, folder: Path, allowed: list[str]) -> None:
    """Everything runs, with the model that is none and one skill of the organisation's."""
    skill = folder / "skills" / "tea-making"
    skill.mkdir(parents=True)
    head = "---\nname: tea-making\ndescription: How to brew tea with the kettle\n---\n"
    (skill / "SKILL.md").write_text(head + "Warm the pot before the tea goes in.\n")
    await stage.start(
        settings={
            "model": {"provider": "rehearsal", "name": "rehearsal", "base_url": None, "api_key": None},
            "skills": {"folder": str(folder / "skills")},
            "tools": {"web_fetch": {"allow_private": allowed}},
        }
    )


async def test_a_person_sees_the_skill_the_tool_and_the_reply_and_sees_them_again(
    stage: Stage,
    visitor: Visitor,  # noqa: F811
    tmp_path: Path,
    notes: str,
) -> None:
    await rehearse(stage, tmp_path, [notes.split("/")[2]])
    page = await opened(visitor, stage)
    await say(page, f"Brew tea with the kettle as {notes} says")
    await page.until_shown("The kettle boils at noon.")
    await page.until(IDLE)
    steps = ["Loaded the skill tea-making", "Ran web_fetch"]
    [reply] = await page.texts(".reply .markdown")
    assert "Warm the pot" in reply
    assert await page.texts(".step") == steps
    await page.reload()
    await page.until_shown("The kettle boils at noon.")
    assert await page.texts(".step") == steps
    assert await page.texts(".reply .markdown") == [reply]
    second = await visitor.page(await page.evaluate("location.href"))
    await second.until_shown("The kettle boils at noon.")
    await say(second, "thank you")
    await page.until(f"{REPLIES}.length === 2")
    await second.until(f"{REPLIES}.length === 2")
    assert await page.texts(".bubble") == [f"Brew tea with the kettle as {notes} says", "thank you"]
    assert await page.texts(".reply .markdown") == await second.texts(".reply .markdown")


async def test_a_page_on_this_machine_is_not_read_unless_the_operator_allows_it(
    stage: Stage,
    visitor: Visitor,  # noqa: F811
    tmp_path: Path,
    notes: str,
) -> None:
    await rehearse(stage, tmp_path, [])
    page = await opened(visitor, stage)
    await say(page, f"What does {notes} say?")
    await page.until(f"{IDLE} && {REPLIES}.length === 1")
    assert "web_fetch failed" in await page.texts(".step")
    assert "kettle boils" not in " ".join(await page.texts("main"))


async def test_an_answer_streams_in_and_stop_ends_it(stage: Stage, visitor: Visitor) -> None:  # noqa: F811
    def script(asked: Asked) -> Reply:
        if "again" in asked.text:
            return says("Here I am.")
        return says("One two three four five six seven.", deltas=7, stall_after_events=5)

    stage.model.answer_with(script)
    await stage.start()
    page = await opened(visitor, stage)
    await say(page, "count")
    await page.until_shown("One two")
    assert not await page.evaluate(IDLE)
    await page.click("#stop")
    await page.until_shown("Stopped.", 3)
    await page.until(IDLE)
    await say(page, "again?")
    await page.until_shown("Here I am.")
    await page.until(IDLE)
    shown = await page.texts(".reply .markdown")
    assert shown[-2:] == ["Stopped.", "Here I am."]
    assert "seven" not in " ".join(shown)


async def test_a_worker_killed_in_the_middle_leaves_exactly_one_reply(
    stage: Stage,
    visitor: Visitor,  # noqa: F811
) -> None:
    def script(_: Asked) -> Reply:
        step = len(stage.model.asked)
        if step == 1:
            return calls("current_time")
        whole = "It is noon, says the clock."
        return says(whole, deltas=9, stall_after_events=5) if step == 2 else says(whole, deltas=9)

    stage.model.answer_with(script)
    await stage.start()
    page = await opened(visitor, stage)
    await say(page, "what time is it?")
    await page.until("document.querySelector('[aria-busy=true]')?.innerText.includes('It is')")
    stage.deskmate.running[-1].kill()
    await stage.deskmate.start_worker()
    await replies(page, ["It is noon, says the clock."])
    assert await page.texts(".step") == ["Ran current_time"]
    await page.reload()
    await replies(page, ["It is noon, says the clock."])
    assert await page.texts(".step") == ["Ran current_time"]
    assert len(stage.model.asked) == 3


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_the_page_finds_a_restarted_gateway_by_itself_and_brings_what_was_written_meanwhile(
    stage: Stage,
    visitor: Visitor,  # noqa: F811
    how: str,
) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda asked: says("second") if "two" in asked.text else says("first", hold=hold))
    await stage.start()
    gateway = stage.deskmate.running[0]
    page = await opened(visitor, stage)
    page.expected = AWAY
    await say(page, "one")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    if how == "killed":
        gateway.kill()
        await gateway.process.wait()
    else:
        assert await asyncio.wait_for(gateway.stop(), 8) == 0  # an open page does not hold it for gateway.shutdown_s
    await page.until("!document.querySelector('#offline').hidden")
    await say(page, "two")
    hold.set()  # the answer to the first comes while nobody serves the page
    worker = stage.deskmate.running[1]
    await until(lambda: bool(worker.lines("sent")))
    await stage.deskmate.start_gateway()
    await replies(page, ["first", "second"])
    await page.until("document.querySelector('#offline').hidden")
    assert await page.texts(".bubble") == ["one", "two"]


async def test_a_notice_is_shown_as_one_and_in_the_browsers_language(
    stage: Stage,
    visitor: Visitor,  # noqa: F811
) -> None:
    stage.deskmate.environment["MODEL_KEY"] = "sk-wrong-0123456789"
    await stage.start()
    page = await opened(visitor, stage)
    await page.speak("zh-CN")
    await page.reload()
    await say(page, "你好")
    await page.until_shown("模型拒绝了我们的请求")
    assert len(await page.texts(".reply.notice")) == 1
