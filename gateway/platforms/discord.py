"""Discord: interactions (slash commands, buttons) by webhook, messages over the Gateway's websocket, the HTTP API out.

One connection is one application with its bot. A conversation is a channel, by its id: a direct chat and each thread is
a channel of its own, and ids are never given twice, so that the server's need not be in the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import aiohttp
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.conversation.key import ConversationKey, key_of
from gateway.events import Actor, Attachment, Event, ReplyHandle, kind_of
from gateway.files import FILE_MAX_BYTES
from gateway.logs import log
from gateway.platforms import (
    Address,
    Button,
    Capabilities,
    ConnectionRefused,
    Growing,
    Guide,
    HttpReply,
    Inlet,
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
from gateway.text.dialect import MARKDOWN, ZERO_WIDTH, write
from gateway.text.links import UNMARKED
from gateway.text.markdown import fitting, not_empty, utf16
from gateway.wire import (
    DOWNLOAD_S,
    UPLOAD_S,
    Answer,
    by_status,
    call,
    check_fresh,
    dumped,
    file_of,
    form,
    harmless,
    id_of,
    may_open,
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

logger = logging.getLogger(__name__)

TEXT_LIMIT: Final = 2_000
"""Of a message. Discord does not say what it counts; nothing counts more than UTF-16 units, so those are counted here."""
BUTTONS_MAX: Final = 25
ROW_MAX: Final = 5
LABEL_MAX: Final = 80
NONCE_MAX: Final = 25
KEY_KNOWN_S: Final = 120.0
"""How long Discord knows a nonce: "in the past few minutes"."""
HANDLE_S: Final = 890
"""How long an interaction's token is used: it is good for 15 minutes."""
ACKNOWLEDGED_S: Final = 10
"""Until then an interaction that Discord does not know may be one whose acknowledgement is still on its way."""
HELLO_S: Final = 20.0
BACKOFF_MAX_S: Final = 180.0
"""Between two connections: Discord takes a token back that began 1,000 sessions in a day."""
SESSIONS_KEPT: Final = 20
"""So many of the day's sessions are left to other uses of the token."""

_ID: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.=-]{1,1024}", re.ASCII)
_SIGNATURE: Final = re.compile(r"[0-9a-fA-F]{128}", re.ASCII)
_JSON: Final = "application/json"
_ANOTHER: Final = "-another"
_FILES_AT: Final = {"https://cdn.discordapp.com:443", "https://media.discordapp.net:443"}
_AGENT: Final = "DiscordBot (https://pypi.org/project/deskmate, 0.1)"
"""Requests of clients that name themselves in another form are turned away."""

