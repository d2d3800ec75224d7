"""The wire, as every platform must treat it: strict reading of what came in, honest endings of what went out.

Reading raises `Unauthorized` or `Malformed` and nothing else, whatever the bytes. Calling raises nothing: it gives the
answer, or the `Outcome` that says why there is none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import parse_qsl

import aiohttp
from yarl import URL

from gateway import content_types
from gateway.events import Attachment
from gateway.platforms import Malformed, NotDownloaded, Outcome, OutcomeKind, RawRequest, Unauthorized
from gateway.text.urls import address_of
from skills import depth

UPLOAD_S: Final = 30.0
"""The longest that a call may take that carries a file."""
DOWNLOAD_S: Final = 30.0
"""The longest that one file may take."""
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
    return content_types.media_type(values[0])


def read_json(raw: bytes | str) -> dict[str, Any]:
    """A JSON object: UTF-8, no key twice, no NaN, no depth that breaks anybody. Lone surrogates become U+FFFD."""
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        value = depth.read(text, _JSON)
        if _LONE_HALF.search(text):
            whole = json.dumps(value, ensure_ascii=False)
            value = json.loads(whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
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


def id_of(name: str, value: Any, pattern: re.Pattern[str]) -> str:
    """The value if it is text and the whole of it fits; `Malformed` otherwise."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Malformed(f"{name}: missing, or not an id")
    return value


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


def by_status(status: int) -> OutcomeKind:
    """What a status that is no success means, where the platform's own words don't say more."""
    if status in {401, 403}:
        return "auth_failed"
    if status == 413:
        return "too_long"
    if status == 429:
        return "rate_limited"
    if status in {408, 503}:
        return "transient"
    return "ambiguous" if status >= 500 else "rejected"


def waits(answer: Answer, default_s: float = 1.0, *, asked: Any = None) -> float:
    """How long to wait: what the body has `asked` for, if that is a number, else the header, else `default_s`."""
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    if is_number and 0 <= asked < float("inf"):
        return min(float(asked), RETRY_AFTER_MAX_S)
    wait_s = answer.retry_after_s()
    return default_s if wait_s is None else wait_s


def harmless(outcome: Outcome) -> Outcome:
    """Of a call that does no harm when it is made again: nobody has to know whether it was taken."""
    return replace(outcome, kind="transient") if outcome.kind == "ambiguous" else outcome


def dumped(body: Any) -> bytes:
    """As JSON. A lone half of a surrogate pair, which no UTF-8 can hold, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def form(fields: Mapping[str, str | bytes], files: Mapping[str, tuple[Attachment, bytes]]) -> tuple[str, bytes]:
    """The content type and the body of a `multipart/form-data`. A field of bytes is JSON (`dumped`)."""
    pieces: list[tuple[str, bytes]] = []
    for name, value in fields.items():
        if isinstance(value, bytes):
            pieces.append((f'name="{name}"\r\nContent-Type: application/json', value))
        else:
            pieces.append((f'name="{name}"', value.encode("utf-8", "replace")))
    for name, (file, content) in files.items():
        filename = _UNFIT.sub("_", file.name) or "file"
        mime = file.mime if _MIME.fullmatch(file.mime) else "application/octet-stream"
        pieces.append((f'name="{name}"; filename="{filename}"\r\nContent-Type: {mime}', content))
    mark = secrets.token_hex(16).encode()
    body = b"".join(
        b"--%b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (mark, head.encode("utf-8", "replace"), content)
        for head, content in pieces
    )
    return f"multipart/form-data; boundary={mark.decode()}", b"%b--%b--\r\n" % (body, mark)


_UNFIT: Final = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029"\\/]')
_MIME: Final = re.compile(r"(?!multipart/)[a-z]+/[a-z0-9._+-]{1,80}", re.ASCII)


def file_of(answer: Answer | Outcome, whose: str, attachment: Attachment, *, why: str = "") -> bytes:
    """The file, if it is that and not a page about why there is none. Raises `NotDownloaded`.

    `whose` is the platform's name, and `why` what is wrong as a rule where it lets nobody have the file.
    """
    if isinstance(answer, Outcome):
        raise NotDownloaded(f"{whose} did not give it: {answer.detail}")
    hint = f" ({why})" if why and answer.status < 500 else ""
    if answer.status in {404, 410}:
        raise NotDownloaded(f"it is not there any more{hint}")
    if answer.status != 200:
        raise NotDownloaded(f"{whose} did not give it: status {answer.status}{hint}")
    kind = content_types.media_type(answer.headers.get("Content-Type", ""))
    # A page that somebody attached is as long as was said; one about an error is not.
    if kind in {"text/html", "application/json"} and len(answer.body) != attachment.size_bytes:
        raise NotDownloaded(f"{whose} sent a page of {kind} in its place{hint}")
    if not answer.body:
        raise NotDownloaded(f"{whose} sent nothing: it is empty")
    return answer.body


def may_open(url: str, whose: str, places: Collection[str | re.Pattern[str]]) -> URL:
    """The address of a file, if its `origin` is one of the platform's or fits one of its patterns.

    Raises `NotDownloaded`, with the place named: an address in a payload may be anybody's.
    """
    try:
        place = origin(url)
    except ValueError as error:
        raise NotDownloaded(f"it has no address of {whose}'s: {error}") from None
    if not any(place == one if isinstance(one, str) else one.fullmatch(place) for one in places):
        raise NotDownloaded(f"its address leads to {place}, which is not {whose}'s")
    return URL(url)


class Token:
    """An access token: fetched when it is first wanted, and again before its end or once it was refused.

    `fetch` gives a token and its life in seconds, or why there is none. Who asks meanwhile waits for the one on its way.
    """

    def __init__(self, fetch: Callable[[], Awaitable[tuple[str, float] | Outcome]], *, spare_s: float = 300.0) -> None:
        self._fetch = fetch
        self._spare_s = spare_s
        self._token = ""
        self._until_s = 0.0
        self._fetching = asyncio.Lock()

    async def get(self) -> str | Outcome:
        """It, good for a while yet. What it was wanted for has not left: an outcome is never `ambiguous`."""
        async with self._fetching:
            if self._token and time.monotonic() < self._until_s:
                return self._token
            fetched = await self._fetch()
            if isinstance(fetched, Outcome):
                return harmless(fetched)
            self._token, lasts_s = fetched
            self._until_s = time.monotonic() + max(lasts_s - self._spare_s, lasts_s / 2)
            return self._token

    def drop(self, refused: str) -> None:
        """This one was refused. Another that was fetched since stays."""
        if self._token == refused:
            self._token = ""


def origin(url: str) -> str:
    """`scheme://host:port` of an http(s) address; `ValueError` says what is wrong with another."""
    try:
        parsed = address_of(url)
        host, port = parsed.host, parsed.port
    except (ValueError, TypeError):
        raise ValueError("not an address") from None
    if parsed.scheme not in {"http", "https"} or not host or not port:
        raise ValueError("wanted is an address that begins with https:// or http://")
    if parsed.user or parsed.password:
        raise ValueError("an address must not hold a user or a password")
    return f"{parsed.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
