"""A stand-in for Feishu: the server API's rules kept strictly, an ordered ledger of what it took, encrypted events out.

    async with FeishuTwin() as feishu:
        said = await feishu.mention(f"{gateway}/webhooks/feishu", "hi")     # sent again as Feishu does
        reply = await feishu.reply_to(said)
        feishu.next(status=429, retry_after=2)                              # the next call; `on="PATCH message"` for one kind

Connect deskmate with `feishu.connection`, secrets from `feishu.environment`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from markdown_it import MarkdownIt

from tests.harness.faults import Fault, Faults
from tests.harness.twins import Said, Shown

APP_ID: Final = "cli_twin0000000000"
APP_SECRET: Final = "feishu-app-secret"
VERIFICATION_TOKEN: Final = "feishu-verification-token"
ENCRYPT_KEY: Final = "feishu-encrypt-key"
BOT: Final = "ou_bot"
USER: Final = "ou_user1"
GROUP: Final = "oc_group"
DIRECT: Final = "oc_direct"
TENANT: Final = "tenant1"

ANSWER_WITHIN_S: Final = 3.0
CARD_MAX_BYTES: Final = 30 * 1024
TEXT_MAX_BYTES: Final = 150 * 1024
TABLES_MAX: Final = 5
ELEMENT_TABLES_MAX: Final = 4

_READER: Final = MarkdownIt("commonmark").enable("table")
_AT: Final = re.compile(r"<(?:at|person)\b", re.IGNORECASE)
_TEXT_AT: Final = re.compile(r"<at\s", re.IGNORECASE)


class Refused(Exception):
    """The API's answer: a `code` with a message, in a status."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(f"{code} {message}")
        self.code, self.message, self.status = code, message, status


@dataclass(slots=True)
class Card:
    """A card entity."""

    id: str
    body: dict[str, Any]
    sequence: int = 0
    message: str = ""

    @property
    def is_streaming(self) -> bool:
        return self.body["config"].get("streaming_mode") is True


@dataclass(slots=True)
class Message:
    """One message of a chat, as the stand-in keeps it."""

    id: str
    room: str
    sender: str
    kind: str
    content: dict[str, Any]
    thread: str | None = None
    parent: str = ""
    made_ms: int = 0
    card: Card | None = None
    is_recalled: bool = False
    edits: int = 0

    @property
    def body(self) -> dict[str, Any]:
        """The card that people see."""
        return self.card.body if self.card else self.content

    @property
    def text(self) -> str:
        """What people read, marks as they are and signs by number decoded."""
        if self.kind == "interactive":
            parts = [_element_text(one) for one in self.body["body"]["elements"]]
            return html.unescape("\n".join(part for part in parts if part))
        return str(self.content.get("text", ""))

    @property
    def buttons(self) -> list[dict[str, Any]]:
        if self.kind != "interactive":
            return []
        return [one for one in _elements(self.body) if one["tag"] == "button"]


@dataclass(frozen=True, slots=True)
class Taken:
    """One call that took effect, in order."""

    at_s: float
    kind: str
    """Such as `POST message`, `PUT card`."""
    id: str
    body: dict[str, Any]


