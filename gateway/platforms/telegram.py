"""Telegram: the Bot API's webhook in, its methods out.

One connection is one bot. A conversation is a chat, or a topic of one: its key holds the chat's id, and as `thread` the
topic's. The token stands in the address of every call, so no address is ever logged or put into a detail.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from pydantic import Field, SecretStr, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.commands import ALSO, spoken
from gateway.conversation.key import ConversationKey, key_of
from gateway.events import Actor, Attachment, Event, kind_of
from gateway.files import FILE_MAX_BYTES
from gateway.phrases import LANGUAGES, say
from gateway.platforms import (
    Address,
    Button,
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
from gateway.text.dialect import ZERO_WIDTH, Entity, EntityKind, Rich, rich
from gateway.text.links import without_links
from gateway.text.markdown import fitting, split, utf16
from gateway.wire import (
    DOWNLOAD_S,
    UPLOAD_S,
    Answer,
    by_status,
    call,
    dumped,
    file_of,
    form,
    harmless,
    media_type,
    object_of,
    objects_of,
    one_header,
    origin,
    read_json,
    size_of,
    text_of,
    waits,
)

PROOF: Final = "X-Telegram-Bot-Api-Secret-Token"
TEXT_LIMIT: Final = 4_096
"""Of a message, after its entities are taken out. Telegram says characters; UTF-16 units are never fewer."""
NOTICE_LIMIT: Final = 200
"""Of what a pressed button is answered with."""
ENTITIES_MAX: Final = 100
"""Of a message; Telegram passes over what is more, and a link would lose its address."""
ENTITIES_READ: Final = 1_000
"""How many of what comes in are looked at; Telegram sends far fewer."""
SEND_MAX_BYTES: Final = min(50_000_000, FILE_MAX_BYTES)
"""Of a file. Telegram takes pictures as photos up to 10 MB."""
UPDATES: Final = ("message", "edited_message", "callback_query")
"""What we ask Telegram to send."""
ANSWERS: Final = "answers"
"""In `Event.extra`: the message of a group that our reply is shown as an answer to."""
CALLBACK: Final = "callback"
"""In `Event.extra`: a pressed button's waiting sign."""

_TOKEN: Final = re.compile(r"([0-9]{1,16}):[A-Za-z0-9_-]{1,128}", re.ASCII)
_CALL: Final = re.compile(r"(?<![A-Za-z0-9_])@(?=\w)")
"""What Telegram would make a mention of: it tells the person, wherever the text came from."""
_COMMAND: Final = re.compile(r"/([^\s@]+)(?:@(\S*))?(.*)", re.DOTALL)

_OF_OTHERS: Final = frozenset({"forward_origin", "forward_date", "via_bot"})
"""With one of these a message holds what somebody else wrote, or a bot for the sender; servers of one's own may say the second."""
_FILES: Final = ("animation", "document", "video", "audio")  # an animation comes as a document, too
_UNREAD: Final = (
    *("voice", "video_note", "sticker", "venue", "location", "contact", "poll", "dice", "story", "game"),
    *("checklist", "paid_media", "invoice"),
)
"""Kinds of content that nobody reads, by their field; a venue has a location, too."""

_ENTITIES: Final[dict[EntityKind, str]] = {
    "bold": "bold",
    "italic": "italic",
    "strike": "strikethrough",
    "code": "code",
    "block": "pre",
    "link": "text_link",
    "quote": "blockquote",
}
_MEANINGS: Final[tuple[tuple[OutcomeKind, re.Pattern[str]], ...]] = (
    ("bad_format", re.compile(r"entit(?:y|ies)")),
    ("too_long", re.compile(r"too[ _](?:long|big|large)")),
    (
        "target_gone",
        re.compile(
            r"(?:chat|user|thread|message to (?:edit|delete)) not found|peer_id_invalid|message_id_invalid|channel_private"
            r"|group chat was|topic_(?:closed|deleted|id_invalid)|rights to send|chat_(?:write_forbidden|restricted)"
            r"|message can't be (?:edited|deleted)"
        ),
    ),
)
"""What the description of an error 400 says, in small letters. Telegram has no codes for it."""


