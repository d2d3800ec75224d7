"""How each platform proves a request, and what people say there: `tests/vectors/` has their samples."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.platforms.wecom import Crypt
from tests.harness import discord_twin, feishu_twin, slack_twin, telegram_twin, webhook_twin, wecom_twin

VECTORS: Final = Path(__file__).parents[1] / "vectors"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request. What proves it stands in `proof`: headers, or parameters of the address."""

    connection: str
    body: bytes
    proof: tuple[tuple[str, str | bytes], ...]
    headers: tuple[tuple[str, str | bytes], ...] = (("Content-Type", JSON),)
    method: str = "POST"

    def wire(self, host: str) -> bytes:
        """As it goes over a connection."""
        named = PLATFORMS[self.connection].in_address if self.connection in PLATFORMS else False
        query = f"?{urlencode(self.proof)}" if named and self.proof else ""
        pairs = [*self.headers, *(() if named else self.proof), ("Content-Length", str(len(self.body)))]
        head = b"".join(b"%b: %b\r\n" % (name.encode(), _raw(value)) for name, value in pairs)
        first = f"{self.method} /webhooks/{self.connection}{query} HTTP/1.1\r\nHost: {host}\r\n"
        return first.encode() + head + b"\r\n" + self.body


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Platform:
    """Makes deliveries out of what is told. `key`: another secret than the true one; `at_s`: when it is signed."""

    prove: Callable[[bytes, str, int], Mapping[str, str]]
    """What proves a body, by the secret and the second."""
    key: str
    signature: str
    """Which part of the proof is it."""
    stamp: str = ""
    """And which one says when: empty where nothing does."""
    seal: Callable[[bytes, str], bytes] | None = None
    """What is told is not sent as it is."""
    window_s: int = 300
    """How far that may be from now."""
    signs_body: bool = True
    in_address: bool = False

    def delivery(self, connection: str, told: bytes, at_s: int, key: str = "", content_type: str = JSON) -> Delivery:
        """It is genuine with its own key, and a second that is now."""
        key = key or self.key
        body = self.seal(told, key) if self.seal else told
        return Delivery(connection, body, tuple(self.prove(body, key, at_s).items()), (("Content-Type", content_type),))


def _webhook(body: bytes, key: str, at_s: int) -> Mapping[str, str]:
    headers = webhook_twin.sign(f"msg_{secrets.token_hex(8)}", body.decode("utf-8", "replace"), secret=key, at_s=at_s)
    return {name: value for name, value in headers.items() if name != "Content-Type"}


def _discord(body: bytes, key: str, at_s: int) -> Mapping[str, str]:
    own = discord_twin.KEY if not key else Ed25519PrivateKey.from_private_bytes(hashlib.sha256(key.encode()).digest())
    return discord_twin.sign(body, key=own, at_s=at_s)


def _wecom(body: bytes, key: str, at_s: int) -> Mapping[str, str]:
    nonce = str(secrets.randbelow(10**9))
    signed = Crypt(key, wecom_twin.AES_KEY).sign(str(at_s), nonce, json.loads(body)["encrypt"])
    return {"msg_signature": signed, "timestamp": str(at_s), "nonce": nonce}


def _wecom_sealed(told: bytes, key: str) -> bytes:
    return json.dumps({"encrypt": Crypt(key, wecom_twin.AES_KEY).sealed(told, "")}).encode()


PLATFORMS: Final[Mapping[str, Platform]] = {
    "slack": Platform(
        lambda body, key, at_s: slack_twin.sign(body, secret=key, at_s=at_s),
        slack_twin.SIGNING_SECRET,
        "X-Slack-Signature",
        "X-Slack-Request-Timestamp",
    ),
    "telegram": Platform(
        lambda body, key, at_s: {"X-Telegram-Bot-Api-Secret-Token": key},  # noqa: ARG005
        telegram_twin.SECRET,
        "X-Telegram-Bot-Api-Secret-Token",
        signs_body=False,
    ),
    "feishu": Platform(
        lambda body, key, at_s: feishu_twin.sign(body, key, at_s=at_s),
        feishu_twin.ENCRYPT_KEY,
        "X-Lark-Signature",
        "X-Lark-Request-Timestamp",
        feishu_twin.encrypted,
    ),
    "discord": Platform(_discord, "", "X-Signature-Ed25519", "X-Signature-Timestamp"),
    "wecom": Platform(_wecom, wecom_twin.TOKEN, "msg_signature", "timestamp", _wecom_sealed, 7_200, in_address=True),
    "standard-webhooks": Platform(_webhook, webhook_twin.SECRET, "webhook-signature", "webhook-timestamp"),
}
"""By the connection's name, which is the platform's (with `-`)."""


@cache
def samples(connection: str) -> list[tuple[bytes, str]]:
    """What is said there, before it is sealed, and its content type."""
    told = json.loads((VECTORS / f"{connection.replace('-', '_')}.json").read_text(encoding="utf-8"))["payloads"]
    found = []
    for one in told:
        body: Any = one["body"]
        if not (connection == "wecom" and isinstance(body, str)):  # of an app, which is another connection
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            found.append((raw, str(one.get("content_type", JSON))))
    return found


def with_proof(one: Delivery, **changed: str | bytes | None) -> Delivery:
    """Parts of the proof changed, by their names with `_` for `-`; None: left out."""
    names = {name.replace("-", "_"): name for name, _ in one.proof}
    kept = [(name, changed.get(name.replace("-", "_"), value)) for name, value in one.proof]
    assert changed.keys() <= names.keys(), changed.keys() - names.keys()
    return replace(one, proof=tuple((name, value) for name, value in kept if value is not None))
