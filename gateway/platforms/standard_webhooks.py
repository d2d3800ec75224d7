"""Standard Webhooks: any program as a chat platform. Signed events in, signed replies out.

In: `message.created`, `message.updated`, `message.deleted` and `action.pressed`. Out, to `reply_url`:
`reply.updated` (the answer so far, whole, with its steps), `reply.completed` (one for each part), `reply.edited` and
`action.settled`.
All are signed alike, see https://www.standardwebhooks.com. The bodies are described in docs/platforms/standard-webhooks.md.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from yarl import URL

from config.settings import Connection, Secret
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event, kind_of
from gateway.files import FILE_MAX_BYTES
from gateway.net import Fetcher, NotFetched
from gateway.platforms import (
    Address,
    Capabilities,
    Growing,
    Guide,
    HttpReply,
    Malformed,
    NotDownloaded,
    Outbound,
    Outcome,
    OutcomeKind,
    Outside,
    Part,
    Plain,
    RawRequest,
    Sent,
    Stream,
    Unauthorized,
)
from gateway.text.markdown import split
from gateway.wire import (
    UPLOAD_S,
    Answer,
    by_status,
    call,
    check_fresh,
    dumped,
    harmless,
    media_type,
    object_of,
    objects_of,
    one_header,
    origin,
    read_json,
    seconds,
    size_of,
    text_of,
    waits,
)

WINDOW_S: Final = 300
ID_MAX: Final = 256
SECRET_MIN_BYTES: Final = 16
SIGNATURES_MAX: Final = 20
BUTTONS_MAX: Final = 25

_KINDS: Final = {
    "message.created": "message",
    "message.updated": "edit",
    "message.deleted": "delete",
    "action.pressed": "action",
}
_NEVER: Final = {400, 405, 415, 422}
"""Statuses after which another try ends alike. The specification names 410 alone."""
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,4}", re.ASCII)


class Settings(Connection):
    """Keys of a connection with `platform: standard_webhooks`."""

    secret: Secret
    """`whsec_` and base64 of at least 16 bytes; proves that an event is the sender's."""
    previous_secret: Secret | None = None
    """The one before, while the sender changes over. Take it out afterwards."""
    reply_url: str = Field(min_length=1)
    """Where replies go: an address, or a path behind `api_base`."""
    reply_secret: Secret | None = None
    """Signs the replies; without it `secret` does."""
    reply_origins: list[str] = []
    """Origins such as `https://chat.example:8443` to which a message may ask for its reply with `reply_url`. None: no
    message may."""
    text_limit: int = Field(40_000, ge=100)
    """Characters of one `reply.completed`; a longer answer comes in several."""
    stream_interval_ms: int = Field(250, ge=10)
    """At most one `reply.updated` in this time."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one request may take; less than `mailbox.send_timeout_s`."""

    @field_validator("secret", "previous_secret", "reply_secret")
    @classmethod
    def _is_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(_key(value)) < SECRET_MIN_BYTES:
            raise ValueError(f"wanted is whsec_ and base64 of at least {SECRET_MIN_BYTES} bytes")
        return value

    @field_validator("reply_origins")
    @classmethod
    def _are_origins(cls, value: list[str]) -> list[str]:
        return [origin(one) for one in value]

    @model_validator(mode="after")
    def _replies_have_an_address(self) -> Self:
        if not self.reply_url.startswith("/"):
            origin(self.reply_url)
        elif self.api_base is None:
            raise ValueError("reply_url is a path, so api_base has to say where")
        else:
            origin(self.api_base)
        return self


GUIDE: Final = Guide(
    steps=(
        "Make a secret that sender and deskmate share: `openssl rand -base64 32`, with `whsec_` in front.",
        "Have the sender post signed events (https://www.standardwebhooks.com) to `{url}`.",
        "Have it take signed replies at `reply_url`. The bodies of both are in docs/platforms/standard-webhooks.md.",
    )
)


