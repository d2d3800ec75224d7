"""A stand-in for an identity provider: OpenID Connect discovery, authorization code with PKCE, tokens signed with keys of its own.

Strict: what OpenID Connect Core 3.1 and RFC 7636 want of a client is looked at, and `broken` names what was not so. Whoever comes to
its sign-in page is signed in as whom `claims` tell.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import unquote

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from yarl import URL

CLIENT: Final = "deskmate & co"
"""With signs that an Authorization header has to have quoted."""
CLIENT_SECRET: Final = "p%ss:word+1"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@dataclass
class OidcTwin:
    claims: dict[str, Any] = field(default_factory=dict)
    """Of whoever signs in; `sub` and what else is told of them."""
    lie: Callable[[dict[str, Any]], Mapping[str, Any] | str] | None = None
    """What becomes of a token's claims before it is signed; a `str` is the token itself."""
    about: dict[str, Any] = field(default_factory=dict)
    """What its discovery document says otherwise; None: not at all."""
    denies: str = ""
    """The `error` with which everybody comes back."""
    down: bool = False
    """It answers 500 to everything."""
    key: rsa.RSAPrivateKey = field(default_factory=new_key)
    key_id: str = "one"
    broken: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Paths, in order."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._noted])
        app.add_routes(
            [
                web.get("/.well-known/openid-configuration", self._discovery),
                web.get("/keys", self._keys),
                web.get("/authorize", self._authorize),
                web.post("/token", self._token),
            ]
        )
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def change_key(self, key_id: str) -> None:
        self.key, self.key_id = new_key(), key_id

    def public_key(self) -> str:
        """As PEM-less JSON, which a forger has too."""
        return str(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))

    @web.middleware
    async def _noted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request.path)
        if self.down:
            return web.Response(status=500, text="out of order")
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _discovery(self, _: web.Request) -> web.Response:
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
            **self.about,
        }
        return web.json_response({name: one for name, one in told.items() if one is not None})

    async def _keys(self, _: web.Request) -> web.Response:
        mine = {**json.loads(self.public_key()), "kid": self.key_id, "use": "sig", "alg": "RS256"}
        return web.json_response({"keys": [mine]})

    def _want(self, held: bool, what: str) -> None:
        if not held:
            self.broken.append(what)

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self._want(asked.get("response_type") == "code", "response_type")
        self._want(asked.get("client_id") == CLIENT, "client_id")
        self._want("openid" in asked.get("scope", "").split(), "scope")
        self._want(asked.get("code_challenge_method") == "S256", "code_challenge_method")
        for name in ("state", "nonce", "code_challenge", "redirect_uri"):
            self._want(len(asked.get(name, "")) >= 8, name)
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        back = {"error": self.denies} if self.denies else {"code": code}
        where = URL(asked["redirect_uri"]).update_query({**back, "state": asked["state"]})
        return web.Response(status=302, headers={"Location": str(where)})

    async def _token(self, request: web.Request) -> web.Response:
        form = dict(await request.post())
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if "client_secret_post" in self.about.get("token_endpoint_auth_methods_supported", ()):
            who = str(form.get("client_id")), str(form.get("client_secret"))
        else:
            self._want(kind == "Basic" and "client_secret" not in form, "client_secret_basic")
            name, _, secret = base64.b64decode(given).decode().partition(":")
            who = unquote(name), unquote(secret)
        self._want(who == (CLIENT, CLIENT_SECRET), "the client's secret")
        self._want(form.get("grant_type") == "authorization_code", "grant_type")
        asked = self._codes.pop(str(form.get("code")), None)
        if asked is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self._want(form.get("redirect_uri") == asked["redirect_uri"], "redirect_uri")
        verifier = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        if base64.urlsafe_b64encode(verifier).decode().rstrip("=") != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        told: dict[str, Any] = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = self.lie({**told, **self.claims}) if self.lie else {**told, **self.claims}
        token = claims if isinstance(claims, str) else self.signed(claims)
        return web.json_response({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def signed(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(dict(claims), self.key, "RS256", {"kid": self.key_id})
