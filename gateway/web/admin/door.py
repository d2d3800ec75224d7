"""The door of the admin pages and of their API: sessions of browsers, tokens of programs."""

from __future__ import annotations

import hmac
from typing import Final, Literal
from urllib.parse import urlsplit

from aiohttp import web

from config.settings import Settings
from gateway.admin.keys import SECRET, Keys, Session, Token, Unknown
from gateway.store import Store
from gateway.web.door import SECURITY_HEADERS as OF_THE_CHAT
from gateway.web.door import foreign, is_https, peer_of

COOKIE: Final = "deskmate_admin"
COOKIE_PATH: Final = "/admin"
SECURITY_HEADERS: Final = {
    **OF_THE_CHAT,
    # Without Trusted Types, which htmx does not know; nothing inline runs either way.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
}


class Closed(Exception):
    """Not let in. `phrase` is a key of the catalogue: what the person is told. `str()` is for the log."""

    def __init__(self, status: int, phrase: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.phrase = phrase


class Door:
    """Raises `Closed` and `Unreachable`."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.keys = Keys(store)
        self._session_s = settings.admin.session_s
        self._public = urlsplit(settings.gateway.public_url or "")

    # ---- browsers ----

    async def session(self, request: web.Request) -> Session | None:
        """Who is signed in with this browser; None: nobody."""
        secret = request.cookies.get(COOKIE, "")
        if not SECRET.fullmatch(secret):
            return None
        try:
            return await self.keys.session(secret, str(peer_of(request)))
        except Unknown as error:
            if error.is_many:
                raise _too_many() from None
            return None

    def check_origin(self, request: web.Request) -> None:
        """Of all that changes something: it must be said by our own page, and said that it is."""
        why = foreign(request, self._public)
        if not why and not {"Origin", "Sec-Fetch-Site"} & {*request.headers}:
            why = "neither Origin nor Sec-Fetch-Site"
        if why:
            raise Closed(403, "admin.closed.origin", why)

    def check_form(self, session: Session, given: str) -> None:
        """It must carry the word that our own pages of this session have."""
        if not hmac.compare_digest(given.encode("utf-8", "replace"), session.csrf.encode()):
            raise Closed(403, "admin.closed.form", "csrf")

    async def link_of(self, request: web.Request, secret: str) -> str:
        """Whose link that is; it stays as it is."""
        try:
            return (await self.keys.look_at_link(secret, str(peer_of(request)))).name
        except Unknown as error:
            raise _no_link(error) from None

    async def sign_in(self, request: web.Request, response: web.StreamResponse, secret: str) -> Session:
        """Use a link: from now on this browser is signed in, with nothing of what it was before."""
        try:
            session = await self.keys.use_link(secret, str(peer_of(request)), self._session_s)
        except Unknown as error:
            raise _no_link(error) from None
        before = request.cookies.get(COOKIE, "")
        if SECRET.fullmatch(before):
            await self.keys.end(before)  # not looked up before: one that ended long ago is no try
        self.set_cookie(request, response, COOKIE, session.secret, self._session_s, path=COOKIE_PATH, samesite="Strict")
        return session

    def set_cookie(
        self,
        request: web.Request,
        response: web.StreamResponse,
        name: str,
        secret: str,
        for_s: int,
        *,
        path: str,
        samesite: Literal["Strict", "Lax"],
    ) -> None:
        """One that no script reads, and that goes over https alone where there is https."""
        is_secure = is_https(request, self._public)
        response.set_cookie(name, secret, max_age=for_s, path=path, httponly=True, samesite=samesite, secure=is_secure)

    async def sign_out(self, session: Session, response: web.StreamResponse) -> None:
        await self.keys.end(session.secret)
        response.del_cookie(COOKIE, path=COOKIE_PATH)

    # ---- programs ----

    async def token(self, request: web.Request) -> Token:
        """Whose program it is. A cookie opens nothing here."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise Closed(401, "admin.closed.bearer", "no token")
            return await self.keys.token(secret.strip(), str(peer_of(request)))
        except Unknown as error:
            if error.is_many:
                raise _too_many() from None
            raise Closed(401, "admin.closed.token", "unknown token") from None


def _too_many() -> Closed:
    return Closed(429, "admin.closed.many", "too many wrong keys")


def _no_link(error: Unknown) -> Closed:
    if error.is_many:
        return _too_many()
    return Closed(403, "admin.closed.link", "unknown link")