class Adapter(Plain):
    """One sender and one receiver of signed events."""

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._files = outside.files
        self._fetching = outside.fetching
        self._keys = [_key(one) for one in (settings.secret, settings.previous_secret) if one]
        self._reply_key = _key(settings.reply_secret or settings.secret)
        base = settings.api_base if settings.reply_url.startswith("/") else ""
        self._reply_url = f"{base}{settings.reply_url}"
        self.capabilities = Capabilities(
            text_limit=settings.text_limit,
            idempotent_send=True,  # the receiver knows a repetition by its webhook-id
            buttons=BUTTONS_MAX,
            file_max_bytes=FILE_MAX_BYTES,
        )

    @property
    def is_checked(self) -> bool:
        return False  # there is nobody to ask

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        webhook_id = one_header(request, "webhook-id")
        if len(webhook_id) > ID_MAX:
            raise Unauthorized(f"webhook-id: longer than {ID_MAX}")
        stamp = one_header(request, "webhook-timestamp")
        at_s = seconds("webhook-timestamp", stamp)
        given = one_header(request, "webhook-signature").split(" ")
        if len(given) > SIGNATURES_MAX:
            raise Unauthorized(f"webhook-signature: more than {SIGNATURES_MAX}")
        matches = [
            hmac.compare_digest(_signature(key, webhook_id, stamp, request.body).encode(), one.encode())
            for key in self._keys
            for one in given
        ]
        if not any(matches):
            raise Unauthorized("webhook-signature: none matches (is secret the sender's?)")
        check_fresh("webhook-timestamp", at_s, now_s, WINDOW_S)

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        if media_type(request) != "application/json":
            raise Malformed("Content-Type: wanted is application/json")
        body = read_json(request.body)
        kind = _KINDS.get(text_of(body.get("type")))
        if kind is None:
            return []
        data = object_of(body.get("data"))
        user = object_of(data.get("user"))
        message_id = _name("message_id", data.get("message_id")) or ""
        webhook_id = request.headers["webhook-id"]
        language = text_of(data.get("language"))
        event = Event(
            kind=kind,
            conversation=self._conversation(data, user),
            actor=Actor(
                _name("user.id", user.get("id"), needed=True),
                text_of(user.get("name"))[:ID_MAX],
                is_bot=user.get("is_bot") is True,
                language=language if _LANGUAGE.fullmatch(language) else None,
                is_guest=user.get("is_guest") is True,
            ),
            dedupe_keys=(f"id:{webhook_id}", *([f"message:{message_id}"] if message_id and kind == "message" else [])),
            at_ms=_at_ms(body.get("timestamp"), now_s),
            message_id=message_id or webhook_id,
            text=text_of(data.get("text")).replace("\x00", "").strip(),
            name=_name("action", data.get("action"), needed=True) if kind == "action" else "",
            value=text_of(data.get("value")) if kind == "action" else "",
            addressed=data.get("addressed") is not False,
            is_direct=data.get("direct") is True,
            attachments=tuple(map(_attachment, objects_of(data.get("attachments")))),
            extra=self._extra(message_id or webhook_id, data.get("reply_url")),
        )
        return [event]

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        return HttpReply(body=dumped({"accepted": len(events)}))

    def render(self, outbound: Outbound) -> list[Part]:
        pieces = split(outbound.markdown, self._settings.text_limit)
        buttons = {"buttons": [asdict(one) for one in outbound.buttons]} if outbound.buttons else {}
        return [
            Part(
                {
                    "text": str(piece),
                    "part": number,
                    "parts": len(pieces),
                    "notice": outbound.is_notice,
                    **(buttons if number == len(pieces) else {}),
                }
            )
            for number, piece in enumerate(pieces, 1)
        ]

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("passing", self._settings.stream_interval_ms / 1000)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        data = part.payload
        if part.file:
            try:
                content = await self._files.read(part.file.fetch, self.capabilities.file_max_bytes)
            except NotDownloaded as why:
                return Outcome("rejected", detail=f"reply.completed: {why}")
            file = {"name": part.file.name, "mime": part.file.mime, "content": base64.b64encode(content).decode()}
            data = {"text": "", "part": 1, "parts": 1, "notice": False, "attachments": [file]}
        outcome = await self._ask(to, key, "reply.completed", data, UPLOAD_S if part.file else None)
        return Outcome("ok", Sent(key, {"parts": part.payload.get("parts", 1)})) if outcome.kind == "ok" else outcome

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        data = {"message_id": sent.message_id, **part.payload}
        outcome = await self._ask(to, f"edit_{secrets.token_hex(16)}", "reply.edited", data)
        return Outcome("ok", sent) if outcome.kind == "ok" else harmless(outcome)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        del key, sent
        data = {"text": growing.text, "steps": [asdict(step) for step in growing.steps]}
        return await self._ask(to, f"update_{secrets.token_hex(16)}", "reply.updated", data)

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """Whoever shows the buttons knows then that there is nothing left to decide."""
        if is_settled:
            data = {"message_id": event.message_id, "text": text}
            await self._ask(to, f"settled_{secrets.token_hex(16)}", "action.settled", data)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """What came inside the event; else what is at its address, under the rules of `tools.web_fetch`."""
        if "file" in attachment.fetch:
            return await self._files.read(attachment.fetch, max_bytes)
        url = text_of(attachment.fetch.get("url"))
        if not url:
            raise NotDownloaded("it came without content and without url")
        fetcher = Fetcher(self._fetching.model_copy(update={"max_bytes": max_bytes}))
        try:
            found = await fetcher.fetch(url, lambda _: True)
        except NotFetched as error:
            raise NotDownloaded(f"its url was not fetched: {error}") from None
        if found.status != 200:
            raise NotDownloaded(f"its url was answered with status {found.status}")
        if found.is_cut:
            raise NotDownloaded(f"it has more than {max_bytes} bytes")
        return found.body

    async def identity(self) -> Actor:
        """The name of the connection: there is nobody to ask."""
        return Actor(self._connection, self._connection, is_bot=True, is_self=True)

    # reading

    def _conversation(self, data: dict[str, Any], user: dict[str, Any]) -> ConversationKey:
        """The named conversation; without a name the person's own with us."""
        channel = _name("conversation", data.get("conversation"))
        thread = _name("thread", data.get("thread"))
        person = None if channel else _name("user.id", user.get("id"), needed=True)
        try:
            return ConversationKey(self._connection, channel or "", thread, person)
        except ValueError as error:
            raise Malformed(str(error)) from None

    def _extra(self, in_reply_to: str, reply_url: Any) -> dict[str, Any]:
        extra = {"in_reply_to": in_reply_to}
        if self._may_reply_to(text_of(reply_url)):
            extra["reply_url"] = reply_url
        return extra

    def _may_reply_to(self, url: str) -> bool:
        try:
            return bool(url) and origin(url) in self._settings.reply_origins
        except ValueError:
            return False

    # calling

    async def _ask(
        self, to: Address, webhook_id: str, kind: str, data: dict[str, Any], timeout_s: float | None = None
    ) -> Outcome:
        """One event to the receiver."""
        asked = text_of(to.extra.get("reply_url"))
        # Asked again, because settings may have changed while the reply was in the making.
        url = asked if self._may_reply_to(asked) else self._reply_url
        key = to.conversation
        body = {
            "type": kind,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": {
                "conversation": key.channel or None,
                "thread": key.thread,
                "user": key.user,
                "in_reply_to": text_of(to.extra.get("in_reply_to")) or None,
                **data,
            },
        }
        raw = dumped(body)
        stamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": stamp,
            "webhook-signature": _signature(self._reply_key, webhook_id, stamp, raw),
        }
        timeout_s = timeout_s or self._settings.timeout_s
        answer = await call(self._http, "POST", URL(url), headers=headers, body=raw, timeout_s=timeout_s)
        return _understood(kind, answer)


