"""WeCom (Enterprise WeChat): an intelligent bot, or a self-built app, by encrypted callbacks.

A bot is called for what people say and can answer in two ways. What it answers to the call begins a stream: WeCom comes
for its text about once a second, for six minutes. And the call's `response_url` takes one message, within an hour.
Beyond these a bot can say nothing. An app is told what people say to it alone, and sends by the API.

So a reply is the text of the stream, and is sent once WeCom has come for it. What is said before it, while its turn goes
on, stands above it, and a card with buttons comes along at the end. A second part, or a reply that WeCom does not come
for, goes by `response_url`.

A conversation is a group, or a person: its key's channel is the group's `chatid`, or `user:` and the person's id.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self
from xml.etree import ElementTree as ET

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from pydantic import Field, model_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.conversation.key import ConversationKey, key_of
from gateway.events import Actor, Attachment, Event, ReplyHandle
from gateway.platforms import (
    BUTTON_MAX_BYTES,
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
    Part,
    Plain,
    RawRequest,
    Sent,
    Stream,
    Unauthorized,
)
from gateway.store import Unreachable
from gateway.text.dialect import MARKDOWN, PLAIN, ZERO_WIDTH, fenced, linked, ticked, write
from gateway.text.markdown import fitting, not_empty, utf8
from gateway.wire import (
    DOWNLOAD_S,
    Answer,
    Token,
    by_status,
    call,
    check_fresh,
    dumped,
    file_of,
    id_of,
    may_open,
    object_of,
    objects_of,
    origin,
    read_json,
    seconds,
    size_of,
    text_of,
    waits,
)

STREAM_LIMIT: Final = 20_480
"""Bytes, of a stream's text as of a message by `response_url`."""
ABOVE_LIMIT: Final = 4_096
"""Bytes of it that stand above the reply."""
TEXT_LIMIT: Final = STREAM_LIMIT - ABOVE_LIMIT
APP_TEXT_LIMIT: Final = 2_048
"""Bytes; WeCom cuts off what is more without a word."""
BUTTONS_MAX: Final = 6
TITLE_MAX: Final = 26
STREAM_MS: Final = 360_000
"""WeCom comes for a stream's text for so long, from the person's message on."""
SILENCE_MS: Final = 30_000
"""If it has not come for so long, it will not come again: nobody knows what it does after a call that failed."""
LOOK_S: Final = 0.1
"""How often we look whether it has come."""
RESPONSE_MS: Final = 3_600_000
"""A `response_url` lasts so long."""
LIMITED_S: Final = 5.0
"""WeCom counts calls by the minute, and names no wait: who comes too early is refused once more."""

_PADDING: Final = 32
"""Padding fills up to a multiple of it; twice the cipher's block."""
_ID: Final = re.compile(r".{1,256}", re.DOTALL)
_VISIBLE: Final = re.compile(r"[!-~]+", re.ASCII)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_STAMP: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{43}", re.ASCII)

_MEANINGS: Final[dict[OutcomeKind, tuple[int, ...]]] = {
    "rate_limited": (45009, 45033),
    "transient": (-1, 50002),
    "too_long": (45002,),
    "auth_failed": (40001, 40013, 40056, 41001, 48002, 60020, 301002),
    "target_gone": (40003, 60111, 81013),
}
_ERRORS: Final[dict[int, OutcomeKind]] = {code: kind for kind, codes in _MEANINGS.items() for code in codes}
"""What an `errcode` means to a sender; any other but 0 is `rejected`."""