_PING, _COMMAND, _COMPONENT = 1, 2, 3  # interactions
_SAID: Final = (0, 19)
"""Types of messages that a person wrote: plain ones, and replies."""
_SUPPRESS_EMBEDS: Final = 1 << 2
_VOICE: Final = 1 << 13
_QUIET: Final[dict[str, Any]] = {"allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}
"""Nobody is called, and links show no previews, whatever a model writes."""

_GUILD_MESSAGES, _DIRECT_MESSAGES, _MESSAGE_CONTENT = 1 << 9, 1 << 12, 1 << 15  # intents
_FINAL: Final = {
    4004: "bot_token is refused (is it the one of the application's page Bot?)",
    4010: "Discord does not take this connection as a part of the whole",
    4011: "the bot is in more servers than one connection may serve",
    4012: "this version of the Gateway is gone; deskmate has to be updated",
    4013: "Discord does not know the intents asked for; deskmate has to be updated",
    4014: "message_content is on, and Discord does not grant it: switch on Message Content Intent on the page Bot",
}
"""Close codes after which another try ends alike."""
_SESSION_OVER: Final = {4003, 4007, 4009}

_MEANINGS: Final[dict[OutcomeKind, str]] = {
    "too_long": "40005",
    "auth_failed": "50014 40001",
    "target_gone": "10003 10004 10008 10013 10015 10062 50001 50005 50007 50008 50013 50027 50083 50278 160005",
}
_CODES: Final[dict[int, OutcomeKind]] = {int(code): kind for kind, codes in _MEANINGS.items() for code in codes.split()}
"""What a `code` of the HTTP API means to a sender, where the status alone does not tell."""
_NO_ENTRY: Final = {403, 404}
"""Statuses that say of a place that it is gone or shut. Of a token Discord says 401."""
_NO_PLACE: Final = {"auth_failed", "target_gone", "rejected"}
"""How a command's answer ends where its place can't be filled any more: then it is a message."""


class Settings(Connection):
    """Keys of a connection with `platform: discord`."""

    api_base: WebAddress = "https://discord.com/api/v10"
    """Where the HTTP API is: `<api_base>/channels/...`."""
    public_key: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    """Of the application's page "General Information"; proves that an interaction is Discord's."""
    bot_token: Secret = Field(min_length=1)
    """Of the page "Bot"."""
    listen: bool = True
    """Hear messages, over a connection that `deskmate listen` holds. Else commands and buttons are all there is."""
    message_content: bool = False
    """Hear messages in servers that don't mention us, too: Discord has to grant it (page "Bot", Message Content Intent)."""
    window_s: int = Field(300, ge=1, le=86_400)
    """An interaction that was signed earlier, or is this far ahead of the clock, is refused. Discord names no window."""
    command: str = Field("deskmate", pattern=r"^[a-z0-9_-]{1,32}$")
    """The slash command whose first word is ours: `/deskmate stop` is `/stop`."""
    file_max_bytes: int = Field(10_485_760, gt=0)
    """The largest file that is sent. None of more than 2 MiB is ever kept, which every server takes."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @field_validator("api_base")
    @classmethod
    def _has_an_origin(cls, value: str) -> str:
        origin(value)
        return value

    @property
    def listens(self) -> bool:
        return self.listen


GUIDE: Final = Guide(
    steps=(
        "Create an application at <https://discord.com/developers/applications>.",
        "Copy the public key from *General Information* into `public_key`.",
        "On the page *Bot* reset the token and put it into `bot_token`.",
        "For messages that don't mention the bot, switch on *Message Content Intent* there, and set `message_content: true`.",
        "Start deskmate: `deskmate up` hears messages too; beside single processes start `deskmate listen {name}`.",
        "Then run this again: it registers the command, and `{url}` as *Interactions Endpoint URL*, which Discord tries at once.",
        "On the page *OAuth2* make a link with the scopes and permissions below, open it and choose the server.",
        "Who writes to the app directly and is named nowhere gets a code: `deskmate pair CODE` lets them in.",
    ),
    scopes=(
        *("bot", "applications.commands", "View Channels", "Send Messages", "Send Messages in Threads"),
        *("Read Message History", "Attach Files"),
    ),
    anybody_writes=True,
    tells_guests="nothing",
)


class Adapter(Plain):
    """One Discord application."""

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.capabilities = Capabilities(
            text_limit=TEXT_LIMIT,
            limit_unit="utf16",
            idempotent_send=True,
            key_known_s=KEY_KNOWN_S,
            columns=80,
            buttons=BUTTONS_MAX,
            file_max_bytes=min(settings.file_max_bytes, FILE_MAX_BYTES),
            typing_s=10.0,
            pace=(Pace("connection", 50, 1.0),),
        )
        self.me: Actor | None = None
        """Who we are, once somebody told: `identity`, the Gateway, or what was remembered."""
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._now_ms = outside.now_ms
        self._files = outside.files
        self._base = URL(settings.api_base)
        self._token = settings.bot_token.get_secret_value()
        self._file_places = {*_FILES_AT, origin(settings.api_base)}
        self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(settings.public_key))

    @property
    def registers(self) -> bool:
        return True

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        signature = one_header(request, "X-Signature-Ed25519")
        if not _SIGNATURE.fullmatch(signature):
            raise Unauthorized("X-Signature-Ed25519: not 128 hexadecimal digits")
        stamp = one_header(request, "X-Signature-Timestamp")
        at_s = seconds("X-Signature-Timestamp", stamp)
        try:
            self._key.verify(bytes.fromhex(signature), stamp.encode() + request.body)
        except InvalidSignature:
            raise Unauthorized("X-Signature-Ed25519: does not match (is public_key this application's?)") from None
        check_fresh("X-Signature-Timestamp", at_s, now_s, self._settings.window_s)

    def handshake(self, request: RawRequest) -> HttpReply | None:
        if media_type(request) == _JSON and read_json(request.body).get("type") == _PING:
            return _reply({"type": _PING})
        return None

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        if media_type(request) != _JSON:
            raise Malformed("not JSON")
        return self._interaction(read_json(request.body), now_s)

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        """A command is "thinking" until its answer replaces that; a button stays as it is."""
        return _reply({"type": 5 if any(event.kind == "command" for event in events) else 6})

    def render(self, outbound: Outbound) -> list[Part]:
        parts = [_part(*one) for one in _fitting(outbound.markdown) or [_NOTHING]]
        if outbound.buttons:
            parts[-1].payload["components"] = _rows(outbound.buttons)
        return parts

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("message", interval_s=1.5)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        if place := _waiting(to, self._now_ms()):
            outcome = await self._fill(place, part)
            if outcome.kind not in _NO_PLACE:
                return outcome
            if to.handle and self._now_ms() < to.handle.expires_at_ms - (HANDLE_S - ACKNOWLEDGED_S) * 1000:
                return Outcome("transient", detail=outcome.detail)
        body = {**part.payload, **_QUIET, "nonce": key[-NONCE_MAX:], "enforce_nonce": True}
        path = f"channels/{to.conversation.channel}/messages"
        outcome, answer = await self._ask("create message", "POST", path, body, file=part.file)
        if outcome.kind != "ok":
            return outcome
        sent = _sent(answer)
        if not sent:
            return Outcome("ambiguous", detail="create message: an answer without an id")
        # A nonce that is known gives back the message that it made, as it was, even if that was deleted since.
        if _is_shown(part, answer) and not answer.get("edited_timestamp"):
            return Outcome("ok", sent)
        edited = await self.edit(to, sent, part)
        if edited.kind == "target_gone" and not key.endswith(_ANOTHER):  # taken away since
            return await self.send(to, part, key + _ANOTHER)
        return edited

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        if sent.ref.get("original") and (place := _waiting(to, self._now_ms())):
            outcome = await self._fill(place, part)
            if outcome.kind not in _NO_PLACE:
                return outcome
        body = {**part.payload, **_QUIET}
        outcome, _ = await self._ask("edit message", "PATCH", _path(to, sent), body, file=part.file)
        return Outcome("ok", sent) if outcome.kind == "ok" else harmless(outcome)

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        outcome, _ = await self._ask("delete message", "DELETE", _path(to, sent))
        return harmless(outcome)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        part = _first(growing.markdown)
        return await self.edit(to, sent, part) if sent else await self.send(to, part, key)

    async def typing(self, to: Address, *, on: bool) -> None:
        if on:  # it ends by itself
            await self._ask("typing", "POST", f"channels/{to.conversation.channel}/typing")

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """The acknowledgement ended the waiting sign, and the answer comes as a message."""
        del text
        if is_settled:
            path = _path(to, Sent(event.message_id))
            await self._ask("take buttons away", "PATCH", path, {"components": []})

    async def listen(self, inlet: Inlet) -> None:
        if not self._settings.listen:
            raise ConnectionRefused("listen is off for this connection: it hears commands and buttons only")
        session = _Session.of(await inlet.recall(), self._intents)
        if not self.me and session.us:
            self.me = Actor(session.us, is_bot=True, is_self=True)
        while True:
            try:
                await self._follow(session, inlet)
                reason = "closed"
            except (aiohttp.ClientError, OSError, ValueError, Malformed) as error:
                reason = f"{type(error).__name__}: {error}"
            wait_s = random.uniform(0.5, 1.0) * min(2.0**session.tries - 1, BACKOFF_MAX_S)
            session.tries = min(session.tries + 1, 16)
            again: dict[str, Any] = {"resumes": bool(session.id), "again_in_s": round(wait_s, 1)}
            log(logger, "connection lost", connection=self._connection, reason=reason[:200], **again)
            await asyncio.sleep(wait_s)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """From Discord's hosts for files; their addresses are signed, and no token goes there."""
        url = may_open(text_of(attachment.fetch.get("url")), "Discord", self._file_places)
        if attachment.size_bytes > max_bytes:
            raise NotDownloaded(f"it has {attachment.size_bytes} bytes, allowed are {max_bytes}")
        headers = {"User-Agent": _AGENT}
        answer = await call(self._http, "GET", url, headers=headers, timeout_s=DOWNLOAD_S, max_bytes=max_bytes)
        return file_of(answer, "Discord", attachment, why="its addresses are good for a day")

    async def identity(self) -> Actor:
        try:
            me, application = _ours(await self._asked("users/@me")), await self._asked("applications/@me")
        except ConnectionError as why:
            raise ConnectionRefused(str(why)) from None
        if text_of(application.get("verify_key")).lower() != self._settings.public_key.lower():
            name = text_of(application.get("name"))
            raise ConnectionRefused(f"public_key is not the one of {name!r}, which bot_token belongs to")
        self.me = me
        return me

    async def register(self, url: str) -> str:
        try:
            application = await self._asked("applications/@me")
        except ConnectionError as why:
            raise ConnectionRefused(str(why)) from None
        command = self._settings.command
        option = {"type": 3, "name": "line", "description": "stop, new, help …", "required": False}
        shown = {"name": command, "type": 1, "description": "Commands for deskmate", "options": [option]}
        path = f"applications/{text_of(application.get('id'))}/commands"
        outcome, _ = await self._ask("register commands", "PUT", path, [{**shown, "contexts": [0, 1]}])
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)
        change = {"interactions_endpoint_url": url}
        outcome, _ = await self._ask("register the address", "PATCH", "applications/@me", change, timeout_s=15.0)
        if outcome.kind != "ok":
            raise ConnectionRefused(
                f"{outcome.detail}; Discord asks {url} at once, so deskmate has to be running there"
            )
        return f"/{command} is the application's only command now, and interactions go to {url}"

    # the Gateway

    async def _follow(self, session: _Session, inlet: Inlet) -> None:
        """One connection, until it ends. Raises `ConnectionRefused` if another would end alike."""
        if not self.me:  # what is heard before could not be told from other talk, and would count as seen
            self.me = _ours(await self._asked("users/@me"))
        address = URL(session.url or await self._gateway()).with_query(v="10", encoding="json")
        closing = aiohttp.ClientWSTimeout(ws_close=1.0)
        async with self._http.ws_connect(address, timeout=closing, headers={"User-Agent": _AGENT}) as socket:
            hello = object_of(_payload(await socket.receive(HELLO_S)).get("d"))
            if not (every_ms := size_of(hello.get("heartbeat_interval"))):
                raise Malformed("no greeting")
            session.is_heard = True
            beating = asyncio.create_task(_beat(socket, session, every_ms / 1000), name="heartbeat")
            try:
                await socket.send_json(self._resume(session) if session.id else self._identify())
                async for message in socket:
                    if not await self._take(socket, session, _payload(message), inlet):
                        break
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                await socket.close(code=4000)  # with 1000 the session would be over
        if socket.close_code in _FINAL:
            raise ConnectionRefused(f"{_FINAL[socket.close_code]} ({socket.close_code})")
        if socket.close_code in _SESSION_OVER:
            session.forget()

    async def _take(
        self, socket: aiohttp.ClientWebSocketResponse, session: _Session, payload: dict[str, Any], inlet: Inlet
    ) -> bool:
        """What one payload asks for. False: for another connection."""
        match payload.get("op"):
            case 0:
                await self._dispatched(session, payload, inlet)
            case 1:
                await socket.send_json({"op": 1, "d": session.sequence})
            case 7:
                return False
            case 9:
                if payload.get("d") is not True:
                    session.forget()
                return False
            case 11:
                session.is_heard = True
                session.tries = 0
        return True

    async def _dispatched(self, session: _Session, payload: dict[str, Any], inlet: Inlet) -> None:
        kind, data = text_of(payload.get("t")), object_of(payload.get("d"))
        if kind == "READY":
            self.me = _ours(object_of(data.get("user")))
            session.id, session.url = text_of(data.get("session_id")), text_of(data.get("resume_gateway_url"))
            log(logger, "listens", connection=self._connection, bot=self.me.id)
        try:
            events = self.heard(kind, data, self._now_ms() / 1_000)
        except Malformed as error:
            reason = f"{kind}: {error}"
            log(logger, "not read", level=logging.WARNING, connection=self._connection, reason=reason)
            events = []
        if events:
            session.is_busy = True
            await inlet.receive(events)
            session.is_busy, session.is_heard = False, True
        if events and kind == "INTERACTION_CREATE":
            path = f"interactions/{data['id']}/{data['token']}/callback"
            await self._ask("acknowledge", "POST", path, json.loads(self.acknowledge(events).body))
        if isinstance(sequence := payload.get("s"), int):
            session.sequence = sequence  # stored: after a break the next one comes again
        if events or kind == "READY":
            await inlet.remember({**session.words(), "us": self._us})

    async def _gateway(self) -> str:
        """Where a new session begins, once there may be one."""
        answer = await self._asked("gateway/bot")
        limit = object_of(answer.get("session_start_limit"))
        if size_of(limit.get("total")) and size_of(limit.get("remaining")) < SESSIONS_KEPT:
            wait_s = size_of(limit.get("reset_after")) / 1000
            log(logger, "sessions used up", level=logging.ERROR, connection=self._connection, again_in_s=wait_s)
            await asyncio.sleep(wait_s)
        return text_of(answer.get("url"))

    @property
    def _intents(self) -> int:
        """What we ask to hear."""
        return _GUILD_MESSAGES | _DIRECT_MESSAGES | (_MESSAGE_CONTENT if self._settings.message_content else 0)

    def _identify(self) -> dict[str, Any]:
        properties = {"os": "linux", "browser": "deskmate", "device": "deskmate"}
        return {"op": 2, "d": {"token": self._token, "intents": self._intents, "properties": properties}}

    def _resume(self, session: _Session) -> dict[str, Any]:
        return {"op": 6, "d": {"token": self._token, "session_id": session.id, "seq": session.sequence}}

    # reading

    def heard(self, kind: str, data: Mapping[str, Any], now_s: float) -> list[Event]:
        """The events of one dispatch of the Gateway, by its `t` and `d`. Raises `Malformed`."""
        match kind:
            case "MESSAGE_CREATE":
                return self._message("message", data)
            case "MESSAGE_UPDATE" if data.get("edited_timestamp"):  # else a preview came
                return self._message("edit", data)
            case "MESSAGE_DELETE":
                return [self._deleted(data, now_s)]
            case "INTERACTION_CREATE":  # where no address is set for them
                return self._interaction(data, now_s)
        return []

    def _interaction(self, body: Mapping[str, Any], now_s: float) -> list[Event]:
        data, member = object_of(body.get("data")), object_of(body.get("member"))
        is_command = body.get("type") == _COMMAND and data.get("type") == 1
        if not is_command and not (body.get("type") == _COMPONENT and data.get("component_type") == 2):
            return []
        place = {
            "application": _id("application_id", body.get("application_id")),
            "token": id_of("token", body.get("token"), _TOKEN),
        }
        user = object_of(member.get("user") or body.get("user"))
        did = Event(
            kind="command" if is_command else "action",
            conversation=self._conversation(body),
            actor=replace(_actor(user, member), language=text_of(body.get("locale")) or None),
            dedupe_keys=(f"interaction:{_id('id', body.get('id'))}",),
            at_ms=round(now_s * 1000),
            is_direct="guild_id" not in body,
        )
        if not is_command:
            message = _id("message", object_of(body.get("message")).get("id"))
            return [replace(did, message_id=message, value=text_of(data.get("custom_id")))]
        name, line = text_of(data.get("name")), _line(data.get("options"))
        if name == self._settings.command:
            name, _, line = line.removeprefix("/").partition(" ")
        handle = ReplyHandle("interaction", place, round((now_s + HANDLE_S) * 1000))
        return [replace(did, name=name.lower() or "help", text=line.strip(), reply_handle=handle)]

    def _message(self, kind: str, data: Mapping[str, Any]) -> list[Event]:
        if data.get("type", 0) not in _SAID:
            return []
        message, text = _id("id", data.get("id")), text_of(data.get("content"))
        actor = _actor(object_of(data.get("author")), object_of(data.get("member")))
        is_self = actor.id == self._us
        actor = replace(actor, is_self=is_self, is_bot=is_self or actor.is_bot or "webhook_id" in data)
        answered = object_of(data.get("referenced_message"))
        direct = "guild_id" not in data
        called = [one.get("id") for one in objects_of(data.get("mentions"))]
        if not text and not direct and not self._settings.message_content and self._us not in called:
            return []  # what was said is not for us to see
        is_to_us = object_of(answered.get("author")).get("id") == self._us and not actor.is_bot
        # Who answers somebody calls them, unless that is switched off; a bot has to say our name.
        meant = [*called, object_of(answered.get("author")).get("id")] if not actor.is_bot else []
        edited = text_of(data.get("edited_timestamp"))[:40] if kind == "edit" else ""
        return [
            Event(
                kind=kind,
                conversation=self._conversation(data),
                actor=actor,
                dedupe_keys=(f"edit:{message}:{edited}" if edited else f"message:{message}",),
                at_ms=_ms(edited or data.get("timestamp"), message),
                message_id=message,
                text=self._read(text, data),
                addressed=direct or self._us in [*_MENTION.findall(text), *meant],
                is_direct=direct,
                attachments=_attachments(data),
                quoted=text_of(answered.get("content")),
                forwarded=_forwarded(data),
                parent_id=text_of(answered.get("id"))[:32] if is_to_us else "",
            )
        ]

    def _deleted(self, data: Mapping[str, Any], now_s: float) -> Event:
        """Whose it was is not told."""
        message = _id("id", data.get("id"))
        return Event(
            kind="delete",
            conversation=self._conversation(data),
            actor=Actor(""),
            dedupe_keys=(f"delete:{message}",),
            at_ms=round(now_s * 1000),
            message_id=message,
            is_direct="guild_id" not in data,
        )

    def _read(self, text: str, data: Mapping[str, Any]) -> str:
        """As a person reads it: names for ids, without our own."""
        names = {
            text_of(one.get("id")): _name(one, object_of(one.get("member"))) for one in objects_of(data.get("mentions"))
        }
        text = re.sub(rf"[ \t]*<@!?{self._us}>", "", text)
        text = _MENTION.sub(lambda found: f"@{names.get(found[1]) or found[1]}", text)
        return _EMOJI.sub(r":\1:", text).replace("\0", "").strip()

    @property
    def _us(self) -> str:
        """Our id; before it is known one that nobody has."""
        return self.me.id if self.me else "-"

    def _conversation(self, data: Mapping[str, Any]) -> ConversationKey:
        return key_of(self._connection, _id("channel_id", data.get("channel_id")))

    # calling

    async def _fill(self, place: str, part: Part) -> Outcome:
        """Put the part where a command's answer is waited for."""
        outcome, answer = await self._ask("edit response", "PATCH", place, {**part.payload, **_QUIET}, file=part.file)
        if outcome.kind != "ok":
            return harmless(outcome)
        sent = _sent(answer, original=True)
        return Outcome("ok", sent) if sent else Outcome("transient", detail="edit response: an answer without an id")

    async def _asked(self, path: str) -> dict[str, Any]:
        """What the API tells at this path. Raises `ConnectionRefused` if the token is refused, else `ConnectionError`."""
        outcome, answer = await self._ask(path, "GET", path)
        if outcome.kind == "auth_failed":
            raise ConnectionRefused(f"{outcome.detail}: {_FINAL[4004]}")
        if outcome.kind != "ok":
            raise ConnectionError(outcome.detail)
        return answer

    async def _ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        file: Attachment | None = None,
        timeout_s: float | None = None,
    ) -> tuple[Outcome, dict[str, Any]]:
        """One call. `what` names it in the log: the path may hold an interaction's token."""
        kind, raw = _JSON, None if body is None else dumped(body)
        if file and raw is not None:
            try:
                content = await self._files.read(file.fetch, self.capabilities.file_max_bytes)
            except NotDownloaded as error:
                return Outcome("rejected", detail=f"{what}: {error}"), {}
            kind, raw = form({"payload_json": raw}, {"files[0]": (file, content)})
            timeout_s = UPLOAD_S
        return _understood(what, await self._call(method, path, kind, raw, timeout_s or self._settings.timeout_s))

    async def _call(self, method: str, path: str, kind: str, raw: bytes | None, timeout_s: float) -> Answer | Outcome:
        headers = {"User-Agent": _AGENT, "Authorization": f"Bot {self._token}"}
        if raw is not None:
            headers["Content-Type"] = kind
        url = self._base.joinpath(*path.split("/"))
        return await call(self._http, method, url, headers=headers, body=raw, timeout_s=timeout_s)


