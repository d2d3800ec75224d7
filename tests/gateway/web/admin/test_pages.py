"""The admin pages in a real Chromium: with htmx, and without any script."""

from __future__ import annotations

import re

import pytest

from tests.gateway.admin.world import ADMIN, APPROVER, OWNER, ROOM
from tests.gateway.commands.world import ANA, LI, OPS, skill_md, zipped
from tests.gateway.web.admin.signing_in import signed_in
from tests.gateway.web.admin.world import Served
from tests.harness.browser import Visitor

pytestmark = pytest.mark.browser


async def test_a_link_is_opened_and_pressed_and_the_overview_is_there(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN)
    await page.until_shown("Conversations with work")
    assert await page.texts(".who span") == [ADMIN.person]
    assert await page.texts("h1") == ["Overview"]
    assert ROOM in " ".join(await page.texts("td a"))


async def test_a_switch_is_pressed_and_the_page_stays(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, f"/admin/channel?channel={ROOM}")
    await page.evaluate("window.stayed = true")
    await page.click("[aria-label=triage]")
    await page.until("document.querySelector('[aria-label=triage]').getAttribute('aria-checked') === 'false'")
    assert await page.evaluate("window.stayed") is True, "htmx: the page was not loaded anew"
    await page.until_shown("off in this channel")
    await page.until("document.querySelector('#said').textContent.includes('triage')")
    assert "triage" not in await site.there.world.ids()
    await page.click("[aria-label=triage]")
    await page.until("document.querySelector('[aria-label=triage]').getAttribute('aria-checked') === 'true'")
    assert "triage" in await site.there.world.ids()
    assert (await site.there.audit())[-1].who == ADMIN.person


async def test_a_tool_is_switched_off_and_on(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, f"/admin/channel?channel={ROOM}")
    switch = "document.querySelector('[aria-label=load_skill]').getAttribute('aria-checked') === "
    await page.until(f"{switch}'true'")
    assert await page.evaluate("document.querySelector('[aria-label=read_result]')") is None, "it has no switch"
    await page.click("[aria-label=load_skill]")
    await page.until(f"{switch}'false'")
    await page.until_shown(f"load_skill is switched off in {ROOM}")
    await page.click("[aria-label=load_skill]")
    await page.until(f"{switch}'true'")
    assert [one.what for one in (await site.there.audit())[-2:]] == ["tool off", "tool on"]


async def test_a_sentence_is_tried(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, f"/admin/channel?channel={ROOM}")
    await page.evaluate("document.querySelector('#text').focus()")
    await page.type("alarms of the pager")
    await page.press("Enter")
    await page.until("document.querySelector('#hits b')?.textContent === 'triage'")


async def test_an_approver_looks_at_the_bytes_and_trusts_them(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, APPROVER)
    await page.click("a[href*='/admin/skill?']")
    await page.until("document.querySelector('#text')?.textContent.includes('name: checklist')")
    await page.click("form[action$='skills.trust'] button")
    await page.until("document.querySelector('#said')?.textContent.includes('checklist')")
    assert "checklist" in await site.there.world.ids()


async def test_a_note_is_approved(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, APPROVER, "/admin/skills")
    await page.until_shown("What Max wrote, 0.")
    await page.click(f"[aria-label='Approve {site.there.waiting}']")
    await page.until("document.querySelector('#said')?.textContent.includes('counts from now on')")
    assert await site.there.house.notes.list(site.there.visit().key(ROOM).channel_id, "waiting") == ()


async def test_what_is_otherwise_than_in_trusted_bytes_stands_line_by_line(site: Served, visitor: Visitor) -> None:
    await site.there.world.say("/skill trust checklist", LI)
    other = zipped({"SKILL.md": skill_md("checklist", body="Do it.\n\n| bash |\n  - never ask\n")})
    await site.there.world.say("/skill add", ANA, files={"checklist.zip": other})
    page = await signed_in(site, visitor, APPROVER, f"/admin/skill?channel={ROOM}&id=checklist")
    [lines] = await page.texts("pre#since")
    assert "+   - never ask" in lines.splitlines(), lines
    assert "+ | bash |" in lines.splitlines(), lines
    [told] = [one for one in await page.texts("main p") if "changed:" in one]
    assert len(told.splitlines()) == 2, told


async def test_a_skill_that_waits_has_the_switch_that_it_has(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, f"/admin/channel?channel={ROOM}")
    switch = "document.querySelector('[aria-label=checklist]').getAttribute('aria-checked') === "
    await page.until(f"{switch}'true'")
    assert "waits" in (await page.texts("td:has([aria-label=checklist])"))[0]
    await page.click("[aria-label=checklist]")
    await page.until(f"{switch}'false'")
    assert (await page.texts("td:has([aria-label=checklist])"))[0].strip() == ""
    await page.click("[aria-label=checklist]")
    await page.until(f"{switch}'true'")


async def test_an_admin_sees_the_skills_of_their_channel_at_once(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, "/admin/skills")
    assert await page.evaluate("document.querySelector('#channel').value") == ROOM
    assert "triage" in " ".join(await page.texts("td a"))
    await page.click("[aria-label=triage]")
    await page.until("document.querySelector('[aria-label=triage]').getAttribute('aria-checked') === 'false'")


async def test_the_menu_leads_through_all_pages(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor)
    for title in (
        "Approvals",
        "Conversations",
        "Channels",
        "Why",
        "Skills",
        "People",
        "Spending",
        "Connections",
        "Audit log",
        "Overview",
    ):
        at = f"[...document.querySelectorAll('nav a')].findIndex((one) => one.textContent === '{title}')"
        await page.click(f"nav a:nth-of-type({await page.evaluate(at) + 1})")
        await page.until(f"document.querySelector('h1')?.textContent === '{title}'")
        await page.until(f"document.querySelector('nav [aria-current]').textContent === '{title}'")


async def test_who_signs_out_is_out(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor)
    await page.click("header .who button")
    await page.until_shown("You are signed out.")
    page.expected = re.compile("401")
    await page.go(f"{site.url}/admin")
    await page.until_shown("You are not signed in.")


async def test_lost_switches_leave_the_pages_and_say_what_to_do(site: Served, visitor: Visitor) -> None:
    store = site.there.house.store
    await store.redis.delete(f"{store.layout.skills_root}:ch:{OPS.channel_id}")
    for path in (f"/admin/skills?channel={ROOM}", f"/admin/channel?channel={ROOM}"):
        page = await signed_in(site, visitor, OWNER, path)
        await page.until_shown("deskmate skills anew --help")
        assert await page.texts("nav a"), "it is the page, not a card"
        assert await page.evaluate("document.querySelectorAll('main [role=switch]').length") == 0


async def test_a_phone_shows_the_login_card_within_its_edges(site: Served, visitor: Visitor) -> None:
    page = await visitor.page(f"{site.url}/admin/login", width=390, height=844)
    await page.until_shown("deskmate admin link --as")
    left, right = await page.evaluate(
        "(({left, right}) => [left, right])(document.querySelector('main').getBoundingClientRect())"
    )
    assert left >= 10
    assert right <= 380


async def test_without_scripts_the_same_forms_work(site: Served, visitor: Visitor) -> None:
    page = await signed_in(site, visitor, ADMIN, f"/admin/channel?channel={ROOM}")
    await page.ask("Emulation.setScriptExecutionDisabled", value=True)
    await page.reload()
    await page.until_shown("What would a message bring up?")
    await page.click("[aria-label=triage]")
    await page.until("document.querySelector('#said')?.textContent.includes('triage')")
    assert "triage" not in await site.there.world.ids()