class Settings(Connection):
    """Keys of a connection with `platform: wecom`."""

    api_base: WebAddress = "https://qyapi.weixin.qq.com"
    """Where an app's calls go: `<api_base>/cgi-bin/message/send`."""
    token: Secret = Field(min_length=1)
    """Of the page on which the callback's URL is set; proves that a request is WeCom's."""
    encoding_aes_key: Secret = Field(min_length=1)
    """`EncodingAESKey` of the same page, 43 characters: for what is said, and for files."""
    receive_id: str = ""
    """Whom what we get is for: a bot's is empty, an app's the id of its corporation (`ww...`)."""
    bot_name: str | None = Field(None, min_length=1)
    """The bot's name, as people mention it. Without it: the first word of a group's message that begins with `@`."""
    agent_id: int | None = Field(None, ge=0)
    """Of a self-built app, its `AgentId`; the connection is a bot's without it."""
    corp_secret: Secret | None = Field(None, min_length=1)
    """Of a self-built app, its `Secret`."""
    window_s: int = Field(7_200, gt=0)
    """How far WeCom's clock and ours may be apart, in seconds. Its nonces are unique for two hours."""
    stream_s: float = Field(330.0, gt=0, le=STREAM_MS / 1000)
    """A stream is ended so long after the message, before WeCom does it after 360: the answer then comes as a message."""
    response_hosts: tuple[str, ...] = ("qyapi.weixin.qq.com",)
    """Where a `response_url` may lead. `*` fits anything."""
    file_hosts: tuple[str, ...] = ("ww-aibot-img-1258476243.cos.ap-guangzhou.myqcloud.com",)
    """Where attached files may be. `*` fits anything, in a storage host's name other people's buckets too."""
    waiting_text: str = Field("…", min_length=1)
    """What a stream shows while there is nothing to show."""
    later_text: str = Field("⏳ 回答稍后送达 · The answer follows", min_length=1)
    """What a stream ends with whose answer takes longer."""
    idle_text: str = Field("✓", min_length=1)
    """What a stream ends with whose message was answered together with another, or needs no answer."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        origin(self.api_base)
        if not _KEY.fullmatch(self.encoding_aes_key.get_secret_value()):
            raise ValueError("encoding_aes_key: not the 43 characters of an EncodingAESKey")
        if self.agent_id is not None and not (self.receive_id and self.corp_secret):
            raise ValueError("agent_id: an app needs receive_id (its corporation's id) and corp_secret as well")
        return self


GUIDE: Final = Guide(
    keys=("bot_name",),
    steps=(
        "In WeCom's admin console create an intelligent bot (智能机器人) in API mode, connected by a URL callback.",
        "Let the console make a *Token* and an *EncodingAESKey*, and set both: `token`, `encoding_aes_key`.",
        "Set the bot's name, `bot_name`, and start deskmate with the connection `{name}`.",
        "Enter `{url}` as the URL and save: WeCom checks it at once, and deskmate has to answer within a second.",
        "Let people see the bot, add it to a group, and mention it there.",
    ),
    tells_guests="nothing",
)


class Adapter(Plain):
    """One bot, or one app."""

    capabilities = Capabilities(
        text_limit=TEXT_LIMIT,
        limit_unit="bytes",
        idempotent_send=True,
        methods=frozenset({"GET", "POST"}),
        buttons=BUTTONS_MAX,
    )
    """Of a bot."""

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._boards = outside.boards
        self._crypt = Crypt(settings.token.get_secret_value(), settings.encoding_aes_key.get_secret_value())
        self._later = _text({"content": settings.later_text})
        self._is_app = settings.agent_id is not None
        self._base = URL(settings.api_base)
        self._token = Token(self._fetch_token)
        home: _Place = origin(settings.api_base)
        self._response_places = [home, *map(_over_https, settings.response_hosts)]
        self._file_places = [home, *map(_over_https, settings.file_hosts)]
        if self._is_app:
            self.capabilities = replace(
                self.capabilities, text_limit=APP_TEXT_LIMIT, idempotent_send=False, buttons=0, has_code=False
            )

    @property
    def is_checked(self) -> bool:
        return self._is_app  # a bot has no call for it

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        signature, stamp = _parameter(request, "msg_signature"), _parameter(request, "timestamp")
        nonce, at_s = _parameter(request, "nonce"), seconds("timestamp", stamp)
        if not _SIGNATURE.fullmatch(signature):
            raise Unauthorized("msg_signature: not 40 hexadecimal digits")
        encrypted = _encrypted(request)
        if not hmac.compare_digest(self._crypt.sign(stamp, nonce, encrypted).encode(), signature.encode()):
            raise Unauthorized("msg_signature: does not match (is token this bot's or app's?)")
        check_fresh("timestamp", at_s, now_s, self._settings.window_s)
        message = self._message(encrypted)
        # The parts are signed in the order of the alphabet, so that a nonce may pass for the time; what is inside may not.
        if request.method != "GET" and (made_s := _made_s(message)):
            check_fresh("create_time", made_s, now_s, self._settings.window_s)

    def handshake(self, request: RawRequest) -> HttpReply | None:
        if request.method != "GET":
            return None
        return HttpReply(body=self._message(_encrypted(request)), content_type="text/plain")

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        del now_s  # WeCom says when it was
        message = self._message(_encrypted(request))
        try:
            if message.lstrip().startswith(b"<"):
                return self._told(_read_xml(message), request)
            return self._said(read_json(message), request)
        except ValueError as error:  # a key that no conversation can have
            raise Malformed(str(error)) from None

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        event = events[0] if events else None
        if event and "stream" in event.extra:
            stream = {"id": event.extra["stream"], "finish": False, "content": self._settings.waiting_text}
            return self._answer(event, {"msgtype": "stream", "stream": stream})
        if event and event.kind == "action":
            return self._answer(event, _pressed_card(event))
        return HttpReply()

    def render(self, outbound: Outbound) -> list[Part]:
        if self._is_app:
            pieces = fitting(outbound.markdown, APP_TEXT_LIMIT, utf8, lambda text: write(text, PLAIN), utf8)
            return [Part({"content": not_empty(text)}) for _, text in pieces] or [_NOTHING]
        pieces = fitting(outbound.markdown, TEXT_LIMIT, utf8, lambda text: write(text, WECOM), utf8)
        parts = [Part({"content": text}) for _, text in pieces] or [_NOTHING]
        if outbound.buttons:  # with the first part: no other may be on the stream
            parts[0] = Part({**parts[0].payload, "card": _card(outbound)})
        return parts

    def stream(self, to: Address) -> Stream:
        return Stream("passing", interval_s=0.5) if _stream(to) and not _is_over(to) else Stream()

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        if self._is_app:
            return await self._send_to_user(to, part)
        payload = part.payload
        if "card" in payload:
            payload = {**payload, "card": {**payload["card"], "task_id": key}}
        try:
            if (stream := _stream(to)) and (outcome := await self._put(to, stream, payload)):
                return outcome
            if not to.handle and await self._put_above(to, payload, key):
                return Outcome("ok", Sent(key))
            return await self._respond(to, payload["content"], key)
        except Unreachable as error:  # what is written once more is the same
            return Outcome("transient", detail=str(error))

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        del key, sent
        stream = _stream(to)
        if not stream or not growing.markdown or _is_over(to):
            return Outcome("ok")
        text = _text(self.render(Outbound(growing.markdown))[0].payload)
        try:
            board = await self._boards.write(to.conversation.id, stream, text, whole=False)
        except Unreachable as error:
            return Outcome("transient", detail=str(error))
        return Outcome("target_gone", detail="the stream has ended") if board.state == "closed" else Outcome("ok")

    async def pulled(self, event: Event, *, is_idle: bool) -> HttpReply:
        conversation, stream = event.conversation.id, event.extra["stream"]
        board = await self._boards.take(conversation, stream, event.at_ms)
        is_late = event.at_ms - board.first_ms >= self._settings.stream_s * 1000
        if not board.is_over and (is_late or is_idle):
            board = await self._boards.close(conversation, stream, self._later if is_late else "")
        above, shown = objects_of(json.loads(board.above or "[]")), object_of(json.loads(board.text or "{}"))
        text = shown.get("content", "")
        if not text and not (board.is_over and above):
            text = self._settings.idle_text if board.is_over else self._settings.waiting_text
        content = _SEAM.join(one for one in [*(one["content"] for one in above), text] if one)
        stream_now = {"id": stream, "finish": board.is_over, "content": content}
        answer: dict[str, Any] = {"msgtype": "stream", "stream": stream_now}
        if board.is_over and (card := next((one["card"] for one in [*above, shown] if "card" in one), None)):
            answer |= {"msgtype": "stream_with_template_card", "template_card": card}
        return self._answer(event, answer)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Decrypted. Its address holds for five minutes."""
        where = text_of(attachment.fetch.get("url"))
        if not where:
            raise NotDownloaded("WeCom gives no address for it")
        try:
            url = _opened(where, self._file_places)
        except NotDownloaded as error:
            raise NotDownloaded(f"{error} (does file_hosts name it?)") from None
        answer = await call(self._http, "GET", url, headers={}, timeout_s=DOWNLOAD_S, max_bytes=max_bytes + _PADDING)
        encrypted = file_of(answer, "WeCom", attachment, why="WeCom keeps a file for five minutes")
        try:
            content = self._crypt.decrypt(encrypted)
        except ValueError:
            raise NotDownloaded("what came is not the encrypted file") from None
        if len(content) > max_bytes:
            raise NotDownloaded(f"it has {len(content)} bytes, allowed are {max_bytes}")
        return content

    async def identity(self) -> Actor:
        """Of a bot as the settings say it: WeCom has no call that would tell."""
        if self._is_app and isinstance(token := await self._token.get(), Outcome):
            raise ConnectionRefused(f"{token.detail} (are receive_id and corp_secret this app's?)")
        name = self._settings.bot_name or self._connection
        return Actor(name, name, is_bot=True, is_self=True)

    # reading

    def _message(self, encrypted: str) -> bytes:
        """What was encrypted for us."""
        try:
            message, receive_id = self._crypt.opened(base64.b64decode(encrypted))
        except ValueError:
            raise Unauthorized("it can't be decrypted (is encoding_aes_key this bot's or app's?)") from None
        if receive_id != self._settings.receive_id.encode():
            given = receive_id.decode("ascii", "replace")[:64]
            raise Unauthorized(f"it is for {given!r}, the setting receive_id says {self._settings.receive_id!r}")
        return message

    def _said(self, body: dict[str, Any], request: RawRequest) -> list[Event]:
        """What happened to a bot."""
        kind, chat = text_of(body.get("msgtype")), text_of(body.get("chatid"))
        event = object_of(body.get("event"))
        if kind == "event" and event.get("eventtype") != "template_card_event":
            return []
        msgid = id_of("msgid", body.get("msgid"), _ID)
        user = id_of("from.userid", object_of(body.get("from")).get("userid"), _ID)
        at_ms = _at_ms(request)
        direct = body.get("chattype") != "group"
        extra: dict[str, Any] = {"nonce": request.query["nonce"], "at_ms": at_ms}
        with suppress(NotDownloaded):
            extra["response_url"] = str(_opened(text_of(body.get("response_url")).strip(), self._response_places))
        common: dict[str, Any] = {
            "conversation": self._conversation(user if direct else id_of("chatid", chat, _ID), direct=direct),
            "actor": Actor(user),
            "dedupe_keys": (f"id:{msgid}",),
            "at_ms": at_ms,
            "message_id": msgid,
            "is_direct": direct,
            "extra": extra,
        }
        if kind == "event":
            card = object_of(event.get("template_card_event"))
            value, extra["task_id"] = _pressed(card), text_of(card.get("task_id"))
            return [Event(kind="action", value=value, **common)] if value else []
        if kind == "stream":
            extra["stream"] = id_of("stream.id", object_of(body.get("stream")).get("id"), _ID)
            return [Event(kind="pull", **common)]
        text, attachments = _content(body)
        quoted, of_quoted = _content(object_of(body["quote"])) if "quote" in body else ("", ())
        extra["stream"] = hashlib.sha256(msgid.encode()).hexdigest()[:32]  # the same when it is sent again
        return [
            Event(
                kind="message",
                text=text if direct else self._without_mention(text),
                quoted=quoted,
                attachments=attachments + of_quoted,
                # Whoever has it ends the stream. It is in `extra` as well: for what stands above, and for our answer.
                reply_handle=ReplyHandle("stream", {"stream": extra["stream"]}, at_ms + STREAM_MS),
                **common,
            )
        ]

    def _told(self, body: Mapping[str, str], request: RawRequest) -> list[Event]:
        """What was said to an app."""
        kind = body.get("MsgType", "")
        if kind == "event":
            return []
        user, msgid = id_of("FromUserName", body.get("FromUserName"), _ID), id_of("MsgId", body.get("MsgId"), _ID)
        return [
            Event(
                kind="message",
                conversation=self._conversation(user, direct=True),
                actor=Actor(user),
                dedupe_keys=(f"id:{msgid}",),
                at_ms=_at_ms(request),
                message_id=msgid,
                text=body.get("Content", ""),
                is_direct=True,
                attachments=() if kind == "text" else (Attachment(kind[:32] or "message", "", "", 0),),
            )
        ]

    def _conversation(self, who: str, *, direct: bool) -> ConversationKey:
        return key_of(self._connection, f"user:{who}" if direct else who)

    def _without_mention(self, text: str) -> str:
        """A group's message without our name at its beginning and end."""
        name = self._settings.bot_name
        if not name:
            return re.sub(r"\A\s*@\S+\s*", "", text)
        mention = re.escape(f"@{name}")
        return re.sub(rf"\A\s*{mention}(?!\w)\s*|\s+{mention}\s*\Z", "", text)

    # answering

    def _answer(self, event: Event, answer: Mapping[str, Any]) -> HttpReply:
        """Encrypted, with the nonce of what is answered, as WeCom wants it."""
        stamp, nonce = str(event.at_ms // 1000), event.extra["nonce"]
        encrypted = self._crypt.sealed(dumped(answer), self._settings.receive_id)
        signature = self._crypt.sign(stamp, nonce, encrypted)
        whole = {"encrypt": encrypted, "msgsignature": signature, "timestamp": int(stamp), "nonce": nonce}
        return HttpReply(body=dumped(whole))

    async def _put(self, to: Address, stream: str, payload: Mapping[str, Any]) -> Outcome | None:
        """On the stream: sent when WeCom has come for the whole of it. None: it does not come any more, and will not see
        this if it comes after all.
        """
        conversation = to.conversation.id
        board = await self._boards.read(conversation, stream)
        came_ms = board.last_ms or to.extra["at_ms"]
        if came_ms + SILENCE_MS <= time.time() * 1000 or _is_over(to):
            board = await self._boards.close(conversation, stream, self._later, even_whole=True)
        else:
            board = await self._boards.write(conversation, stream, _text(payload), whole=True)
        until_s = time.monotonic() + self._settings.timeout_s
        while not board.is_over and time.monotonic() < until_s:
            await asyncio.sleep(LOOK_S)
            board = await self._boards.read(conversation, stream)
        if board.state == "closed":
            return None
        if board.state == "served":
            return Outcome("ok", Sent(stream))
        return Outcome("transient", retry_after_s=1.0, detail="WeCom has not come for it yet")

    async def _put_above(self, to: Address, payload: Mapping[str, Any], key: str) -> bool:
        """Above the reply. False: there is none to come, or no room."""
        stream = text_of(to.extra.get("stream"))
        if not stream or _is_over(to):
            return False
        board = await self._boards.read(to.conversation.id, stream)
        above = [one for one in objects_of(json.loads(board.above or "[]")) if one["key"] != key]
        above.append({**payload, "key": key})
        if sum(utf8(one["content"] + _SEAM) for one in above) > ABOVE_LIMIT:
            return False
        text = _text(above)
        return (await self._boards.write_above(to.conversation.id, stream, text)).above == text

    async def _respond(self, to: Address, content: str, key: str) -> Outcome:
        """By `response_url`, which takes one message: who tries again, and is told that it was used, has used it."""
        url = text_of(to.extra.get("response_url"))
        if not url:
            return Outcome("target_gone", detail="nothing is left to answer by: no stream, and no response_url came")
        if to.extra["at_ms"] + RESPONSE_MS <= time.time() * 1000:
            return Outcome("target_gone", detail="nothing is left to answer by: response_url lasts for an hour")
        claimed = f"url-{hashlib.sha256(url.encode()).hexdigest()[:32]}"
        holder = await self._boards.claim(to.conversation.id, claimed, key)
        if holder not in {"", key}:
            return Outcome("target_gone", detail="nothing is left to answer by: response_url takes one message")
        body = {"msgtype": "markdown", "markdown": {"content": content}}
        outcome, _ = await self._ask("response_url", "POST", URL(url, encoded=True), body)
        outcome = replace(outcome, scope="channel")  # a limit of this address alone: streams, and other people's, go on
        if outcome.kind == "ok" or (outcome.kind == "rejected" and holder):
            return Outcome("ok", Sent(key))
        if outcome.kind in {"rate_limited", "transient", "too_long"} and not holder:
            await self._boards.free(to.conversation.id, claimed)
        return outcome

    async def _send_to_user(self, to: Address, part: Part) -> Outcome:
        """From an app."""
        body = {
            "touser": to.conversation.channel.removeprefix("user:"),
            "msgtype": "text",
            "agentid": self._settings.agent_id,
            "text": {"content": part.payload["content"]},
        }
        token = await self._token.get()
        if isinstance(token, Outcome):
            return token
        url = (self._base / "cgi-bin/message/send").with_query(access_token=token)
        outcome, answer = await self._ask("message/send", "POST", url, body)
        if answer.get("errcode") in {40014, 42001}:  # the next try asks for another
            self._token.drop(token)
            return Outcome("transient", detail=outcome.detail)
        if outcome.kind != "ok":
            return outcome
        if gone := text_of(answer.get("invaliduser")):
            return Outcome("target_gone", detail=f"message/send: {gone[:100]} can't be sent to")
        return Outcome("ok", Sent(text_of(answer.get("msgid"))))

    async def _fetch_token(self) -> tuple[str, float] | Outcome:
        """Of an app, for about two hours."""
        secret = self._settings.corp_secret
        query = {"corpid": self._settings.receive_id, "corpsecret": secret.get_secret_value() if secret else ""}
        url = (self._base / "cgi-bin/gettoken").with_query(query)
        outcome, answer = await self._ask("gettoken", "GET", url)
        token = text_of(answer.get("access_token"))
        if outcome.kind == "ok" and token:
            return token, size_of(answer.get("expires_in"))
        if outcome.kind == "ok":
            return Outcome("transient", scope="connection", detail="gettoken: ok without a token")
        return replace(outcome, scope="connection")

    async def _ask(
        self, what: str, method: str, url: URL, body: Mapping[str, Any] | None = None
    ) -> tuple[Outcome, dict[str, Any]]:
        raw = None if body is None else dumped(body)
        headers = {"Content-Type": "application/json"} if raw else {}
        answer = await call(self._http, method, url, headers=headers, body=raw, timeout_s=self._settings.timeout_s)
        return _understood(what, answer)


class Crypt:
    """WeCom's signatures, and its AES-256-CBC whose first vector is the key's first half."""

    def __init__(self, token: str, encoding_aes_key: str) -> None:
        self._token = token
        key = base64.b64decode(f"{encoding_aes_key}=")
        self._cipher = Cipher(algorithms.AES(key), modes.CBC(key[:16]))

    def sign(self, stamp: str, nonce: str, encrypted: str) -> str:
        signed = "".join(sorted([self._token, stamp, nonce, encrypted]))
        return hashlib.sha1(signed.encode()).hexdigest()  # noqa: S324  # WeCom's choice

    def decrypt(self, encrypted: bytes) -> bytes:
        """Raises `ValueError`."""
        decryptor = self._cipher.decryptor()
        padded = decryptor.update(encrypted) + decryptor.finalize()
        padding = padded[-1] if padded else 0
        if not 1 <= padding <= _PADDING or padded[-padding:] != bytes([padding]) * padding:
            raise ValueError("not padded as it has to be")
        return padded[:-padding]

    def opened(self, encrypted: bytes) -> tuple[bytes, bytes]:
        """A message, and whom it is for: 16 random bytes come before them, and the message's length. Raises `ValueError`."""
        content = self.decrypt(encrypted)
        end = 20 + int.from_bytes(content[16:20], "big")
        if not 20 <= end <= len(content):
            raise ValueError("shorter than it says")
        return content[20:end], content[end:]

    def sealed(self, message: bytes, receive_id: str, random: bytes | None = None) -> str:
        content = (random or secrets.token_bytes(16)) + len(message).to_bytes(4, "big") + message + receive_id.encode()
        padding = _PADDING - len(content) % _PADDING
        encryptor = self._cipher.encryptor()
        return base64.b64encode(encryptor.update(content + bytes([padding]) * padding) + encryptor.finalize()).decode()


# reading


def _parameter(request: RawRequest, name: str) -> str:
    value = request.query.get(name, "")
    if not _VISIBLE.fullmatch(value) or len(value) > 256:
        raise Unauthorized(f"{name}: missing, or not short printable ASCII")
    return value


def _at_ms(request: RawRequest) -> int:
    """When WeCom sent it."""
    return seconds("timestamp", request.query.get("timestamp", "")) * 1000


def _made_s(message: bytes) -> int:
    """When it was made, in its own words: an app's message and a bot's event tell; 0 for any other."""
    if not message.lstrip().startswith(b"<"):
        return size_of(read_json(message).get("create_time"))
    stamp = _read_xml(message).get("CreateTime", "")
    return int(stamp) if _STAMP.fullmatch(stamp) else 0


def _encrypted(request: RawRequest) -> str:
    """What is encrypted: base64, still."""
    if request.method == "GET":
        name, value = "echostr", request.query.get("echostr", "")
    elif request.body.lstrip().startswith(b"<"):
        name, value = "Encrypt", _read_xml(request.body).get("Encrypt", "")
    else:
        name, value = "encrypt", text_of(read_json(request.body).get("encrypt"))
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        blank = " (a + in an address that is not written %2B becomes a blank)" if " " in value else ""
        raise Malformed(f"{name} not valid base64{blank}") from None
    if not value:
        raise Malformed(f"{name}: missing")
    return value


def _read_xml(raw: bytes) -> dict[str, str]:
    """The fields of WeCom's XML, each with its text."""
    try:
        text = raw.decode("utf-8")
        if "<!DOCTYPE" in text:
            raise Malformed("XML with a document type")
        fields = list(ET.fromstring(text))  # noqa: S314  # without a document type it can define nothing
    except (ET.ParseError, ValueError):
        raise Malformed("not the XML we read") from None
    return {one.tag: one.text or "" for one in fields}


_Place = str | re.Pattern[str]


def _over_https(host: str) -> re.Pattern[str]:
    """Where a host of the settings is, over HTTPS."""
    named = re.escape(host).replace(r"\*", ".*")
    return re.compile(f"https://{named}:443")


def _opened(url: str, places: Sequence[_Place]) -> URL:
    """The address as it is, for a signature is in it. Raises `NotDownloaded`."""
    may_open(url, "WeCom", places)
    if not _VISIBLE.fullmatch(url):
        raise NotDownloaded("its address has signs that no address has")
    return URL(url, encoded=True)


def _pressed(card: Mapping[str, Any]) -> str:
    """The command of a pressed button. WeCom's pages spell the field in two ways."""
    key = text_of(card.get("event_key")) or text_of(card.get("eventkey"))
    return key if len(key.encode()) <= BUTTON_MAX_BYTES else ""


def _content(message: Mapping[str, Any]) -> tuple[str, tuple[Attachment, ...]]:
    """Text and files of a message, or of one that is quoted."""
    kind = text_of(message.get("msgtype"))
    if kind != "mixed":
        return _item(kind, object_of(message.get(kind)))
    items = [
        _item(inner := text_of(one.get("msgtype")), object_of(one.get(inner)))
        for one in objects_of(object_of(message.get("mixed")).get("msg_item"))
    ]
    return "\n".join(text for text, _ in items if text), tuple(one for _, files in items for one in files)


def _item(kind: str, item: Mapping[str, Any]) -> tuple[str, tuple[Attachment, ...]]:
    if text := text_of(item.get("content")):  # of `text`; of `voice` what WeCom has heard
        return text, ()
    if kind == "text":
        return "", ()
    url = text_of(item.get("url")).strip()
    return "", (Attachment(kind[:32] or "message", "", "", 0, {"url": url} if url else {}),)


# sending


def _stream(to: Address) -> str:
    """The stream that a reply goes to. What is said before the reply has no handle, but stands on the same stream."""
    return text_of(to.handle.data.get("stream")) if to.handle else ""


def _is_over(to: Address) -> bool:
    """Whether WeCom comes for no stream of this message any more."""
    at_ms: int = to.extra.get("at_ms", 0)
    return at_ms + STREAM_MS <= time.time() * 1000


def _text(value: Any) -> str:
    return dumped(value).decode()


def _understood(what: str, answer: Answer | Outcome) -> tuple[Outcome, dict[str, Any]]:
    """What an answer means. Errors come with status 200."""
    if isinstance(answer, Outcome):
        return replace(answer, detail=f"{what}: {answer.detail}"), {}
    body = answer.json() or {}
    code = body.get("errcode")
    if not isinstance(code, int):
        kind = "ambiguous" if answer.status == 200 else by_status(answer.status)
        code, body = None, {}
    elif answer.status == 200 and code == 0:
        return Outcome("ok"), body
    else:
        kind = "rate_limited" if answer.status == 429 else _ERRORS.get(code, "rejected")
    made = Outcome(kind, detail=f"{what}: status {answer.status}, errcode {code}")
    if kind == "rate_limited":
        made = replace(made, retry_after_s=waits(answer, LIMITED_S), scope="connection")
    return made, body


def _card(outbound: Outbound) -> dict[str, Any]:
    """Buttons are on a card, which needs a title: the text's first words. Sending gives it its task's id."""
    words = " ".join(write(outbound.markdown, PLAIN).split()) or "…"
    title = words if len(words) <= TITLE_MAX else f"{words[: TITLE_MAX - 1]}…"
    return {
        "card_type": "button_interaction",
        "main_title": {"title": title},
        "button_list": [
            {"text": one.label, "style": _STYLES[one.style], "key": one.command} for one in outbound.buttons
        ],
    }


_STYLES: Final[dict[str, int]] = {"plain": 4, "primary": 1, "danger": 2}


def _pressed_card(event: Event) -> dict[str, Any]:
    """For whoever pressed, and for nobody else, what was pressed takes the card's place. A notice has to lead somewhere."""
    card = {
        "card_type": "text_notice",
        "main_title": {"title": f"/{event.value}"},
        "card_action": {"type": 1, "url": "https://work.weixin.qq.com"},
        "task_id": event.extra["task_id"],
    }
    return {"response_type": "update_template_card", "userids": [event.actor.id], "template_card": card}


# the dialect: Markdown, whose rules for marks WeCom does not write down

_LIVE: Final = re.compile(r"<(?=@|/?think\b)", re.IGNORECASE)
"""What calls a person, or is shown as a thought, wherever it stands."""
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?@])")
_APART: Final = f"<{ZERO_WIDTH}"
_MARK: Final = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)"  # a backslash that would take what follows
    r"|`|\*(?=\S)|(?<=\S)\*|(?<!\w)_(?=\S)|(?<=\S)_(?!\w)|~(?=~)|(?<=~)~"
    r"|(?<=\])\(|^[ \t]*(?:>|[#*+-](?=[\s#]|$)|[|:=-](?=[|:= \t-]*$)|\d+[.)](?=\s|$))",
    re.MULTILINE,
)


def _escape(text: str) -> str:
    return _TAG.sub(_APART, _MARK.sub(lambda mark: f"{mark[0][:-1]}\\{mark[0][-1]}", text))


def calm(text: str) -> str:
    """Text that calls nobody and is no thought, in code too, where all else is as it stands."""
    return _LIVE.sub(_APART, text)


WECOM: Final = replace(
    MARKDOWN,
    escape=_escape,
    code=lambda code: ticked(calm(code)),
    block=lambda code, language: fenced(calm(code), language),
    link=lambda label, url: linked(label or _escape(url), url),
    # A mark between a letter and a punctuation mark is none.
    seam=lambda outer, inner: " " if outer.isalnum() and not inner.isalnum() else "",
)
_NOTHING: Final = Part({"content": "…"})
_SEAM: Final = "\n\n---\n\n"
"""Between what stands above a reply, and the reply."""
