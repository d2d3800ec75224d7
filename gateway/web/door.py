"""The door of the pages: who may come in, and which browser it is.

Without a password only this very machine comes in, and only by a name of its own: another site's page, a proxy or a
name that was bound anew to 127.0.0.1 does not. With a password whoever knows it comes in from anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from config.settings import Language, Settings
from gateway.phrases import language_of
from gateway.store import Script, Store

BROWSER_COOKIE: Final = "deskmate_browser"
SESSION_COOKIE: Final = "deskmate_session"
COOKIE_PATH: Final = "/chat"
BROWSER_FOR_S: Final = 400 * 86_400
SESSION_FOR_S: Final = 7 * 86_400
TRIES: Final = 10
TRIES_FOR_S: Final = 300
"""So many wrong passwords from one address in this time, then no more are looked at."""

TOKEN = re.compile(r"[A-Za-z0-9_-]{22,64}")
OWN_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
PROXY_HEADERS: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# KEYS[1] is `<prefix>:web`. What somebody else put in the place of a session is none, and in that of a count begins it anew.
OPEN_SESSION = Script(
    "open session", "redis.call('SET', KEYS[1] .. ':session:' .. ARGV[1], ARGV[2], 'EX', ARGV[3]) return 1"
)
READ_SESSION = Script(
    "read session",
    """
    local stored = redis.pcall('GET', KEYS[1] .. ':session:' .. ARGV[1])
    return type(stored) == 'string' and stored or false
    """,
)
END_SESSION = Script("end session", "return redis.call('DEL', KEYS[1] .. ':session:' .. ARGV[1])")
COUNT_TRY = Script(
    "count try",
    """
    local key = KEYS[1] .. ':tries:' .. ARGV[1]
    local tries = redis.pcall('INCR', key)
    if type(tries) ~= 'number' then
      redis.call('DEL', key)
      tries = redis.call('INCR', key)
    end
    if tries == 1 then redis.call('EXPIRE', key, ARGV[2]) end
    return tries
    """,
)
FORGET_TRIES = Script("forget tries", "return redis.call('DEL', KEYS[1] .. ':tries:' .. ARGV[1])")


class Refused(Exception):
    """Not let in, or not understood. `phrase` is a key of the catalogue: what the person is told."""

    def __init__(self, status: int, phrase: str, reason: str, **values: object) -> None:
        super().__init__(reason)
        self.status = status
        self.phrase = phrase
        self.values = values


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser, by its cookie."""

    token: str
    is_new: bool

    @property
    def id(self) -> str:
        """Names the browser in keys and events; the cookie can't be found from it."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:32]


class Door:
    """Checks each request of the pages. Raises `Refused`."""

    def __init__(self, settings: Settings, store: Store) -> None:
        password = settings.chat.password
        self.password = password.get_secret_value() if password else None
        self._public = urlsplit(settings.gateway.public_url or "")
        self._store = store
        self._root = f"{store.layout.prefix}:web"

    def admit(self, request: web.Request) -> None:
        """Is this request from somebody who may knock at all, and from our own page?"""
        if self.password is None:
            _check_own_machine(request)
        if request.method not in {"GET", "HEAD"} or request.path.startswith("/chat/api/"):
            self._check_same_origin(request)

    def browser(self, request: web.Request) -> Browser:
        token = request.cookies.get(BROWSER_COOKIE, "")
        if TOKEN.fullmatch(token):
            return Browser(token, is_new=False)
        return Browser(secrets.token_urlsafe(24), is_new=True)

    def keep_browser(self, request: web.Request, response: web.StreamResponse, browser: Browser) -> None:
        if browser.is_new:
            self._set_cookie(request, response, BROWSER_COOKIE, browser.token, BROWSER_FOR_S)

    async def is_known(self, request: web.Request) -> bool:
        """Has this browser given the password that holds now? Raises `store.Unreachable`."""
        if self.password is None:
            return True
        token = request.cookies.get(SESSION_COOKIE, "")
        if not TOKEN.fullmatch(token):
            return False
        stored = await self._store.run(READ_SESSION, self._root, _name(token))
        return stored is not None and hmac.compare_digest(stored, self._seal(token).encode())

    async def log_in(self, request: web.Request, response: web.StreamResponse, password: str) -> bool:
        """Compare the password; a right one opens a session. Raises `Refused` after too many wrong ones, `Unreachable`."""
        peer = _name(str(peer_of(request)))
        if await self._store.run(COUNT_TRY, self._root, peer, TRIES_FOR_S) > TRIES:
            raise Refused(429, "login.too_many", "too many wrong passwords from one address")
        expected = self.password or secrets.token_hex()
        if not hmac.compare_digest(
            hashlib.sha256(password.encode()).digest(), hashlib.sha256(expected.encode()).digest()
        ):
            return False
        token = secrets.token_urlsafe(32)
        await self._store.run(OPEN_SESSION, self._root, _name(token), self._seal(token), SESSION_FOR_S)
        await self._store.run(FORGET_TRIES, self._root, peer)
        self._set_cookie(request, response, SESSION_COOKIE, token, SESSION_FOR_S)
        return True

    async def log_out(self, request: web.Request, response: web.StreamResponse) -> None:
        token = request.cookies.get(SESSION_COOKIE, "")
        if TOKEN.fullmatch(token):
            await self._store.run(END_SESSION, self._root, _name(token))
        response.del_cookie(SESSION_COOKIE, path=COOKIE_PATH)

    def _seal(self, token: str) -> str:
        """Binds a session to the password: when that is changed, all sessions end."""
        return hmac.digest(token.encode(), (self.password or "").encode(), "sha256").hex()

    def _set_cookie(
        self, request: web.Request, response: web.StreamResponse, name: str, value: str, for_s: int
    ) -> None:
        secure = is_https(request, self._public)
        response.set_cookie(
            name, value, max_age=for_s, path=COOKIE_PATH, httponly=True, samesite="Strict", secure=secure
        )

    def _check_same_origin(self, request: web.Request) -> None:
        """Programs such as `deskmate say` send neither header."""
        if why := foreign(request, self._public):
            raise Refused(403, "chat.refused_origin", why)


def foreign(request: web.Request, public: SplitResult) -> str:
    """Why a request comes from another site's page, as its browser says; empty: it doesn't, or nobody says."""
    site = request.headers.get("Sec-Fetch-Site")
    if site not in {None, "same-origin", "none"}:
        return f"Sec-Fetch-Site is {site}"
    origin = request.headers.get("Origin")
    if origin is None:
        return ""
    from_where = urlsplit(origin)
    ours = {request.headers.get("Host", "").lower(), public.netloc.lower()} - {""}
    is_ours = from_where.scheme in {"http", "https"} and from_where.netloc.lower() in ours
    return "" if is_ours else "Origin is another site"


def is_https(request: web.Request, public: SplitResult) -> bool:
    """Whether the browser came that way, as far as we or a proxy can tell."""
    return request.secure or public.scheme == "https" or request.headers.get("X-Forwarded-Proto") == "https"


def _check_own_machine(request: web.Request) -> None:
    if not _is_loopback(peer_of(request)):
        raise Refused(403, "chat.refused_place", "chat.password is not set, so only this machine may come in")
    if any(name in request.headers for name in PROXY_HEADERS):
        raise Refused(403, "chat.refused_place", "a proxy stands in front, and chat.password is not set")
    if not OWN_NAME.fullmatch(request.headers.get("Host", "")):
        raise Refused(403, "chat.refused_place", "Host is not this machine's own name, and chat.password is not set")


def language_of_request(request: web.Request) -> Language:
    """Of the browser: its first one counts."""
    return language_of(None, re.split("[,;]", request.headers.get("Accept-Language", ""), maxsplit=1)[0].strip())


def peer_of(request: web.Request) -> str:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return str(peer[0]) if isinstance(peer, tuple) else ""


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def _name(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:32]