class Settings(Connection):
    """Keys of a connection with `platform: telegram`."""

    api_base: WebAddress = "https://api.telegram.org"
    """Where the Bot API is: `<api_base>/bot<token>/sendMessage`, files at `<api_base>/file/bot<token>/...`."""
    bot_token: Secret
    """What BotFather gives, `123456:ABC...`; its digits are the bot's id."""
    secret_token: Secret
    """1 to 256 of `A-Z a-z 0-9 _ -`, the same as `setWebhook` was told; the only proof that an update is Telegram's."""
    username: str | None = Field(None, pattern=r"^@?[A-Za-z0-9_]{3,64}$")
    """The bot's own name, for mentions, if `getMe` can't be asked at the start."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @field_validator("api_base")
    @classmethod
    def _has_an_origin(cls, value: str) -> str:
        origin(value)
        return value

    @field_validator("bot_token")
    @classmethod
    def _is_a_token(cls, value: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("wanted is a bot's token: digits, a colon, and letters, digits, _ and -")
        return value

    @field_validator("secret_token")
    @classmethod
    def _is_a_secret(cls, value: SecretStr) -> SecretStr:
        # Telegram takes shorter ones. This is all that proves who sends, and may be tried as often as anybody likes.
        if not re.fullmatch(r"[A-Za-z0-9_-]{12,256}", value.get_secret_value(), re.ASCII):
            raise ValueError("wanted are 12 to 256 of A-Z, a-z, 0-9, _ and -")
        return value


GUIDE: Final = Guide(
    steps=(
        "Write `/newbot` to <https://t.me/BotFather> and put the token that it gives into `$TELEGRAM_BOT_TOKEN`.",
        "Make a secret, `openssl rand -hex 32`, and put it into `$TELEGRAM_SECRET_TOKEN`.",
        "Add a connection `{name}`: `platform: telegram`, and the two as `bot_token` and `secret_token`.",
        "Have Telegram send to `{url}`, which must be HTTPS: `deskmate connect telegram --name {name}` does it then.",
        "Add the bot to groups. There it sees what is meant for it; as an administrator it sees everything.",
        "Who writes to the bot directly and is named nowhere gets a code: `deskmate pair CODE` lets them in.",
    ),
    anybody_writes=True,
    tells_guests="nothing",
)


class Adapter(Plain):
    """One bot."""

    capabilities = Capabilities(
        text_limit=TEXT_LIMIT,
        limit_unit="utf16",
        columns=40,  # a phone shows about so many
        buttons=8,
        file_max_bytes=SEND_MAX_BYTES,
        typing_s=5.0,
        pace=(Pace("channel", 1, 1.0), Pace("connection", 30, 1.0)),
    )

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.me: Actor | None = None
        """Who we are, once `identity` was asked."""
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._files = outside.files
        self._secret = settings.secret_token.get_secret_value().encode()
        token = settings.bot_token.get_secret_value()
        self._bot = int(token.partition(":")[0])
        self._methods = URL(settings.api_base) / f"bot{token}"
        self._downloads = URL(settings.api_base) / "file" / f"bot{token}"

    @property
    def is_ready(self) -> bool:
        """Without our name no mention, and no command with a name behind it, is known to be ours."""
        return bool(self._username())

    @property
    def registers(self) -> bool:
        return True

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        del now_s
        given = one_header(request, PROOF).encode()
        if not hmac.compare_digest(given, self._secret):
            raise Unauthorized(f"{PROOF}: does not match (is secret_token what setWebhook was told?)")

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        if media_type(request) != "application/json":
            raise Malformed("an update is JSON")
        update = read_json(request.body)
        key = f"update:{self._bot}:{_id('update_id', update.get('update_id'))}"
        for kind, said in (("message", "message"), ("edited_message", "edit")):
            if kind in update:
                return self._said(key, said, object_of(update[kind]))
        return self._press(key, object_of(update.get("callback_query")), now_s)

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        del events  # a body would be taken for a call
        return HttpReply()

    def render(self, outbound: Outbound) -> list[Part]:
        made = fitting(outbound.markdown, TEXT_LIMIT, _unmarked_length, _written, _size)
        parts = [
            Part(_payload(written), {"text": _unmarked(source)}, outbound.only_for)
            for source, written in made or [("…", Rich("…"))]
        ]
        if outbound.buttons:
            markup = {"reply_markup": {"inline_keyboard": [[_button(one)] for one in outbound.buttons]}}
            last = parts[-1]
            parts[-1] = replace(last, payload={**last.payload, **markup}, fallback={**(last.fallback or {}), **markup})
        return parts

    def stream(self, to: Address) -> Stream:
        return Stream("passing", interval_s=1.0) if _is_private(to) else Stream("message", interval_s=3.0)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        del key  # Telegram has nothing to know it again by
        if part.file:
            return await self._send_file(to, part.file)
        return await self._post("sendMessage", {**_place(to), **part.payload, **_QUIET})

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        outcome, _ = await self._ask("editMessageText", {**_message(to, sent), **part.payload, **_QUIET})
        if outcome.kind == "ok" or "message is not modified" in outcome.detail:
            return Outcome("ok", sent)
        return harmless(outcome)

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        outcome, _ = await self._ask("deleteMessage", _message(to, sent))
        return harmless(outcome)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        parts = self.render(Outbound(growing.markdown))
        if not _is_private(to):
            return await self.edit(to, sent, parts[0]) if sent else await self.send(to, parts[0], key)
        # A draft is gone by itself, so of a long answer the end is shown. Without a text Telegram shows that we think.
        payload = parts[-1].payload if growing.markdown.strip() else {"text": ""}
        body = {**_channel(to), "draft_id": _draft(key), **payload}
        outcome, _ = await self._ask("sendMessageDraft", body)
        return outcome

    async def typing(self, to: Address, *, on: bool) -> None:
        if on:
            await self._ask("sendChatAction", {**_channel(to), "action": "typing"})

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        said = str(split(rich(text).text, NOTICE_LIMIT, utf16)[0])
        await self._ask("answerCallbackQuery", {"callback_query_id": text_of(event.extra.get(CALLBACK)), "text": said})
        if is_settled:
            await self._ask("editMessageReplyMarkup", _message(to, Sent(event.message_id)))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """By way of `getFile`, which names a path: the token never leaves for another host."""
        file_id = text_of(attachment.fetch.get("file_id"))
        if not file_id:
            raise NotDownloaded("Telegram gives no file of it")
        if attachment.size_bytes > max_bytes:
            raise NotDownloaded(f"it has {attachment.size_bytes} bytes, allowed are {max_bytes}")
        outcome, answer = await self._ask("getFile", {"file_id": file_id})
        if outcome.kind != "ok":
            raise NotDownloaded(f"Telegram did not give it: {outcome.detail}")
        file = object_of(answer.get("result"))
        path = text_of(file.get("file_path"))
        if {"", ".", ".."} & set(path.split("/")):  # an own Bot API server may name a file of its disk
            raise NotDownloaded("Telegram gave no path that can be downloaded from")
        url = self._downloads / path
        got = await call(self._http, "GET", url, headers={}, timeout_s=DOWNLOAD_S, max_bytes=max_bytes)
        size = size_of(file.get("file_size")) or attachment.size_bytes
        return file_of(got, "Telegram", replace(attachment, size_bytes=size))

    async def identity(self) -> Actor:
        outcome, answer = await self._ask("getMe", {})
        if outcome.kind == "auth_failed":
            raise ConnectionRefused(f"{outcome.detail} (is bot_token what BotFather gave?)")
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)
        me = object_of(answer.get("result"))
        if me.get("id") != self._bot:
            raise ConnectionRefused("getMe: somebody else than bot_token says (is api_base the Bot API?)")
        self.me = Actor(str(self._bot), text_of(me.get("username")), is_bot=True, is_self=True)
        return self.me

    async def register(self, url: str) -> str:
        hook = {"url": url, "secret_token": self._secret.decode(), "allowed_updates": UPDATES}
        await self._do("setWebhook", hook)
        for language in LANGUAGES:
            menu = [
                {"command": name, "description": say(f"command.{ALSO.get(name, name)}.summary", language)}
                for name in spoken()
            ]
            whose = {} if language == "en" else {"language_code": language}
            await self._do("setMyCommands", {"commands": menu, **whose})
        return f"Telegram sends to {url} from now on, and offers our commands in its menu."

    # reading

    def _said(self, key: str, kind: str, message: dict[str, Any]) -> list[Event]:
        conversation, is_direct = self._conversation(message)
        sender = object_of(message.get("from"))
        # What is said in the name of a channel, or of the group itself, is nobody's whose rights could be asked for.
        if conversation is None or not sender or "sender_chat" in message:
            return []
        attachments = _attachments(message)
        raw = _text(message)
        if not raw and not attachments:
            return []  # that somebody came, that something was pinned
        actor = self._actor(sender)
        message_id = _id("message_id", message.get("message_id"))
        entities = objects_of(message.get("entities") or message.get("caption_entities"))[:ENTITIES_READ]
        is_forwarded = not _OF_OTHERS.isdisjoint(message)
        text, mentioned = ("", False) if is_forwarded else self._without_us(raw, entities)
        name = ""
        if not is_forwarded and any(one.get("type") == "bot_command" and one.get("offset") == 0 for one in entities):
            name, whose, text = _commanded(text)
            if whose not in {"", self._username()}:
                return []  # a command for another bot
            mentioned = mentioned or bool(whose)
        answered = object_of(message.get("reply_to_message"))
        quoted = text_of(object_of(message.get("quote")).get("text")) or _text(answered)
        is_of_others = "external_reply" in message or not _OF_OTHERS.isdisjoint(answered)
        others = [raw if is_forwarded else "", quoted if is_of_others else ""]
        is_answer = (
            object_of(answered.get("from")).get("id") == self._bot
            and "forum_topic_created" not in answered  # each message of a topic answers the topic's first
            and not actor.is_bot
        )
        if name == "start" and is_direct:
            name = text = ""  # how every chat with a bot begins
        return [
            Event(
                kind="command" if name and kind == "message" else kind,
                conversation=conversation,
                actor=actor,
                dedupe_keys=(key,),
                at_ms=size_of(message.get("edit_date") or message.get("date")) * 1_000,
                message_id=message_id,
                text=text,
                name=name if kind == "message" else "",
                addressed=is_direct or mentioned or is_answer,
                is_direct=is_direct,
                attachments=tuple(replace(one, is_forwarded=is_forwarded) for one in attachments),
                quoted="" if is_of_others else quoted,
                forwarded="\n".join(filter(None, others)),
                parent_id=str(answered.get("message_id", ""))[:32] if is_answer else "",
                group=text_of(message.get("media_group_id")),
                extra={} if is_direct else {ANSWERS: int(message_id)},
            )
        ]

    def _press(self, key: str, query: dict[str, Any], now_s: float) -> list[Event]:
        message, sender = object_of(query.get("message")), object_of(query.get("from"))
        data, callback = text_of(query.get("data")), text_of(query.get("id"))
        # Of a message that is too old Telegram tells no more than where it is. It asks us, so that the button is ours.
        is_ours = object_of(message.get("from")).get("id") == self._bot or _is_inaccessible(message)
        if not is_ours or not (sender and data and callback):
            return []
        conversation, is_direct = self._conversation(message)
        if conversation is None:
            return []
        return [
            Event(
                kind="action",
                conversation=conversation,
                actor=self._actor(sender),
                dedupe_keys=(key,),
                at_ms=round(now_s * 1_000),
                message_id=_id("message_id", message.get("message_id")),
                value=data,
                is_direct=is_direct,
                extra={CALLBACK: callback},
            )
        ]

    def _conversation(self, message: dict[str, Any]) -> tuple[ConversationKey | None, bool]:
        """Where it belongs, and whether that is a chat with us alone; none for a kind of chat that we don't serve.

        Outside of topics the field holds a chain of answers, which is no conversation of its own.
        """
        chat = object_of(message.get("chat"))
        if text_of(chat.get("type")) not in {"private", "group", "supergroup"}:
            return None, False
        is_topic = message.get("is_topic_message") is True
        topic = _id("message_thread_id", message.get("message_thread_id")) if is_topic else None
        return key_of(self._connection, _id("chat", chat.get("id")), topic), chat["type"] == "private"

    def _actor(self, sender: dict[str, Any]) -> Actor:
        actor = _id("from", sender.get("id"))
        parts = (text_of(sender.get("first_name")), text_of(sender.get("last_name")))
        return Actor(
            actor,
            " ".join(filter(None, parts)) or text_of(sender.get("username")),
            is_bot=sender.get("is_bot") is True,
            is_self=int(actor) == self._bot,
            language=text_of(sender.get("language_code")) or None,
        )

    def _username(self) -> str:
        """Our name in small letters, as far as the settings and `getMe` tell."""
        return (self._settings.username or (self.me.name if self.me else "")).removeprefix("@").lower()

    def _without_us(self, text: str, entities: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
        """The text without mentions of us, and whether there was one. Offsets count UTF-16 code units."""
        raw = text.encode("utf-16-le")
        kept, at = "", 0
        for entity in entities:
            begin, length = entity.get("offset"), entity.get("length")
            if not isinstance(begin, int) or not isinstance(length, int):
                continue
            end = begin + length
            if at <= begin < end <= len(raw) // 2 and self._is_us(entity, raw[2 * begin : 2 * end]):
                kept = _joined(kept, raw[2 * at : 2 * begin].decode("utf-16-le", "replace"))
                at = end
        return _joined(kept, raw[2 * at :].decode("utf-16-le", "replace")).strip(), at > 0

    def _is_us(self, entity: Mapping[str, Any], said: bytes) -> bool:
        if entity.get("type") == "mention":
            return said.decode("utf-16-le", "replace").lower() == f"@{self._username()}"
        return entity.get("type") == "text_mention" and object_of(entity.get("user")).get("id") == self._bot

    # calling

    async def _send_file(self, to: Address, file: Attachment) -> Outcome:
        try:
            content = await self._files.read(file.fetch, SEND_MAX_BYTES)
        except NotDownloaded as why:
            return Outcome("rejected", detail=f"file not sent: {why}")
        if file.mime in {"image/jpeg", "image/png"}:
            outcome = await self._post("sendPhoto", _place(to), {"photo": (file, content)})
            if outcome.kind not in {"rejected", "too_long", "bad_format"}:  # such as a picture that is far too wide
                return outcome
        return await self._post("sendDocument", _place(to), {"document": (file, content)})

    async def _post(self, method: str, body: dict[str, Any], files: _Files | None = None) -> Outcome:
        """One method that makes a message."""
        outcome, answer = await self._ask(method, body, files)
        if outcome.kind != "ok":
            return outcome
        sent = _sent(answer)
        return Outcome("ok", sent) if sent else Outcome("ambiguous", detail=f"{method}: ok without a message")

    async def _do(self, method: str, body: dict[str, Any]) -> None:
        outcome, _ = await self._ask(method, body)
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)

    async def _ask(
        self, method: str, body: dict[str, Any], files: _Files | None = None
    ) -> tuple[Outcome, dict[str, Any]]:
        """One method, and the whole answer. A group that became a supergroup is asked again under its new id."""
        for _ in range(2):
            outcome, told = _understood(method, await self._call(method, body, files))
            moved = object_of(told.get("parameters")).get("migrate_to_chat_id")
            if not isinstance(moved, int):
                break
            body = {**body, "chat_id": moved}
        return outcome, told

    async def _call(self, method: str, body: dict[str, Any], files: _Files | None) -> Answer | Outcome:
        content_type, raw = "application/json", dumped(body)
        if files:
            content_type, raw = form({name: dumped(value).decode() for name, value in body.items()}, files)
        return await call(
            self._http,
            "POST",
            self._methods / method,
            headers={"Content-Type": content_type},
            body=raw,
            timeout_s=UPLOAD_S if files else self._settings.timeout_s,
        )


_Files = Mapping[str, tuple[Attachment, bytes]]
"""Files of a form, by field."""
# `sendMessageDraft` has no such argument.
_QUIET: Final = {"link_preview_options": {"is_disabled": True}}


def _id(name: str, value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**53:
        raise Malformed(f"{name}: missing, or not an id")
    return str(value)


def _text(message: Mapping[str, Any]) -> str:
    return text_of(message.get("text")) or text_of(message.get("caption"))


def _is_inaccessible(message: Mapping[str, Any]) -> bool:
    return message.get("date") == 0 and "from" not in message


def _commanded(text: str) -> tuple[str, str, str]:
    """Of `/ask@some_bot what`: the command, whose it is, both in small letters, and what follows."""
    said = _COMMAND.fullmatch(text)
    return (said[1].lower(), (said[2] or "").lower(), said[3].strip()) if said else ("", "", "")


def _joined(left: str, right: str) -> str:
    """What stood before and behind something that is left out, with one blank where there were two."""
    blank = " " if left.endswith(" ") and right.startswith(" ") else ""
    return left.rstrip(" ") + blank + right.lstrip(" ")


def _attachments(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    if sizes := objects_of(message.get("photo")):
        largest = max(sizes, key=lambda one: size_of(one.get("width")) * size_of(one.get("height")))
        return (_attachment(largest, "image", "photo.jpg", "image/jpeg"),)
    for field in _FILES:
        if file := object_of(message.get(field)):
            mime = text_of(file.get("mime_type"))
            return (_attachment(file, kind_of(mime), "", mime),)
    return next(((Attachment(kind, "", "", 0),) for kind in _UNREAD if kind in message), ())


def _attachment(file: Mapping[str, Any], kind: str, name: str, mime: str) -> Attachment:
    file_id = text_of(file.get("file_id"))
    return Attachment(
        kind=kind,
        name=text_of(file.get("file_name")) or name,
        mime=mime,
        size_bytes=size_of(file.get("file_size")),
        fetch={"file_id": file_id} if file_id else {},
    )


# writing


def calm(text: str) -> str:
    """Text that mentions nobody: behind each @ a character that is not seen."""
    return _CALL.sub(f"@{ZERO_WIDTH}", text)


def _unmarked(markdown: str) -> str:
    """The source, for when Telegram refuses our entities: code is no code there."""
    return calm(_CODE.sub(lambda code: f"`{without_links(code[1])}`", markdown))


def _unmarked_length(markdown: str) -> int:
    return utf16(_unmarked(markdown))


_CODE: Final = re.compile("`([^`\n]+)`")


def _written(markdown: str) -> Rich:
    """The text and its entities, mentioning nobody. Telegram takes no `mailto:` in a link, so that is written out."""
    made = rich(markdown)
    put = [
        (one.offset + one.length, f" ({address})")
        for one in made.entities
        if _is_mail(one) and (address := one.note.removeprefix("mailto:")) not in _within(made.text, one)
    ]
    exact = [
        one
        for one in made.entities
        if one.kind in {"code", "block"} or (one.kind == "link" and one.note == _within(made.text, one))
    ]
    seen = offset = 0
    for match in _CALL.finditer(made.text):
        offset += utf16(made.text[seen : match.end()])
        seen = match.end()
        if not any(one.offset < offset < one.offset + one.length for one in exact):
            put.append((offset, ZERO_WIDTH))
    return _with(made, sorted(put))


def _size(made: Rich) -> int:
    """In UTF-16 code units; too much where the entities are too many."""
    return utf16(made.text) if len(made.entities) <= ENTITIES_MAX else TEXT_LIMIT + 1


def _is_mail(entity: Entity) -> bool:
    return entity.kind == "link" and entity.note.lower().startswith("mailto:")


def _within(text: str, entity: Entity) -> str:
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def _with(made: Rich, put: Sequence[tuple[int, str]]) -> Rich:
    """With these texts put in at their places, in UTF-16 code units and in order, and without links to mailboxes."""
    at = [place for place, _ in put]
    grown = [0, *accumulate(utf16(text) for _, text in put)]
    raw = bytearray(made.text.encode("utf-16-le", "surrogatepass"))
    for place, text in reversed(put):
        raw[2 * place : 2 * place] = text.encode("utf-16-le")
    entities = []
    for one in made.entities:
        begin = one.offset + grown[bisect_right(at, one.offset)]
        end = one.offset + one.length + grown[bisect_left(at, one.offset + one.length)]
        if not _is_mail(one):
            entities.append(replace(one, offset=begin, length=end - begin))
    return Rich(raw.decode("utf-16-le", "replace"), tuple(entities))


def _payload(made: Rich) -> dict[str, Any]:
    entities = [_entity(one) for one in made.entities]
    return {"text": made.text, "entities": entities} if entities else {"text": made.text}


def _entity(one: Entity) -> dict[str, Any]:
    note = {"link": "url", "block": "language"}.get(one.kind, "")
    extra = {note: one.note} if note and one.note else {}
    return {"type": _ENTITIES[one.kind], "offset": one.offset, "length": one.length, **extra}


def _button(button: Button) -> dict[str, Any]:
    style = {} if button.style == "plain" else {"style": button.style}
    return {"text": button.label, "callback_data": button.command, **style}


# calling


def _is_private(to: Address) -> bool:
    """Whether it is a chat with one person: ids of groups are negative."""
    return not to.conversation.channel.startswith("-")


def _channel(to: Address) -> dict[str, Any]:
    topic = {"message_thread_id": int(to.conversation.thread)} if to.conversation.thread else {}
    return {"chat_id": int(to.conversation.channel), **topic}


def _place(to: Address) -> dict[str, Any]:
    """The channel, and in a group the message that is answered: there people talk at the same time."""
    answered = to.extra.get(ANSWERS)
    shown = {"reply_parameters": {"message_id": answered, "allow_sending_without_reply": True}} if answered else {}
    return {**_channel(to), **shown}


def _message(to: Address, sent: Sent) -> dict[str, Any]:
    return {"chat_id": sent.ref.get("chat_id") or int(to.conversation.channel), "message_id": int(sent.message_id)}


def _draft(key: str) -> int:
    """A draft's id: the same for all that is shown of one answer, and never 0."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) % (2**31 - 1) + 1