@dataclass(slots=True)
class _Session:
    """A session of the Gateway, which outlives its connections."""

    id: str = ""
    url: str = ""
    us: str = ""
    """Our id: only a new session tells it."""
    intents: int = 0
    sequence: int | None = None
    """Of the last event that was stored."""
    tries: int = 0
    """Connections since the last one that lived."""
    is_heard: bool = True
    """Since the last heartbeat."""
    is_busy: bool = False
    """An event is being stored, and nothing is read meanwhile."""

    @classmethod
    def of(cls, words: Mapping[str, Any], intents: int) -> _Session:
        """The one that `words` tell of, so that a process goes on with what its predecessor had not stored. A session keeps
        its intents: where others are asked for, a new one begins.
        """
        sequence = words.get("sequence")
        session = cls(
            id=text_of(words.get("id")),
            url=text_of(words.get("url")),
            us=us if _ID.fullmatch(us := text_of(words.get("us"))) else "",
            intents=intents,
            sequence=sequence if isinstance(sequence, int) else None,
        )
        if not session.id or not session.url or words.get("intents") != intents:
            session.forget()
        return session

    def words(self) -> dict[str, Any]:
        return {"id": self.id, "url": self.url, "sequence": self.sequence, "intents": self.intents}

    def forget(self) -> None:
        self.id, self.url, self.sequence = "", "", None


