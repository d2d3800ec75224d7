"""Feishu and Lark: events and pressed buttons in by webhook, cards out by the server API.

One connection is one app of our own making in one organisation. A conversation is a chat, or a topic in it: its key
holds the chat's id, and as `thread` the topic's.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import mimetypes
import re
import time
import unicodedata
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from pydantic import Field, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.conversation.key import key_of
from gateway.events import Actor, Attachment, Event
from gateway.platforms import (
    Address,
    Capabilities,
    ConnectionRefused,
    Growing,
    Guide,
    HttpReply,
    Malformed,
    NotDownloaded,
    Outbound,
    Outcome,
    OutcomeKind,
    Outside,
    Pace,
    Part,
    Plain,
    RawRequest,
    Sent,
    Stream,
    Unauthorized,
)
from gateway.text.dialect import PLAIN, Dialect, write
from gateway.text.markdown import fitting, utf8
from gateway.wire import (
    RETRY_AFTER_MAX_S,
    Answer,
    call,
    check_fresh,
    object_of,
    objects_of,
    one_header,
    origin,
    read_json,
    seconds,
    text_of,
)

CARD_MAX_BYTES: Final = 28_000
"""Of a request with a card, as it goes out. Feishu takes 30 KB, and counts its own styles on top."""
TABLES_MAX: Final = 4
"""In one card. One Markdown element shows four, a card with more than five is refused (230099, 11310)."""
IMAGE_MAX_BYTES: Final = 10_000_000
FILE_MAX_BYTES: Final = 30_000_000
DOWNLOAD_S: Final = 30.0
"""The longest that one file may take."""
UUID_MAX: Final = 50
TOKEN_SPARE_S: Final = 300.0
"""A token is renewed so long before its end."""
AGAIN_MS: Final = 1_000
"""A message that was made so long before the answer that tells of it was made by an earlier try."""
AHEAD_MS: Final = 60_000
"""How far a card's sequence jumps when another worker, whose clock is ahead, has changed it before us."""

_SIGNED: Final = ("X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_KIND: Final = re.compile(r"[a-z_]{1,32}", re.ASCII)
_MS: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"(@_(?:user_[0-9]+|all))([ \u00a0]?)")
_LINK: Final = re.compile(r"\[([^\[\]\n]*)\]\(((?:https?://|mailto:)[^\s()]*)\)")
_PICTURES: Final = re.compile(r"image/(?:jpeg|png|webp|gif|tiff|bmp|x-icon|vnd\.microsoft\.icon)", re.ASCII)
_MIMES: Final = mimetypes.MimeTypes()
_ELEMENT: Final = "text"
_ANOTHER: Final = "-another"
_PASSING: Final = {"rate_limited", "transient", "ambiguous"}
_IDS_BYTES: Final = 700
"""What of a request is not known when a card is rendered, at most: ids of the chat, the topic, the message, the card."""

_TOKEN_BAD: Final = frozenset(range(99_991_661, 99_991_669))
_ORDER_BAD: Final = 300_317
_STREAM_OVER: Final = {200_850, 300_309}
_ROOM_BUSY: Final = 230_020
_MEANINGS: Final[dict[OutcomeKind, str]] = {
    "rate_limited": "230020 99991400 99991402 11020 11021",
    "transient": "230049 200810 232096",
    "bad_format": "230001 230054 230099 200220 99992402",
    "too_long": "230021 230025 200860",
    "auth_failed": "10003 10014 99991401 99991672 99991679 230003 230006 230027 234007",
    "target_gone": "230002 230005 230011 230013 230018 230019 230029 230034 230035 230038 230053 230110 231003 232009 "
    "200740 200750",
}
_CODES: Final[dict[int, OutcomeKind]] = {
    **{int(code): kind for kind, codes in _MEANINGS.items() for code in codes.split()},
    **dict.fromkeys(_TOKEN_BAD, "auth_failed"),
}
"""What a `code` means to a sender, as the pages of the API say; for any other the status decides."""

_SCOPES: Final = (
    "im:message",
    "im:message:send_as_bot",
    "im:message.p2p_msg:readonly",
    "im:message.group_at_msg:readonly",
    "im:message.reactions:read",
    "im:message.reactions:write_only",
    "im:resource",
    "cardkit:card:write",
)

GUIDE: Final = Guide(
    steps=(
        "Create a custom app at <https://open.feishu.cn/app> (Lark: <https://open.larksuite.com/app>) and add the bot capability to it.",
        "Import the scopes below at *Permissions & Scopes → Batch import*. To hear what is said without a mention, add `im:message.group_msg`.",
        "Set `app_id` and `app_secret` from *Credentials & Basic Info*; for Lark also `api_base: https://open.larksuite.com`.",
        "Under *Events & Callbacks → Encryption Strategy* set an Encrypt Key; copy it to `encrypt_key`, and the Verification Token to `verification_token`. Start deskmate.",
        "Under *Event Configuration* choose *Send events to developer's server* with the address `{url}`, and add the event `im.message.receive_v1`.",
        "Under *Callback Configuration* set the same address, and add `card.action.trigger`.",
        "Release a version of the app, then add the bot to a group or write to it.",
    ),
    scopes=_SCOPES,
    manifest=json.dumps({"scopes": {"tenant": list(_SCOPES), "user": []}}, indent=2),
    manifest_name="Batch import of scopes",
)


