"""The model `anthropic`: any server that speaks the Messages API, through Anthropic's SDK on its aiohttp transport.

The SDK connects, splits the stream and names the errors. The request's bytes are made here, once, and the
events are read here, without the SDK's typed copy of each: a quarter of the CPU of `messages.stream()` on the default
transport (bench/model_client.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast, get_args

import aiohttp
import httpx2
from anthropic import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncAnthropic,
    AsyncStream,
    DefaultAioHttpClient,
    Omit,
)

from config.settings import ModelSettings
from gateway.logs import log
from skills import depth
from workers.agent.answers import Growing
from workers.models import Answer, Meter, ModelError, Request, StopReason, TextDelta, Usage

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
TOO_LONG: Final = ("prompt is too long", "exceed context limit", "context window", "context length", "too many tokens")
"""How services word that a request does not fit; there is no code for it."""
LINGER_S: Final = 0.2
BY_TYPE: Final = {
    "authentication_error": ("unauthorized", False),
    "permission_error": ("unauthorized", False),
    "billing_error": ("unauthorized", False),
    "not_found_error": ("not_found", False),
    "invalid_request_error": ("bad_request", False),
    "request_too_large": ("context_too_long", False),
    "rate_limit_error": ("rate_limited", True),
    "overloaded_error": ("overloaded", True),
    "timeout_error": ("overloaded", True),
    "api_error": ("overloaded", True),
}
"""The provider's `error.type`: our kind, and whether trying again may help."""
BY_STATUS: Final = {
    401: ("unauthorized", False),
    402: ("unauthorized", False),
    403: ("unauthorized", False),
    404: ("not_found", False),
    408: ("overloaded", True),
    409: ("overloaded", True),
    413: ("context_too_long", False),
    429: ("rate_limited", True),
}

logger = logging.getLogger(__name__)


def open_model(settings: ModelSettings) -> AnthropicModel:
    """The model that the settings name. Connects at the first call."""
    return AnthropicModel(settings)


class _Http(DefaultAioHttpClient):
    """The SDK's client, which waits so long for the first byte and so long for each further piece, whatever the total."""

    def __init__(self, first_byte_s: float, idle_s: float, **options: Any) -> None:
        super().__init__(**options)
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._first_byte_s):
                response = await super().send(request, **how)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no first byte within {self._first_byte_s:g} s", request=request) from None
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Watched(response.stream, self._idle_s)
        return response


