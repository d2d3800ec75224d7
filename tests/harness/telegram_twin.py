"""A stand-in for Telegram: the Bot API's rules kept strictly, a ledger of what it took, updates out.

    async with TelegramTwin() as telegram:
        said = await telegram.say(f"{gateway}/webhooks/telegram", "hi")       # resent like Telegram does
        reply = await telegram.reply_to(said)
        telegram.next(status=429, retry_after=2)                # the next call; `on="editMessageText"` for one method

Connect deskmate with `telegram.connection`. Text is counted in UTF-16 units, the stricter reading of "characters", and
keys that a method does not have are refused, which Telegram itself passes over.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from tests.harness.faults import Fault, Faults
from tests.harness.twins import Said, Shown

BOT_TOKEN: Final = "987654321:AAtwin-token_0123456789"
BOT: Final = 987654321
USERNAME: Final = "agent_bot"
SECRET: Final = "twin_Secret-1"
USER: Final = 100000001
"""A person, and the direct chat with them."""
GROUP: Final = -1001234567890
FORUM: Final = -1009876543210
TOPICS: Final = (36, 854)

ANSWER_WITHIN_S: Final = 10.0
_ROOM: Final = {
    "chat_id",
    "message_thread_id",
    "disable_notification",
    "protect_content",
    "reply_parameters",
    "reply_markup",
}
_TEXT: Final = {"text", "entities", "parse_mode", "link_preview_options"}
_KEYS: Final = {
    "getMe": set(),
    "setWebhook": {"url", "secret_token", "allowed_updates", "max_connections", "drop_pending_updates", "ip_address"},
    "setMyCommands": {"commands", "scope", "language_code"},
    "sendMessage": _ROOM | _TEXT,
    "sendMessageDraft": {"chat_id", "message_thread_id", "draft_id", "text", "entities", "parse_mode"},
    "deleteMessage": {"chat_id", "message_id"},
    "editMessageText": {"chat_id", "message_id", "reply_markup", *_TEXT},
    "editMessageReplyMarkup": {"chat_id", "message_id", "reply_markup"},
    "sendChatAction": {"chat_id", "message_thread_id", "action"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert", "url", "cache_time"},
    "sendDocument": _ROOM | {"document", "caption"},
    "sendPhoto": _ROOM | {"photo", "caption"},
    "getFile": {"file_id"},
}
_ENTITIES: Final = {
    *("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bold", "italic", "underline"),
    *("strikethrough", "spoiler", "blockquote", "expandable_blockquote", "code", "pre", "text_link"),
}
_ACTIONS: Final = {"typing", "upload_photo", "upload_document", "record_voice", "upload_voice", "choose_sticker"}
_MENTION: Final = re.compile(r"(?<!\w)@[A-Za-z0-9_]{2,32}")
_LINK: Final = re.compile(r"(?:https?|tg|ton)://[^\s/]+", re.IGNORECASE)
_SAME: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content "
    "and reply markup of the message"
)


class Refused(Exception):
    """`str()` is the answer's description."""

    def __init__(self, why: str, status: int = 400, **parameters: int) -> None:
        title = {400: "Bad Request: ", 403: "Forbidden: ", 413: "Request Entity Too Large"}.get(status, "")
        super().__init__(title + why)
        self.status = status
        self.parameters = parameters


@dataclass(slots=True)
class Message:
    """One message of ours, as the stand-in keeps it."""

    chat: int
    id: int
    text: str
    entities: list[dict[str, Any]]
    topic: int | None = None
    answers: int | None = None
    keyboard: list[list[dict[str, Any]]] = field(default_factory=list)
    file: tuple[str, bytes, str] | None = None
    """Name, bytes and type of what was uploaded."""

    @property
    def mentions(self) -> list[str]:
        """Whom Telegram tells about it: names in the text, but for code and links."""
        exact = [one for one in self.entities if one["type"] in {"code", "pre", "text_link"}]
        return [
            found[0]
            for found in _MENTION.finditer(self.text)
            if not any(
                one["offset"] <= _units(self.text[: found.start()]) < one["offset"] + one["length"] for one in exact
            )
        ]


