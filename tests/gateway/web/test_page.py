"""The chat page in a real Chromium."""

import pytest

from tests.gateway.web.world import World
from tests.harness.browser import Visitor

pytestmark = pytest.mark.browser


async def test_a_reply_streams_in_with_its_steps(world: World, visitor: Visitor) -> None:
    page = await visitor.page(f"{world.url}/chat")
    await page.until("!document.querySelector('#welcome').hidden")
    await page.type("What is on the page?")
    await page.press("Enter")
    event = await world.worker.take()
    await world.worker.skill(event, "web-access")
    await world.worker.tool(event, "web_fetch", failed=None)
    await world.worker.show(event, "")
    await page.until_shown("Running web_fetch")
    await world.worker.show(event, "Three **poi")
    await page.until_shown("Three **poi")
    await world.worker.show(event, "Three **points**: one")
    await page.until("document.querySelector('.markdown strong')?.textContent === 'points'")
    assert await page.texts(".step") == ["Loaded the skill web-access", "Running web_fetch"]
    await world.worker.reply(event, "Three **points**: one, two, three.")
    await page.until("!document.querySelector('[aria-busy=true]')")
    assert await page.texts(".reply .markdown") == ["Three points: one, two, three."]
    assert await page.texts(".bubble") == ["What is on the page?"]
