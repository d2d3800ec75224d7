"""Signing in with an identity provider: who comes in, and all that opens nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
import jwt
import pytest
from aiohttp import web
from pydantic import SecretStr
from yarl import URL

from config.settings import OidcSettings
from gateway.admin.keys import Keys
from gateway.store import Store
from gateway.web.admin import oidc
from gateway.web.admin.door import COOKIE
from gateway.web.admin.serving import add_admin
from tests.gateway.admin.world import ROOM, admins
from tests.gateway.web.admin.world import Answer, Browser, Served, served
from tests.harness.deployment import free_port
from tests.harness.oidc_twin import CLIENT, CLIENT_SECRET, OidcTwin, new_key

ID: Final = "https://slack.com/user_id"
TEAM: Final = "https://slack.com/team_id"
ANA: Final = {"sub": "s1", ID: "U-ANA", TEAM: "T1", "name": "Ana", "email": "ana@example.com"}


@pytest.fixture
async def provider() -> AsyncIterator[OidcTwin]:
    async with OidcTwin(dict(ANA)) as twin:
        yield twin
        assert twin.broken == []


@pytest.fixture
async def site(store: Store, tmp_path: Path, provider: OidcTwin) -> AsyncIterator[Served]:
    there = await admins(store, tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = there.loaded.settings
    known = OidcSettings(
        issuer=provider.url,
        client_id=CLIENT,
        client_secret=SecretStr(CLIENT_SECRET),
        connection="slack-main",
        claim=ID,
        require={TEAM: "T1"},
        name="Slack",
    )
    settings = settings.model_copy(
        update={
            "gateway": settings.gateway.model_copy(update={"public_url": url}),
            "admin": settings.admin.model_copy(update={"oidc": known}),
        }
    )
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        app = web.Application()
        add_admin(app, settings, there.house, http)
        runner = web.AppRunner(app, shutdown_timeout=2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield Served(url, there, Keys(store))
        finally:
            await runner.cleanup()


@dataclass(frozen=True)
class Way:
    """The way of one browser to the provider and back."""

    browser: Browser

    async def out(self) -> str:
        """Where the browser is sent; the provider sends it back to there."""
        sent = await self.browser.get(oidc.PATH)
        assert sent.status == 303, sent.text
        async with self.browser.http.get(sent.headers["Location"], allow_redirects=False) as answer:
            assert answer.status == 302
            back = answer.headers["Location"]
        assert back.startswith(self.browser.site.url)
        return back.removeprefix(self.browser.site.url)

    async def there_and_back(self) -> Answer:
        return await self.browser.get(await self.out(), Sec_Fetch_Site="cross-site")


async def refused(site: Served, way: Callable[[Way], Any] = Way.there_and_back, status: int = 403) -> str:
    """That somebody does not get in: what they read."""
    async with site.browser() as browser:
        answer = await way(Way(browser))
        assert answer.status == status
        assert "Set-Cookie" not in answer.headers
        assert (await browser.get("/admin")).status == 401
        return str(answer.text)


async def test_whoever_is_signed_in_there_comes_in_with_their_roles(site: Served) -> None:
    async with site.browser() as browser:
        closed = await browser.get("/admin")
        assert closed.status == 401
        assert f'href="{oidc.PATH}">Sign in with Slack' in closed.text
        back = await Way(browser).there_and_back()
        assert back.status == 303
        link = back.headers["Location"]
        shown = await browser.get(link)
        assert "slack-main/U-ANA" in shown.text, "nobody is signed in without reading as whom"
        assert (await browser.get("/admin")).status == 401, "not yet"
        assert (await browser.post("/admin/login", {"link": link.partition("link=")[2]})).status == 303
        assert (await browser.get("/admin")).status == 200
        assert (await browser.get(f"/admin/channel?channel={ROOM}")).status == 200
    lines = [(one.who, one.what, one.rule) for one in await site.there.audit()]
    assert ("slack-main/U-ANA", "admin link", f"admin.oidc, {site_issuer(lines)}") in lines
    assert lines[-1][:2] == ("slack-main/U-ANA", "admin sign-in")


def site_issuer(lines: list[tuple[str, str, str]]) -> str:
    [found] = {rule.partition(", ")[2] for _, _, rule in lines if rule.startswith("admin.oidc")}
    return found


async def test_a_member_who_comes_in_sees_nothing(site: Served, provider: OidcTwin) -> None:
    provider.claims[ID] = "U-MAX"
    async with site.browser() as browser:
        link = (await Way(browser).there_and_back()).headers["Location"].partition("link=")[2]
        assert (await browser.post("/admin/login", {"link": link})).status == 303
        assert (await browser.get("/admin")).status == 403


async def test_who_comes_again_and_again_fills_no_log(site: Served, provider: OidcTwin) -> None:
    provider.claims[ID] = "U-MAX"
    async with site.browser() as browser:
        for _ in range(3):
            assert (await Way(browser).there_and_back()).status == 303
    assert [one.what for one in await site.there.audit()].count("admin link") == 1


async def test_the_cookie_of_the_way_comes_back_from_elsewhere_and_goes_nowhere_else(site: Served) -> None:
    async with site.browser() as browser:
        cookie = (await browser.get(oidc.PATH)).headers["Set-Cookie"]
        for word in ("HttpOnly", "SameSite=Lax", f"Path={oidc.PATH}", f"Max-Age={oidc.WITHIN_S}"):
            assert word in cookie
        assert COOKIE not in cookie


async def test_what_was_begun_in_another_browser_opens_nothing(site: Served, provider: OidcTwin) -> None:
    async with site.browser() as other:
        theirs = await Way(other).out()
        assert "begun in this browser" in await refused(site, lambda way: way.browser.get(theirs))

        async def own_cookie_their_code(way: Way) -> Answer:
            await way.out()
            return await way.browser.get(theirs)

        await refused(site, own_cookie_their_code)
    assert "/token" not in provider.asked, "the code is not even shown to the provider"


async def test_a_code_is_taken_once(site: Served) -> None:
    async def twice(way: Way) -> Answer:
        back = await way.out()
        cookies = way.browser.http.cookie_jar.filter_cookies(URL(f"{site.url}{oidc.PATH}"))
        held = {name: one.value for name, one in cookies.items()}
        assert (await way.browser.get(back)).status == 303
        async with aiohttp.ClientSession(cookies=held) as copied:
            return await replace(way.browser, http=copied).get(back)

    await refused(site, twice)


def changed(**claims: Any) -> Callable[[OidcTwin], Any]:
    """A token whose claims are otherwise; None: not there."""

    def lie(_: OidcTwin) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda told: {name: one for name, one in {**told, **claims}.items() if one is not None}

    return lie


def said(token: str) -> Callable[[OidcTwin], Any]:
    return lambda _: lambda _: token


def unsigned(twin: OidcTwin) -> Callable[[dict[str, Any]], str]:
    return lambda told: jwt.encode(told, "", "none", {"kid": twin.key_id})


def with_the_public_key(twin: OidcTwin) -> Callable[[dict[str, Any]], str]:
    """Signed as with a shared secret, which everybody knows."""

    def forged(told: dict[str, Any]) -> str:
        head, body = (
            base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=")
            for one in ({"alg": "HS256", "kid": twin.key_id, "typ": "JWT"}, told)
        )
        seal = hmac.digest(twin.public_key().encode(), head + b"." + body, hashlib.sha256)
        return b".".join((head, body, base64.urlsafe_b64encode(seal).rstrip(b"="))).decode()

    return forged


def with_another_key(twin: OidcTwin) -> Callable[[dict[str, Any]], str]:
    return lambda told: jwt.encode(told, new_key(), "RS256", {"kid": twin.key_id})


NOW: Final = int(time.time())
LIES: Final[dict[str, Callable[[OidcTwin], Any]]] = {
    "unsigned": unsigned,
    "the public key as a secret": with_the_public_key,
    "another key": with_another_key,
    "no token": said(""),
    "three words": said("a.b.c"),
    "for another client": changed(aud="other"),
    "for others too": changed(aud=[CLIENT, "other"]),
    "asked for by another": changed(azp="other"),
    "of another provider": changed(iss="https://accounts.test"),
    "of another sign-in": changed(nonce="n" * 43),
    "without a nonce": changed(nonce=None),
    "run out": changed(exp=NOW - 600, iat=NOW - 900),
    "without an end": changed(exp=None),
    "of tomorrow": changed(iat=NOW + 86_400, exp=NOW + 90_000),
    "of nobody": changed(sub=None),
    "of another workspace": changed(**{TEAM: "T2"}),
    "without a workspace": changed(**{TEAM: None}),
    "without an id": changed(**{ID: None}),
    "an id of another kind": changed(**{ID: ["U-ANA"]}),
    "an id for everybody": changed(**{ID: "*"}),
    "an id that begins like one": changed(**{ID: "U-*"}),
    "an id with a blank": changed(**{ID: "U-ANA "}),
    "an id of another connection": changed(**{ID: "x/U-ANA"}),
    "an empty id": changed(**{ID: ""}),
    "a long id": changed(**{ID: "U" * 300}),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_does_not_hold_opens_nothing(site: Served, provider: OidcTwin, lie: str) -> None:
    provider.lie = LIES[lie](provider)
    await refused(site)
    provider.lie = None
    async with site.browser() as browser:
        assert (await Way(browser).there_and_back()).status == 303


async def test_who_says_no_there_is_told_so(site: Served, provider: OidcTwin) -> None:
    provider.denies = "access_denied"
    assert "did not let you in" in await refused(site)


async def test_the_provider_changes_its_keys(site: Served, provider: OidcTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "KEYS_AGAIN_S", 0)
    for key_id in ("two", "three"):
        async with site.browser() as browser:
            assert (await Way(browser).there_and_back()).status == 303
        provider.change_key(key_id)
    async with site.browser() as browser:
        assert (await Way(browser).there_and_back()).status == 303
    assert provider.asked.count("/keys") == 3


async def test_keys_are_not_fetched_for_each_wrong_token(site: Served, provider: OidcTwin) -> None:
    provider.lie = lambda told: jwt.encode(told, new_key(), "RS256", {"kid": "made up"})
    for _ in range(3):
        await refused(site)
    assert provider.asked.count("/keys") == 1


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://accounts.test"},
        {"token_endpoint": "http://accounts.test/token"},
        {"authorization_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
    ],
    ids=lambda about: next(iter(about)),
)
async def test_a_provider_that_is_another_one_is_not_gone_to(
    site: Served, provider: OidcTwin, about: dict[str, str | None]
) -> None:
    provider.about = about
    told = await refused(site, lambda way: way.browser.get(oidc.PATH), 503)
    assert "deskmate admin link" in told


async def test_a_provider_that_is_down_is_tried_again(site: Served, provider: OidcTwin) -> None:
    provider.down = True
    await refused(site, lambda way: way.browser.get(oidc.PATH), 503)
    provider.down = False
    async with site.browser() as browser:
        back = await Way(browser).out()
        provider.down = True
        assert (await browser.get(back)).status == 503
        provider.down = False
        assert (await browser.get(back)).status == 303, "nothing was used up"


async def test_a_secret_in_the_form_where_the_provider_wants_it_so(site: Served, provider: OidcTwin) -> None:
    provider.about = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with site.browser() as browser:
        assert (await Way(browser).there_and_back()).status == 303


async def test_without_a_provider_there_is_no_such_way(store: Store, tmp_path: Path) -> None:
    async with served(store, tmp_path) as site, site.browser() as browser:
        assert "/admin/oidc" not in (await browser.get("/admin")).text
        assert (await browser.get(oidc.PATH)).status == 404
        assert (await browser.get(oidc.BACK)).status == 403
