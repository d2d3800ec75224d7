"""Signing in with an identity provider: OpenID Connect, authorization code with PKCE, where `admin.oidc` names one.

Whoever comes back gets a login link of their own, as `deskmate admin link --as` makes one, and is led to the page whose button
signs in: there is one way in, and nobody is signed in without reading as whom. Nothing is stored for the way to the provider
and back: state, nonce and verifier are made of a secret that the browser alone has, so any gateway can take its return.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import jwt
from pydantic_core import PydanticCustomError
from yarl import URL

from config.addresses import is_sealed, person
from config.settings import OidcSettings
from gateway.platforms import Outcome
from gateway.web.admin.door import Closed
from gateway.wire import call

COOKIE: Final = "deskmate_oidc"
PATH: Final = "/admin/oidc"
BACK: Final = f"{PATH}/back"
WITHIN_S: Final = 600
"""How long somebody may take at the provider."""
KEPT_S: Final = 3_600
"""How long what the provider says about itself is believed."""
KEYS_AGAIN_S: Final = 60
"""How often at most its keys are fetched again because a token names one that we don't know."""
TIMEOUT_S: Final = 8.0
SKEW_S: Final = 60
ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""Of two keys each: with a shared secret, or with none, anybody could sign who knows it."""
_CODE: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_ID_MAX: Final = 200


class Provider:
    """The identity provider, as it tells about itself. Raises `Closed`, with what the person is told."""

    def __init__(self, settings: OidcSettings, public_url: str, http: aiohttp.ClientSession) -> None:
        self._settings = settings
        self._back = public_url + BACK
        self._http = http
        self._about: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, jwt.PyJWKSet] | None = None

    @property
    def name(self) -> str:
        """As people read it."""
        return self._settings.name or URL(self._settings.issuer).host or ""

    @property
    def rule(self) -> str:
        """What let somebody in, for the audit log."""
        return f"admin.oidc, {self._settings.issuer}"

    async def address(self, secret: str) -> str:
        """Where the browser that has this secret goes to sign in."""
        about = await self._tells()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(_made(secret, "verifier").encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._back,
            "scope": " ".join(self._settings.scopes),
            "state": _made(secret, "state"),
            "nonce": _made(secret, "nonce"),
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return str(URL(about["authorization_endpoint"]).update_query(asked))

    async def person(self, secret: str, query: Mapping[str, str]) -> str:
        """`connection/id` of whoever comes back with this, to the browser that has this secret."""
        if not hmac.compare_digest(query.get("state", "").encode("utf-8", "replace"), _made(secret, "state").encode()):
            raise Closed(403, "admin.oidc.stale", "another browser's state, or an old one")
        if "error" in query or not _CODE.fullmatch(query.get("code", "")):
            raise Closed(403, "admin.oidc.refused", f"the provider said: {query.get('error', 'no code')[:80]}")
        return self._whose(await self._claims(await self._token(secret, query["code"]), _made(secret, "nonce")))

    # ---- what it says about itself ----

    async def _tells(self) -> dict[str, Any]:
        if self._about and time.monotonic() - self._about[0] < KEPT_S:
            return self._about[1]
        found = await self._get(f"{self._settings.issuer}/.well-known/openid-configuration")
        if str(found.get("issuer")).rstrip("/") != self._settings.issuer:
            raise _away("its discovery document is another one's")
        for one in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not is_sealed(str(found.get(one))):
                raise _away(f"no {one} with https")
        self._about = time.monotonic(), found
        return found

    async def _key(self, token: str) -> jwt.PyJWK:
        """The one that the token names. A new one is fetched, for providers change them."""
        id_ = jwt.get_unverified_header(token).get("kid")
        for may_be_old in (True, False):
            if not may_be_old and self._keys and time.monotonic() - self._keys[0] < KEYS_AGAIN_S:
                break
            if not (may_be_old and self._keys):
                self._keys = time.monotonic(), await self._fetched_keys()
            usable = [one for one in self._keys[1].keys if one.public_key_use in {None, "sig"}]
            if found := [one for one in usable if one.key_id == id_ or (id_ is None and len(usable) == 1)]:
                return found[0]
        raise Closed(403, "admin.oidc.refused", "signed with a key that the provider does not have")

    async def _fetched_keys(self) -> jwt.PyJWKSet:
        try:
            return jwt.PyJWKSet.from_dict(await self._get((await self._tells())["jwks_uri"]))
        except jwt.PyJWTError:
            raise _away("no keys that we can use") from None

    # ---- what it says about somebody ----

    async def _token(self, secret: str, code: str) -> str:
        """The ID token for a code."""
        about, settings = await self._tells(), self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "client_id": settings.client_id,
            "code_verifier": _made(secret, "verifier"),
        }
        headers = {"Accept": "application/json"}
        if settings.client_secret:
            own = settings.client_secret.get_secret_value()
            ways = about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            if "client_secret_basic" in ways:
                both = f"{quote(settings.client_id, safe='')}:{quote(own, safe='')}"  # RFC 6749, 2.3.1
                headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
            else:
                form["client_secret"] = own
        found = await self._asked("POST", about["token_endpoint"], headers, urlencode(form).encode())
        token = found.get("id_token")
        if not isinstance(token, str):
            raise Closed(403, "admin.oidc.refused", f"no token for the code: {str(found.get('error'))[:80]}")
        return token

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """What the provider says of whoever signed in, just now, for us."""
        id_ = self._settings.client_id
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                await self._key(token),
                algorithms=list(ALGORITHMS),
                audience=id_,
                issuer=(await self._tells())["issuer"],
                leeway=SKEW_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Closed(403, "admin.oidc.refused", f"a token that does not hold: {type(error).__name__}") from None
        if claims.get("azp", id_) != id_ or (isinstance(claims["aud"], list) and claims["aud"] != [id_]):
            raise Closed(403, "admin.oidc.refused", "a token for others too")
        if not hmac.compare_digest(str(claims.get("nonce")).encode("utf-8", "replace"), nonce.encode()):
            raise Closed(403, "admin.oidc.refused", "a token of another sign-in")
        return claims

    def _whose(self, claims: Mapping[str, Any]) -> str:
        for name, wanted in self._settings.require.items():
            if claims.get(name) != wanted:
                raise Closed(403, "admin.oidc.nobody", f"{name} is not as admin.oidc.require says")
        id_ = claims.get(self._settings.claim)
        try:
            if isinstance(id_, str) and id_ == id_.strip() and not re.search(r"[*?\[\]/]", id_) and len(id_) <= _ID_MAX:
                return person(f"{self._settings.connection}/{id_}")
        except PydanticCustomError:
            pass
        raise Closed(403, "admin.oidc.nobody", f"{self._settings.claim} is nobody's id")

    # ---- HTTP ----

    async def _get(self, url: str) -> dict[str, Any]:
        return await self._asked("GET", url, {"Accept": "application/json"})

    async def _asked(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> dict[str, Any]:
        """JSON of the provider; of an error too, for it may say which."""
        headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"} if body else headers
        answer = await call(self._http, method, URL(url), headers=headers, timeout_s=TIMEOUT_S, body=body)
        if isinstance(answer, Outcome):
            raise _away(answer.detail)
        found = answer.json()
        if found is None or (answer.status != 200 and method == "GET") or answer.status >= 500:
            raise _away(f"answers {answer.status} where JSON was wanted")
        return found


def _made(secret: str, what: str) -> str:
    """One of the words of a sign-in; neither the secret nor another one can be found from it."""
    return base64.urlsafe_b64encode(hmac.digest(secret.encode(), what.encode(), "sha256")).decode().rstrip("=")


def _away(why: str) -> Closed:
    return Closed(503, "admin.oidc.away", f"the identity provider: {why}")
