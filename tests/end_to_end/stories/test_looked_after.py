"""A channel is looked after, from the chat and from the admin pages; a member who tries the same is refused at every way in.

Real processes, a strict Slack and a real Chromium.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin.keys import Session
from gateway.admin.visits import Caller
from gateway.web.admin.door import COOKIE
from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import guidance, index, results, tools
from tests.end_to_end.stories.world import ANA, LI, MAX, PROFILE, World, opened, skill
from tests.harness.browser import Browser, Page, connected, find_program, running
from tests.harness.model_replies import calls, says

pytestmark = pytest.mark.browser

KIM: Final = "U0KIM"
"""Admin of one channel, by somebody's word."""
TEAM: Final = {**PROFILE, "language": "en"}
LOAD: Final = calls("load_skill", {"name": "web-access"})
NOTE: Final = {"name": "web-access", "file": "references/site-patterns/shop.test.md", "content": "Prices are in cents."}


@pytest.fixture
async def world(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    words = random.Random(request.config.getoption("randomly_seed"))
    async with opened(stage, tmp_path, words, team=TEAM) as made:
        yield made


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    program = find_program()
    assert program, "tests that use this are marked `browser`"
    with running(program, tmp_path / "chromium") as address:
        async with connected(address) as browser:
            yield browser
            assert [error for page in browser.pages.values() for error in page.errors] == []


@dataclass(frozen=True)
class House:
    """What people do here."""

    world: World
    browser: Browser

    async def has_it(self, room: str) -> bool:
        """Whether the skill is offered there, and loads."""
        turn = await self.world.talk(room).say(MAX, "Read a page", LOAD, says("Well."))
        loads = not results(turn.asked[-1])[-1].get("is_error")
        assert loads is ("web-access" in index(turn.asked[0])) is bool(guidance(turn.asked[-1]))
        return loads

    async def sign_in(self, person: str, *, expected: str = "") -> Page:
        """With a link that the operator made for them, in a browser of their own. `expected`: answers that are no errors."""
        code, printed = await self.world.stage.deskmate.run("admin", "link", "--as", f"slack-main/{person}")
        assert code == 0, printed
        [link] = re.findall(r"^http\S+$", printed, re.MULTILINE)
        page = await (await self.browser.visitor()).page(link)
        page.expected = re.compile(expected) if expected else None
        await page.until_shown("Sign in")
        await page.click("main button")
        await page.until("location.pathname === '/admin'")
        return page

    async def go(self, page: Page, path: str) -> None:
        await page.go(self.world.stage.deskmate.url + path)

    async def refused(self, since: int) -> list[tuple[str, str, str]]:
        """Who was refused what, and by which rule, in the audit log from this line on."""
        lines = (await self.world.audit())[since:]
        return [(one["who"], one["what"], one["rule"]) for one in lines if "refused" in one["what"]]


@pytest.fixture
def house(world: World, browser: Browser) -> House:
    return House(world, browser)


async def test_a_channel_admin_switches_in_the_chat_and_on_the_page(house: House) -> None:
    world = house.world
    ops, lab = world.room(), world.room()
    assert [await house.has_it(room) for room in (ops, lab)] == [True, True]
    await world.talk(ops).say(ANA, f"/role grant {KIM}")

    told = await world.talk(ops).say(KIM, "/skill off web-access")
    assert "web-access" in told.reply
    assert [await house.has_it(room) for room in (ops, lab)] == [False, True]

    page = await house.sign_in(KIM, expected="403")
    await house.go(page, f"/admin/channel?channel=slack-main/{ops}")
    await page.until("document.querySelector('[aria-label=web-access]').getAttribute('aria-checked') === 'false'")
    await page.click("[aria-label=web-access]")
    await page.until("document.querySelector('[aria-label=web-access]').getAttribute('aria-checked') === 'true'")
    assert [await house.has_it(room) for room in (ops, lab)] == [True, True]
    await page.click("[aria-label=web-access]")
    await page.until("document.querySelector('[aria-label=web-access]').getAttribute('aria-checked') === 'false'")
    assert [await house.has_it(room) for room in (ops, lab)] == [False, True]

    await house.go(page, f"/admin/channel?channel=slack-main/{lab}")
    assert await page.texts("[role=switch]") == [], "of another channel there is nothing to see"
    since = len(await world.audit())
    assert (await world.talk(lab).say(KIM, "/skill off web-access")).posts == ()
    assert await house.has_it(lab)
    assert [who for who, *_ in await house.refused(since)] == [f"slack-main/{KIM}"]


async def test_what_is_new_is_looked_at_on_the_page_before_it_counts(house: House) -> None:
    world = house.world
    room, name = world.room(), world.word("prices-")
    body = world.word("Prices are net. ")
    text = skill("How prices are told.", body, name=name)
    await world.talk(room).say(ANA, "/skill add", **world.zipped(name, **{"SKILL.md": text}))
    turn = await world.talk(room).say(MAX, "A price?", calls("load_skill", {"name": name}), says("Not yet."))
    assert guidance(turn.asked[-1]) == []

    page = await house.sign_in(LI)
    await house.go(page, f"/admin/skill?channel=slack-main/{room}&id={name}")
    await page.until_shown(body)
    await page.click("form[action$='skills.trust'] button")
    await page.until(f"document.querySelector('#said')?.textContent.includes({name!r})")
    turn = await world.talk(room).say(MAX, "A price?", calls("load_skill", {"name": name}), says("Net."))
    assert body in guidance(turn.asked[-1])[0]

    saves = calls("save_skill_reference", NOTE)
    reads = calls("load_skill", {"name": "web-access", "file": NOTE["file"]})
    proposed = await world.talk(room).say(MAX, "Remember that.", saves, says("Proposed."))
    [code] = re.findall(r"/skill approve (\w+)", proposed.posts[0])
    before = await world.talk(room).say(MAX, "What is known?", reads, says("Nothing."))
    assert NOTE["content"] not in results(before.asked[-1])[-1]["content"]
    await house.go(page, f"/admin/skills?channel=slack-main/{room}")
    await page.click(f"[aria-label='Approve {code}']")
    await page.until("document.querySelector('#said')?.textContent.includes('counts from now on')")
    after = await world.talk(room).say(MAX, "What is known?", reads, says("Cents."))
    assert NOTE["content"] in results(after.asked[-1])[-1]["content"]


async def test_a_budget_is_set_and_hit_and_seen(house: House) -> None:
    world = house.world
    room = world.room()
    await world.profile("team", **{**TEAM, "budget": {"person": {"day": {"turns": 2}}}})
    for _ in range(2):
        assert "Well." in (await world.talk(room).say(MAX, "Hello", says("Well."))).reply
    over = await world.talk(room).say(MAX, "Hello again", says("Well."))
    assert over.asked == (), "the model was not asked"
    assert "your budget of today" in over.reply
    assert "Well." in (await world.talk(room).say(LI, "Hello", says("Well."))).reply, "a budget is each person's own"
    assert "2 questions" in (await world.talk(room).say(MAX, "/usage")).reply
    page = await house.sign_in(ANA)
    await house.go(page, "/admin/spending")
    await page.until_shown(f"slack-main/{room}")


def every_act(room: str, code: str, name: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """What a member may not do: the line in the chat, and the operation with its fields."""
    channel = {"channel": f"slack-main/{room}"}
    return {
        "skill off": ("/skill off web-access", "skills/switch", {**channel, "id": "web-access", "to": "off"}),
        "skill trust": (f"/skill trust {name}", "skills/trust", {**channel, "id": name, "digits": ""}),
        "skill remove": (f"/skill remove {name}", "skills/remove", {**channel, "id": name}),
        "skill approve": (f"/skill approve {code}", "notes/approve", {**channel, "code": code}),
        "skill reload": ("/skill reload", "skills/reload", channel),
        "hitl on": ("/hitl on", "channels/hitl", {**channel, "to": "on"}),
        "role grant": (f"/role grant {MAX}", "people/grant", {**channel, "person": f"slack-main/{MAX}"}),
    }


async def test_a_member_is_refused_at_every_way_in(house: House) -> None:
    world = house.world
    stage, room, name = world.stage, world.room(), world.word("new-")
    await world.talk(room).say(ANA, "/skill add", **world.zipped(name, **{"SKILL.md": skill("New.", "x", name=name)}))
    proposed = await world.talk(room).say(MAX, "Remember that.", calls("save_skill_reference", NOTE), says("Done."))
    [code] = re.findall(r"/skill approve (\w+)", proposed.posts[0])
    acts = every_act(room, code, name)
    made = await stage.deskmate.run("admin", "token", "--as", f"slack-main/{MAX}", "--name", "own", "--days", "1")
    [token] = re.findall(r"^\S{40,}$", made[1], re.MULTILINE)
    since = len(await world.audit())
    page = await house.sign_in(MAX, expected="403")
    [cookie] = [one for one in (await page.ask("Network.getCookies"))["cookies"] if one["name"] == COOKIE]
    csrf = Session(cookie["value"], Caller(f"slack-main/{MAX}")).csrf  # no page that they get has it, their cookie does

    async def chat(line: str, *_: Any) -> None:
        assert (await world.talk(room).say(MAX, line)).posts == (), "only who tried it is told"

    async def slash(line: str, *_: Any) -> None:
        await stage.slack.command(stage.hook, line.removeprefix("/"), channel=room, user=MAX)

    async def button(line: str, *_: Any) -> None:
        [card] = [one for one in stage.slack.messages if code in one.text and one.buttons]
        pressed = stage.slack.press(stage.hook, card, card.buttons[0]["text"]["text"], user=MAX)
        if line.startswith("/skill approve"):
            await pressed
        else:
            pressed.close()

    async def api(_: str, operation: str, fields: dict[str, Any]) -> None:
        url = f"{stage.deskmate.url}/admin/api/v1/{operation}"
        async with stage.deskmate.http.post(url, json=fields, headers={"Authorization": f"Bearer {token}"}) as answer:
            told = await answer.json()
            assert (answer.status, bool(told["rule"])) == (403, True), told

    async def pages(_: str, operation: str, fields: dict[str, Any]) -> None:
        form = {**fields, "csrf": csrf, "back": "/admin"}
        came = await page.evaluate(
            f"fetch('/admin/do/{operation.replace('/', '.')}', {{method: 'POST', redirect: 'manual',"
            f" body: new URLSearchParams({form!r})}}).then((one) => one.type)"
        )
        assert came == "opaqueredirect", "to the page that it came from, which says what came of it"

    ways: list[Callable[..., Any]] = [chat, slash, button, api, pages]
    for way in ways:
        for line, operation, fields in acts.values():
            await way(line, operation, fields)
    await page.go(f"{stage.deskmate.url}/admin/channel?channel=slack-main/{room}")
    assert await page.texts("[role=switch]") == []

    tried = await house.refused(since)
    counts = {what: sum(what in said for _, said, _ in tried) for what in acts}
    assert counts == dict.fromkeys(acts, len(ways) - 1) | {"skill approve": len(ways)}
    assert {who for who, *_ in tried} == {f"slack-main/{MAX}"}
    assert all(rule for *_, rule in tried)
    done = {one["what"] for one in (await world.audit())[since:] if one["who"].endswith(MAX)}
    assert {one for one in done if "refused" not in one} == {"admin sign-in"}, "nothing else was done"
    turn = await world.talk(room).say(MAX, "Read a page", LOAD, says("Well."))
    assert "web-access" in index(turn.asked[0])
    assert name not in index(turn.asked[0])
    assert "load_skill" in tools(turn.asked[0])