def _key(secret: SecretStr) -> bytes:
    """The bytes behind `whsec_...`; none if it is not base64."""
    text = secret.get_secret_value().removeprefix("whsec_")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _signature(key: bytes, webhook_id: str, stamp: str, body: bytes) -> str:
    signed = b"%b.%b.%b" % (webhook_id.encode(), stamp.encode(), body)
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def _name(name: str, value: Any, *, needed: bool = False) -> Any:
    """An id of the sender's: text without control characters, or none if absent."""
    if value is None or value == "":
        if needed:
            raise Malformed(f"data.{name}: missing")
        return None
    if not isinstance(value, str) or len(value) > ID_MAX or not value.isprintable():
        raise Malformed(f"data.{name}: wanted is printable text of at most {ID_MAX} characters")
    return value


def _at_ms(timestamp: Any, now_s: float) -> int:
    """The sender's ISO 8601 time, else now."""
    try:
        at = datetime.fromisoformat(text_of(timestamp))
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return round(now_s * 1000)


def _attachment(file: dict[str, Any]) -> Attachment:
    mime = text_of(file.get("mime"))
    url = text_of(file.get("url"))
    content = _content(file.get("content"))
    return Attachment(
        kind=kind_of(mime),
        name=text_of(file.get("name")),
        mime=mime,
        size_bytes=len(content) or size_of(file.get("size_bytes")),
        fetch={"url": url} if url and not content else {},
        content=content,
    )


def _content(value: Any) -> bytes:
    """The bytes of a file inside the event, in base64."""
    if value is None or value == "":
        return b""
    try:
        content = base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise Malformed("data.attachments.content: wanted is base64") from None
    if len(content) > FILE_MAX_BYTES:
        raise Malformed(f"data.attachments.content: {len(content)} bytes, allowed are {FILE_MAX_BYTES}")
    return content


def _understood(kind: str, answer: Answer | Outcome) -> Outcome:
    """What the receiver's status means; the specification asks to send again after everything that is no 2xx but 410."""
    if isinstance(answer, Outcome):
        return Outcome(answer.kind, detail=f"{kind}: {answer.detail}")
    if 200 <= answer.status < 300:
        return Outcome("ok")
    wait_s = answer.retry_after_s()
    ending: OutcomeKind = "target_gone" if answer.status == 410 else by_status(answer.status)
    if ending == "rate_limited" or (answer.status == 503 and wait_s is not None):
        ending, wait_s = "rate_limited", waits(answer)
    elif ending == "ambiguous" or (ending == "rejected" and answer.status >= 400 and answer.status not in _NEVER):
        ending = "transient"
    return Outcome(ending, retry_after_s=wait_s, detail=f"{kind}: status {answer.status}")
