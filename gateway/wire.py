"""The wire, as every platform must treat it: strict reading of what came in, honest endings of what went out.

Reading raises `Unauthorized` or `Malformed` and nothing else, whatever the bytes. Calling raises nothing: it gives the
answer, or the `Outcome` that says why there is none.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import parse_qsl

import aiohttp
from yarl import URL

from gateway.platforms import Malformed, Outcome, RawRequest, Unauthorized

ANSWER_MAX_BYTES: Final = 8_388_608
"""No answer of a platform is longer; what is, comes from somebody else."""
RETRY_AFTER_MAX_S: Final = 3_600.0
FORM_FIELDS_MAX: Final = 200

_LONE_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


# in


class Signer:
    """HMAC-SHA256 (RFC 2104) with one key.

    `hmac.digest` begins its two hashes anew for each message; here they are begun once and copied, for half the CPU.
    """

    def __init__(self, key: bytes) -> None:
        block = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(one ^ 0x36 for one in block))
        self._outer = hashlib.sha256(bytes(one ^ 0x5C for one in block))

    def digest(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


def one_header(request: RawRequest, name: str) -> str:
    """The value of a header that stands there exactly once, in printable ASCII; `Unauthorized` otherwise."""
    values = request.headers.getall(name, ())
    if len(values) != 1:
        raise Unauthorized(f"{name}: {'missing' if not values else 'more than one'}")
    value = values[0]
    if not value or not value.isascii() or not value.isprintable():
        raise Unauthorized(f"{name}: empty or not printable ASCII")
    return value


def seconds(name: str, value: str) -> int:
    """A header with whole seconds since 1970, digits and nothing else."""
    if not _SECONDS.fullmatch(value):
        raise Unauthorized(f"{name}: not whole seconds")
    return int(value)


def check_fresh(name: str, at_s: int, now_s: float, window_s: int) -> None:
    """Refuse what is older, or further ahead, than the window. Say it so that nobody changes secrets for a wrong clock."""
    off_s = round(abs(now_s - at_s))
    if off_s > window_s:
        raise Unauthorized(f"{name}: {off_s} s outside the window of {window_s} s (is this server's clock right?)")


def media_type(request: RawRequest) -> str:
    """The one Content-Type without its parameters, in small letters."""
    values = request.headers.getall("Content-Type", [])
    if len(values) != 1:
        raise Malformed(f"Content-Type: {'missing' if not values else 'more than one'}")
    return values[0].partition(";")[0].strip().lower()


def read_json(raw: bytes | str) -> dict[str, Any]:
    """A JSON object: UTF-8, no key twice, no NaN, no depth that breaks the reader. Lone surrogates become U+FFFD."""
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        value = _JSON.decode(text)
        if _LONE_HALF.search(text):
            whole = json.dumps(value, ensure_ascii=False)
            value = json.loads(whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    except RecursionError:
        raise Malformed("not the JSON we read: too deep") from None
    except UnicodeError:
        raise Malformed("not the JSON we read: not UTF-8") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Malformed(f"not the JSON we read: {reason}") from None
    if not isinstance(value, dict):
        raise Malformed("JSON, but not an object")
    return value


def read_form(body: bytes) -> dict[str, str]:
    """The fields of a form, each there once."""
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, errors="replace", max_num_fields=FORM_FIELDS_MAX
        )
    except ValueError:
        raise Malformed("not the form we read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Malformed("a form's field is there twice")
    return fields


def text_of(value: Any) -> str:
    """The value if it is text, else the empty text: a field of a wrong kind is a field that is not there."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def size_of(value: Any) -> int:
    """A count of bytes that may be believed to be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


# out


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any] | None:
        """The JSON object in the body, none if it is anything else."""
        try:
            return read_json(self.body)
        except Malformed:
            return None

    def retry_after_s(self) -> float | None:
        """The header's wait, as seconds or as a date, within 0 and `RETRY_AFTER_MAX_S`."""
        value = self.headers.get("Retry-After", "").strip()
        if _SECONDS.fullmatch(value):
            return min(float(value), RETRY_AFTER_MAX_S)
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        wait_s = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
        return min(max(wait_s, 0.0), RETRY_AFTER_MAX_S)


async def call(
    http: aiohttp.ClientSession,
    method: str,
    url: URL,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    params: Mapping[str, str] | None = None,
    body: bytes | None = None,
    max_bytes: int = ANSWER_MAX_BYTES,
) -> Answer | Outcome:
    """One request, no redirect followed: a credential goes where it was meant to go and nowhere else.

    `transient`: it certainly never left. `ambiguous`: it may have been taken, the answer did not come back whole, or
    has more than `max_bytes`.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_s, connect=timeout_s / 2)
    try:
        async with http.request(
            method, url, headers=headers, params=params, data=body, timeout=timeout, allow_redirects=False
        ) as response:
            received = bytearray()
            async for chunk in response.content.iter_chunked(65_536):
                received += chunk
                if len(received) > max_bytes:
                    return Outcome("ambiguous", detail=f"answer of more than {max_bytes} bytes")
            return Answer(response.status, response.headers, bytes(received))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        return Outcome("transient", detail=f"not reached ({type(error).__name__})")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        # The name of the error only: its text may hold the URL, and a URL may hold a token.
        return Outcome("ambiguous", detail=f"no answer ({type(error).__name__})")


def origin(url: str) -> str:
    """`scheme://host:port` of an http(s) address; `ValueError` says what is wrong with another."""
    try:
        parsed = URL(url)
        host, port = parsed.host, parsed.port
    except (ValueError, TypeError):
        raise ValueError("not an address") from None
    if parsed.scheme not in {"http", "https"} or not host or not port:
        raise ValueError("wanted is an address that begins with https:// or http://")
    if parsed.user or parsed.password:
        raise ValueError("an address must not hold a user or a password")
    return f"{parsed.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
