"""The platform of the built-in page `/chat`: messages come from `gateway.web.chat`, replies go into the feed.

Nobody but that page's route may bring messages: it has settled who the browser is, so `verify` refuses every other path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from pydantic import ConfigDict

from config.settings import Connection
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event, kind_of
from gateway.files import kept_at
from gateway.phrases import language_of, say
from gateway.platforms import (
    Address,
    Capabilities,
    Growing,
    Guide,
    HttpReply,
    Malformed,
    Outbound,
    Outcome,
    Outside,
    Part,
    Plain,
    RawRequest,
    Sent,
    Stream,
    Unauthorized,
)
from gateway.store import Unreachable
from gateway.wire import id_of, read_json, size_of, text_of

CONNECTION: Final = "web"
"""The name of the one connection, which is there without being configured."""
CHANNEL: Final = "web"
MESSAGES_PATH: Final = "/chat/api/messages"
FILES_MAX: Final = 10
"""Files of one message."""
TEXT_MAX: Final = 32_000
"""The longest message, in characters."""
REPLY_MAX: Final = 1_000_000
BUTTONS_MAX: Final = 25
"""Of one card."""

CONVERSATION = re.compile(r"[A-Za-z0-9_-]{1,64}")
MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
BROWSER = re.compile(r"[0-9a-f]{32}")
FILE = re.compile(r"[0-9a-f]{32}")
MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,128}")
FILE_NAME_MAX: Final = 255


class Settings(Connection):
    """Filled from the section `chat`: nobody configures this connection."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platform: str = "webchat"
    stream_interval_ms: int = 60


GUIDE: Final = Guide(
    steps=("Set `chat.enabled: true` and open `/chat`: the page is built in.",),
    tells_guests="nothing",
)


def conversation_key(conversation: str, browser: str) -> ConversationKey:
    """A conversation belongs to the browser that began it: elsewhere the same id is another conversation."""
    return ConversationKey(CONNECTION, CHANNEL, conversation, browser)


class Adapter(Plain):
    """The built-in page as a platform."""

    capabilities = Capabilities(text_limit=REPLY_MAX, idempotent_send=True, columns=80, buttons=BUTTONS_MAX)

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        del connection  # there is one, and its name is known
        self._interval_s = settings.stream_interval_ms / 1000
        self._feed = outside.feed
        self._files = outside.files

    @property
    def is_checked(self) -> bool:
        return False  # there is nobody to ask

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:  # noqa: ARG002 - the page's route has no signature with a time
        if request.method != "POST" or request.path != MESSAGES_PATH:
            raise Unauthorized("messages of the chat page come through its own route only")

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        """One event of the JSON object `conversation`, `text`, `id` (the sender's own, for doubles), `browser` and
        `files`, each with `file`, `name`, `mime` and `size_bytes`.
        """
        said = _fields(request.body)
        conversation = conversation_key(said["conversation"], said["browser"])
        return [
            Event(
                kind="message",
                conversation=conversation,
                actor=_actor(said["browser"], _language(request.headers.get("Accept-Language", ""))),
                dedupe_keys=(f"message:{said['id']}",),
                at_ms=int(now_s * 1000),
                message_id=said["id"],
                text=said["text"].strip(),
                is_direct=True,
                attachments=tuple(_attachment(file, conversation) for file in said.get("files") or ()),
            )
        ]

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:  # noqa: ARG002 - the same for all
        return HttpReply(status=202, body=b'{"accepted": "new"}')

    def render(self, outbound: Outbound) -> list[Part]:
        """One part: the page shows Markdown of any length. A button says what it carries as if it were typed there."""
        buttons = {"buttons": [asdict(one) for one in outbound.buttons]} if outbound.buttons else {}
        return [Part({"text": outbound.markdown[:REPLY_MAX], "notice": outbound.is_notice, **buttons})]

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("passing", self._interval_s)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        """Show the finished reply. Sent twice it is shown once: pages know the key, and read the records after it."""
        outcome = await self._tell(to, {"type": "reply", "key": key, **part.payload})
        return Outcome("ok", Sent(key)) if outcome.kind == "ok" else outcome

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        return await self.send(to, part, sent.message_id)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        del key, sent
        steps = [asdict(step) for step in growing.steps]
        return await self._tell(to, {"type": "text", "text": growing.text, "steps": steps}, snapshot=True)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        return await self._files.read(attachment.fetch, max_bytes)

    async def identity(self) -> Actor:
        return Actor(id="deskmate", name="deskmate", is_bot=True, is_self=True)

    async def _tell(self, to: Address, entry: dict[str, Any], *, snapshot: bool = False) -> Outcome:
        try:
            await self._feed.add(to.conversation.id, entry, snapshot=snapshot)
        except Unreachable as error:
            return Outcome("transient", detail=str(error))
        return Outcome("ok")


def _actor(browser: str, language: str | None) -> Actor:
    """Nobody says a name there, and the id of a browser tells people nothing."""
    return Actor(id=browser, name=say("chat.somebody", language_of(None, language)), language=language)


def _attachment(file: dict[str, Any], conversation: ConversationKey) -> Attachment:
    return Attachment(
        kind=kind_of(file["mime"]),
        name=file["name"],
        mime=file["mime"],
        size_bytes=size_of(file.get("size_bytes")),
        fetch=kept_at(conversation.id, file["file"]),
    )


def _fields(body: bytes) -> dict[str, Any]:
    said = read_json(body)
    for name, pattern in (("conversation", CONVERSATION), ("id", MESSAGE_ID), ("browser", BROWSER)):
        id_of(name, said.get(name), pattern)
    text = said.get("text")
    if not isinstance(text, str) or len(text) > TEXT_MAX:
        raise Malformed(f"`text` must be text of at most {TEXT_MAX} characters")
    files = said.get("files") or []
    if not isinstance(files, list) or len(files) > FILES_MAX:
        raise Malformed(f"`files` must be a list of at most {FILES_MAX}")
    for file in files:
        if not isinstance(file, dict):
            raise Malformed("each of `files` must be an object")
        id_of("file", file.get("file"), FILE)
        name, mime = text_of(file.get("name")), file.setdefault("mime", "")
        if not name or len(name) > FILE_NAME_MAX or not name.isprintable():
            raise Malformed(f"`name` of each of `files` must be printable text of at most {FILE_NAME_MAX} characters")
        if not isinstance(mime, str) or (mime and not MIME.fullmatch(mime)):
            raise Malformed(f"`mime` of each of `files` must be empty or text of the form {MIME.pattern}")
    return said


def _language(accepted: str) -> str | None:
    """The first language that the browser asks for."""
    first = re.split("[,;]", accepted, maxsplit=1)[0].strip()
    return first if re.fullmatch(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", first) else None