class Settings(Connection):
    """Keys of a connection with `platform: feishu`."""

    api_base: WebAddress = "https://open.feishu.cn"
    """Where the server API is; `https://open.larksuite.com` for Lark."""
    app_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """`cli_...`, of the page "Credentials & Basic Info"."""
    app_secret: Secret = Field(min_length=1)
    """Of the same page."""
    verification_token: Secret = Field(min_length=1)
    """Of "Events & Callbacks"; stands in each event. Without `encrypt_key` it is the only proof that one is Feishu's."""
    encrypt_key: Secret | None = Field(None, min_length=1)
    """Of the same page: bodies are encrypted and signed with it, and plain ones are refused."""
    window_s: int = Field(0, ge=0)
    """How old, or far ahead, a signed request may be; 0 is any. Feishu names no window, and sends again for six hours."""
    bot_open_id: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Our own open_id (`ou_...`), if it can't be asked for at the start: mentions of us are known by it."""
    streaming: bool = True
    """Show growing answers as a streaming card; else, and without its scope, as a card that is changed again and again."""
    typing_emoji: str = Field("Typing", pattern=r"^[A-Za-z0-9_]{0,32}$")
    """The reaction to a message that is being answered; empty for none."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @field_validator("api_base")
    @classmethod
    def _has_an_origin(cls, value: str) -> str:
        origin(value)
        return value


@dataclass(frozen=True, slots=True)
class _Reply:
    """What the API said."""

    outcome: Outcome
    body: dict[str, Any] = field(default_factory=dict)
    code: int = 0
    at_ms: float = 0.0
    """By the platform's clock."""

    @property
    def data(self) -> dict[str, Any]:
        return object_of(self.body.get("data"))