async def _beat(socket: aiohttp.ClientWebSocketResponse, session: _Session, every_s: float) -> None:
    """Heartbeats, until one is not answered: then nobody is there any more, and the connection is closed."""
    await asyncio.sleep(every_s * random.random())
    with contextlib.suppress(ConnectionError):
        while session.is_heard or session.is_busy:
            session.is_heard = False
            await socket.send_json({"op": 1, "d": session.sequence})
            await asyncio.sleep(every_s)
    await socket.close(code=4000)


def _payload(message: aiohttp.WSMessage) -> dict[str, Any]:
    if message.type is not aiohttp.WSMsgType.TEXT:
        raise Malformed(f"a payload that is {message.type.name}")
    return read_json(message.data)


# reading

_MENTION: Final = re.compile(r"<@!?([0-9]{1,20})>", re.ASCII)
_EMOJI: Final = re.compile(r"<a?:(\w{1,64}):[0-9]{1,20}>", re.ASCII)
_EPOCH_MS: Final = 1_420_070_400_000


def _id(name: str, value: Any) -> str:
    return id_of(name, value, _ID)


def _ours(user: Mapping[str, Any]) -> Actor:
    """Who we are. Raises `ConnectionError` for an answer that does not tell."""
    if not _ID.fullmatch(text_of(user.get("id"))):
        raise ConnectionError("Discord does not tell who the bot is")
    return Actor(text_of(user.get("id")), text_of(user.get("username")), is_bot=True, is_self=True)


