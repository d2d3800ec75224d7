"""Somebody who signs in with Chromium."""

from __future__ import annotations

from gateway.admin.visits import Caller
from tests.gateway.admin.world import OPERATOR
from tests.gateway.web.admin.world import Served
from tests.harness.browser import Page, Visitor

HTMX = "typeof htmx === 'object' && htmx.version"


async def signed_in(site: Served, visitor: Visitor, caller: Caller = OPERATOR, path: str = "/admin") -> Page:
    link = await site.keys.make_link(caller, 60)
    page = await visitor.page(f"{site.url}/admin/login?link={link}")
    await page.until_shown("Sign in")
    await page.click("main button")
    await page.until("location.pathname === '/admin'")
    if path != "/admin":
        await page.go(site.url + path)
    await page.until(HTMX)
    return page