class _Watched(httpx2.AsyncByteStream):
    """A body that must not be silent for longer. Only waiting counts, not what the reader does in between."""

    def __init__(self, body: httpx2.AsyncByteStream, idle_s: float) -> None:
        self._body = body
        self._idle_s = idle_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._body)
        while True:
            try:
                async with asyncio.timeout(self._idle_s):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise httpx2.ReadTimeout(f"nothing came for {self._idle_s:g} s") from None
            if piece is None:
                return
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class AnthropicModel:
    """See `workers.models.Model`."""

    label: str | None = None

    def __init__(self, settings: ModelSettings) -> None:
        self._name = settings.name
        self._caches = settings.cache
        self._key = settings.api_key.get_secret_value() if settings.api_key else ""
        self._base_url = (settings.base_url or DEFAULT_BASE_URL).rstrip("/").removesuffix("/v1")
        self._client = AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,  # `workers.agent.trouble` tries again: other workers have to know, and the person
            timeout=httpx2.Timeout(
                max(settings.first_byte_timeout_s, settings.idle_timeout_s),
                connect=settings.connect_timeout_s,
                pool=None,
            ),
            open_telemetry=False,
            http_client=_Http(
                settings.first_byte_timeout_s,
                settings.idle_timeout_s,
                # The key goes where the settings say and nowhere else: no redirects, no proxies from the environment.
                follow_redirects=False,
                trust_env=False,
                # The system's certificates, as for all other connections of ours: a company may have its own.
                verify=ssl.create_default_context(),
                # 0: no limit of its own, the worker's places are the limit.
                limits=httpx2.Limits(max_connections=0, keepalive_expiry=30.0),
            ),
        )
        # Set afterwards, because the SDK adds ANTHROPIC_CUSTOM_HEADERS of the environment to what it is given.
        self._client._custom_headers = {**self._own_headers(), **settings.headers}  # type: ignore[dict-item]  # noqa: SLF001

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
        """Pieces of text, at last the `Answer`. Raises `ModelError`, also after some text was given."""
        content, meter = _written(self._body(request)), request.meter
        del request  # many turns wait here at once, and the bytes are all that is needed
        response = await self._post("/v1/messages", content, stream=True)
        growing = Growing()
        try:
            with self._faults_named():
                _demand_event_stream(response)
                async with aclosing(self._events(response)) as events:
                    async for event in events:
                        if text := growing.feed(event):
                            yield TextDelta(text)
                        if growing.is_whole:
                            break
                    else:
                        raise ModelError("the stream ended before the answer did", passing=True, kind="broken")
                    await _read_out(events)
                yield _answer(growing)
        finally:
            _read(meter, growing)
            await response.aclose()

    async def check(self) -> str:
        """Counts the tokens of one word; where the server can't count, asks for one token, streamed as a turn would."""
        hello = [{"role": "user", "content": "Hello"}]
        began = time.monotonic()
        try:
            content = _written({"model": self._name, "messages": hello})
            _demand_json(await self._post("/v1/messages/count_tokens", content, stream=False), "input_tokens")
            how = "counted a word's tokens"
        except ModelError as error:
            if error.kind in {"unauthorized", "unreachable", "stalled"}:
                raise
            async for _ in self.stream(Request(self._name, system=[], messages=hello, tools=[], max_tokens=1)):
                pass
            how = "answered a word"
        return f"{self._name} at {self._base_url} {how} in {(time.monotonic() - began) * 1000:.0f} ms"

    async def close(self) -> None:
        await self._client.close()

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[dict[str, Any], None]:
        async for event in AsyncStream.raw_events(response):
            if event.data:
                parsed: dict[str, Any] = depth.read(event.data)
                if parsed["type"] == "error":
                    raise self._refusal(200, parsed, response.headers)
                yield parsed

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        """What goes wrong while the stream is read, as `ModelError`."""
        try:
            yield
        except httpx2.TimeoutException as error:
            raise ModelError(str(error), passing=True, kind="stalled") from None
        except (httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            raise ModelError(f"the stream was cut: {error!r}", passing=True, kind="broken") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"the stream is not the Messages API's: {error!r}", passing=True, kind="broken") from None

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_tokens, "stream": True}
        if self._caches:
            body["cache_control"] = {"type": "ephemeral"}  # one for the whole: earlier bytes stay as they were
        for part in ("tools", "system"):
            if given := getattr(request, part):
                body[part] = given
        body["messages"] = request.messages
        return body

    async def _post(self, path: str, content: bytes, *, stream: bool) -> httpx2.Response:
        try:
            response = await self._client.post(
                f"{self._base_url}{path}",  # whole: putting it together is a tenth of what the SDK computes for a call
                cast_to=httpx2.Response,
                content=content,
                options={"headers": {"Content-Type": "application/json"}},
                stream=stream,
                stream_cls=AsyncStream[Any],
            )
            return cast(httpx2.Response, response)
        except APIStatusError as error:
            raise self._refusal(error.status_code, error.body, error.response.headers) from None
        except APITimeoutError as error:
            raise ModelError(self._clean(f"{error.__cause__ or error}"), passing=True, kind="stalled") from None
        except APIConnectionError as error:
            reason = self._clean(f"{self._base_url}: {error.__cause__ or error}")
            raise ModelError(reason, passing=True, kind="unreachable") from None

    def _own_headers(self) -> dict[str, str | Omit]:
        if not self._key:
            return {"Authorization": Omit()}
        # Compatible servers differ in which of the two they read; Anthropic's own takes the SDK's bearer.
        return {} if self._base_url == DEFAULT_BASE_URL else {"x-api-key": self._key}

    def _refusal(self, status: int, body: Any, headers: httpx2.Headers) -> ModelError:
        """What the provider's error means to us. `status` is 200 for an error inside a stream."""
        error = body.get("error") if isinstance(body, dict) else None
        told = error if isinstance(error, dict) else {"message": error or body}
        reason, type_ = str(told.get("message") or ""), str(told.get("type") or "")
        by_status = BY_STATUS.get(status, ("overloaded", True) if status >= 500 else ("bad_request", False))
        # The status speaks first where there is one: compatible servers often put a type of their own beside it.
        kind, passing = BY_TYPE.get(type_, ("broken", True)) if status == 200 else by_status
        if kind == "bad_request" and any(words in reason.lower() for words in TOO_LONG):
            kind = "context_too_long"
        elif kind == "bad_request" and "image" in reason.lower():
            kind = "picture"
        parts = [f"HTTP {status}", type_, reason, f"request id {headers.get('request-id') or 'unknown'}"]
        return ModelError(
            self._clean(": ".join(part for part in parts if part)),
            passing=passing,
            kind=kind,
            retry_after_s=_retry_after_s(headers) if passing else None,
        )

    def _clean(self, text: str, longest: int = 500) -> str:
        """For the operator's log: one line, cut, without the key, which some servers repeat in their answer."""
        hidden = text.replace(self._key, "[key]") if self._key else text
        line = " ".join(hidden.split())
        return line if len(line) <= longest else line[:longest] + " ..."