def _ms(iso: Any, snowflake: str) -> int:
    """Milliseconds of a time in ISO 8601, else of when the id was given, which it tells itself."""
    try:
        return round(datetime.fromisoformat(iso).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return (int(snowflake) >> 22) + _EPOCH_MS


def _actor(user: Mapping[str, Any], member: Mapping[str, Any]) -> Actor:
    is_bot = user.get("bot") is True or user.get("system") is True
    return Actor(_id("user", user.get("id")), _name(user, member), is_bot)


def _name(user: Mapping[str, Any], member: Mapping[str, Any]) -> str:
    return text_of(member.get("nick")) or text_of(user.get("global_name")) or text_of(user.get("username"))


def _line(options: Any) -> str:
    """What was typed into a command's fields; a subcommand is a word of its own."""
    words: list[str] = []
    for option in objects_of(options):
        if "options" in option:
            words += [text_of(option.get("name")), _line(option["options"])]
        elif "value" in option:
            words.append(str(option["value"]))
        else:
            words.append(text_of(option.get("name")))
    return " ".join(word for word in words if word).strip()


def _attachments(data: Mapping[str, Any]) -> tuple[Attachment, ...]:
    is_voice = isinstance(flags := data.get("flags"), int) and bool(flags & _VOICE)
    files = [_attachment(one, is_voice=is_voice) for one in objects_of(data.get("attachments"))]
    stickers = [Attachment("sticker", text_of(one.get("name")), "", 0) for one in objects_of(data.get("sticker_items"))]
    polls = [Attachment("poll", "", "", 0)] if object_of(data.get("poll")) else []
    return (*files, *stickers, *polls)


def _attachment(file: Mapping[str, Any], *, is_voice: bool) -> Attachment:
    mime = text_of(file.get("content_type")).partition(";")[0]
    url = text_of(file.get("url"))
    return Attachment(
        kind="voice" if is_voice else kind_of(mime),
        name=text_of(file.get("filename")),
        mime=mime,
        size_bytes=size_of(file.get("size")),
        fetch={"url": url} if url and not is_voice else {},
    )


def _forwarded(data: Mapping[str, Any]) -> str:
    passed_on = [object_of(one.get("message")) for one in objects_of(data.get("message_snapshots"))]
    return "\n".join(text for one in passed_on if (text := text_of(one.get("content"))))


# writing

_SPECIAL: Final = re.compile(r"[\\*_~`|<\[\]]")
_BEGINS: Final = re.compile(r"^([ \t]*)([#>+-])", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^([ \t]*[0-9]+)([.)])(?=\s)", re.MULTILINE)
_BROADCAST: Final = re.compile(r"@(?=everyone|here)")


def calm(text: str) -> str:
    """`allowed_mentions` keeps it from calling anybody; so it does not look as if it had, or do so when it is copied."""
    return _BROADCAST.sub(f"@{ZERO_WIDTH}", text)


def _escape(text: str) -> str:
    text = _BEGINS.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", text))
    return calm(_NUMBERED.sub(r"\1\\\2", text))


def _block(code: str, language: str) -> str:
    """Discord knows a fence of three backticks and no longer one."""
    return f"```{language}\n{code.replace('```', f'`{ZERO_WIDTH}`{ZERO_WIDTH}`')}\n```"


def _link(label: str, url: str) -> str:
    """Only the web can be linked with a label."""
    if url.lower().startswith("mailto:"):
        address = _escape(url[len("mailto:") :])
        return f"{label} ({address})" if label and label != address else address
    return f"[{label}](<{url}>)" if label else f"<{url}>"


_DIALECT: Final = replace(
    MARKDOWN,
    escape=_escape,
    block=_block,
    link=_link,
    heading=lambda title, level: f"{'#' * level} {title}" if level <= 3 else f"**{title}**",
    indent="  ",
    rule="———",
    table=None,
    seam=lambda outer, _inner: ZERO_WIDTH if outer == "*" else "",  # three stars in a row mean something else
)
_CALM: Final = replace(UNMARKED, escape=calm)


def _fitting(markdown: str) -> list[tuple[str, str]]:
    """The parts of the text, each with what Discord reads."""
    return fitting(markdown.strip("\n"), TEXT_LIMIT, utf16, lambda text: write(text, _DIALECT), utf16)


def _part(source: str, text: str) -> Part:
    return Part({"content": text}, {"content": not_empty(write(source, _CALM))})


def _first(markdown: str) -> Part:
    """The first of all. No more than twice the limit is looked at: nothing behind that changes it."""
    first, *_ = _fitting(markdown.lstrip("\n")[: 2 * TEXT_LIMIT]) or [_NOTHING]
    return _part(*first)


_NOTHING: Final = ("…", "…")


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    styles = {"plain": 2, "primary": 3, "danger": 4}
    shown = [
        {"type": 2, "style": styles[one.style], "label": one.label[:LABEL_MAX], "custom_id": one.command}
        for one in buttons[:BUTTONS_MAX]
    ]
    return [{"type": 1, "components": shown[at : at + ROW_MAX]} for at in range(0, len(shown), ROW_MAX)]


# calling


def _reply(body: Mapping[str, Any]) -> HttpReply:
    return HttpReply(body=dumped(body))


def _waiting(to: Address, now_ms: int) -> str:
    """The place where a command's answer is waited for, as long as it can be filled."""
    handle = to.handle
    if not handle or handle.kind != "interaction" or now_ms >= handle.expires_at_ms:
        return ""
    return f"webhooks/{handle.data.get('application')}/{handle.data.get('token')}/messages/@original"


def _path(to: Address, sent: Sent) -> str:
    """Of a message."""
    return f"channels/{text_of(sent.ref.get('channel')) or to.conversation.channel}/messages/{sent.message_id}"


def _sent(answer: Mapping[str, Any], *, original: bool = False) -> Sent | None:
    message, channel = text_of(answer.get("id")), text_of(answer.get("channel_id"))
    ref: dict[str, Any] = {"channel": channel} | ({"original": True} if original else {})
    return Sent(message, ref) if _ID.fullmatch(message) else None


def _is_shown(part: Part, answer: Mapping[str, Any]) -> bool:
    """Whether the message is the whole part already. Discord leaves out blanks at both ends."""
    buttons = [
        one.get("custom_id")
        for row in objects_of(answer.get("components"))
        for one in objects_of(row.get("components"))
    ]
    ours = [one["custom_id"] for row in part.payload.get("components", ()) for one in row["components"]]
    return text_of(answer.get("content")).strip() == part.payload.get("content", "").strip() and buttons == ours


def _understood(what: str, answer: Answer | Outcome) -> tuple[Outcome, dict[str, Any]]:
    """What an answer of the HTTP API means."""
    if isinstance(answer, Outcome):
        return Outcome(answer.kind, detail=f"{what}: {answer.detail}"), {}
    body = answer.json() or {}
    if 200 <= answer.status < 300:
        return Outcome("ok"), body
    code = size_of(body.get("code"))
    said = text_of(body.get("message")) or f"status {answer.status}"
    detail = f"{what}: {said[:100]}" + (f" ({code})" if code else "")
    kind = _CODES.get(code) or ("target_gone" if answer.status in _NO_ENTRY else by_status(answer.status))
    if code == 50035:
        kind = "too_long" if "MAX_LENGTH" in json.dumps(body.get("errors")) else "bad_format"
    if kind != "rate_limited":
        return Outcome(kind, detail=detail), {}
    # Who is turned away in front of the API is not told so in JSON, and it concerns all calls.
    is_global = body.get("global") is True or "X-RateLimit-Global" in answer.headers or not body
    wait_s = waits(answer, asked=body.get("retry_after"))
    return Outcome(kind, None, wait_s, "connection" if is_global else "channel", detail), {}
