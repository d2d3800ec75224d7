"""The pages of what waits, was said, was spent, and of people and connections, on a busy day, in a real Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway import counts
from gateway.admin import approvals
from gateway.events import Event
from gateway.store import Store
from gateway.web.admin.pages import PAGES
from tests.gateway.admin.world import ADMIN, APPROVER, MEMBER, OPERATOR, OWNER, ROOM
from tests.gateway.web.admin.busy import CODE, MAIL, THREAD, make_busy
from tests.gateway.web.admin.signing_in import HTMX, signed_in
from tests.gateway.web.admin.world import Served, served
from tests.harness.browser import Visitor

CONVERSATION = f"/admin/conversation?channel={ROOM}&conversation={THREAD.id}"
ADDRESSES = [
    f"{page.path}?channel={ROOM}&conversation={THREAD.id}&id=triage&letter=LETTER"
    for page in PAGES
    if page.path != "/admin/spending"
] + [f"/admin/spending?by={by}" for by in ("channel", "person", "model")]
CLEAR = """(() => {
  const wide = document.documentElement.scrollWidth > innerWidth && "wider than the page";
  const heads = document.querySelectorAll("h1").length !== 1 && "not one heading";
  const bare = [...document.querySelectorAll("main input:not([type=hidden]), main select")]
    .filter((one) => !one.labels.length).map((one) => one.outerHTML);
  const mute = [...document.querySelectorAll("a, button")]
    .filter((one) => !(one.innerText || one.ariaLabel || "").trim()).map((one) => one.outerHTML);
  const hidden = innerWidth < 640 && [...document.querySelectorAll(".scroll, nav")]
    .some((one) => one.scrollWidth > one.clientWidth + 1) && "something is beside the screen";
  const unnamed = innerWidth < 640 && [...document.querySelectorAll("td")]
    .some((one) => one.dataset.label === undefined) && "a cell without its column";
  return [wide, heads, hidden, unnamed, ...bare, ...mute].filter(Boolean);
})()"""
"""What is wrong with a page: its width, what is hidden at its side, its headings, fields without a label, what can be pressed and has no name."""


@pytest.fixture
async def busy(store: Store, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(store, tmp_path) as site:
        await make_busy(site.there)
        yield site


@pytest.mark.browser
async def test_each_page_is_clear_at_each_width_in_each_language(busy: Served, visitor: Visitor) -> None:
    page = await signed_in(busy, visitor)
    letter = await busy.there.bury()
    for width, language, scheme in ((390, "en", "dark"), (1440, "zh-CN", "light")):
        await page.resize(width, 900)
        await page.speak(language)
        await page.prefer(scheme="dark" if scheme == "dark" else "light")
        for path in ADDRESSES:
            await page.go(busy.url + path.replace("LETTER", letter.id))
            await page.until(HTMX)
            assert await page.evaluate(CLEAR) == [], (path, width)


@pytest.mark.browser
async def test_a_row_is_a_card_on_a_phone_with_its_columns_beside_it(busy: Served, visitor: Visitor) -> None:
    page = await signed_in(busy, visitor, ADMIN)
    await page.resize(390, 844)
    await page.go(f"{busy.url}/admin/people?channel={ROOM}")
    await page.until(HTMX)
    [label, at] = await page.evaluate(
        "(one => [getComputedStyle(one, '::before').content, one.getBoundingClientRect().right])"
        "(document.querySelector('td:has(.chip)'))"
    )
    assert label == '"Role"'
    assert at <= 390
    assert "slack-main/U-ANA" in " ".join(await page.texts("tbody th"))


async def test_times_say_which_way_they_go(busy: Served) -> None:
    async with busy.browser(OPERATOR) as browser:
        overview = (await browser.get("/admin")).text
    assert re.search(r"<td data-label=\"Time\">(for|in) \d", overview)


async def test_counts_are_told_in_words(busy: Served) -> None:
    await counts.add(busy.there.house.store, counts.BREAK, f"{counts.BREAK}:cleared")
    async with busy.browser(OPERATOR) as browser:
        overview = (await browser.get("/admin")).text
    assert "of these, because of: cleared" in overview
    assert "break" not in overview.partition("<main")[2]


async def test_what_was_said_stands_as_it_was_written(busy: Served) -> None:
    async with busy.browser(ADMIN) as browser:
        text = (await browser.get(CONVERSATION)).text
    assert '<pre tabindex="0">**Urgent.** E-31' in text


async def test_the_operator_is_told_who_answers_and_who_says_yes(busy: Served) -> None:
    await busy.there.ask("QQQQ", kind="question", tool="")
    async with busy.browser(OPERATOR) as browser:
        page = (await browser.get("/admin/approvals")).text
    told = {one.partition('"')[0]: one for one in page.split('id="code-')[1:]}
    assert "A question is answered by a person: whoever is signed in as somebody of slack-main." in told["QQQQ"]
    assert "an approver who is signed in as somebody of slack-main." in told[CODE]


async def test_an_act_where_nobody_has_written_yet_warns_on_the_page(busy: Served) -> None:
    async with busy.browser(OPERATOR) as browser:
        await browser.get("/admin")
        fields = {
            "channel": "slack-main/C-NEW",
            "id": "triage",
            "to": "off",
            "csrf": await browser.csrf(),
            "back": "/admin",
        }
        await browser.post("/admin/do/skills.switch", fields)
        assert "Nobody has written in slack-main/C-NEW yet" in (await browser.get("/admin")).text


async def test_only_the_operator_is_offered_to_take_back_a_note_of_all_channels(busy: Served) -> None:
    await busy.there.do("notes.promote", OWNER, channel=ROOM, code=busy.there.kept)
    [code] = [one.code for one in (await busy.there.do("notes.list", OWNER, channel=ROOM)).everywhere]
    for caller, times in ((OWNER, 0), (OPERATOR, 1)):
        async with busy.browser(caller) as browser:
            page = (await browser.get(f"/admin/skills?channel={ROOM}")).text
        assert f"<code>{code}</code>" in page
        assert page.count(f"Take back {code}") == times


async def test_lost_switches_of_the_organisation_leave_a_card_that_says_what_to_do(busy: Served) -> None:
    await busy.there.do("skills.switch", OWNER, channel="", id="triage", to="off")
    store = busy.there.house.store
    async with busy.browser(OWNER) as browser:
        await browser.get("/admin")
        await store.redis.delete(f"{store.layout.skills_root}:org")
        answer = await browser.get("/admin/skills")
        assert answer.status == 503
        assert "deskmate skills anew --everywhere" in answer.text
        chinese = (await browser.get("/admin/skills", **{"Accept-Language": "zh"})).text
        assert "重新开始：" in chinese


async def test_dead_letters_say_in_words_what_happened(busy: Served) -> None:
    letter = await busy.there.bury()
    why = "the process that answered it ended unexpectedly (SIGKILL)"
    async with busy.browser(OPERATOR) as browser:
        listed = (await browser.get("/admin/dead")).text
        assert '<a href="/admin/dead" aria-current="page">Dead letters</a>' in listed, "in the menu"
        assert "a part of the reply could not be sent (the room is gone, or closed to us)" in listed
        assert why in listed
        page = (await browser.get(f"/admin/letter?channel={ROOM}&letter={letter.id}")).text
        assert page.count(why) == 2, "above, and in what was said and done"
        chinese = (await browser.get("/admin/dead", **{"Accept-Language": "zh"})).text
        assert "处理它的进程意外结束（SIGKILL）" in chinese


@pytest.mark.browser
async def test_whoever_walks_by_keyboard_sees_where_they_are(busy: Served, visitor: Visitor) -> None:
    page = await signed_in(busy, visitor, APPROVER, "/admin/approvals")
    seen = set()
    for _ in range(24):
        await page.press("Tab")
        at, outline, width = await page.evaluate(
            "(({outerHTML}, {outlineStyle, outlineWidth}) => [outerHTML, outlineStyle, outlineWidth])"
            "(document.activeElement, getComputedStyle(document.activeElement))"
        )
        if at.startswith(("<body", "<html")):
            continue
        seen.add(at)
        assert (outline, width) == ("solid", "2px"), at
    assert any(">Approve</button>" in one for one in seen)


@pytest.mark.browser
async def test_a_call_is_shown_with_all_its_arguments_and_denied_in_ones_own_name(
    busy: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "ANSWER_S", 0.2)  # nobody works here who would take the word
    page = await signed_in(busy, visitor, APPROVER, "/admin/approvals")
    [whole] = await page.texts(f"#code-{CODE} pre")
    assert json.dumps(MAIL, ensure_ascii=False, indent=1) in whole
    await page.evaluate(f"document.querySelector('#text-{CODE}').focus()")
    await page.type("not today")
    await page.click(f"[aria-label='Deny {CODE}']")
    await page.until(f"document.querySelector('#said')?.textContent.includes('{CODE}')")
    [member] = (await busy.there.house.mailbox.waiting(THREAD.id))[1]
    event = Event.load(member.partition(b":")[2])
    assert (event.name, event.text, event.actor.id) == ("deny", f"{CODE} not today", "U-LI")


@pytest.mark.browser
async def test_a_conversation_is_read_with_its_calls_its_costs_and_the_command_that_runs_it_again(
    busy: Served, visitor: Visitor
) -> None:
    page = await signed_in(busy, visitor, ADMIN, f"/admin/conversations?channel={ROOM}")
    await page.click(f"a[href*='{THREAD.id}']")
    await page.until_shown("Run it again:")
    assert f"deskmate replay {THREAD.id[:8]} 6tq2ab4x" in await page.texts(".command")
    text = await page.evaluate("document.querySelector('#transcript').textContent")
    assert "4 calls of the model, 45,304 tokens in (37,240 from the cache), 656 out" in text
    assert "Rule: profiles/default.yaml line 2 (tools)" in text
    assert "reports/2026-11-30-berths.csv" in text
    lines = [one for one in await busy.there.audit() if one.what == "conversation show"]
    assert [(one.who, one.thing) for one in lines] == [(ADMIN.person, THREAD.id)]


@pytest.mark.browser
async def test_an_admin_of_the_channel_is_named_and_it_is_taken_back(busy: Served, visitor: Visitor) -> None:
    page = await signed_in(busy, visitor, ADMIN, f"/admin/people?channel={ROOM}")
    await page.evaluate("document.querySelector('#person').focus()")
    await page.type("slack-main/U-BO")
    await page.click("form[action$='people.grant'] button")
    await page.click("[aria-label='Take back slack-main/U-BO']")
    await page.until("!document.querySelector(\"[aria-label='Take back slack-main/U-BO']\")")
    assert [one.what for one in await busy.there.audit()][-2:] == ["role grant", "role revoke"]


async def test_somebody_is_let_in_with_their_code_and_no_longer(busy: Served) -> None:
    code = await busy.there.knock("telegram-main", "99", "<b>Eve</b>")
    async with busy.browser(ADMIN) as browser:
        people = (await browser.get(f"/admin/people?channel={ROOM}")).text
        assert "people.accept" in people
        assert "telegram-main" not in people, "who is at the door of another connection"
        fields = {"channel": ROOM, "back": "/admin/people", "code": code, "csrf": await browser.csrf()}
        await browser.post("/admin/do/people.accept", fields)
        assert "Nobody waits under this code" in (await browser.get("/admin/people")).text
    async with busy.browser(OPERATOR) as browser:
        csrf, form = await browser.csrf("/admin/people"), {"channel": "", "back": "/admin/people"}
        assert "&lt;b&gt;Eve&lt;/b&gt;" in (await browser.get("/admin/people")).text
        await browser.post("/admin/do/people.accept", {**form, "csrf": csrf, "code": "WRONG-CODE"})
        assert "Nobody waits under this code" in (await browser.get("/admin/people")).text
        await browser.post("/admin/do/people.accept", {**form, "csrf": csrf, "code": code.lower()})
        assert await busy.there.house.shelf.pairing.is_paired("telegram-main/99")
        assert "is let in" in (await browser.get("/admin/people")).text
        await browser.post("/admin/do/people.end", {**form, "csrf": csrf, "person": "telegram-main/99"})
        assert not await busy.there.house.shelf.pairing.is_paired("telegram-main/99")


async def test_what_was_spent_is_told_to_whom_it_concerns(busy: Served) -> None:
    async with busy.browser(OWNER) as browser:
        people = (await browser.get("/admin/spending?by=person")).text
        assert re.search(r"slack-main/U-MAX <span class=\"soft\">Max</span>", people)
        assert re.search(r"slack-main/U-MAX Max <span class=\"soft\">person, a day</span>", people)
        assert "claude-haiku-4-5" in (await browser.get("/admin/spending?by=model")).text
        assert "/admin/connections" in people
        assert ">heard<" in (await browser.get("/admin/connections")).text
    async with busy.browser(ADMIN) as browser:
        own = (await browser.get("/admin/spending")).text
        assert "slack-main/C-OPS" in own
        assert "default.yaml line" in own, "the line of a budget"
        assert not re.search("C-DEV|U-LI|by person|/admin/connections", own)
        for path in ("/admin/spending?by=person", "/admin/connections"):
            assert (await browser.get(path)).status == 403


async def test_who_may_not_read_sees_that_there_are_conversations_and_no_more(busy: Served) -> None:
    async with busy.browser(APPROVER) as browser:
        text = (await browser.get(f"/admin/conversations?channel={ROOM}")).text
        assert THREAD.id[:8] in text
        assert "/admin/conversation?" not in text
        assert (await browser.get(CONVERSATION)).status == 403
        people = (await browser.get(f"/admin/people?channel={ROOM}")).text
        assert not re.search(r"people\.(grant|revoke|accept|end)", people)
    assert [one.what for one in await busy.there.audit()].count("pair list refused") == 0, "to look is no try"
    async with busy.browser(MEMBER) as browser:
        for path in ADDRESSES:
            assert (await browser.get(path.replace("LETTER", "0-1-1"))).status == 403, path


async def test_what_is_asked_why_is_told_on_the_page_and_so_is_what_is_not_there(busy: Served) -> None:
    async with busy.browser(ADMIN) as browser:
        told = await browser.get(f"/admin/explain?channel={ROOM}&skill=triage")
        assert "triage" in told.text
        assert "profiles/default.yaml line" in told.text
        wrong = await browser.get(f"/admin/explain?channel={ROOM}&tool=nothing")
        assert (wrong.status, "there is no tool nothing" in wrong.text) == (200, True)
        assert (await browser.get(f"/admin/audit?channel={ROOM}&verify=1")).status == 403
    async with busy.browser(OWNER) as browser:
        assert "changes:" in (await browser.get("/admin/audit?verify=1")).text


async def test_the_page_that_asks_again_and_again_takes_the_figures_alone(busy: Served) -> None:
    async with busy.browser(ADMIN) as browser:
        assert '/admin/approvals">Words' in (await browser.get("/admin")).text
        live = (await browser.get("/admin?live=1")).text
    assert 'id="live"' in live
    assert "Words on calls" not in live


async def test_a_dead_letter_is_asked_again_from_its_page(busy: Served) -> None:
    letter = await busy.there.bury()
    async with busy.browser(ADMIN) as browser:
        page = (await browser.get(f"/admin/letter?channel={ROOM}&letter={letter.id}")).text
        assert "hello" in page
        fields = {"channel": ROOM, "letter": letter.id, "csrf": await browser.csrf(), "back": "/admin/dead"}
        answer = await browser.post("/admin/do/dead.retry", fields)
        assert (answer.status, answer.headers["Location"]) == (303, "/admin/dead")
        listed = (await browser.get("/admin/dead")).text
    assert f"What turn {letter.turn[:8]} was to answer is asked once more" in listed
    assert letter.id not in listed
