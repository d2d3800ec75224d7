"""Feishu and Lark: events and pressed buttons in by webhook, cards out by the server API.

One connection is one app of our own making in one organisation. A conversation is a chat, or a topic in it: its key
holds the chat's id, and as `thread` the topic's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import mimetypes
import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from pydantic import Field, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.conversation.key import key_of
from gateway.events import Actor, Attachment, Event
from gateway.files import FILE_MAX_BYTES
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
from gateway.text.dialect import MARKDOWN, ZERO_WIDTH, aligned, fenced, linked, ticked, write
from gateway.text.links import UNMARKED
from gateway.text.markdown import fitting, not_empty, utf8
from gateway.wire import (
    DOWNLOAD_S,
    RETRY_AFTER_MAX_S,
    UPLOAD_S,
    Answer,
    Token,
    by_status,
    call,
    check_fresh,
    dumped,
    file_of,
    form,
    harmless,
    id_of,
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

CARD_MAX_BYTES: Final = 28_000
"""Of a request with a card, as it goes out. Feishu takes 30 KB, and counts its own styles on top."""
TABLES_MAX: Final = 4
"""In one card. One Markdown element shows four, a card with more than five is refused (230099, 11310)."""
SEND_MAX_BYTES: Final = min(30_000_000, FILE_MAX_BYTES)
"""Of a file. Feishu takes pictures up to 10 MB."""
UUID_MAX: Final = 50
KEY_KNOWN_S: Final = 3_000.0
"""Feishu knows a key for an hour; what is under way at its end is on the safe side."""
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
_JSON: Final = "application/json; charset=utf-8"
_ELEMENT: Final = "text"
_ANOTHER: Final = "-another"
_PASSING: Final = {"rate_limited", "transient", "ambiguous"}
_IDS_BYTES: Final = 700
"""What of a request is not known when a card is rendered, at most: ids of the chat, the topic, the message, the card."""

_TOKEN_BAD: Final = frozenset(range(99_991_661, 99_991_669))
_ORDER_BAD: Final = 300_317
_STREAM_OVER: Final = {200_850, 300_309}
_CHANNEL_BUSY: Final = 230_020
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


GUIDE: Final = Guide(
    keys=("encrypt_key",),
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


class Adapter(Plain):
    """One Feishu connection."""

    capabilities = Capabilities(
        text_limit=CARD_MAX_BYTES,
        limit_unit="bytes",
        idempotent_send=True,
        key_known_s=KEY_KNOWN_S,
        names_parents=True,
        columns=60,
        buttons=5,
        file_max_bytes=SEND_MAX_BYTES,
        typing_s=30.0,
        pace=(Pace("channel", 5, 1), Pace("connection", 50, 1), Pace("connection", 1_000, 60)),
    )

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.me: Actor | None = None
        """Who we are, once `identity` was asked."""
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._now_ms = outside.now_ms
        self._files = outside.files
        self._base = URL(settings.api_base) / "open-apis"
        self._proof = settings.verification_token.get_secret_value().encode()
        self._key = settings.encrypt_key.get_secret_value().encode() if settings.encrypt_key else b""
        self._token = Token(self._fetch_token)
        self._reactions: dict[str, str] = {}
        """Ours that this process has made, by message."""
        if not settings.typing_emoji:
            self.capabilities = replace(self.capabilities, typing_s=None)

    @property
    def is_ready(self) -> bool:
        """Without our open_id no mention is known to be ours."""
        return bool(self._us())

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

    def handshake(self, request: RawRequest) -> HttpReply | None:
        body = self._body(request)
        if body.get("type") != "url_verification":
            return None
        challenge = text_of(body.get("challenge"))
        if not challenge:
            raise Malformed("a url_verification without its challenge")
        return HttpReply(body=dumped({"challenge": challenge}))

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        body = self._body(request)
        header, event = object_of(body.get("header")), object_of(body.get("event"))
        event_id = text_of(header.get("event_id"))[:128]
        keys = (f"id:{event_id}",) if event_id else ()
        try:
            match header.get("event_type"):
                case "im.message.receive_v1":
                    return self._said(event, keys, text_of(header.get("tenant_key")))
                case "card.action.trigger":
                    return self._pressed(event, keys, now_s, text_of(header.get("tenant_key")))
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
            Part({"markdown": written.text}, {"text": not_empty(calm(write(source, UNMARKED)))})
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
            outcome, _ = await self._ask("PUT", path, {"msg_type": "text", "content": _text({"text": text})})
        elif sent.ref.get("card"):
            outcome = await self._finish(sent.ref, _card(part, to, sent.ref))
        else:
            outcome, _ = await self._ask("PATCH", path, {"content": _text(_card(part, to, {}))})
        return Outcome("ok", sent) if outcome.kind == "ok" else harmless(outcome)

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        del to
        outcome, _ = await self._ask("DELETE", f"im/v1/messages/{sent.message_id}")
        return harmless(outcome)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        part = self.render(Outbound(growing.markdown))[0]
        if sent is None:
            return await self._begin(to, part, key)
        if not sent.ref.get("card"):
            return await self.edit(to, sent, part)
        path = f"cardkit/v1/cards/{sent.ref['card']}"
        content = {"content": part.payload["markdown"]}
        outcome, answer = await self._ordered("PUT", f"{path}/elements/{_ELEMENT}/content", content, sent.ref)
        if _code(answer) in _STREAM_OVER:  # Feishu ends a stream after ten minutes
            outcome, _ = await self._ordered("PUT", path, {"card": _entity(_card(part, to, sent.ref))}, sent.ref)
        return Outcome("ok", sent) if outcome.kind == "ok" else harmless(outcome)

    async def typing(self, to: Address, *, on: bool) -> None:
        """A reaction of ours to the message that is answered. Whoever takes it back has little time: one call, where this
        process has made it.
        """
        message, emoji = text_of(to.extra.get("message")), self._settings.typing_emoji
        if not message or not emoji:
            return
        path = f"im/v1/messages/{message}/reactions"
        if on:
            _, answer = await self._ask("POST", path, {"reaction_type": {"emoji_type": emoji}})
            if _ID.fullmatch(made := text_of(object_of(answer.get("data")).get("reaction_id"))):
                self._reactions[message] = made
            return
        known = self._reactions.pop(message, "")
        for one in [known] if known else await self._reactions_to(path, emoji):
            await self._ask("DELETE", f"{path}/{one}")

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
        answer = await self._call("GET", path, params=params, timeout_s=DOWNLOAD_S, max_bytes=max_bytes)
        # Nobody said how long it is. A page that somebody attached comes with a name, one about an error without.
        if not isinstance(answer, Outcome) and "Content-Disposition" in answer.headers:
            attachment = replace(attachment, size_bytes=len(answer.body))
        refused, _ = _understood("download", answer)
        return file_of(answer, "Feishu", attachment, why=refused.detail)

    async def identity(self) -> Actor:
        outcome, answer = await self._ask("GET", "bot/v3/info")
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)
        bot = object_of(answer.get("bot"))
        open_id = text_of(bot.get("open_id"))
        if not open_id:
            raise ConnectionRefused("bot/v3/info: there is no bot (was the bot capability added, a version released?)")
        if self._settings.bot_open_id and open_id != self._settings.bot_open_id:
            raise ConnectionRefused(f"the app's bot is {open_id}, bot_open_id says {self._settings.bot_open_id}")
        self.me = Actor(open_id, text_of(bot.get("app_name")), is_bot=True, is_self=True)
        return self.me

    # reading

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

    def _said(self, event: dict[str, Any], keys: tuple[str, ...], house: str) -> list[Event]:
        sender, message = object_of(event.get("sender")), object_of(event.get("message"))
        ids = object_of(sender.get("sender_id"))
        actor = text_of(ids.get("open_id")) or text_of(ids.get("union_id")) or text_of(ids.get("user_id"))
        if not actor:
            return []
        us = self._us()
        is_bot = sender.get("sender_type") == "app"
        message_id = id_of("message_id", message.get("message_id"), _ID)
        direct = message.get("chat_type") == "p2p"
        mentions = {text_of(one.get("key")): one for one in objects_of(message.get("mentions"))}
        ours = {key for key, one in mentions.items() if text_of(object_of(one.get("id")).get("open_id")) in us}
        names = {key: "" if key in ours else f"@{text_of(one.get('name'))}" for key, one in mentions.items()}
        text, attachments = _content(message_id, text_of(message.get("message_type")), message.get("content"))
        thread = message.get("thread_id")
        return [
            Event(
                kind="message",
                conversation=key_of(
                    self._connection,
                    id_of("chat_id", message.get("chat_id"), _ID),
                    id_of("thread_id", thread, _ID) if thread else None,
                ),
                actor=Actor(
                    actor,
                    is_bot=is_bot,
                    is_self=actor in us or (is_bot and actor == self._settings.app_id),
                    is_guest=_is_from_outside(sender, house),
                ),
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

    def _pressed(self, event: dict[str, Any], keys: tuple[str, ...], now_s: float, house: str) -> list[Event]:
        action, context = object_of(event.get("action")), object_of(event.get("context"))
        value = object_of(action.get("value"))
        if not isinstance(value.get("say"), str):
            return []
        actor = id_of("operator", object_of(event.get("operator")).get("open_id"), _ID)
        message = id_of("open_message_id", context.get("open_message_id"), _ID)
        channel, thread = id_of("open_chat_id", context.get("open_chat_id"), _ID), value.get("thread")
        direct = value.get("direct") is True
        return [
            Event(
                kind="action",
                conversation=key_of(self._connection, channel, id_of("thread", thread, _ID) if thread else None),
                actor=Actor(actor, is_guest=_is_from_outside(object_of(event.get("operator")), house)),
                dedupe_keys=(*keys, f"action:{message}:{actor}:{text_of(event.get('token'))}"[:512]),
                at_ms=round(now_s * 1000),
                message_id=message,
                name=text_of(action.get("name")),
                value=value["say"],
                is_direct=direct,
                extra={
                    "message": message,
                    "text": text_of(value.get("text")),
                    "ref": _ref(object_of(value.get("ref"))),
                    **({"direct": True} if direct else {}),
                },
            )
        ]

    def _us(self) -> set[str]:
        """Our open_id, as far as the settings and `bot/v3/info` tell."""
        return {self._settings.bot_open_id or "", self.me.id if self.me else ""} - {""}

    # calling

    async def _begin(self, to: Address, part: Part, key: str) -> Outcome:
        """The first sight of a growing answer: a streaming card if we may make one, else one as any other."""
        if self._settings.streaming:
            made_ms = self._now_ms()
            card = _card(part, to, {}, is_growing=True)
            _, answer = await self._ask("POST", "cardkit/v1/cards", _entity(card))
            if _ID.fullmatch(card_id := text_of(object_of(answer.get("data")).get("card_id"))):
                content = {"type": "card", "data": {"card_id": card_id}}
                outcome, _ = await self._post(to, "interactive", content, key, {"card": card_id, "made_ms": made_ms})
                return outcome
        return await self.send(to, part, key)

    async def _finish(self, ref: Mapping[str, Any], card: Mapping[str, Any]) -> Outcome:
        """A card that may stream becomes one that stays. Buttons are taken only when its stream has ended."""
        path = f"cardkit/v1/cards/{ref['card']}"
        settings = _text({"config": {"streaming_mode": False}})
        ended, _ = await self._ordered("PATCH", f"{path}/settings", {"settings": settings}, ref)
        if ended.kind in _PASSING:
            return ended
        outcome, _ = await self._ordered("PUT", path, {"card": _entity(card)}, ref, step=1)
        return outcome

    async def _ordered(
        self, method: str, path: str, body: Mapping[str, Any], ref: Mapping[str, Any], *, step: int = 0
    ) -> tuple[Outcome, dict[str, Any]]:
        """One change of a card. Its number has to be greater than that of any before, whoever made that: it is the
        card's age in milliseconds.
        """
        number = max(self._now_ms() - int(ref.get("made_ms", 0)), 1) + step
        outcome, answer = await self._ask(method, path, {**body, "sequence": number})
        if _code(answer) == _ORDER_BAD:
            return await self._ask(method, path, {**body, "sequence": number + AHEAD_MS})
        return outcome, answer

    async def _post(
        self, to: Address, kind: str, content: Mapping[str, Any], key: str, ref: dict[str, Any]
    ) -> tuple[Outcome, bool]:
        """A new message, or the one that an earlier try with this key has made; and which of both."""
        unique = key if len(key) <= UUID_MAX else hashlib.sha256(key.encode()).hexdigest()[:UUID_MAX]
        body: dict[str, Any] = {"msg_type": kind, "content": _text(content), "uuid": unique}
        path, params, answered = "im/v1/messages", None, text_of(to.extra.get("message"))
        if to.conversation.thread and answered:
            path, body = f"{path}/{answered}/reply", {**body, "reply_in_thread": True}
        else:
            params, body = {"receive_id_type": "chat_id"}, {**body, "receive_id": to.conversation.channel}
        answer = await self._call("POST", path, body, params=params)
        outcome, told = _understood(f"POST {path}", answer)
        if outcome.kind != "ok" or isinstance(answer, Outcome):
            return outcome, False
        made = object_of(told.get("data"))
        sent = _sent(made, ref)
        if sent is None:
            return Outcome("ambiguous", detail=f"{path}: ok without a message_id"), False
        made_ms = _ms(made.get("create_time"))
        is_old = made_ms > 0 and _clock_ms(answer) - made_ms >= AGAIN_MS
        if not is_old or made.get("msg_type") != "interactive":
            return Outcome("ok", sent), is_old
        found, told = await self._ask("POST", "cardkit/v1/cards/id_convert", {"message_id": sent.message_id})
        if found.kind in _PASSING:
            return harmless(found), True
        card = text_of(object_of(told.get("data")).get("card_id"))
        # Without the scope there is none, and it did not stream either.
        return Outcome("ok", _sent(made, {"card": card, "made_ms": made_ms} if _ID.fullmatch(card) else {})), True

    async def _upload(self, file: Attachment) -> Outcome | tuple[str, dict[str, Any]]:
        """The kind and content of a message that shows the file. A file that was uploaded twice is no harm."""
        try:
            content = await self._files.read(file.fetch, SEND_MAX_BYTES)
        except NotDownloaded as error:
            return Outcome("rejected", detail=f"{file.name}: {error}")
        kind = "image" if _PICTURES.fullmatch(file.mime) else "file"
        fields = {"image_type": "message"}
        if kind == "file":
            fields = {"file_type": "stream", "file_name": file.name or "file"}
        nameless = replace(file, name="", mime="")  # a name that is not ASCII belongs into `file_name` alone
        content_type, raw = form(fields, {kind: (nameless, content)})
        outcome, answer = await self._ask("POST", f"im/v1/{kind}s", raw, content_type=content_type, timeout_s=UPLOAD_S)
        if outcome.kind != "ok":
            return harmless(outcome)
        name = f"{kind}_key"
        return kind, {name: text_of(object_of(answer.get("data")).get(name))}

    async def _reactions_to(self, path: str, emoji: str) -> list[str]:
        """Ours to a message, whichever process has made them."""
        _, answer = await self._ask("GET", path, params={"reaction_type": emoji, "page_size": "50"})
        return [
            made
            for one in objects_of(object_of(answer.get("data")).get("items"))
            if object_of(one.get("operator")).get("operator_id") == self._settings.app_id
            and _ID.fullmatch(made := text_of(one.get("reaction_id")))
        ]

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None, **how: Any
    ) -> tuple[Outcome, dict[str, Any]]:
        """One method, and the whole answer, that of a refusal too."""
        return _understood(f"{method} {path}", await self._call(method, path, body, **how))

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        content_type: str = _JSON,
        timeout_s: float = 0.0,
        **how: Any,
    ) -> Answer | Outcome:
        """One request with our token, and once more with a new one if that was refused."""
        raw = body if isinstance(body, bytes) or body is None else dumped(body)
        for _ in range(2):
            token = await self._token.get()
            if isinstance(token, Outcome):
                return token
            headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
            wait_s = timeout_s or self._settings.timeout_s
            answer = await call(
                self._http, method, self._base / path, headers=headers, body=raw, timeout_s=wait_s, **how
            )
            if _code(_understood(path, answer)[1]) not in _TOKEN_BAD:
                break
            self._token.drop(token)
        return answer

    async def _fetch_token(self) -> tuple[str, float] | Outcome:
        """Ours for the organisation."""
        path, secret = "auth/v3/tenant_access_token/internal", self._settings.app_secret.get_secret_value()
        answer = await call(
            self._http,
            "POST",
            self._base / path,
            headers={"Content-Type": _JSON},
            body=dumped({"app_id": self._settings.app_id, "app_secret": secret}),
            timeout_s=self._settings.timeout_s,
        )
        outcome, told = _understood(path, answer)
        token, lasts_s = text_of(told.get("tenant_access_token")), told.get("expire")
        if outcome.kind == "ok" and token and isinstance(lasts_s, int):
            return token, lasts_s
        if outcome.kind in _PASSING:
            return outcome
        return Outcome("auth_failed", detail=f"{outcome.detail} (are app_id and app_secret this app's?)")


# reading


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


def _ref(told: Mapping[str, Any]) -> dict[str, Any]:
    """Which card it is, as we have told its buttons."""
    card = text_of(told.get("card"))
    return {"card": card, "made_ms": size_of(told.get("made_ms"))} if _ID.fullmatch(card) else {}


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


# writing


@dataclass(frozen=True, slots=True)
class _Written:
    """A text as a card shows it."""

    text: str
    tables: int


def _written(markdown: str) -> _Written:
    tables: list[str] = []

    def table(rows: Sequence[Sequence[str]]) -> str:
        tables.append(_TABLE(rows))
        return tables[-1]

    return _Written(write(markdown, replace(_DIALECT, table=table)), len(tables))


def _size(written: _Written, buttons: Sequence[Mapping[str, str]]) -> int:
    """Bytes of the request with this card, or what is over the limit if its tables are too many."""
    if written.tables > TABLES_MAX:
        return CARD_MAX_BYTES + written.tables
    nowhere = Address(key_of("x", "x"))
    card = _card(Part({"markdown": written.text, "buttons": buttons}), nowhere, {})
    return len(dumped({"content": _text(card)})) + _IDS_BYTES * (1 + len(buttons))


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


def _text(value: Mapping[str, Any]) -> str:
    """JSON as a text, for JSON that is within JSON."""
    return dumped(value).decode()


def _entity(card: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "card_json", "data": _text(card)}


# calling


def _code(answer: Mapping[str, Any]) -> int | None:
    code = answer.get("code")
    return code if isinstance(code, int) else None


def _understood(what: str, answer: Answer | Outcome) -> tuple[Outcome, dict[str, Any]]:
    """What an answer of the API means. Status 200 alone is no success, and errors come with any status."""
    if isinstance(answer, Outcome):
        return replace(answer, detail=f"{what}: {answer.detail}"), {}
    body = answer.json() or {}
    code = _code(body)
    if answer.status == 200 and code == 0:
        return Outcome("ok"), body
    if code is None:
        kind = "ambiguous" if answer.status == 200 else by_status(answer.status)
        said = f"status {answer.status}"
    else:
        kind = "rate_limited" if answer.status == 429 else _CODES.get(code) or by_status(answer.status)
        said = f"{code} {text_of(body.get('msg'))[:200]}"
    made = Outcome(kind, scope="channel" if code == _CHANNEL_BUSY else "connection", detail=f"{what}: {said}")
    if kind != "rate_limited":
        return made, body
    reset = answer.headers.get("X-Ogw-Ratelimit-Reset", "").strip()
    wait_s = min(float(reset), RETRY_AFTER_MAX_S) if _MS.fullmatch(reset) else 1.0
    return replace(made, retry_after_s=waits(answer, wait_s)), body


def _sent(made: Mapping[str, Any], ref: dict[str, Any]) -> Sent | None:
    """The message that was made."""
    message = text_of(made.get("message_id"))
    return Sent(message, ref) if _ID.fullmatch(message) else None


def _clock_ms(answer: Answer) -> float:
    """The platform's clock, ours where it tells none."""
    try:
        return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp() * 1000
    except ValueError:
        return time.time() * 1000