class Adapter(Plain):
    """One Feishu connection."""

    capabilities = Capabilities(
        text_limit=CARD_MAX_BYTES,
        limit_unit="bytes",
        idempotent_send=True,
        names_parents=True,
        columns=60,
        buttons=5,
        file_max_bytes=FILE_MAX_BYTES,
        typing_s=30.0,
        pace=(Pace("channel", 5, 1), Pace("connection", 50, 1), Pace("connection", 1_000, 60)),
    )

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.me: Actor | None = None
        """Who we are, once `identity` was asked."""
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._files = outside.files
        self._base = URL(settings.api_base) / "open-apis"
        self._proof = settings.verification_token.get_secret_value().encode()
        self._key = settings.encrypt_key.get_secret_value().encode() if settings.encrypt_key else b""
        self._token = ""
        self._token_until_s = 0.0
        self._renewing = asyncio.Lock()
        if not settings.typing_emoji:
            self.capabilities = replace(self.capabilities, typing_s=None)

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        """The check of the address, by the console, comes without a signature: there the token alone proves."""
        outer = read_json(request.body)
        if not self._key:
            if "encrypt" in outer:
                raise Unauthorized("the body is encrypted, and encrypt_key is not set")
            self._check_token(outer)
            return
        if not isinstance(outer.get("encrypt"), str):
            raise Unauthorized("a plain body, though encrypt_key is set")
        is_signed = any(name in request.headers for name in _SIGNED)
        if is_signed:
            self._check_signature(request, now_s)
        sealed = _unpacked(outer["encrypt"])
        try:
            body = _decrypted(sealed, self._key)
        except ValueError:
            # Whoever can't sign learns nothing about what is inside.
            raise (Malformed if is_signed else Unauthorized)("not encrypted with encrypt_key") from None
        if not is_signed and body.get("type") != "url_verification":
            raise Unauthorized("X-Lark-Signature: missing")
        self._check_token(body, is_signed=is_signed)

    def _check_signature(self, request: RawRequest, now_s: float) -> None:
        given, stamp, nonce = (one_header(request, name) for name in _SIGNED)
        if not _SIGNATURE.fullmatch(given):
            raise Unauthorized("X-Lark-Signature: not 64 hexadecimal digits")
        signed = hashlib.sha256(stamp.encode() + nonce.encode() + self._key + request.body).hexdigest()
        if not hmac.compare_digest(signed.encode(), given.encode()):
            raise Unauthorized("X-Lark-Signature: does not match (is encrypt_key this app's?)")
        if self._settings.window_s:
            name = "X-Lark-Request-Timestamp"
            check_fresh(name, seconds(name, stamp), now_s, self._settings.window_s)

    def _check_token(self, body: Mapping[str, Any], *, is_signed: bool = False) -> None:
        given = text_of(object_of(body.get("header")).get("token")) or text_of(body.get("token"))
        if not given and is_signed:
            return
        if not hmac.compare_digest(given.encode(), self._proof):
            raise Unauthorized("token: does not match (is verification_token this app's?)")

    def _body(self, request: RawRequest) -> dict[str, Any]:
        """Of a verified request."""
        outer = read_json(request.body)
        try:
            return _decrypted(_unpacked(text_of(outer.get("encrypt"))), self._key) if self._key else outer
        except ValueError as error:
            raise Malformed(str(error)) from None

    def handshake(self, request: RawRequest) -> HttpReply | None:
        body = self._body(request)
        if body.get("type") != "url_verification":
            return None
        challenge = text_of(body.get("challenge"))
        if not challenge:
            raise Malformed("a url_verification without its challenge")
        return HttpReply(body=json.dumps({"challenge": challenge}).encode())

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        body = self._body(request)
        header, event = object_of(body.get("header")), object_of(body.get("event"))
        event_id = text_of(header.get("event_id"))[:128]
        keys = (f"id:{event_id}",) if event_id else ()
        try:
            match header.get("event_type"):
                case "im.message.receive_v1":
                    return self._said(event, keys)
                case "card.action.trigger":
                    return self._pressed(event, keys, now_s)
        except ValueError as error:  # a key that no conversation can have
            raise Malformed(str(error)) from None
        return []

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        del events  # an object with nothing in it: no toast, the card stays as it is
        return HttpReply(body=b"{}")

    def render(self, outbound: Outbound) -> list[Part]:
        """Cards of one text each; buttons under the last one."""
        buttons = [{"label": one.label, "command": one.command, "style": one.style} for one in outbound.buttons]
        # A pressed button brings its card's text along, so each one takes as much of the room as the text itself.
        parts = [
            Part({"markdown": written.text}, {"text": _calls_nobody(write(source, PLAIN)) or "…"})
            for source, written in fitting(
                outbound.markdown,
                CARD_MAX_BYTES,
                utf8,
                _written,
                lambda made: _size(made, buttons) if made.text else 0,
            )
        ] or [Part({"markdown": "…"}, {"text": "…"})]
        if buttons:
            parts[-1] = replace(parts[-1], payload={**parts[-1].payload, "buttons": buttons})
        return parts

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("message", interval_s=1.0)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        if part.file:
            uploaded = await self._upload(part.file)
            if isinstance(uploaded, Outcome):
                return uploaded
            outcome, _ = await self._post(to, *uploaded, key, {})
            return outcome
        if "markdown" in part.payload:
            outcome, is_old = await self._post(to, "interactive", _card(part, to, {}), key, {})
        else:
            outcome, is_old = await self._post(to, "text", {"text": part.payload["text"]}, key, {"is_text": True})
        if not outcome.sent or not is_old:
            return outcome
        # What was made by an earlier try may be the answer as it was then, half grown.
        edited = await self.edit(to, outcome.sent, part)
        if edited.kind == "target_gone" and not key.endswith(_ANOTHER):  # taken away since
            return await self.send(to, part, key + _ANOTHER)
        return edited

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        path = f"im/v1/messages/{sent.message_id}"
        if sent.ref.get("is_text"):
            text = part.payload.get("text") or object_of(part.fallback).get("text")
            reply = await self._call("PUT", path, {"msg_type": "text", "content": _dumped({"text": text})})
        elif sent.ref.get("card"):
            reply = await self._finish(sent.ref, _card(part, to, sent.ref))
        else:
            reply = await self._call("PATCH", path, {"content": _dumped(_card(part, to, {}))})
        return Outcome("ok", sent) if reply.outcome.kind == "ok" else _repeatable(reply.outcome)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        part = self.render(Outbound(growing.markdown))[0]
        if sent is None:
            return await self._begin(to, part, key)
        if not sent.ref.get("card"):
            return await self.edit(to, sent, part)
        path = f"cardkit/v1/cards/{sent.ref['card']}"
        reply = await self._ordered(
            "PUT", f"{path}/elements/{_ELEMENT}/content", {"content": part.payload["markdown"]}, sent.ref
        )
        if reply.code in _STREAM_OVER:  # Feishu ends a stream after ten minutes
            card = {"type": "card_json", "data": _dumped(_card(part, to, sent.ref))}
            reply = await self._ordered("PUT", path, {"card": card}, sent.ref)
        return Outcome("ok", sent) if reply.outcome.kind == "ok" else _repeatable(reply.outcome)

    async def _begin(self, to: Address, part: Part, key: str) -> Outcome:
        """The first sight of a growing answer: a streaming card if we may make one, else one as any other."""
        if self._settings.streaming:
            made_ms = round(time.time() * 1000)
            card = _card(part, to, {}, is_growing=True)
            made = await self._call("POST", "cardkit/v1/cards", {"type": "card_json", "data": _dumped(card)})
            if _ID.fullmatch(card_id := text_of(made.data.get("card_id"))):
                ref = {"card": card_id, "made_ms": made_ms}
                content = {"type": "card", "data": {"card_id": card_id}}
                outcome, _ = await self._post(to, "interactive", content, key, ref)
                return outcome
        return await self.send(to, part, key)

    async def _finish(self, ref: Mapping[str, Any], card: Mapping[str, Any]) -> _Reply:
        """A card that may stream becomes one that stays. Buttons are taken only when its stream has ended."""
        path = f"cardkit/v1/cards/{ref['card']}"
        settings = _dumped({"config": {"streaming_mode": False}})
        ended = await self._ordered("PATCH", f"{path}/settings", {"settings": settings}, ref)
        if ended.outcome.kind in _PASSING:
            return ended
        return await self._ordered("PUT", path, {"card": {"type": "card_json", "data": _dumped(card)}}, ref, step=1)

    async def _ordered(
        self, method: str, path: str, body: Mapping[str, Any], ref: Mapping[str, Any], *, step: int = 0
    ) -> _Reply:
        """One change of a card. Its number has to be greater than that of any before, whoever made that: it is the
        card's age in milliseconds.
        """
        number = max(round(time.time() * 1000) - int(ref.get("made_ms", 0)), 1) + step
        reply = await self._call(method, path, {**body, "sequence": number})
        if reply.code == _ORDER_BAD:
            reply = await self._call(method, path, {**body, "sequence": number + AHEAD_MS})
        return reply

    async def _post(
        self, to: Address, kind: str, content: Mapping[str, Any], key: str, ref: dict[str, Any]
    ) -> tuple[Outcome, bool]:
        """A new message, or the one that an earlier try with this key has made; and which of both."""
        unique = key if len(key) <= UUID_MAX else hashlib.sha256(key.encode()).hexdigest()[:UUID_MAX]
        body = {"msg_type": kind, "content": _dumped(content), "uuid": unique}
        answered = text_of(to.extra.get("message"))
        if to.conversation.thread and answered:
            path = f"im/v1/messages/{answered}/reply"
            reply = await self._call("POST", path, {**body, "reply_in_thread": True})
        else:
            params = {"receive_id_type": "chat_id"}
            body["receive_id"] = to.conversation.channel
            reply = await self._call("POST", "im/v1/messages", body, params=params)
        if reply.outcome.kind != "ok":
            return reply.outcome, False
        message = text_of(reply.data.get("message_id"))
        if not _ID.fullmatch(message):
            return Outcome("ambiguous", detail="im/v1/messages: ok without a message_id"), False
        made_ms = _ms(reply.data.get("create_time"))
        if not made_ms or reply.at_ms - made_ms < AGAIN_MS:
            return Outcome("ok", Sent(message, ref)), False
        if reply.data.get("msg_type") != "interactive":
            return Outcome("ok", Sent(message, ref)), True
        found = await self._call("POST", "cardkit/v1/cards/id_convert", {"message_id": message})
        if found.outcome.kind in _PASSING:
            return _repeatable(found.outcome), True
        card = text_of(found.data.get("card_id"))  # without the scope there is none, and it did not stream either
        return Outcome("ok", Sent(message, {"card": card, "made_ms": made_ms} if _ID.fullmatch(card) else {})), True

    async def _upload(self, file: Attachment) -> Outcome | tuple[str, dict[str, Any]]:
        """The kind and content of a message that shows the file. A file that was uploaded twice is no harm."""
        try:
            content = await self._files.read(file.fetch, FILE_MAX_BYTES)
        except NotDownloaded as error:
            return Outcome("rejected", detail=f"{file.name}: {error}")
        is_picture = bool(_PICTURES.fullmatch(file.mime)) and len(content) <= IMAGE_MAX_BYTES
        kind = "image" if is_picture else "file"
        fields = {"image_type": "message"} if is_picture else {"file_type": "stream", "file_name": file.name or "file"}
        raw, content_type = _multipart(fields, kind, content)
        reply = await self._call("POST", f"im/v1/{kind}s", raw, content_type=content_type)
        if reply.outcome.kind != "ok":
            return _repeatable(reply.outcome)
        name = f"{kind}_key"
        return kind, {name: text_of(reply.data.get(name))}

    async def typing(self, to: Address, *, on: bool) -> None:
        """A reaction of ours to the message that is answered."""
        message, emoji = text_of(to.extra.get("message")), self._settings.typing_emoji
        if not message or not emoji:
            return
        path = f"im/v1/messages/{message}/reactions"
        if on:
            await self._call("POST", path, {"reaction_type": {"emoji_type": emoji}})
            return
        found = await self._call("GET", path, params={"reaction_type": emoji, "page_size": "50"})
        for reaction in objects_of(found.data.get("items")):
            ours = object_of(reaction.get("operator")).get("operator_id") == self._settings.app_id
            if ours and _ID.fullmatch(made := text_of(reaction.get("reaction_id"))):
                await self._call("DELETE", f"{path}/{made}")

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """The waiting sign ended with the webhook's answer, and the text is said like any other: the buttons go."""
        del text
        if is_settled and (shown := text_of(event.extra.get("text"))):
            sent = Sent(event.message_id, object_of(event.extra.get("ref")))
            await self.edit(to, sent, Part({"markdown": shown}))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        message, key = text_of(attachment.fetch.get("message")), text_of(attachment.fetch.get("key"))
        if not _ID.fullmatch(message) or not _ID.fullmatch(key):
            raise NotDownloaded(f"Feishu gives no {attachment.kind} to apps")
        path, params = f"im/v1/messages/{message}/resources/{key}", {"type": text_of(attachment.fetch.get("type"))}
        answer = await self._ask("GET", path, params=params, timeout_s=DOWNLOAD_S, max_bytes=max_bytes)
        if isinstance(answer, Outcome):
            raise NotDownloaded(f"Feishu did not give it: {answer.detail}")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        # A file of these kinds that somebody attached comes as a file, with a name.
        is_page = kind in {"text/html", "application/json"} and "Content-Disposition" not in answer.headers
        if answer.status != 200 or is_page:
            raise NotDownloaded(f"Feishu did not give it: {_understood('download', answer).outcome.detail}")
        return answer.body

    async def identity(self) -> Actor:
        reply = await self._call("GET", "bot/v3/info")
        if reply.outcome.kind != "ok":
            raise ConnectionRefused(reply.outcome.detail)
        bot = object_of(reply.body.get("bot"))
        open_id = text_of(bot.get("open_id"))
        if not open_id:
            raise ConnectionRefused("bot/v3/info: there is no bot (was the bot capability added, a version released?)")
        if self._settings.bot_open_id and open_id != self._settings.bot_open_id:
            raise ConnectionRefused(f"the app's bot is {open_id}, bot_open_id says {self._settings.bot_open_id}")
        self.me = Actor(open_id, text_of(bot.get("app_name")), is_bot=True, is_self=True)
        return self.me

    # reading

    def _said(self, event: dict[str, Any], keys: tuple[str, ...]) -> list[Event]:
        sender, message = object_of(event.get("sender")), object_of(event.get("message"))
        ids = object_of(sender.get("sender_id"))
        actor = text_of(ids.get("open_id")) or text_of(ids.get("union_id")) or text_of(ids.get("user_id"))
        if not actor:
            return []
        us = {self._settings.bot_open_id, self.me.id if self.me else None} - {None}
        is_bot = sender.get("sender_type") == "app"
        message_id = _id("message_id", message.get("message_id"))
        direct = message.get("chat_type") == "p2p"
        mentions = {text_of(one.get("key")): one for one in objects_of(message.get("mentions"))}
        ours = {key for key, one in mentions.items() if object_of(one.get("id")).get("open_id") in us}
        names = {key: "" if key in ours else f"@{text_of(one.get('name'))}" for key, one in mentions.items()}
        text, attachments = _content(message_id, text_of(message.get("message_type")), message.get("content"))
        thread = message.get("thread_id")
        return [
            Event(
                kind="message",
                conversation=key_of(
                    self._connection,
                    _id("chat_id", message.get("chat_id")),
                    _id("thread_id", thread) if thread else None,
                ),
                actor=Actor(actor, is_bot=is_bot, is_self=actor in us or (is_bot and actor == self._settings.app_id)),
                dedupe_keys=(*keys, f"message:{message_id}"),
                at_ms=_ms(message.get("create_time")),
                message_id=message_id,
                text=_named(text, names),
                addressed=direct or bool(ours),
                is_direct=direct,
                attachments=attachments,
                # Feishu does not say whose message it is. What a bot answers is no word to us.
                parent_id="" if is_bot else text_of(message.get("parent_id"))[:128],
                extra={"message": message_id, "direct": True} if direct else {"message": message_id},
            )
        ]

    def _pressed(self, event: dict[str, Any], keys: tuple[str, ...], now_s: float) -> list[Event]:
        action, context = object_of(event.get("action")), object_of(event.get("context"))
        value = object_of(action.get("value"))
        if not isinstance(value.get("say"), str):
            return []
        actor = _id("operator", object_of(event.get("operator")).get("open_id"))
        message = _id("open_message_id", context.get("open_message_id"))
        channel, thread = _id("open_chat_id", context.get("open_chat_id")), value.get("thread")
        direct = value.get("direct") is True
        return [
            Event(
                kind="action",
                conversation=key_of(self._connection, channel, _id("thread", thread) if thread else None),
                actor=Actor(actor),
                dedupe_keys=(*keys, f"action:{message}:{actor}:{text_of(event.get('token'))}"[:512]),
                at_ms=round(now_s * 1000),
                message_id=message,
                name=text_of(action.get("name")),
                value=value["say"],
                is_direct=direct,
                extra={
                    "message": message,
                    "text": text_of(value.get("text")),
                    "ref": object_of(value.get("ref")),
                    **({"direct": True} if direct else {}),
                },
            )
        ]

    # calling

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None, **how: Any) -> _Reply:
        raw = body if isinstance(body, bytes) or body is None else _dumped(body).encode("utf-8", "replace")
        return _understood(f"{method} {path}", await self._ask(method, path, raw, **how))

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json; charset=utf-8",
        timeout_s: float = 0.0,
        **how: Any,
    ) -> Answer | Outcome:
        """One call with our token, and once more with a new one if that was refused."""
        for _ in range(2):
            token = await self._fresh_token()
            if isinstance(token, Outcome):
                return token
            headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
            wait_s = timeout_s or self._settings.timeout_s
            url = self._base / path
            answer = await call(
                self._http, method, url, headers=headers, params=params, body=body, timeout_s=wait_s, **how
            )
            if isinstance(answer, Outcome) or _understood(path, answer).code not in _TOKEN_BAD:
                break
            if self._token == token:
                self._token = ""
        return answer

    async def _fresh_token(self) -> str | Outcome:
        """Ours for the organisation. Whoever asks meanwhile waits for the one that is being fetched."""
        async with self._renewing:
            if self._token and time.monotonic() < self._token_until_s:
                return self._token
            path = "auth/v3/tenant_access_token/internal"
            secret = self._settings.app_secret.get_secret_value()
            answer = await call(
                self._http, "POST", self._base / path, headers={"Content-Type": "application/json; charset=utf-8"},
                body=_dumped({"app_id": self._settings.app_id, "app_secret": secret}).encode(),
                timeout_s=self._settings.timeout_s,
            )  # fmt: skip
            reply = _understood(path, answer)
            if reply.outcome.kind == "ambiguous":  # what it was wanted for has not left
                return replace(reply.outcome, kind="transient")
            token, lasts_s = text_of(reply.body.get("tenant_access_token")), reply.body.get("expire")
            if reply.outcome.kind == "ok" and token and isinstance(lasts_s, int):
                self._token, self._token_until_s = token, time.monotonic() + max(lasts_s - TOKEN_SPARE_S, lasts_s / 2)
                return token
            if reply.outcome.kind in {"rate_limited", "transient"}:
                return reply.outcome
            return Outcome("auth_failed", detail=f"{reply.outcome.detail} (are app_id and app_secret this app's?)")


