"""The door of the pages: links, sessions, forms that others forged."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import aiohttp
import pytest

from gateway.admin.keys import TRIES
from gateway.audit.log import Change
from gateway.web.admin.door import COOKIE
from gateway.web.admin.pages import PAGES
from tests.gateway.admin.world import ADMIN, APPROVER, MEMBER, OPERATOR, ROOM
from tests.gateway.commands.world import ANA, OPS, skill_md, zipped
from tests.gateway.web.admin.world import CSRF, Served

OFF = {"channel": ROOM, "id": "triage", "to": "off", "back": "/admin/channel?channel=slack-main%2FC-OPS"}


@pytest.mark.parametrize("path", [page.path for page in PAGES])
async def test_without_a_session_there_is_no_page(site: Served, path: str) -> None:
    async with site.browser() as browser:
        answer = await browser.get(path)
        assert answer.status == 401
        assert "deskmate admin link" in answer.text


async def test_to_open_a_link_changes_nothing_and_its_button_signs_in_once(site: Served) -> None:
    link = await site.keys.make_link(ADMIN, 60)
    async with site.browser() as previewer, site.browser() as browser, site.browser() as thief:
        for _ in range(2):
            opened = await previewer.get(f"/admin/login?link={link}")
            assert opened.status == 200
            assert ADMIN.person in opened.text
            assert "Set-Cookie" not in opened.headers
        signed_in = await browser.post("/admin/login", {"link": link})
        assert (signed_in.status, signed_in.headers["Location"]) == (303, "/admin")
        assert (await browser.get("/admin")).status == 200
        again = await thief.post("/admin/login", {"link": link})
        assert again.status == 403
        assert "used before" in again.text
        assert (await thief.get("/admin")).status == 401


async def test_the_cookie_is_for_these_pages_and_no_script_reads_it(site: Served) -> None:
    async with site.browser() as browser:
        link = await site.keys.make_link(ADMIN, 60)
        cookie = (await browser.post("/admin/login", {"link": link})).headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        for word in ("HttpOnly", "SameSite=Strict", "Path=/admin"):
            assert word in cookie
        assert "Secure" not in cookie
        link = await site.keys.make_link(ADMIN, 60)
        proxied = await browser.post("/admin/login", {"link": link}, X_Forwarded_Proto="https")
        assert "Secure" in proxied.headers["Set-Cookie"]


ENCODED: Final = "application/x-www-form-urlencoded; charset="
ODD_FORMS: Final = {
    **{name: (f"{ENCODED}{name}", b"csrf=x") for name in ("punycode", "hex", "rot13", "nonexistent", '"x', "utf-16")},
    "a field's own": (
        "multipart/form-data; boundary=b",
        b"--b\r\nContent-Disposition: form-data; name=csrf\r\nContent-Type: text/plain; charset=%s\r\n\r\n%s\r\n--b--\r\n"
        % (b"punycode", b"a" * 100_000 + b"-" + b"a" * 100_000),
    ),
    "a default": (
        "multipart/form-data; boundary=b",
        (
            b"--b\r\nContent-Disposition: form-data; name=_charset_\r\n\r\nnope\r\n--b\r\n"
            b"Content-Disposition: form-data; name=csrf\r\n\r\nx\r\n--b--\r\n"
        ),
    ),
    "a field in another encoding": (
        "multipart/form-data; boundary=b",
        b"--b\r\nContent-Disposition: form-data; name=csrf\r\nContent-Transfer-Encoding: zzz\r\n\r\nx\r\n--b--\r\n",
    ),
    "a field twice": (ENCODED.partition(";")[0], b"csrf=x&csrf=y"),
    "cut": ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=csrf"),
    "no boundary": ("multipart/form-data", b"x"),
}


@pytest.mark.parametrize("path", ["/admin/login", "/admin/do/skills.switch", "/admin/logout"])
@pytest.mark.parametrize("odd", ODD_FORMS)
async def test_a_form_is_read_as_utf_8_alone_and_at_once(site: Served, odd: str, path: str) -> None:
    kind, body = ODD_FORMS[odd]
    async with site.browser(ADMIN) as browser, asyncio.timeout(20):
        refused = await browser.post(path, body, Content_Type=kind)
        # What can be read as a form has not the session's word in it, or no link.
        assert refused.status in {400, 403}, refused.text
        if odd in {"punycode", "hex", "rot13", "nonexistent", "utf-16"}:
            assert (refused.status, "not in UTF-8" in refused.text) == (400, True)


async def test_an_expired_link_and_a_made_up_one_open_nothing(site: Served) -> None:
    link = await site.keys.make_link(ADMIN, 0.01)
    await asyncio.sleep(0.1)
    async with site.browser() as browser:
        for one in (link, "A" * 43, "x"):
            assert (await browser.get(f"/admin/login?link={one}")).status == 403
            assert (await browser.post("/admin/login", {"link": one})).status == 403


async def test_tries_are_counted(site: Served) -> None:
    async with site.browser() as browser:
        for _ in range(TRIES):
            assert (await browser.post("/admin/login", {"link": "x"})).status == 403
        assert (await browser.post("/admin/login", {"link": "x"})).status == 429
        await browser.sign_in(ADMIN)
    async with site.browser() as browser:  # a cookie of a session that ended long ago is no try, and in nobody's way
        link = await site.keys.make_link(ADMIN, 60)
        answer = await browser.post("/admin/login", {"link": link}, Cookie=f"{COOKIE}={'x' * 43}")
        assert answer.status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec_Fetch_Site": ""},
        {"Origin": "null", "Sec_Fetch_Site": ""},
        {"Origin": "", "Sec_Fetch_Site": "same-site"},
        {"Origin": "", "Sec_Fetch_Site": ""},
    ],
)
async def test_what_another_site_sends_does_nothing(site: Served, headers: dict[str, str]) -> None:
    async with site.browser(OPERATOR) as browser:
        csrf = await browser.csrf()
        cleared = {"Origin": "", "Sec-Fetch-Site": "", **headers}
        forged = await browser.post("/admin/do/skills.switch", {**OFF, "csrf": csrf}, **cleared)
        assert forged.status == 403
        assert (await browser.post("/admin/logout", {"csrf": csrf}, **cleared)).status == 403
        link = await site.keys.make_link(MEMBER, 60)
        assert (await browser.post("/admin/login", {"link": link}, **cleared)).status == 403
        assert (await browser.get("/admin")).status == 200
    assert "triage" in await site.there.world.ids()


async def test_a_form_carries_the_word_of_its_own_session(site: Served) -> None:
    async with site.browser(OPERATOR) as browser, site.browser(APPROVER) as other:
        for csrf in ("", "0" * 43, await other.csrf()):
            forged = await browser.post("/admin/do/skills.switch", {**OFF, "csrf": csrf})
            assert forged.status == 403
        assert "triage" in await site.there.world.ids()
        done = await browser.post("/admin/do/skills.switch", {**OFF, "csrf": await browser.csrf()})
        assert (done.status, done.headers["Location"]) == (303, OFF["back"])
    assert "triage" not in await site.there.world.ids()


async def test_a_form_tells_what_came_of_it_once_on_the_page_that_it_came_from(site: Served) -> None:
    async with site.browser(APPROVER) as browser:
        await browser.post("/admin/do/skills.switch", {**OFF, "csrf": await browser.csrf()})
        told = await browser.get(OFF["back"])
        assert "needs the role channel_admin" in told.text
        assert "default.yaml" in told.text
        assert "needs the role channel_admin" not in (await browser.get(OFF["back"])).text


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/chat", "/admin\r\nX: y", "/admin/\\evil"]
)
async def test_a_form_leads_nowhere_else(site: Served, back: str) -> None:
    async with site.browser(OPERATOR) as browser:
        done = await browser.post("/admin/do/skills.switch", {**OFF, "csrf": await browser.csrf(), "back": back})
        assert done.headers["Location"] == "/admin"


async def test_sign_out_ends_the_session_for_good(site: Served) -> None:
    async with site.browser(OPERATOR) as browser, site.browser() as thief:
        [cookie] = [one.value for one in browser.http.cookie_jar if one.key == COOKIE]
        await browser.post("/admin/logout", {"csrf": await browser.csrf()})
        assert (await browser.get("/admin")).status == 401
        assert (await thief.get("/admin", Cookie=f"{COOKIE}={cookie}")).status == 401


async def test_a_session_opens_no_api_and_a_token_no_page(site: Served) -> None:
    async with site.browser(OPERATOR) as browser, site.browser() as program:
        assert (await browser.get("/admin/api/v1/me/show")).status == 401
        token = await site.token()
        assert (await program.get("/admin", Authorization=f"Bearer {token}")).status == 401
        assert (await program.get("/admin", Cookie=f"{COOKIE}={token}")).status == 401


@pytest.mark.parametrize("path", [page.path for page in PAGES])
async def test_a_member_gets_no_page_and_is_told_the_rule(site: Served, path: str) -> None:
    async with site.browser(MEMBER) as browser:
        answer = await browser.get(
            f"{path}?channel={ROOM}&id=triage&letter=0-1-1&conversation={site.there.conversation}"
        )
        assert answer.status == 403
        told = answer.text.partition("<main>")[2]
        assert re.search(r"\((profiles/|deskmate\.yaml line|roles of all profiles)", told)
        assert "Rule:" not in told, "it is told once"


async def test_each_page_comes_with_headers_that_let_nothing_inline_run(site: Served) -> None:
    letter = await site.there.bury()
    about = f"channel={ROOM}&id=checklist&conversation={site.there.conversation}&letter={letter.id}"
    async with site.browser(OPERATOR) as browser:
        for page in PAGES:
            answer = await browser.get(f"{page.path}?{about}")
            assert answer.status == 200, page.path
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", answer.text), page.path


async def test_names_and_texts_of_others_are_text(site: Served) -> None:
    evil = skill_md("checklist", description="<script>alert(1)</script>", body='<img src=x onerror="x">\n')
    await site.there.world.say("/skill add", ANA, files={"checklist.zip": zipped({"SKILL.md": evil})})
    async with site.browser(OPERATOR) as browser:
        for path in (f"/admin/channel?channel={ROOM}", f"/admin/skill?channel={ROOM}&id=checklist", "/admin"):
            text = (await browser.get(path)).text
            assert "&lt;" in text
            assert "<script>alert" not in text
            assert "<img" not in text


async def test_pages_and_what_they_tell_are_in_the_language_of_the_browser(site: Served) -> None:
    async with site.browser(APPROVER) as browser:
        zh = {"Accept_Language": "zh-CN,zh;q=0.9"}
        text = (await browser.get(f"/admin/channel?channel={ROOM}", **zh)).text
        assert 'lang="zh-Hans"' in text
        assert "一条消息会用到哪些技能？" in text
        assert "等待信任" in text, "why a skill is not on"
        await browser.post("/admin/do/skills.switch", {**OFF, "csrf": await browser.csrf()}, **zh)
        assert "需要 channel_admin 角色" in (await browser.get("/admin", **zh)).text
        assert "What would a message bring up?" in (await browser.get(f"/admin/channel?channel={ROOM}")).text


async def test_a_zip_is_added_by_a_form(site: Served) -> None:
    async with site.browser(OPERATOR) as browser:
        form = aiohttp.FormData(
            {"csrf": await browser.csrf(), "channel": ROOM, "back": f"/admin/skills?channel={ROOM}"}
        )
        form.add_field("zip", zipped({"SKILL.md": skill_md("folded")}), filename="folded.zip")
        assert (await browser.post("/admin/do/skills.add", form)).status == 303
        assert "folded" in (await browser.get(f"/admin/skill?channel={ROOM}&id=folded")).text
        for broken in (b"--x\r\n", b"", b"--x\r\nContent-Disposition: form-data\r\n\r\n--x--"):
            kind = "multipart/form-data; boundary=x"
            assert (await browser.post("/admin/do/skills.add", broken, Content_Type=kind)).status in {400, 403}


async def test_a_session_that_has_ended_is_no_try(site: Served) -> None:
    async with site.browser(OPERATOR) as browser:
        await site.keys.end_all("*")
        answers = [await browser.get("/admin?live=1") for _ in range(TRIES + 2)]
        assert {one.status for one in answers} == {401}
        assert answers[0].headers["HX-Refresh"] == "true", "a page that looks again and again says so"


async def test_pages_name_what_nobody_sees_in_an_id_and_take_such_a_one_back(site: Served) -> None:
    """As one that was granted before such ids were refused."""
    odd, shelf = "slack-main/U-BO\u202e", site.there.house.shelf
    change = Change("before", odd, ROOM, OPS.channel_id, "roles.admin")
    await shelf.name_admin(OPS.channel_id, odd, change, is_one=True)
    async with site.browser(OPERATOR) as browser:
        for path in ("/admin/people?channel=slack-main%2FC-OPS", "/admin/audit"):
            assert "slack-main/U-BO&lt;U+202E&gt;" in (await browser.get(path)).text
        form = {"csrf": await browser.csrf(), "channel": ROOM, "person": odd, "back": "/admin/people"}
        assert (await browser.post("/admin/do/people.revoke", form)).status == 303
    assert odd not in (await shelf.look(OPS.channel_id)).own.channel_admins


async def test_no_page_is_a_page_for_people_and_json_for_programs(site: Served) -> None:
    async with site.browser(OPERATOR) as browser:
        answer = await browser.get("/admin/nonsense")
        assert (answer.status, "There is no such page." in answer.text) == (404, True)
        assert answer.headers["Content-Type"].startswith("text/html")
        answer = await browser.get("/admin/api/v1/nonsense")
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (404, "application/json")


async def test_whoever_is_not_let_in_is_not_led_in_a_circle(site: Served) -> None:
    async with site.browser() as browser:
        closed = await browser.get("/admin")
        assert 'href="/admin/login"' in closed.text
        assert 'href="/admin"' not in closed.text
        login = await browser.get("/admin/login")
        assert (login.status, "deskmate admin link --as" in login.text) == (200, True)
        assert 'href="/admin' not in login.text.partition("<main>")[2]
    async with site.browser(MEMBER) as browser:
        closed = await browser.get("/admin")
        assert closed.status == 403
        assert 'href="/admin"' not in closed.text
        csrf = CSRF.search(closed.text)
        assert csrf
        left = await browser.post("/admin/logout", {"csrf": csrf[1]})
        assert 'href="/admin/login"' in left.text
        assert "/admin/logout" not in left.text
        assert (await browser.get("/admin")).status == 401


async def test_refusals_say_for_whom_and_what_is_wanted(site: Served) -> None:
    async with site.browser(ADMIN) as browser:
        told = (await browser.get("/admin/connections")).text
        assert "for owners and the operator" in told
        assert told.partition("<main>")[2].count("people.owners") == 1
        told = (await browser.get("/admin/channel?channel=ops")).text
        assert "ops is no channel. Wanted is CONNECTION/CHANNEL, such as slack-main/C0123." in told