def _written(body: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelError(f"the request can't be written as JSON: {error}", passing=False, kind="bad_request") from None
    # "replace": half a surrogate pair can't be sent, and must not make a conversation unanswerable for ever.
    return text.encode("utf-8", "replace")


async def _read_out(events: AsyncIterator[Any]) -> None:
    """To the stream's very end: only then the connection can carry the next request. Worth a moment, no more."""
    with suppress(TimeoutError, ModelError, httpx2.HTTPError, ValueError):
        async with asyncio.timeout(LINGER_S):
            async for _ in events:
                pass


def _answer(growing: Growing) -> Answer:
    stop_reason = growing.stop_reason
    if stop_reason not in get_args(StopReason):
        log(logger, "unknown stop reason, taken for end_turn", level=logging.WARNING, stop_reason=stop_reason)
        stop_reason = "end_turn"
    content, bad_inputs = growing.content()
    return Answer(content, cast(StopReason, stop_reason), _usage(growing.usage), growing.model, bad_inputs)


def _read(meter: Meter, growing: Growing) -> None:
    """However it ended."""
    if growing.usage:
        meter.usage, meter.model = _usage(growing.usage), growing.model
    meter.characters = growing.characters


def _usage(given: dict[str, Any]) -> Usage:
    def count(name: str) -> int:
        value = given.get(name)
        return value if type(value) is int and value >= 0 else 0

    return Usage(
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_input_tokens"),
        cache_write_tokens=count("cache_creation_input_tokens"),
    )


def _demand_event_stream(response: httpx2.Response) -> None:
    kind = response.headers.get("content-type", "")
    if not kind.lower().startswith("text/event-stream"):
        # A proxy's or portal's page, mostly: waiting does not help, the address has to be put right.
        detail = f"{response.url} answered {kind or 'no content type'}, not an event stream: is model.base_url right?"
        raise ModelError(detail, passing=False, kind="broken")


def _demand_json(response: httpx2.Response, key: str) -> None:
    try:
        if key in response.json():
            return
    except (ValueError, TypeError, RecursionError):
        pass
    detail = f"{response.url} answered without {key}: is model.base_url right?"
    raise ModelError(detail, passing=False, kind="broken")


def _retry_after_s(headers: httpx2.Headers) -> float | None:
    """Seconds that the provider asked for, as a number or as a date (RFC 9110, 10.2.3)."""
    given = headers.get("retry-after", "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