def _unpacked(encrypted: str) -> bytes:
    """The initial vector and the blocks behind it, of an encrypted body."""
    try:
        sealed = base64.b64decode(encrypted, validate=True)
    except ValueError:
        raise Malformed("encrypt: not base64") from None
    if len(sealed) < 32 or len(sealed) % 16:
        raise Malformed("encrypt: not whole blocks")
    return sealed


def _decrypted(sealed: bytes, key: bytes) -> dict[str, Any]:
    """The JSON object inside. Raises `ValueError` for what was not encrypted with the key."""
    opener = Cipher(algorithms.AES(hashlib.sha256(key).digest()), modes.CBC(sealed[:16])).decryptor()
    unpadder = PKCS7(128).unpadder()
    padded = opener.update(sealed[16:]) + opener.finalize()
    try:
        return read_json(unpadder.update(padded) + unpadder.finalize())
    except Malformed as error:
        raise ValueError(str(error)) from None


def _id(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Malformed(f"{name}: missing, or not an id")
    return value


def _ms(value: Any) -> int:
    return int(value) if isinstance(value, str) and _MS.fullmatch(value) else 0


def _named(text: str, names: Mapping[str, str]) -> str:
    """The text with people's names; where a name is empty, without the mention and the blank behind it."""
    told = {"@_all": "@all", **names}

    def name(found: re.Match[str]) -> str:
        shown = told.get(found[1], found[1])
        return f"{shown}{found[2]}" if shown else ""

    return _PLACEHOLDER.sub(name, text).strip()


def _content(message: str, kind: str, raw: Any) -> tuple[str, tuple[Attachment, ...]]:
    """The text of a message, mentions still placeholders, and its files."""
    content = read_json(text_of(raw) or "{}")
    key = content.get("image_key") if kind == "image" else content.get("file_key")
    name = text_of(content.get("file_name"))
    match kind:
        case "text":
            return _LINK.sub(lambda found: _labelled(found[1], found[2]), text_of(content.get("text"))), ()
        case "post":
            return _rich(message, content)
        case "image" | "file" | "audio":
            return "", (_attachment(message, kind, key, name),)
        case "media":
            return "", (_attachment(message, "video", key, name),)
    return "", (Attachment(kind if _KIND.fullmatch(kind) else "message", "", "", 0),)


def _labelled(label: str, url: str) -> str:
    return label if label == url.removeprefix("mailto:") else f"{label} ({url})"


def _attachment(message: str, kind: str, key: Any, name: str = "") -> Attachment:
    fetch = {"message": message, "key": text_of(key), "type": "image" if kind == "image" else "file"}
    return Attachment(kind, name, _MIMES.guess_type(name)[0] or "", 0, fetch)


def _rich(message: str, content: dict[str, Any]) -> tuple[str, tuple[Attachment, ...]]:
    """A rich text. Some clients wrap it into its language."""
    if "content" not in content:
        content = next((one for one in content.values() if isinstance(one, dict)), {})
    lines, attachments = [text_of(content.get("title"))], []
    rows = content.get("content")
    for row in rows if isinstance(rows, list) else ():
        line = ""
        for piece in objects_of(row):
            match piece.get("tag"):
                case "a":
                    line += _labelled(text_of(piece.get("text")), text_of(piece.get("href")))
                case "at":
                    user = text_of(piece.get("user_id"))
                    line += user if user.startswith("@_") else f"@{text_of(piece.get('user_name')) or user}"
                case "img":
                    attachments.append(_attachment(message, "image", piece.get("image_key")))
                case "emotion":
                    line += f":{text_of(piece.get('emoji_type'))}:"
                case "media":
                    attachments.append(_attachment(message, "video", piece.get("file_key")))
                case _:
                    line += text_of(piece.get("text"))
        lines.append(line)
    return "\n".join(lines).strip(), tuple(attachments)


@dataclass(frozen=True, slots=True)
class _Written:
    """A text as a card shows it."""

    text: str
    tables: int


def _written(markdown: str) -> _Written:
    tables: list[str] = []

    def table(rows: Sequence[Sequence[str]]) -> str:
        tables.append(_table(rows))
        return tables[-1]

    return _Written(write(markdown, replace(_DIALECT, table=table)), len(tables))


def _size(written: _Written, buttons: Sequence[Mapping[str, str]]) -> int:
    """Bytes of the request with this card, or what is over the limit if its tables are too many."""
    if written.tables > TABLES_MAX:
        return CARD_MAX_BYTES + written.tables
    nowhere = Address(key_of("x", "x"))
    card = _card(Part({"markdown": written.text, "buttons": buttons}), nowhere, {})
    return utf8(_dumped({"content": _dumped(card)})) + _IDS_BYTES * (1 + len(buttons))


def _card(part: Part, to: Address, ref: Mapping[str, Any], *, is_growing: bool = False) -> dict[str, Any]:
    """A card in JSON 2.0 of a text and buttons, or of plain text where the text was refused."""
    payload = part.payload
    text = payload.get("markdown")
    elements: list[dict[str, Any]] = (
        [{"tag": "div", "text": {"tag": "plain_text", "content": payload.get("text")}}]
        if text is None
        else [{"tag": "markdown", "element_id": _ELEMENT, "content": text}]
    )
    # What a pressed button has to tell, because the callback does not: Feishu gives no text of a card back.
    told = {"text": text, "thread": to.conversation.thread, "direct": to.extra.get("direct", False), "ref": dict(ref)}
    columns = [
        {"tag": "column", "width": "auto", "elements": [_button(button, told)]} for button in payload.get("buttons", ())
    ]
    if columns:
        elements.append({"tag": "column_set", "flex_mode": "flow", "columns": columns})
    config = {"update_multi": True, "streaming_mode": True} if is_growing else {"update_multi": True}
    return {"schema": "2.0", "config": config, "body": {"elements": elements}}


_STYLES: Final = {"plain": "default", "primary": "primary", "danger": "danger"}


def _button(button: Mapping[str, str], told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tag": "button",
        "type": _STYLES[button["style"]],
        "text": {"tag": "plain_text", "content": button["label"][:100]},
        "behaviors": [{"type": "callback", "value": {"say": button["command"], **told}}],
    }


def _dumped(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _multipart(fields: Mapping[str, str], name: str, content: bytes) -> tuple[bytes, str]:
    """A form with one file, and its Content-Type."""
    mark = uuid.uuid4().hex
    head = "".join(
        f'--{mark}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    )
    head += f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="file"\r\n'
    head += "Content-Type: application/octet-stream\r\n\r\n"
    raw = b"".join((head.encode("utf-8", "replace"), content, f"\r\n--{mark}--\r\n".encode()))
    return raw, f"multipart/form-data; boundary={mark}"


def _repeatable(outcome: Outcome) -> Outcome:
    """Of what does no harm when it is done twice."""
    return replace(outcome, kind="transient") if outcome.kind == "ambiguous" else outcome


def _understood(what: str, answer: Answer | Outcome) -> _Reply:
    """What an answer of the API means. Status 200 alone is no success, and errors come with any status."""
    if isinstance(answer, Outcome):
        return _Reply(replace(answer, detail=f"{what}: {answer.detail}"))
    body = answer.json() or {}
    code = body.get("code")
    if not isinstance(code, int):
        kind = "ambiguous" if answer.status == 200 else _by_status(answer.status)
        return _Reply(_limited(answer, Outcome(kind, scope="connection", detail=f"{what}: status {answer.status}")))
    if answer.status == 200 and code == 0:
        return _Reply(Outcome("ok"), body, at_ms=_clock_ms(answer))
    detail = f"{what}: {code} {text_of(body.get('msg'))[:200]}"
    kind = _CODES.get(code) or _by_status(answer.status)
    scope: Any = "channel" if code == _ROOM_BUSY else "connection"
    return _Reply(_limited(answer, Outcome(kind, scope=scope, detail=detail)), body, code)


def _limited(answer: Answer, outcome: Outcome) -> Outcome:
    """With the wait that is asked for, where it is one."""
    if answer.status != 429 and outcome.kind != "rate_limited":
        return outcome
    wait_s = answer.retry_after_s()
    reset = answer.headers.get("X-Ogw-Ratelimit-Reset", "").strip()
    if wait_s is None and _MS.fullmatch(reset):
        wait_s = min(float(reset), RETRY_AFTER_MAX_S)
    return replace(outcome, kind="rate_limited", retry_after_s=1.0 if wait_s is None else wait_s)


def _by_status(status: int) -> OutcomeKind:
    if status in {401, 403}:
        return "auth_failed"
    if status == 413:
        return "too_long"
    if status in {408, 503}:
        return "transient"
    return "ambiguous" if status >= 500 else "rejected"


def _clock_ms(answer: Answer) -> float:
    """The platform's clock, ours where it tells none."""
    try:
        return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp() * 1000
    except ValueError:
        return time.time() * 1000


# writing

_MARKS: Final = re.compile(
    r"[<>*_~`\[\]\\|$]"  # marks, tags, links, cells, variables
    r"|&(?=#?\w+;)"  # what would be read as another sign
    r"|:(?=\w{1,40}:)"  # an emoji's name
    r"|^[ \t]*(?:[#+=-]|\d+[.)](?=\s))",  # what makes a line a heading, an item or a rule
    re.MULTILINE,
)
_FENCE: Final = re.compile(r"`+")
_CALL: Final = re.compile(r"<(?=/?(?:at|person)\b)", re.IGNORECASE)
_TEXT_MARK: Final = re.compile(r"<(?=[/a-z])|\](?=\()", re.IGNORECASE)


def _escape(text: str) -> str:
    """As the signs' numbers: Feishu's Markdown takes those, and knows no backslashes before them."""
    return _MARKS.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", text)


def _calls_nobody(text: str) -> str:
    """Text of a text message, where tags and links are live as well."""
    return _TEXT_MARK.sub(lambda found: f"{found[0]}\u200b", text)


def _fence(code: str, least: int) -> str:
    """More backticks than there are in a row inside."""
    return "`" * max(least, 1 + max(map(len, _FENCE.findall(code)), default=0))


def _defused(code: str) -> str:
    return _CALL.sub("<\u200b", code)


def _code(code: str) -> str:
    fence = _fence(code, 1)
    room = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{fence}{room}{_defused(code)}{room}{fence}"


def _block(code: str, language: str) -> str:
    fence = _fence(code, 3)
    return f"{fence}{language}\n{_defused(code)}\n{fence}"


def _link(label: str, url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):  # Feishu makes no link of it
        return f"{label} ({_escape(url)})" if label else _escape(url)
    return f"[{label or _escape(url)}]({url.replace('(', '%28').replace(')', '%29')})"


def _table(rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(rows[0]), line("---" for _ in rows[0]), *map(line, rows[1:])])


def _seam(outer: str, inner: str) -> str:
    """A blank where a mark would not be seen as one: between a letter and what is punctuation inside."""
    is_letter = bool(outer) and not unicodedata.category(outer).startswith(("P", "S", "Z"))
    return " " if is_letter and unicodedata.category(inner).startswith(("P", "S")) else ""


_DIALECT: Final = Dialect(
    escape=_escape,
    bold="**{}**".format,
    italic="*{}*".format,
    strike="~~{}~~".format,
    code=_code,
    block=_block,
    link=_link,
    heading=lambda title, level: f"{'#' * level} {title}",
    marker=lambda number, _: "- " if number is None else f"{number}. ",
    indent="    ",
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    rule="<hr>",
    table=_table,
    seam=_seam,
)
