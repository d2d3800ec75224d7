"""The admin pages over HTTP: pages, forms, sign-in; and the routes of it all."""

from __future__ import annotations

import base64
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import web

from config.settings import Settings
from gateway.acts.outcomes import Refusal
from gateway.admin.keys import SECRET, Full, Session
from gateway.admin.operations import Told, operations, status_of
from gateway.admin.visits import Caller, House
from gateway.audit.log import Change
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Malformed
from gateway.store import Unreachable
from gateway.web.admin import api, oidc
from gateway.web.admin.door import COOKIE, COOKIE_PATH, SECURITY_HEADERS, Closed, Door
from gateway.web.admin.pages import PAGES, Page
from gateway.web.admin.templates import filled
from gateway.web.admin.visiting import NotUnderstood, Upload, body_of, form_of, given, refused, rule_of, visit_of
from gateway.web.assets import assets
from gateway.web.door import language_of_request
from gateway.wire import read_form

logger = logging.getLogger(__name__)

START: Final = "/admin"
LOGIN: Final = "/admin/login"
_BACK: Final = re.compile(r"/admin(?:[/?][A-Za-z0-9_.~!$&'()*+,;=:@%/?-]*)?")

_SESSION: Final = web.RequestKey[Session]("session", Session)
"""Who asks, once they are known: what refuses them offers to sign out."""

Handler = Callable[[web.Request, Session], Awaitable[web.Response]]


def add_admin(app: web.Application, settings: Settings, house: House, http: aiohttp.ClientSession) -> None:
    """Serve the admin pages and their API."""
    door = Door(settings, house.store)
    known, public_url = settings.admin.oidc, settings.gateway.public_url
    provider = oidc.Provider(known, public_url, http) if known and public_url else None
    pages = Pages(house, door, provider)
    app.add_routes(
        [
            web.get("/admin/static/{name}", asset),
            web.get("/admin/login", pages.open_to_all(pages.login_page)),
            web.post("/admin/login", pages.open_to_all(pages.log_in)),
            web.get(oidc.PATH, pages.open_to_all(pages.go_to_provider)),
            web.get(oidc.BACK, pages.open_to_all(pages.come_from_provider)),
            web.post("/admin/logout", pages.signed_in(pages.log_out)),
            web.post("/admin/do/{operation}", pages.signed_in(pages.act)),
            *(web.get(page.path, pages.signed_in(partial(pages.page, page))) for page in PAGES),
            *api.routes(house, door),
            web.get("/admin/{rest:.*}", pages.open_to_all(pages.nothing)),  # behind all that there is
        ]
    )


async def asset(request: web.Request) -> web.Response:
    found = assets().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    headers = {**SECURITY_HEADERS, "ETag": found.etag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == found.etag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)