# the dialect: Markdown, with signs as their numbers

_MARKS: Final = re.compile(
    r"[<>*_~`\[\]\\|$]"  # marks, tags, links, cells, variables
    r"|&(?=#?\w+;)"  # what would be read as another sign
    r"|:(?=\w{1,40}:)"  # an emoji's name
    r"|^[ \t]*(?:[#+=-]|\d+[.)](?=\s))",  # what makes a line a heading, an item or a rule
    re.MULTILINE,
)
_CALL: Final = re.compile(r"<(?=/?(?:at|person)\b)", re.IGNORECASE)
_TEXT_MARK: Final = re.compile(r"<(?=[/a-z])|\](?=\()", re.IGNORECASE)


def _escape(text: str) -> str:
    """As the signs' numbers: Feishu's Markdown takes those, and knows no backslashes before them."""
    return _MARKS.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", text)


def calm(text: str) -> str:
    """Text of a text message, where tags and links are live as well."""
    return _TEXT_MARK.sub(lambda found: f"{found[0]}{ZERO_WIDTH}", text)


def _defused(code: str) -> str:
    return _CALL.sub(f"<{ZERO_WIDTH}", code)


def _link(label: str, url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):  # Feishu makes no link of it
        return f"{label} ({_escape(url)})" if label else _escape(url)
    return linked(label or _escape(url), url)


def _seam(outer: str, inner: str) -> str:
    """A blank where a mark would not be seen as one: between a letter and what is punctuation inside."""
    is_letter = bool(outer) and not unicodedata.category(outer).startswith(("P", "S", "Z"))
    return " " if is_letter and unicodedata.category(inner).startswith(("P", "S")) else ""


_DIALECT: Final = replace(
    MARKDOWN,
    escape=_escape,
    code=lambda code: ticked(_defused(code)),
    block=lambda code, language: fenced(_defused(code), language),
    link=_link,
    rule="<hr>",
    seam=_seam,
)
_TABLE: Final = MARKDOWN.table or aligned


def _is_from_outside(who: dict[str, Any], house: str) -> bool:
    """Of another organisation than the one that the event is for."""
    home = text_of(who.get("tenant_key"))
    return bool(home and house) and home != house