def _understood(method: str, answer: Answer | Outcome) -> tuple[Outcome, dict[str, Any]]:
    """What an answer of the Bot API means, and the answer itself."""
    if isinstance(answer, Outcome):
        return Outcome(answer.kind, detail=f"{method}: {answer.detail}"), {}
    body = answer.json() or {}
    if answer.status == 200 and body.get("ok") is True:
        return Outcome("ok"), body
    if answer.status == 200 and body.get("ok") is not False:
        return Outcome("ambiguous", detail=f"{method}: an answer that is not the Bot API's"), {}
    said = text_of(body.get("description"))
    detail = f"{method}: {said[:200] or f'status {answer.status}'}"
    if answer.status == 429:
        wait_s = waits(answer, asked=object_of(body.get("parameters")).get("retry_after"))
        return Outcome("rate_limited", retry_after_s=wait_s, detail=detail), {}
    return Outcome(_meaning(answer.status, said.lower(), is_api="ok" in body), detail=detail), body


def _meaning(status: int, said: str, *, is_api: bool) -> OutcomeKind:
    if status == 404 and is_api:  # Telegram says "Not Found" to a token that is none of its own
        return "auth_failed"
    if status == 403:
        return "target_gone"
    if status == 400:
        return next((kind for kind, pattern in _MEANINGS if pattern.search(said)), "rejected")
    return by_status(status)


def _sent(answer: Mapping[str, Any]) -> Sent | None:
    """The message that a send led to."""
    message = object_of(answer.get("result"))
    message_id, chat = message.get("message_id"), object_of(message.get("chat")).get("id")
    return Sent(str(message_id), {"chat_id": chat}) if isinstance(message_id, int) and isinstance(chat, int) else None