class Pages:
    """The handlers of pages and forms."""

    def __init__(self, house: House, door: Door, provider: oidc.Provider | None) -> None:
        self._house = house
        self._door = door
        self._provider = provider

    # ---- who comes in ----

    def open_to_all(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        return partial(self._answered, handler)

    def signed_in(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            is_safe = request.method in {"GET", "HEAD"}
            if not is_safe:
                self._door.check_origin(request)
            session = await self._door.session(request)
            if session is None:
                return self._not_signed_in(request)
            request[_SESSION] = session
            if not is_safe:
                self._door.check_form(session, str((await form_of(request, self._house)).get("csrf", "")))
            return await handler(request, session)

        return partial(self._answered, handle)

    async def _answered(
        self, handler: Callable[[web.Request], Awaitable[web.Response]], request: web.Request
    ) -> web.Response:
        """Refusals become pages, which name the rule."""
        language = language_of_request(request)
        try:
            response = await handler(request)
        except Closed as why:
            log(logger, "refused", path=request.path, status=why.status, reason=str(why))
            response = _said(request, why.status, say(why.phrase, language))
        except NotUnderstood as why:
            response = _said(request, 400, str(why))
        except Refusal as why:
            response = _said(request, status_of(why), refused(why, language), rule_of(why))
        except Unreachable as error:
            log(logger, "redis not reachable", logging.ERROR, path=request.path, reason=str(error))
            response = _said(request, 503, say("admin.away", language))
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    async def nothing(self, request: web.Request) -> web.Response:
        del request
        raise Closed(404, "admin.closed.no_page", "no such page")

    # ---- pages and forms ----

    async def page(self, page: Page, request: web.Request, session: Session) -> web.Response:
        language = language_of_request(request)
        visit = await visit_of(self._house, session.caller, language=language)
        found = await page.shows(visit, request.query)
        is_watching = "live" in request.query  # the page that asks again and again shows no answer to what was done
        said = {} if is_watching else await self._door.keys.said(session)
        text = filled(
            page.template,
            language,
            **found,
            page=page,
            pages=PAGES,
            session=session,
            sees_all=visit.sees_all,
            now_ms=visit.at_ms,
            here_path=request.path_qs,
            query=request.query,
            said=said,
        )
        return _html(text)

    async def act(self, request: web.Request, session: Session) -> web.Response:
        """A form: do an operation with its fields, and tell on the page that it came from what came of it."""
        operation = operations().get(request.match_info["operation"])
        if operation is None or operation.is_safe:
            raise Closed(404, "admin.closed.no_form", "no such operation")
        form = await form_of(request, self._house)
        fields: dict[str, Any] = {name: value for name, value in form.items() if isinstance(value, str)}
        fields |= _file(form)
        back = str(form.get("back", START))
        language = language_of_request(request)
        visit = await visit_of(self._house, session.caller, language=language)
        names = operation.input.model_fields
        try:
            done = await operation(visit, given(operation, {name: fields[name] for name in names if name in fields}))
        except Refusal as refusal:
            await self._door.keys.say(session, refused(refusal, language), is_refused=True)
        except NotUnderstood as why:
            await self._door.keys.say(session, str(why), is_refused=True)
        else:
            told = [done.told, *done.warnings] if isinstance(done, Told) else [say("admin.done", language)]
            await self._door.keys.say(session, "\n".join(told), is_refused=False)
        return _see_other(back if _BACK.fullmatch(back) else START)

    # ---- sign-in ----

    async def login_page(self, request: web.Request) -> web.Response:
        """To open a link changes nothing; its button uses it. Without one the page tells how to get one."""
        link = request.query.get("link", "")
        if not link:
            told = say("admin.login.how", language_of_request(request))
            return _said(request, 200, told, provider=self._provider, is_in=False, onward="")
        return _html(
            filled("login.html", language_of_request(request), who=await self._door.link_of(request, link), link=link)
        )

    async def log_in(self, request: web.Request) -> web.Response:
        self._door.check_origin(request)
        try:
            link = read_form(await body_of(request, self._house)).get("link", "")
        except Malformed as why:
            raise NotUnderstood(str(why)) from None
        response = _see_other(START)
        session = await self._door.sign_in(request, response, link)
        change = Change("", session.caller.name, "", "", "a login link")
        await self._house.shelf.note(change, "admin sign-in", session.caller.name)
        log(logger, "signed in", who=session.caller.name)
        return response

    async def log_out(self, request: web.Request, session: Session) -> web.Response:
        told = say("admin.login.left", language_of_request(request))
        response = _said(request, 200, told, is_in=False, onward=LOGIN)
        await self._door.sign_out(session, response)
        return response

    def _not_signed_in(self, request: web.Request) -> web.Response:
        if request.method == "GET" and request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            # Who follows a link from elsewhere brings no strict cookie: our own page asks once more, and then it comes.
            return _html('<!doctype html><meta http-equiv="refresh" content="0">')
        told = say("admin.closed.signed_out", language_of_request(request))
        response = _said(request, 401, told, provider=self._provider, onward=LOGIN)
        response.del_cookie(COOKIE, path=COOKIE_PATH)  # else a page that looks again and again counts as many tries
        response.headers["HX-Refresh"] = "true"
        return response

    async def go_to_provider(self, request: web.Request) -> web.Response:
        """To sign in where `admin.oidc` says. Nothing is changed by it."""
        if self._provider is None:
            raise Closed(404, "admin.closed.no_form", "no identity provider")
        secret = secrets.token_urlsafe(32)
        response = _see_other(await self._provider.address(secret))
        # Lax, unlike the session's: it has to come along on the way back from the provider.
        self._door.set_cookie(request, response, oidc.COOKIE, secret, oidc.WITHIN_S, path=oidc.PATH, samesite="Lax")
        return response

    async def come_from_provider(self, request: web.Request) -> web.Response:
        """Who comes back gets a login link of their own, and is led to the page whose button signs in."""
        secret = request.cookies.get(oidc.COOKIE, "")
        if self._provider is None or not SECRET.fullmatch(secret):
            raise Closed(403, "admin.oidc.stale", "no sign-in of this browser is under way")
        caller = Caller(await self._provider.person(secret, request.query))
        # One line a day, whoever comes and how often: what is done with the link has its own.
        change = Change(f"admin link {caller.person}", caller.name, "", "", self._provider.rule)
        await self._house.shelf.note(change, "admin link", caller.name)
        try:
            link = await self._door.keys.make_link(caller, oidc.WITHIN_S)
        except Full as error:
            raise Closed(503, "admin.closed.full", str(error)) from None
        response = _see_other(f"/admin/login?link={link}")
        response.del_cookie(oidc.COOKIE, path=oidc.PATH)
        return response


def _file(form: Mapping[str, str | Upload]) -> dict[str, str]:
    """A file of a form as the operation takes it: Base64, and its name."""
    match form.get("zip"):
        case Upload(filename, body):
            return {"zip": base64.b64encode(body).decode(), "filename": filename}
    return {}


def _said(
    request: web.Request,
    status: int,
    told: str,
    rule: str = "",
    provider: oidc.Provider | None = None,
    *,
    is_in: bool = True,
    onward: str = START,
) -> web.Response:
    """`is_in`: whoever is signed in still is. `onward`: the page that it leads to, which is never this one; empty: none."""
    values = {
        "told": told,
        "rule": rule,
        "provider": provider,
        "to_provider": oidc.PATH,
        "session": request.get(_SESSION) if is_in else None,
        "onward": onward if onward != request.path else "",
        "to": "admin.login.to" if onward == LOGIN else "admin.to_overview",
    }
    return _html(filled("said.html", language_of_request(request), **values), status)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


def _see_other(where: str) -> web.Response:
    return web.Response(status=303, headers={"Location": where})