class FeishuTwin:
    """One app in one organisation. `retry_s`: the pauses before the repetitions of an event that got no 200."""

    platform: str = "feishu"
    environment: Mapping[str, str] = {
        "FEISHU_APP_SECRET": APP_SECRET,
        "FEISHU_VERIFICATION_TOKEN": VERIFICATION_TOKEN,
        "FEISHU_ENCRYPT_KEY": ENCRYPT_KEY,
    }

    def __init__(self, *, retry_s: tuple[float, ...] = (0.1, 0.5, 2.0, 5.0)) -> None:
        self.taken: list[Taken] = []
        self.calls: list[str] = []
        """Every call that came in, refused ones too."""
        self.refused: list[tuple[str, str]] = []
        self.messages: list[Message] = []
        self.cards: dict[str, Card] = {}
        self.uploads: dict[str, tuple[str, bytes]] = {}
        """A kind and the bytes, by key."""
        self.resources: dict[str, tuple[str, bytes, str]] = {}
        """What people attached: its message, the bytes and their type, by key."""
        self.reactions: dict[str, tuple[str, str]] = {}
        """A message and an emoji, by id."""
        self.pings: list[str] = []
        """Texts that called somebody."""
        self.chats = {GROUP, DIRECT}
        self.tokens: set[str] = set()
        self.may_stream = True
        """Whether the app has the scope for card entities."""
        self.faults = Faults()
        self.slow_s = 0.0
        """How long each call takes."""
        self.url = ""
        """For `api_base`."""
        self._retry_s = retry_s
        self._by_uuid: dict[str, Message] = {}
        self._count = itertools.count(1)
        self._changed = asyncio.Condition()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/open-apis/{path:.+}", self._call)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.end()
        await self._runner.cleanup()
        await self._http.close()

    @property
    def connection(self) -> dict[str, Any]:
        return {
            "platform": "feishu",
            "api_base": self.url,
            "app_id": APP_ID,
            "app_secret": "$FEISHU_APP_SECRET",
            "verification_token": "$FEISHU_VERIFICATION_TOKEN",
            "encrypt_key": "$FEISHU_ENCRYPT_KEY",
        }

    @property
    def shown(self) -> list[Shown]:
        return [self._shown(one) for one in self.messages if one.sender == BOT and not one.is_recalled]

    def _shown(self, message: Message) -> Shown:
        key = message.content.get("image_key") or message.content.get("file_key")
        return Shown(
            message.room,
            message.id,
            message.text,
            message.thread,
            [one["text"]["content"] for one in message.buttons],
            self.uploads[key][1] if key else None,
            bool(message.card and message.card.is_streaming),
        )

    # on order

    def next(self, *, retry_after: int | None = None, code: int = 0, times: int = 1, **fault: Any) -> None:
        """The next call fails as told: `status`, a `code`, `hang` or `close`, `taken`, `on` a kind of call."""
        if code or fault.get("status") == 429:
            fault["body"] = {"code": code or 99_991_400, "msg": "as ordered"}
            fault.setdefault("status", 400)
        if retry_after is not None:
            fault["headers"] = {"X-Ogw-Ratelimit-Reset": str(retry_after)}
        self.faults.order(Fault(**fault), times)

    def end_streams(self) -> None:
        """As after ten minutes."""
        for card in self.cards.values():
            card.body["config"]["streaming_mode"] = False

    # people

    async def mention(self, hook: str, text: str) -> Said:
        return await self.say(hook, f"@_user_1 {text}", mentions=[mention_of(BOT, "deskmate")])

    async def follow_up(self, hook: str, before: Said, text: str) -> Said:
        ours = [one for one in self.messages if one.room == before.room and one.sender == BOT]
        return await self.say(hook, text, room=before.room, thread=before.thread, parent=ours[-1].id if ours else "")

    async def direct(self, hook: str, text: str) -> Said:
        return await self.say(hook, text, room=DIRECT)

    async def picture(self, hook: str, text: str, png: bytes) -> Said:
        key = self.attach(png, "image/png")
        rows = [[{"tag": "img", "image_key": key}], [{"tag": "text", "text": text}]]
        return await self.say(hook, "", room=DIRECT, kind="post", content={"title": "", "content": rows}, files=[key])

    async def command(self, hook: str, line: str) -> Said:
        return await self.direct(hook, line)

    async def press(self, hook: str, shown: Shown, label: str) -> Said:
        said = Said(shown.room, shown.id, shown.thread)
        said.statuses.extend(await self.deliver(hook, self.press_event(shown, label)))
        return said

    def press_event(self, shown: Shown, label: str) -> dict[str, Any]:
        message = self._message(shown.id)
        button = next(one for one in message.buttons if one["text"]["content"] == label)
        event = {
            "operator": {"tenant_key": TENANT, "open_id": USER, "union_id": "on_user1"},
            "token": f"c-{next(self._count)}",
            "action": {"value": button["behaviors"][0]["value"], "tag": "button", "timezone": "Asia/Shanghai"},
            "host": "im_message",
            "context": {"open_message_id": message.id, "open_chat_id": message.room},
        }
        return self.event("card.action.trigger", event)

    async def say(
        self,
        hook: str,
        text: str,
        *,
        room: str = GROUP,
        user: str = USER,
        thread: str | None = None,
        parent: str = "",
        kind: str = "text",
        content: Mapping[str, Any] | None = None,
        mentions: list[dict[str, Any]] | None = None,
        files: list[str] | None = None,
    ) -> Said:
        """A person says something; the event goes to `hook`."""
        given = {"text": text} if content is None else dict(content)
        message = self._add(Message(self._id("om"), room, user, kind, given, thread, parent))
        for key in files or ():
            _, raw, mime = self.resources[key]
            self.resources[key] = (message.id, raw, mime)
        told: dict[str, Any] = {
            "message_id": message.id,
            "create_time": str(message.made_ms),
            "chat_id": room,
            "chat_type": "p2p" if room == DIRECT else "group",
            "message_type": kind,
            "content": json.dumps(given, ensure_ascii=False),
        }
        more = {"thread_id": thread, "parent_id": parent, "root_id": parent, "mentions": mentions}
        told |= {name: value for name, value in more.items() if value}
        sender = {"sender_id": {"open_id": user, "union_id": f"on_{user}"}, "sender_type": "user", "tenant_key": TENANT}
        said = Said(room, message.id, thread)
        said.statuses.extend(
            await self.deliver(hook, self.event("im.message.receive_v1", {"sender": sender, "message": told}))
        )
        return said

    def attach(self, content: bytes, mime: str) -> str:
        """A file that a message of a person is to hold."""
        key = self._id("file")
        self.resources[key] = ("", content, mime)
        return key

    def event(self, kind: str, event: Mapping[str, Any]) -> dict[str, Any]:
        header = {
            "event_id": self._id("ev"),
            "event_type": kind,
            "create_time": str(round(time.time() * 1000)),
            "token": VERIFICATION_TOKEN,
            "app_id": APP_ID,
            "tenant_key": TENANT,
        }
        return {"schema": "2.0", "header": header, "event": dict(event)}

    async def deliver(self, hook: str, body: Mapping[str, Any]) -> list[int]:
        """Send an event until it is taken; the answers' statuses, 0 for none in time. The same bytes each time."""
        raw = encrypted(json.dumps(body, ensure_ascii=False).encode())
        statuses: list[int] = []
        for pause_s in (0.0, *self._retry_s):
            await asyncio.sleep(pause_s)
            headers = sign(raw) | {"Content-Type": "application/json; charset=utf-8"}
            timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
            try:
                async with self._http.post(hook, data=raw, headers=headers, timeout=timeout) as answer:
                    statuses.append(answer.status)
                    if answer.status == 200:
                        assert isinstance(json.loads(await answer.read()), dict)
            except (TimeoutError, aiohttp.ClientError):
                statuses.append(0)
            if statuses[-1] == 200:
                break
        return statuses

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever a call was taken."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Shown:
        at = next(at for at, one in enumerate(self.messages) if one.id == said.id)

        def found() -> Shown | None:
            later = (one for one in self.messages[at + 1 :] if one.sender == BOT and not one.is_recalled)
            ours = [self._shown(one) for one in later if (one.room, one.thread) == (said.room, said.thread)]
            return ours[0] if ours and not ours[0].is_growing else None

        shown = await self.until(found, timeout_s)
        assert isinstance(shown, Shown)
        return shown

    # the server API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        route = _route(request.match_info["path"].split("/"))
        kind = f"{request.method} {route[0]}"
        self.calls.append(kind)
        await asyncio.sleep(self.slow_s)
        fault = self.faults.take(kind)
        if fault and not fault.taken:
            return await self.faults.show(request, fault)
        try:
            answer = await self._answer(request, *route)
        except Refused as error:
            self.refused.append((kind, str(error)))
            answer = web.json_response({"code": error.code, "msg": error.message, "data": {}}, status=error.status)
        async with self._changed:
            self._changed.notify_all()
        return await self.faults.show(request, fault) if fault else answer

    async def _answer(self, request: web.Request, what: str, ids: list[str]) -> web.Response:
        if what == "token":
            return web.json_response(self._give_token(await _json(request, {"app_id": str, "app_secret": str})))
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise Refused(99_991_661, "Missing access token for authorization.")
        if token not in self.tokens:
            raise Refused(99_991_663, "Invalid access token for authorization.")
        if what == "bot":
            bot = {"activate_status": 2, "app_name": "deskmate", "open_id": BOT}
            return web.json_response({"code": 0, "msg": "ok", "bot": bot})
        if what == "resource":
            return self._resource(request, *ids)
        if what in {"image", "file"}:
            return _ok(await self._upload(request, what))
        if what.startswith("card") and not self.may_stream:
            raise Refused(99_991_672, "Access denied. One of the following scopes is required: [cardkit:card:write].")
        handler = getattr(self, f"_{request.method.lower()}_{what}", None)
        if handler is None:
            raise Refused(99_992_404, "no such path", 404)
        return _ok(await handler(request, *ids))

    def _give_token(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["app_id"] != APP_ID:
            raise Refused(10_003, "invalid param", 200)
        if body["app_secret"] != APP_SECRET:
            raise Refused(10_014, "app secret invalid", 200)
        token = f"t-{next(self._count)}-secret"
        self.tokens.add(token)
        return {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200}

    async def _post_message(self, request: web.Request) -> dict[str, Any]:
        shape = {"receive_id": str, "msg_type": str, "content": str, "uuid?": str}
        body = await _json(request, shape)
        if request.query.get("receive_id_type") != "chat_id":
            raise Refused(99_992_402, "field validation failed: receive_id_type")
        if body["receive_id"] not in self.chats:
            raise Refused(230_002, "Bot/User can NOT be out of the chat.")
        return self._send("POST message", body, body["receive_id"], None, "")

    async def _post_reply(self, request: web.Request, parent: str) -> dict[str, Any]:
        shape = {"msg_type": str, "content": str, "uuid?": str, "reply_in_thread?": bool}
        body = await _json(request, shape)
        answered = self._message(parent)
        thread = answered.thread or (f"omt_{parent}" if body.get("reply_in_thread") else None)
        return self._send("POST reply", body, answered.room, thread, parent)

    def _send(self, kind: str, body: dict[str, Any], room: str, thread: str | None, parent: str) -> dict[str, Any]:
        unique = body.get("uuid", "")
        if len(unique) > 50:
            raise Refused(99_992_402, "field validation failed: uuid")
        if unique and unique in self._by_uuid:
            return _told(self._by_uuid[unique])
        content, card = self._content(body)
        message = self._add(Message(self._id("om"), room, BOT, body["msg_type"], content, thread, parent, card=card))
        if card:
            card.message = message.id
        if unique:
            self._by_uuid[unique] = message
        self._take(kind, message.id, body)
        return _told(message)

    def _content(self, body: dict[str, Any]) -> tuple[dict[str, Any], Card | None]:
        """The content of a message, checked by its kind; and the card entity, if it names one."""
        size = len(json.dumps(body, ensure_ascii=False).encode())
        content = _object(body["content"], 230_001)
        match body["msg_type"]:
            case "text":
                if size > TEXT_MAX_BYTES:
                    raise Refused(230_025, "The length of the message content reaches its limit.")
                if set(content) != {"text"} or not isinstance(content["text"], str) or not content["text"]:
                    raise Refused(230_001, "invalid message content")
                if _TEXT_AT.search(content["text"]):
                    self.pings.append(content["text"])
                return content, None
            case "interactive" if content.get("type") == "card":
                card = self.cards.get(content.get("data", {}).get("card_id", ""))
                if card is None or card.message:
                    raise Refused(230_099, "Failed to create card content, ext=the card entity can be sent once")
                return content, card
            case "interactive":
                if size > CARD_MAX_BYTES:
                    raise Refused(230_025, "The length of the message content reaches its limit.")
                return self._checked(content, 230_099), None
            case "image" | "file" as kind:
                if set(content) != {f"{kind}_key"} or self.uploads.get(content[f"{kind}_key"], ("",))[0] != kind:
                    raise Refused(230_001, "invalid message content")
                return content, None
        raise Refused(230_001, "msg_type is not one of those that we use")

    async def _patch_message(self, request: web.Request, id_: str) -> dict[str, Any]:
        body = await _json(request, {"content": str})
        message = self._message(id_)
        if message.kind != "interactive" or message.card or message.sender != BOT:
            raise Refused(230_001, "This message is NOT a card.")
        if len(json.dumps(body, ensure_ascii=False).encode()) > CARD_MAX_BYTES:
            raise Refused(230_025, "The length of the message content reaches its limit.")
        content = self._checked(_object(body["content"], 230_001), 230_099)
        if not (content["config"].get("update_multi") and message.content["config"].get("update_multi")):
            raise Refused(230_001, "update_multi has to be true before and after")
        message.content, message.edits = content, message.edits + 1
        self._take("PATCH message", id_, body)
        return {}

    async def _put_message(self, request: web.Request, id_: str) -> dict[str, Any]:
        body = await _json(request, {"msg_type": str, "content": str})
        message = self._message(id_)
        if message.kind != "text" or body["msg_type"] != "text" or message.sender != BOT:
            raise Refused(230_001, "Only texts can be edited so.")
        message.content, _ = self._content(body)
        message.edits += 1
        self._take("PUT message", id_, body)
        return _told(message)

    async def _delete_message(self, _: web.Request, id_: str) -> dict[str, Any]:
        message = self._message(id_)
        if message.sender != BOT:
            raise Refused(230_026, "No permission to recall this message.")
        message.is_recalled = True
        self._take("DELETE message", id_, {})
        return {}

    async def _post_reaction(self, request: web.Request, id_: str) -> dict[str, Any]:
        body = await _json(request, {"reaction_type": dict})
        emoji = body["reaction_type"].get("emoji_type")
        if emoji not in {"Typing", "OnIt", "OK"}:
            raise Refused(231_001, "reaction type is invalid.")
        there = next((one for one, what in self.reactions.items() if what == (self._message(id_).id, emoji)), None)
        reaction = there or self._id("reaction")
        self.reactions[reaction] = (id_, emoji)
        self._take("POST reaction", id_, body)
        return {"reaction_id": reaction}

    async def _get_reaction(self, request: web.Request, id_: str) -> dict[str, Any]:
        emoji = request.query.get("reaction_type")
        ours = [one for one, what in self.reactions.items() if what == (self._message(id_).id, emoji)]
        items = [
            {"reaction_id": one, "operator": {"operator_id": APP_ID, "operator_type": "app"}, "action_time": "1"}
            for one in ours
        ]
        theirs = {"reaction_id": "theirs", "operator": {"operator_id": USER, "operator_type": "user"}}
        return {"items": [theirs, *items], "has_more": False}

    async def _delete_reaction(self, _: web.Request, id_: str, reaction: str) -> dict[str, Any]:
        if self.reactions.pop(reaction, ("", ""))[0] != id_:
            raise Refused(231_007, "The reaction is not yours.")
        self._take("DELETE reaction", id_, {})
        return {}

    async def _post_card(self, request: web.Request) -> dict[str, Any]:
        body = await _json(request, {"type": str, "data": str})
        card = Card(str(7_000_000_000_000_000_000 + next(self._count)), self._card_json(body))
        self.cards[card.id] = card
        self._take("POST card", card.id, body)
        return {"card_id": card.id}

    async def _put_card(self, request: web.Request, id_: str) -> dict[str, Any]:
        body = await _json(request, {"card": dict, "sequence": int, "uuid?": str})
        card = self._card(id_)
        made = self._card_json(body["card"])
        if card.is_streaming and any(one["tag"] == "button" for one in _elements(made)):
            raise Refused(99_992_402, "field validation failed: no buttons while the card streams")
        self._advance(card, body)
        card.body = made
        self._take("PUT card", id_, body)
        return {}

    async def _patch_card_settings(self, request: web.Request, id_: str) -> dict[str, Any]:
        body = await _json(request, {"settings": str, "sequence": int, "uuid?": str})
        card = self._card(id_)
        settings = _object(body["settings"], 10_002)
        if set(settings) != {"config"}:
            raise Refused(10_002, "settings without config")
        self._advance(card, body)
        card.body["config"] |= settings["config"]
        self._take("PATCH card_settings", id_, body)
        return {}

    async def _put_card_content(self, request: web.Request, id_: str, element: str) -> dict[str, Any]:
        body = await _json(request, {"content": str, "sequence": int, "uuid?": str})
        card = self._card(id_)
        if not card.is_streaming:
            raise Refused(300_309, "Card streaming closed")
        found = next((one for one in _elements(card.body) if one.get("element_id") == element), None)
        if found is None or found["tag"] != "markdown":
            raise Refused(300_310, "Only update text")
        if not 1 <= len(body["content"]) <= 100_000:
            raise Refused(10_002, "content")
        self._advance(card, body)
        found["content"] = body["content"]
        self._checked(card.body, 200_220)
        self._take("PUT card_content", id_, body)
        return {}

    async def _post_card_id(self, request: web.Request) -> dict[str, Any]:
        body = await _json(request, {"message_id": str})
        message = self._message(body["message_id"])
        if message.kind != "interactive":
            raise Refused(10_002, "no card")
        if message.card is None:  # a card that was sent as it is becomes an entity
            message.card = Card(str(7_000_000_000_000_000_000 + next(self._count)), message.content, 0, message.id)
            self.cards[message.card.id] = message.card
        return {"card_id": message.card.id}

    def _advance(self, card: Card, body: Mapping[str, Any]) -> None:
        if not card.sequence < body["sequence"] < 2**31:
            raise Refused(300_317, "The sequence number for operating on the card did not increment consecutively")
        card.sequence = body["sequence"]

    def _card(self, id_: str) -> Card:
        if id_ not in self.cards:
            raise Refused(200_740, "The card entity does not exist")
        if self.cards[id_].message:
            self._message(self.cards[id_].message)
        return self.cards[id_]

    def _card_json(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("type") != "card_json" or not isinstance(body.get("data"), str):
            raise Refused(10_002, "type and data of a card")
        if len(body["data"].encode()) > CARD_MAX_BYTES:
            raise Refused(200_860, "Card content exceeds limit.")
        return self._checked(_object(body["data"], 200_220), 200_220)

    def _checked(self, card: dict[str, Any], code: int) -> dict[str, Any]:
        """A card by the rules of JSON 2.0."""
        if card.get("schema") != "2.0" or set(card) - {"schema", "config", "body", "header"}:
            raise Refused(code, "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err")
        tables = 0
        for element in _elements(card):
            match element.get("tag"):
                case "markdown":
                    tables += self._read(element["content"], code)
                case "button":
                    _check_button(element, code)
                case "div":
                    if element["text"].get("tag") != "plain_text" or not element["text"].get("content"):
                        raise Refused(code, "ErrCode: 200621; a div without its text")
                case "column_set" | "column":
                    pass
                case tag:
                    raise Refused(code, f"ErrCode: 200861; unsupported tag {tag}")
        if tables > TABLES_MAX:
            raise Refused(code, "ErrCode: 11310; ErrMsg: card table number over limit")
        return card

    def _read(self, markdown: Any, code: int) -> int:
        """How many tables a text has; whom it calls is written down."""
        if not isinstance(markdown, str) or not markdown:
            raise Refused(code, "ErrCode: 200621; a markdown without content")
        tokens = _READER.parse(markdown)
        inner = [token for block in tokens for token in [block, *(block.children or ())]]
        if any(one.type.startswith("html") and _AT.search(one.content) for one in inner):
            self.pings.append(markdown)
        tables = sum(one.type == "table_open" for one in tokens)
        if tables > ELEMENT_TABLES_MAX:
            raise Refused(code, "ErrCode: 11310; ErrMsg: more tables than one element shows")
        return tables

    async def _upload(self, request: web.Request, kind: str) -> dict[str, Any]:
        form = await request.post()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        file = form.get(kind)
        wanted = {"image_type"} if kind == "image" else {"file_type", "file_name"}
        if set(fields) - {"duration"} != wanted or not isinstance(file, web.FileField):
            raise Refused(234_001, "Invalid request param.")
        if fields.get("image_type", "message") != "message" or fields.get("file_type", "stream") != "stream":
            raise Refused(234_001, "Invalid request param.")
        content = file.file.read()
        if not content:
            raise Refused(234_010, "File's size can't be 0.")
        if len(content) > (10 if kind == "image" else 30) * 1024 * 1024:
            raise Refused(234_006, "The file size exceed the max value.")
        key = self._id("img" if kind == "image" else "file")
        self.uploads[key] = (kind, content)
        self._take(f"POST {kind}", key, fields)
        return {f"{kind}_key": key}

    def _resource(self, request: web.Request, message: str, key: str) -> web.Response:
        owner, content, mime = self.resources.get(key, ("", b"", ""))
        if not owner or owner != message:
            raise Refused(234_003, "File not in message.")
        if request.query.get("type") not in {"image", "file"}:
            raise Refused(234_001, "Invalid request param.")
        return web.Response(
            body=content, content_type=mime, headers={"Content-Disposition": 'attachment; filename="x"'}
        )

    def _message(self, id_: str) -> Message:
        found = next((one for one in self.messages if one.id == id_), None)
        if found is None:
            raise Refused(230_001, "invalid message_id")
        if found.is_recalled:
            raise Refused(230_011, "The message is recalled.")
        return found

    def _add(self, message: Message) -> Message:
        message.made_ms = message.made_ms or round(time.time() * 1000)
        self.messages.append(message)
        return message

    def _id(self, kind: str) -> str:
        return f"{kind}_{next(self._count):08d}"

    def _take(self, kind: str, id_: str, body: Mapping[str, Any]) -> None:
        self.taken.append(Taken(time.time(), kind, id_, dict(body)))


def mention_of(open_id: str, name: str, key: str = "@_user_1") -> dict[str, Any]:
    """An entry of a message's `mentions`."""
    return {"key": key, "id": {"open_id": open_id, "union_id": "", "user_id": ""}, "name": name, "tenant_key": TENANT}


def encrypted(plain: bytes, key: str = ENCRYPT_KEY, *, vector: bytes | None = None) -> bytes:
    """The body of a request, as Feishu encrypts it."""
    vector = vector or os.urandom(16)
    padder = PKCS7(128).padder()
    closer = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(vector)).encryptor()
    sealed = closer.update(padder.update(plain) + padder.finalize()) + closer.finalize()
    return json.dumps({"encrypt": base64.b64encode(vector + sealed).decode()}).encode()


def sign(raw: bytes, key: str = ENCRYPT_KEY, *, at_s: float | None = None, nonce: str = "nonce") -> dict[str, str]:
    """The headers that prove a body to be Feishu's."""
    stamp = str(int(time.time() if at_s is None else at_s))
    digest = hashlib.sha256(f"{stamp}{nonce}{key}".encode() + raw).hexdigest()
    return {"X-Lark-Request-Timestamp": stamp, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": digest}


def _route(path: list[str]) -> tuple[str, list[str]]:
    """What a path of the API is about, in a word, and the ids in it."""
    match path:
        case ["auth", "v3", "tenant_access_token", "internal"]:
            return "token", []
        case ["bot", "v3", "info"]:
            return "bot", []
        case ["im", "v1", "messages", *ids] if len(ids) <= 1:
            return "message", ids
        case ["im", "v1", "messages", id_, "reply"]:
            return "reply", [id_]
        case ["im", "v1", "messages", id_, "reactions", *ids]:
            return "reaction", [id_, *ids]
        case ["im", "v1", "messages", id_, "resources", key]:
            return "resource", [id_, key]
        case ["im", "v1", "images" | "files" as kind]:
            return kind.removesuffix("s"), []
        case ["cardkit", "v1", "cards", "id_convert"]:
            return "card_id", []
        case ["cardkit", "v1", "cards", *ids] if len(ids) <= 1:
            return "card", ids
        case ["cardkit", "v1", "cards", id_, "settings"]:
            return "card_settings", [id_]
        case ["cardkit", "v1", "cards", id_, "elements", element, "content"]:
            return "card_content", [id_, element]
    return "nothing", []


async def _json(request: web.Request, shape: Mapping[str, type]) -> dict[str, Any]:
    """The JSON object of a request with exactly these fields; those with a `?` may be left out.

    Feishu's own client asks for a token without saying what it sends.
    """
    if request.content_type != "application/json" and "Content-Type" in request.headers:
        raise Refused(99_992_402, "Content-Type is not application/json")
    body = _object(await request.text(), 99_992_402)
    known = {name.removesuffix("?"): kind for name, kind in shape.items()}
    missing = {name for name in shape if not name.endswith("?")} - set(body)
    if missing or set(body) - set(known) or any(not isinstance(body[name], known[name]) for name in body):
        raise Refused(99_992_402, f"field validation failed: {sorted(body)}")
    return body


def _object(text: str, code: int) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(code, "not a JSON object")
    return value


def _elements(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All elements of a card, those in columns too."""
    found: list[dict[str, Any]] = []
    waiting = list(card["body"]["elements"])
    while waiting:
        one = waiting.pop(0)
        found.append(one)
        waiting = [*one.get("columns", ()), *one.get("elements", ()), *waiting]
    return found


def _element_text(element: Mapping[str, Any]) -> str:
    return str(element.get("content") or element.get("text", {}).get("content", ""))


def _check_button(button: Mapping[str, Any], code: int) -> None:
    label = button.get("text", {})
    behaviors = button.get("behaviors", [{}])
    is_fit = (
        label.get("tag") == "plain_text"
        and 1 <= len(label.get("content", "")) <= 100
        and button.get("type") in {"default", "primary", "danger"}
        and all(one.get("type") == "callback" and isinstance(one.get("value"), dict) for one in behaviors)
    )
    if not is_fit:
        raise Refused(code, "ErrCode: 200621; a button that is none")


def _told(message: Message) -> dict[str, Any]:
    """What the API tells of a message. It gives no text of cards back."""
    told: dict[str, Any] = {
        "message_id": message.id,
        "msg_type": message.kind,
        "create_time": str(message.made_ms),
        "update_time": str(message.made_ms),
        "chat_id": message.room,
        "deleted": False,
        "updated": False,
        "sender": {"id": APP_ID, "id_type": "app_id", "sender_type": "app", "tenant_key": TENANT},
        "body": {"content": json.dumps(message.content if message.kind == "text" else {})},
    }
    if message.thread:
        told["thread_id"] = message.thread
    return told


def _ok(data: Mapping[str, Any]) -> web.Response:
    return web.json_response({"code": 0, "msg": "success", "data": data})