@dataclass(frozen=True, slots=True)
class Taken:
    """One call that took effect, in order."""

    at_s: float
    method: str
    body: dict[str, Any]


class TelegramTwin:
    """One bot, the chats it is in, and people. `retry_s`: the pauses before an update that got no 2xx is sent again."""

    platform = "telegram"
    environment: Mapping[str, str] = {"TELEGRAM_BOT_TOKEN": BOT_TOKEN, "TELEGRAM_SECRET_TOKEN": SECRET}

    def __init__(self, *, retry_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)) -> None:
        self.taken: list[Taken] = []
        self.calls: list[str] = []
        """Every call that came in by its method, refused ones too."""
        self.messages: list[Message] = []
        self.drafts: dict[tuple[int, int], str] = {}
        """By chat and the draft's id; gone with the next message there."""
        self.notices: dict[str, str | None] = {}
        """What pressed buttons were answered with, by the query's id; none yet where somebody waits."""
        self.chats: dict[int, dict[str, Any]] = {
            USER: {"id": USER, "type": "private", "first_name": "Test", "username": "testuser"},
            GROUP: {"id": GROUP, "type": "supergroup", "title": "Team"},
            FORUM: {"id": FORUM, "type": "supergroup", "title": "Forum", "is_forum": True},
        }
        self.blocked: set[int] = set()
        self.moved: dict[int, int] = {}
        """Groups that became supergroups, and what they are now."""
        self.webhook: dict[str, Any] = {}
        self.faults = Faults()
        self.slow_s = 0.0
        """How long each call takes."""
        self.url = ""
        """For `api_base`."""
        self._retry_s = retry_s
        self._files: dict[str, tuple[str, bytes]] = {}
        self._count = itertools.count(1_000)
        self._updates = itertools.count(500_000)
        self._in_order: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changed = asyncio.Condition()
        app = web.Application(client_max_size=60_000_000)
        app.add_routes(
            [
                web.route("*", "/bot{token}/{method}", self._call),
                web.get("/file/bot{token}/{path:.*}", self._file),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.end()
        await self._runner.cleanup()
        await self._http.close()

    @property
    def connection(self) -> dict[str, Any]:
        secrets = {"bot_token": "$TELEGRAM_BOT_TOKEN", "secret_token": "$TELEGRAM_SECRET_TOKEN"}
        return {"platform": self.platform, "api_base": self.url, **secrets}

    @property
    def shown(self) -> list[Shown]:
        whole = [
            Shown(
                str(one.chat),
                str(one.id),
                one.text,
                str(one.topic) if one.topic else None,
                [button["text"] for row in one.keyboard for button in row],
                one.file[1] if one.file else None,
            )
            for one in self.messages
        ]
        return whole + [
            Shown(str(chat), f"draft {draft}", text, is_growing=True) for (chat, draft), text in self.drafts.items()
        ]

    # on order

    def next(
        self,
        *,
        description: str = "",
        retry_after: int | None = None,
        times: int = 1,
        **fault: Any,
    ) -> None:
        """The next call fails as told: `status` and `description`, `hang` or `close`, `taken`, `on` a method."""
        made = Fault(**fault)
        if made.status >= 400 and made.body is None:
            body: dict[str, Any] = {"ok": False, "error_code": made.status, "description": description}
            if made.status == 429:
                body["description"] = f"Too Many Requests: retry after {retry_after}"
                body["parameters"] = {"retry_after": retry_after}
            made = Fault(**{**asdict(made), "body": body})
        self.faults.order(made, times)

    # people

    async def mention(self, hook: str, text: str) -> Said:
        return await self.say(hook, f"@{USERNAME} {text}", chat=GROUP)

    async def follow_up(self, hook: str, before: Said, text: str) -> Said:
        chat = int(before.room)
        last = next((one for one in reversed(self.messages) if one.chat == chat), None)
        topic = int(before.thread) if before.thread else None
        return await self.say(hook, text, chat=chat, topic=topic, answers=last.id if last else None)

    async def direct(self, hook: str, text: str) -> Said:
        return await self.say(hook, text)

    async def picture(self, hook: str, text: str, png: bytes) -> Said:
        sizes = [{**self.file("photos/file_1.jpg", png), "width": 90, "height": 90} for _ in range(2)]
        sizes[0] |= {"width": 9, "height": 9, "file_size": 1}
        return await self.say(hook, "", caption=text, photo=sizes)

    async def command(self, hook: str, line: str) -> Said:
        return await self.say(hook, line)

    async def press(self, hook: str, shown: Shown, label: str, *, is_old: bool = False) -> Said:
        """`is_old`: so old a message that Telegram shows no more than where it is."""
        message = next(one for one in self.messages if (str(one.chat), str(one.id)) == (shown.room, shown.id))
        button = next(one for row in message.keyboard for one in row if one["text"] == label)
        query = f"query{next(self._count)}"
        self.notices[query] = None
        body = {
            "id": query,
            "from": _person(USER),
            "message": {"chat": self.chats[message.chat], "message_id": message.id, "date": 0}
            if is_old
            else self._message_of(message),
            "chat_instance": "-42",
            "data": button["callback_data"],
        }
        said = Said(shown.room, str(next(self._count)), shown.thread)  # what is sent from now on comes after it
        said.statuses = await self.deliver(hook, {"callback_query": body}, message.chat)
        return said

    async def say(
        self,
        hook: str,
        text: str,
        *,
        chat: int = USER,
        user: int = USER,
        topic: int | None = None,
        answers: int | None = None,
        **more: Any,
    ) -> Said:
        """A person says something. Mentions, commands, and the message of ours that is answered are marked as Telegram does."""
        message: dict[str, Any] = {
            "message_id": next(self._count),
            "from": _person(user),
            "chat": self.chats[chat],
            "date": int(time.time()),
            **({"text": text, **_marked("entities", text)} if text else {}),
            **_marked("caption_entities", more.get("caption", "")),
            **({"message_thread_id": topic, "is_topic_message": True} if topic else {}),
            **more,
        }
        if answers is not None:
            message["reply_to_message"] = self._message_of(next(one for one in self.messages if one.id == answers))
        said = Said(str(chat), str(message["message_id"]), str(topic) if topic else None)
        said.statuses = await self.deliver(hook, {"message": message}, chat)
        return said

    def file(self, path: str, content: bytes) -> dict[str, Any]:
        """A file as an update shows it: `say(..., document={**it, "file_name": "x.csv"})`."""
        number = next(self._count)
        file = f"BQACAgUAAx{number}"
        self._files[file] = (f"{number}/{path}", content)
        return {"file_id": file, "file_unique_id": f"AgAD{number}", "file_size": len(content)}

    async def deliver(self, hook: str, update: Mapping[str, Any], chat: int = 0) -> list[int]:
        """Send an update, again until it is taken, those of one chat in order; the answers' statuses, 0 for none."""
        raw = json.dumps({"update_id": next(self._updates), **update}).encode()
        statuses: list[int] = []
        async with self._in_order[chat]:
            for pause_s in (0.0, *self._retry_s):
                await asyncio.sleep(pause_s)
                timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
                try:
                    async with self._http.post(hook, data=raw, headers=HEADERS, timeout=timeout) as answer:
                        statuses.append(answer.status)
                except (aiohttp.ClientError, TimeoutError):
                    statuses.append(0)
                if 200 <= statuses[-1] < 300:
                    break
        return statuses

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever a call was taken."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Shown:
        def found() -> Shown | None:
            there = (
                one for one in self.shown if (one.room, one.thread) == (said.room, said.thread) and not one.is_growing
            )
            return next((one for one in there if int(one.id) > int(said.id)), None)

        reply = await self.until(found, timeout_s)
        assert isinstance(reply, Shown)
        return reply

    # the Bot API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        await asyncio.sleep(self.slow_s)
        fault = self.faults.take(method)
        if fault and not fault.taken:
            return await self.faults.show(request, fault)
        status = 200
        try:
            answer = {"ok": True, "result": await self._answer(request, method)}
        except Refused as why:
            status = why.status
            answer = {"ok": False, "error_code": status, "description": str(why)}
            if why.parameters:
                answer["parameters"] = why.parameters
        async with self._changed:
            self._changed.notify_all()
        if fault:
            return await self.faults.show(request, fault)
        return web.json_response(answer, status=status)

    async def _answer(self, request: web.Request, method: str) -> Any:
        token = request.match_info["token"]
        if not re.fullmatch(r"\d+:[A-Za-z0-9_-]+", token) or method not in _KEYS:
            raise Refused("Not Found", 404)
        if token != BOT_TOKEN:
            raise Refused("Unauthorized", 401)
        arguments = await _arguments(request)
        if unknown := set(arguments) - _KEYS[method]:
            raise Refused(f"{method} has no {', '.join(sorted(unknown))}")
        answer = getattr(self, f"_{method}")(arguments)
        written = {
            name: value.filename if isinstance(value, web.FileField) else value for name, value in arguments.items()
        }
        self.taken.append(Taken(time.time(), method, written))
        return answer

    def _getMe(self, _: dict[str, Any]) -> dict[str, Any]:  # noqa: N802  # as the method is called
        return {"id": BOT, "is_bot": True, "first_name": "Agent", "username": USERNAME}

    def _setWebhook(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        if not str(arguments.get("url")).startswith("https://"):
            raise Refused("bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", arguments.get("secret_token", "")):
            raise Refused("secret token contains unallowed characters")
        self.webhook = arguments
        return True

    def _setMyCommands(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        for one in arguments["commands"]:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", one["command"]) or not 1 <= len(one["description"]) <= 256:
                raise Refused("BOT_COMMAND_INVALID")
        return True

    def _sendMessage(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return self._post(arguments, *_said(arguments))

    def _sendDocument(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return self._post(arguments, file=_uploaded(arguments, "document", 50_000_000))

    def _sendPhoto(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        name, content, mime = _uploaded(arguments, "photo", 10_000_000)
        if not content.startswith((b"\x89PNG", b"\xff\xd8")):
            raise Refused("IMAGE_PROCESS_FAILED")
        return self._post(arguments, file=(name, content, mime))

    def _post(
        self,
        arguments: dict[str, Any],
        text: str = "",
        entities: list[dict[str, Any]] | None = None,
        file: tuple[str, bytes, str] | None = None,
    ) -> dict[str, Any]:
        chat, topic = self._room(arguments)
        answers = arguments.get("reply_parameters")
        if answers is not None and not isinstance(answers.get("message_id"), int):
            raise Refused("can't parse reply parameters: Can't find field \"message_id\"")
        message = Message(
            chat, next(self._count), text, entities or [], topic, keyboard=_keyboard(arguments), file=file
        )
        message.answers = answers["message_id"] if answers else None
        self.messages.append(message)
        self.drafts = {place: draft for place, draft in self.drafts.items() if place[0] != chat}
        return self._message_of(message)

    def _sendMessageDraft(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        chat, _ = self._room(arguments)
        if self.chats[chat]["type"] != "private":
            raise Refused("TEXTDRAFT_PEER_INVALID")
        if not isinstance(arguments.get("draft_id"), int) or arguments["draft_id"] == 0:
            raise Refused("DRAFT_ID_INVALID")
        self.drafts[chat, arguments["draft_id"]] = _said(arguments, least=0)[0]
        return True

    def _editMessageText(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        message = self._ours(arguments)
        new = (*_said(arguments), _keyboard(arguments))
        if new == (message.text, message.entities, message.keyboard):
            raise Refused(_SAME)
        message.text, message.entities, message.keyboard = new
        return self._message_of(message)

    def _editMessageReplyMarkup(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        message = self._ours(arguments)
        if message.keyboard == (keyboard := _keyboard(arguments)):
            raise Refused(_SAME)
        message.keyboard = keyboard
        return self._message_of(message)

    def _deleteMessage(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        self.messages.remove(self._ours(arguments, "message to delete not found"))
        return True

    def _sendChatAction(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        self._room(arguments)
        if arguments.get("action") not in _ACTIONS:
            raise Refused("wrong parameter action in request")
        return True

    def _answerCallbackQuery(self, arguments: dict[str, Any]) -> bool:  # noqa: N802
        query, text = str(arguments.get("callback_query_id")), arguments.get("text", "")
        if self.notices.get(query, "") is not None:
            raise Refused("query is too old and response timeout expired or query ID is invalid")
        if _units(text) > 200:
            raise Refused("MESSAGE_TOO_LONG")
        self.notices[query] = text
        return True

    def _getFile(self, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        file = str(arguments.get("file_id"))
        if file not in self._files:
            raise Refused("wrong file_id or the file is temporarily unavailable")
        path, content = self._files[file]
        if len(content) > 20_000_000:
            raise Refused("file is too big")
        return {"file_id": file, "file_unique_id": "AgAD", "file_size": len(content), "file_path": path}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if fault := self.faults.take("file"):
            return await self.faults.show(request, fault)
        found = next((content for path, content in self._files.values() if path == request.match_info["path"]), None)
        if request.match_info["token"] != BOT_TOKEN or found is None:
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
        return web.Response(body=found, content_type="application/octet-stream")

    def _room(self, arguments: Mapping[str, Any]) -> tuple[int, int | None]:
        chat, topic = arguments.get("chat_id"), arguments.get("message_thread_id")
        if chat in self.moved:
            raise Refused("group chat was upgraded to a supergroup chat", migrate_to_chat_id=self.moved[chat])
        if chat not in self.chats:
            raise Refused("chat not found")
        if chat in self.blocked:
            raise Refused("bot was blocked by the user", 403)
        if topic is not None and not (chat == FORUM and topic in TOPICS):
            raise Refused("message thread not found")
        return chat, topic

    def _ours(self, arguments: Mapping[str, Any], why: str = "message to edit not found") -> Message:
        chat, _ = self._room(arguments)
        place = (chat, arguments.get("message_id"))
        found = next((one for one in self.messages if (one.chat, one.id) == place), None)
        if found is None:
            raise Refused(why)
        return found

    def _message_of(self, message: Message) -> dict[str, Any]:
        """One of ours as an answer and an update show it."""
        topic = {"message_thread_id": message.topic, "is_topic_message": True} if message.topic else {}
        markup = {"reply_markup": {"inline_keyboard": message.keyboard}} if message.keyboard else {}
        return {
            "message_id": message.id,
            "from": {"id": BOT, "is_bot": True, "first_name": "Agent", "username": USERNAME},
            "chat": self.chats[message.chat],
            "date": int(time.time()),
            "text": message.text,
            **topic,
            **markup,
        }


HEADERS: Final = {"Content-Type": "application/json", "X-Telegram-Bot-Api-Secret-Token": SECRET}
"""Of an update."""


def _person(user: int) -> dict[str, Any]:
    return {"id": user, "is_bot": False, "first_name": "Test", "username": f"user{user}", "language_code": "en"}


def _marked(field: str, text: str) -> dict[str, Any]:
    """The entities that Telegram finds in what people write: names and commands."""
    found = [("mention", one) for one in _MENTION.finditer(text)]
    found += [("bot_command", one) for one in re.finditer(r"(?<!\S)/[A-Za-z0-9_]{1,32}(?:@\w+)?", text)]
    entities = [{"type": kind, "offset": _units(text[: one.start()]), "length": len(one[0])} for kind, one in found]
    return {field: entities} if entities else {}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


async def _arguments(request: web.Request) -> dict[str, Any]:
    """By JSON, or by a form whose fields are text, JSON or files."""
    if request.method == "GET":
        return dict(request.query)
    if request.content_type == "application/json":
        try:
            given = json.loads(await request.read())
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise Refused("can't parse JSON object")
        return given
    if request.content_type not in {
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/octet-stream",
    }:
        raise Refused(f"a content type that is not supported: {request.content_type}")
    form = await request.post()
    return {name: value if isinstance(value, web.FileField) else _value(name, value) for name, value in form.items()}


def _value(name: str, written: Any) -> Any:
    if name in {"text", "caption", "url", "secret_token", "action", "callback_query_id", "file_id", "language_code"}:
        return written
    try:
        return json.loads(written)
    except ValueError:
        return written


def _said(arguments: Mapping[str, Any], least: int = 1) -> tuple[str, list[dict[str, Any]]]:
    """The text and its entities, by the documented rules."""
    text, entities = arguments.get("text"), arguments.get("entities", [])
    if not isinstance(text, str) or len(text.strip()) < least:
        raise Refused("message text is empty")
    if arguments.get("parse_mode"):
        raise Refused("can't parse entities: this stand-in reads no markup")
    if _units(text) > 4_096:
        raise Refused("message is too long")
    if not isinstance(arguments.get("link_preview_options", {}), dict):
        raise Refused("can't parse link preview options")
    _check_entities(text, entities)
    return text, entities[:100]  # the others are passed over


def _check_entities(text: str, entities: Any) -> None:
    if not isinstance(entities, list) or not all(isinstance(one, dict) for one in entities):
        raise Refused("can't parse entities: expected an Array")
    spans = []
    raw = text.encode("utf-16-le")
    for one in entities:
        kind, begin, length = one.get("type"), one.get("offset"), one.get("length")
        extra = {"text_link": {"url"}, "pre": {"language"}}.get(str(kind), set())
        if kind not in _ENTITIES or set(one) - {"type", "offset", "length", *extra}:
            raise Refused(f"can't parse entities: unsupported {one}")
        if not isinstance(begin, int) or not isinstance(length, int) or begin < 0 or length <= 0:
            raise Refused("can't parse entities: an entity without a place")
        if begin + length > len(raw) // 2:
            raise Refused("can't parse entities: an entity ends behind the text")
        try:
            raw[2 * begin : 2 * (begin + length)].decode("utf-16-le")
        except UnicodeDecodeError:
            raise Refused("can't parse entities: an entity cuts a character in two") from None
        if kind == "text_link" and not _LINK.match(str(one.get("url"))):
            raise Refused("Wrong message entity: Unsupported URL protocol")
        spans.append((begin, begin + length, kind))
    for (begin, end, kind), (other, stop, inner) in itertools.permutations(spans, 2):
        if begin < other < end < stop:
            raise Refused("can't parse entities: two that overlap")
        if kind in {"code", "pre"} and begin <= other and stop <= end and inner != "blockquote":
            raise Refused("can't parse entities: something inside of code")


def _keyboard(arguments: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    markup = arguments.get("reply_markup", {"inline_keyboard": []})
    rows = markup.get("inline_keyboard") if isinstance(markup, dict) else None
    if not isinstance(rows, list):
        raise Refused("object expected as reply markup")
    for button in itertools.chain.from_iterable(rows):
        if set(button) - {"text", "callback_data", "style"} or not button.get("text"):
            raise Refused("can't parse inline keyboard button")
        if not 1 <= len(str(button.get("callback_data", "")).encode()) <= 64:
            raise Refused("BUTTON_DATA_INVALID")
        if button.get("style", "danger") not in {"danger", "success", "primary"}:
            raise Refused("can't parse inline keyboard button: wrong style")
    return rows


def _uploaded(arguments: Mapping[str, Any], field: str, most: int) -> tuple[str, bytes, str]:
    file = arguments.get(field)
    if not isinstance(file, web.FileField):
        raise Refused(f"there is no {field} in the request")
    content = file.file.read()
    if not content:
        raise Refused("file must be non-empty")
    if len(content) > most:
        raise Refused("", 413)
    return file.filename, content, file.content_type
