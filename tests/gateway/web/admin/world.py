"""The admin pages and their API as a gateway serves them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from gateway.admin.keys import Keys
from gateway.admin.visits import Caller
from gateway.store import Store
from gateway.web.admin.serving import add_admin
from tests.gateway.admin.world import OPERATOR, Admins, admins

CSRF: Final = re.compile(r'name="csrf" value="([0-9a-f]+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser without JavaScript."""

    site: Served
    http: aiohttp.ClientSession

    async def get(self, path: str, **headers: str) -> Answer:
        return await self._ask("GET", path, None, headers)

    async def post(self, path: str, fields: Any, **headers: str) -> Answer:
        """As our own page does, unless `headers` say otherwise."""
        given = {"Origin": self.site.url, "Sec-Fetch-Site": "same-origin", **headers}
        return await self._ask("POST", path, fields, {name: one for name, one in given.items() if one})

    async def csrf(self, path: str = "/admin") -> str:
        found = CSRF.search((await self.get(path)).text)
        assert found
        return found[1]

    async def sign_in(self, caller: Caller = OPERATOR) -> None:
        link = await self.site.keys.make_link(caller, 60)
        assert (await self.post("/admin/login", {"link": link})).status == 303

    async def _ask(self, method: str, path: str, fields: Any, headers: Mapping[str, str]) -> Answer:
        named = {name.replace("_", "-"): one for name, one in headers.items()}
        async with self.http.request(
            method, self.site.url + path, data=fields, headers=named, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.text())


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    there: Admins
    keys: Keys

    @contextlib.asynccontextmanager
    async def browser(self, caller: Caller | None = None) -> AsyncIterator[Browser]:
        """A new one, signed in as `caller`."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            browser = Browser(self, http)
            if caller:
                await browser.sign_in(caller)
            yield browser

    async def token(self, caller: Caller = OPERATOR) -> str:
        return (await self.keys.make_token(caller, "test", 1))[1]


@contextlib.asynccontextmanager
async def served(store: Store, folder: Path) -> AsyncIterator[Served]:
    there = await admins(store, folder)
    settings = there.loaded.settings
    app = web.Application(client_max_size=settings.gateway.body_max_bytes)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        add_admin(app, settings, there.house, http)
        runner = web.AppRunner(app, shutdown_timeout=2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield Served(f"http://127.0.0.1:{runner.addresses[0][1]}", there, Keys(store))
        finally:
            await runner.cleanup()
