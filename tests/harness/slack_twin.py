"""A stand-in for Slack: the Web API's rules kept strictly, an ordered ledger of what it took, signed events out.

    async with SlackTwin() as slack:
        said = await slack.say(f"{gateway}/webhooks/slack", "hi")     # message and app_mention, resent like Slack does
        reply = await slack.reply_to(said)
        slack.next(status=429, retry_after=2)                         # the next call; `on="chat.update"` for one method

Connect deskmate with `api_base: <slack.url>`, `signing_secret: SIGNING_SECRET`, `bot_token: BOT_TOKEN`. `Workspace` is
the same as every other stand-in is (`tests.harness.twins.Twin`).
Alone: `python -m tests.harness.slack_twin --port 9100 --ledger took.jsonl`; then `POST /twin/say` and `POST /twin/next`
take the same arguments as JSON, and `GET /twin/ledger` gives what was taken.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tests.harness import twins
from tests.harness.faults import Fault, Faults

SIGNING_SECRET: Final = "slack-test-secret"
BOT_TOKEN: Final = "xoxb-test-0123456789"
TEAM: Final = "T0TEAM1"
BOT_USER: Final = "U0BOT01"
BOT_ID: Final = "B0BOT01"
APP: Final = "A0APP01"
CHANNEL: Final = "C0CHAN1"
DIRECT: Final = "D0DM01"
USER: Final = "U0USER1"

ANSWER_WITHIN_S: Final = 3.0
_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")
_POST_KEYS: Final = {
    *("channel", "text", "blocks", "attachments", "markdown_text", "thread_ts", "mrkdwn", "parse", "link_names"),
    *("unfurl_links", "unfurl_media", "metadata", "reply_broadcast", "token"),
}
_UPDATE_KEYS: Final = _POST_KEYS - {"thread_ts", "unfurl_links", "unfurl_media", "mrkdwn"} | {"ts"}
_WHISPER_KEYS: Final = {
    *("channel", "user", "text", "blocks", "attachments", "markdown_text", "thread_ts", "parse", "link_names", "token"),
    *("as_user", "icon_emoji", "icon_url", "username"),
}
_DELETE_KEYS: Final = {"channel", "ts", "token"}
_READ_KEYS: Final = {
    *("channel", "ts", "oldest", "latest", "limit", "cursor", "inclusive", "include_all_metadata", "token"),
}
_START_KEYS: Final = {
    *("channel", "thread_ts", "recipient_team_id", "recipient_user_id", "markdown_text", "chunks", "token"),
    *("task_display_mode", "icon_emoji", "icon_url", "username"),
}
_APPEND_KEYS: Final = {"channel", "ts", "markdown_text", "chunks", "token"}
_STOP_KEYS: Final = _APPEND_KEYS | {"blocks", "metadata", "session_status"}
_CHUNKS: Final = {"markdown_text", "task_update", "plan_update", "blocks"}
_STATUS_KEYS: Final = {"channel_id", "thread_ts", "status", "loading_messages", "token"}
_UPLOAD_KEYS: Final = {"filename", "length", "alt_txt", "snippet_type", "token"}
_COMPLETE_KEYS: Final = {"files", "channel_id", "channels", "thread_ts", "initial_comment", "blocks", "token"}
_RESPONSE_KEYS: Final = {
    *("text", "blocks", "attachments", "mrkdwn", "response_type", "replace_original", "delete_original", "thread_ts"),
    *("unfurl_links", "unfurl_media"),
}
_FORM_ONLY: Final = {"users.info", "conversations.replies", "conversations.history", "files.getUploadURLExternal"}
"""These take a query or a form, and no JSON."""
_RESPONSE_S: Final = 1_800
_RESPONSE_USES: Final = 5


class Refused(Exception):
    """`str()` is the Web API's `error`."""


@dataclass(slots=True)
class Message:
    """One message of a channel, as the stand-in keeps it."""

    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str | None = None
    bot_id: str | None = None
    metadata: dict[str, Any] | None = None
    edited: bool = False
    blocks: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    streaming: bool = False

    @property
    def buttons(self) -> list[dict[str, Any]]:
        """As the blocks say."""
        return [one for block in self.blocks if block["type"] == "actions" for one in block["elements"]]


@dataclass(frozen=True, slots=True)
class Whisper:
    """A message that one person saw, or nobody did: of a thread that has no reply yet Slack shows none."""

    channel: str
    user: str
    text: str
    thread_ts: str | None
    is_shown: bool


@dataclass(slots=True)
class Response:
    """A `response_url`: what it belongs to, and what is left of it."""

    channel: str
    user: str
    message: Message | None
    until_s: float
    uses_left: int = _RESPONSE_USES


@dataclass(slots=True)
class Upload:
    """A file on its way in."""

    name: str
    length: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """One call that took effect, in order. `key` is the reply's own, out of its metadata."""

    at_s: float
    method: str
    channel: str
    ts: str
    thread_ts: str | None
    text: str
    key: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said through `say`. `statuses` are the gateway's answers, 0 for none in time."""

    channel: str
    ts: str
    thread_ts: str | None
    statuses: list[int] = field(default_factory=list)


class SlackTwin:
    """One workspace. `retry_s`: the pauses before the three repetitions of an event that got no 2xx."""

    def __init__(
        self, *, port: int = 0, ledger: Path | None = None, retry_s: tuple[float, ...] = (0.0, 0.5, 2.0)
    ) -> None:
        self.taken: list[Taken] = []
        self.calls: list[str] = []
        """Every call that came in by its method, refused ones too."""
        self.refused: list[tuple[str, str]] = []
        self.messages: list[Message] = []
        self.whispers: list[Whisper] = []
        self.files: dict[str, tuple[bytes, str]] = {}
        """What was attached, and its type, by id."""
        self.uploads: dict[str, Upload] = {}
        self.responses: dict[str, Response] = {}
        self.statuses: dict[tuple[str, str], str] = {}
        """Of assistants' threads, by channel and thread."""
        self.people = {USER}
        """Who is in the channels; whoever says something is."""
        self.channels = {CHANNEL, DIRECT}
        self.archived: set[str] = set()
        self.foreign: set[str] = set()
        """Channels that we are no member of."""
        self.upload_s = 0.0
        """How long the bytes of a file take."""
        self.faults = Faults()
        self.url = ""
        """For `api_base`."""
        self._port = port
        self._retry_s = retry_s
        self._ledger_path = ledger
        self._ledger: TextIO | None = None
        self._count = itertools.count(1)
        self.about: dict[str, dict[str, Any]] = {}
        """What `users.info` says of somebody, besides what it says of every member."""
        self._changed = asyncio.Condition()
        self._methods: dict[str, tuple[set[str], Callable[[str, dict[str, Any]], dict[str, Any]]]] = {
            "auth.test": ({"token"}, self._test),
            "users.info": ({"user", "include_locale", "token"}, self._person),
            "chat.postMessage": (_POST_KEYS, self._post),
            "chat.postEphemeral": (_WHISPER_KEYS, self._whisper),
            "chat.update": (_UPDATE_KEYS, self._update),
            "chat.delete": (_DELETE_KEYS, self._delete),
            "chat.startStream": (_START_KEYS, self._start_stream),
            "chat.appendStream": (_APPEND_KEYS, self._go_on),
            "chat.stopStream": (_STOP_KEYS, self._go_on),
            "conversations.replies": (_READ_KEYS, self._read),
            "conversations.history": (_READ_KEYS, self._read),
            "assistant.threads.setStatus": (_STATUS_KEYS, self._set_status),
            "files.getUploadURLExternal": (_UPLOAD_KEYS, self._begin_upload),
            "files.completeUploadExternal": (_COMPLETE_KEYS, self._complete_upload),
        }
        app = web.Application()
        app.add_routes(
            [
                web.route("*", "/api/{method}", self._call),
                web.get("/files-pri/{id}/{name}", self._file),
                web.get("/signin", self._sign_in),
                web.post("/upload/v1/{id}", self._bring),
                web.post("/response/{id}", self._respond),
                web.post("/twin/say", self._say),
                web.post("/twin/next", self._next),
                web.get("/twin/ledger", self._give_ledger),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        if self._ledger_path:
            self._ledger = self._ledger_path.open("a", encoding="utf-8")
        self._http = aiohttp.ClientSession()
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/api"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.end()
        await self._runner.cleanup()
        await self._http.close()
        if self._ledger:
            self._ledger.close()

    # on order

    def next(self, *, retry_after: int | None = None, error: str = "", times: int = 1, **fault: Any) -> None:
        """The next call fails as told: `status`, `error` (inside a 200), `hang` or `close`, `taken`, `on` a method."""
        made = Fault(**fault)
        if error or made.status == 429:
            body = {"ok": False, "error": error or "ratelimited"}
            headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
            made = Fault(**{**asdict(made), "status": made.status or 200, "body": body, "headers": headers})
        self.faults.order(made, times)

    # people

    async def say(
        self,
        url: str,
        text: str,
        *,
        channel: str = CHANNEL,
        user: str = USER,
        thread_ts: str | None = None,
        mention: bool = True,
        kinds: tuple[str, ...] | None = None,
        **extra: Any,
    ) -> Said:
        """A person says something; the events go to `url`, all at once, as Slack sends them.

        In a channel a mention arrives as `message` and as `app_mention`; `kinds` sets another choice or order.
        """
        direct = channel.startswith("D")
        shown = f"<@{BOT_USER}> {text}" if mention and not direct else text
        self.channels.add(channel)
        self.people.add(user)
        message = Message(channel, self.next_ts(), user, shown, thread_ts)
        self.messages.append(message)
        if kinds is None:
            kinds = ("message", "app_mention") if mention and not direct else ("message",)
        event = {"user": user, "ts": message.ts, "text": shown, "channel": channel, "event_ts": message.ts, **extra}
        if thread_ts:
            event["thread_ts"] = thread_ts
        said = Said(channel, message.ts, thread_ts)
        for kind in kinds:
            whole = {**event, "type": kind}
            if kind == "message":
                whole["channel_type"] = "im" if direct else "channel"
            said.statuses.extend(await self.deliver(url, self.envelope(whole)))
        return said

    async def command(
        self, url: str, text: str, *, channel: str = CHANNEL, user: str = USER, command: str = "/deskmate"
    ) -> Said:
        """A person gives a slash command. It is not sent again."""
        self.channels.add(channel)
        self.people.add(user)
        said = Said(channel, self.next_ts(), None)
        form = {
            "token": "verification",
            "team_id": TEAM,
            "channel_id": channel,
            "user_id": user,
            "user_name": user.lower(),
            "command": command,
            "text": text,
            "api_app_id": APP,
            "response_url": self.response_url(channel, user),
            "trigger_id": f"{next(self._count)}.1.trigger",
        }
        said.statuses.append(await self._deliver_once(url, form))
        return said

    async def press(self, url: str, message: Message, label: str, *, user: str = USER) -> Said:
        """A person presses the button of that label below a message. It is not sent again."""
        [button] = [one for one in message.buttons if one["text"]["text"] == label]
        direct = message.channel.startswith("D")
        said = Said(message.channel, self.next_ts(), message.thread_ts or (None if direct else message.ts))
        container = {"type": "message", "message_ts": message.ts, "channel_id": message.channel, "is_ephemeral": False}
        told = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": TEAM},
            "api_app_id": APP,
            "token": "verification",
            "container": container | ({"thread_ts": message.thread_ts} if message.thread_ts else {}),
            "trigger_id": f"{next(self._count)}.2.trigger",
            "team": {"id": TEAM, "domain": "twin"},
            "channel": {"id": message.channel, "name": "channel"},
            "message": _shown(message, metadata=False),
            "response_url": self.response_url(message.channel, user, message),
            "actions": [{**button, "block_id": "b", "action_ts": said.ts}],
        }
        said.statuses.append(await self._deliver_once(url, {"payload": json.dumps(told)}))
        return said

    def response_url(self, channel: str, user: str, message: Message | None = None) -> str:
        """An address for late answers: five times, half an hour."""
        response = f"R{next(self._count):08d}"
        self.responses[response] = Response(channel, user, message, time.time() + _RESPONSE_S)
        return f"{self.url.removesuffix('/api')}/response/{response}"

    async def _deliver_once(self, url: str, form: Mapping[str, str]) -> int:
        raw = urlencode(form).encode()
        headers = sign(raw) | {"Content-Type": "application/x-www-form-urlencoded"}
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        try:
            async with self._http.post(url, data=raw, headers=headers, timeout=timeout) as answer:
                return answer.status
        except (TimeoutError, aiohttp.ClientError):
            return 0

    def file(self, name: str, content: bytes, mime: str = "text/csv") -> dict[str, Any]:
        """A file as an event shows it: `say(..., kinds=("message",), subtype="file_share", files=[it])`."""
        file = f"F{next(self._count):08d}"
        self.files[file] = (content, mime)
        url = f"{self.url.removesuffix('/api')}/files-pri/{TEAM}-{file}/{name}"
        shown = {"id": file, "name": name, "title": name, "mimetype": mime, "size": len(content)}
        return {**shown, "url_private": url, "url_private_download": url}

    def envelope(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event as the Events API wraps it, with an id of its own."""
        return {
            "type": "event_callback",
            "token": "verification",
            "team_id": TEAM,
            "api_app_id": APP,
            "event": dict(event),
            "event_id": f"Ev{next(self._count):08d}",
            "event_time": int(time.time()),
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True, "is_enterprise_install": False}],
        }

    async def deliver(self, url: str, body: Mapping[str, Any]) -> list[int]:
        """Send an event, again at most three times until it is taken; the answers' statuses, 0 for none."""
        raw = json.dumps(body).encode()
        statuses: list[int] = []
        reason = ""
        for number, pause_s in enumerate((0.0, *self._retry_s)):
            await asyncio.sleep(pause_s)
            headers = sign(raw) | {"Content-Type": "application/json"}
            if number:
                headers |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
            timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
            try:
                async with self._http.post(url, data=raw, headers=headers, timeout=timeout) as answer:
                    statuses.append(answer.status)
                    reason = "http_error"
            except TimeoutError:
                statuses.append(0)
                reason = "http_timeout"
            except aiohttp.ClientError:
                statuses.append(0)
                reason = "connection_failed"
            if 200 <= statuses[-1] < 300:
                break
        return statuses

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever a call was taken."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Message:
        """The first message of ours after what was said, where it belongs."""
        thread = None if said.channel.startswith("D") and not said.thread_ts else said.thread_ts or said.ts

        def found() -> Message | None:
            ours = (one for one in self.messages if one.bot_id and one.channel == said.channel)
            return next((one for one in ours if one.thread_ts == thread and one.ts > said.ts), None)

        message = await self.until(found, timeout_s)
        assert isinstance(message, Message)
        return message

    # the Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append(method)
        fault = self.faults.take(method)
        if fault and not fault.taken:
            return await self.faults.show(request, fault)
        try:
            answer = await self._answer(request, method)
        except Refused as error:
            self.refused.append((method, str(error)))
            answer = {"ok": False, "error": str(error)}
        async with self._changed:
            self._changed.notify_all()
        if fault:
            return await self.faults.show(request, fault)
        return web.json_response(answer)

    async def _answer(self, request: web.Request, method: str) -> dict[str, Any]:
        arguments = await _arguments(request)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token if scheme == "Bearer" else str(arguments.get("token", ""))
        if not token:
            raise Refused("not_authed")
        if token != BOT_TOKEN:
            raise Refused("invalid_auth")
        known = self._methods.get(method)
        if known is None:
            raise Refused("unknown_method")
        keys, answer = known
        takes_form_only = method in _FORM_ONLY
        if takes_form_only and request.method == "POST" and request.content_type == "application/json":
            raise Refused("invalid_arguments")
        if set(arguments) - keys or (request.method != "POST" and not takes_form_only):
            raise Refused("invalid_arguments")
        return answer(method, arguments)

    def _test(self, _: str, __: dict[str, Any]) -> dict[str, Any]:
        ours = {"team_id": TEAM, "user": "deskmate", "user_id": BOT_USER, "bot_id": BOT_ID}
        return {"ok": True, "url": "https://twin.invalid/", "team": "Twin", **ours}

    def _person(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not str(arguments.get("user", "")).startswith("U"):
            raise Refused("user_not_found")
        user = {"id": arguments["user"], "team_id": TEAM, "is_restricted": False, "is_ultra_restricted": False}
        return {"ok": True, "user": user | self.about.get(arguments["user"], {})}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        """To whoever has no right to it Slack shows its login, with a 200 after a redirect."""
        if fault := self.faults.take("file"):
            return await self.faults.show(request, fault)
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            raise web.HTTPFound("/signin")
        content, mime = self.files.get(request.match_info["id"].removeprefix(f"{TEAM}-"), (None, ""))
        return web.Response(status=404) if content is None else web.Response(body=content, content_type=mime)

    async def _sign_in(self, _: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>Sign in</title>", content_type="text/html")

    def _post(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        text = _content(arguments)
        thread = arguments.get("thread_ts")
        if thread is not None:
            root = self._message(channel, thread)
            if root is None or root.thread_ts not in {None, root.ts}:
                raise Refused("thread_not_found")
        metadata = _metadata(arguments)
        blocks = arguments.get("blocks") or []
        message = Message(channel, self.next_ts(), BOT_USER, text, thread, BOT_ID, metadata, blocks=blocks)
        self._append(message)
        self._take("chat.postMessage", message, arguments)
        return {"ok": True, "channel": channel, "ts": message.ts, "message": _shown(message, metadata=True)}

    def _whisper(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel, text, user = self._channel(arguments), _content(arguments), arguments.get("user")
        if not isinstance(user, str) or not user:
            raise Refused("invalid_arguments")
        if user not in self.people:
            raise Refused("user_not_in_channel")
        thread = arguments.get("thread_ts")
        if thread is not None and self._message(channel, thread) is None:
            raise Refused("thread_not_found")
        is_shown = thread is None or any(one.thread_ts == thread for one in self.messages)
        self.whispers.append(Whisper(channel, user, text, thread, is_shown))
        self._take("chat.postEphemeral", Message(channel, "", BOT_USER, text, thread, BOT_ID), arguments)
        return {"ok": True, "message_ts": self.next_ts()}

    def _update(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        text = _content(arguments)
        message = self._message(channel, arguments.get("ts"))
        if message is None:
            raise Refused("message_not_found")
        if message.bot_id != BOT_ID:
            raise Refused("cant_update_message")
        if message.streaming:
            raise Refused("streaming_state_conflict")
        message.text, message.edited = text, True
        # Slack's pages disagree on what happens to blocks that are not mentioned. The worse is: they stay.
        message.blocks = arguments.get("blocks", message.blocks)
        message.metadata = _metadata(arguments) or message.metadata
        self._take("chat.update", message, arguments)
        return {"ok": True, "channel": channel, "ts": message.ts, "text": text}

    def _delete(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        message = self._message(channel, arguments.get("ts"))
        if message is None:
            raise Refused("message_not_found")
        if message.bot_id != BOT_ID:
            raise Refused("cant_delete_message")
        if message.streaming:
            raise Refused("streaming_state_conflict")
        self.messages.remove(message)
        self._take("chat.delete", message, arguments)
        return {"ok": True, "channel": channel, "ts": message.ts}

    def _start_stream(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel, thread = self._channel(arguments), arguments.get("thread_ts")
        if thread is None or self._message(channel, thread) is None:
            raise Refused("thread_not_found")
        for name in ("recipient_team_id", "recipient_user_id"):
            if not arguments.get(name) and not channel.startswith("D"):
                raise Refused(f"missing_{name}")
        if arguments.get("task_display_mode", "timeline") not in {"timeline", "plan"}:
            raise Refused("invalid_arguments")
        text = _delta(arguments, required=False)
        message = Message(channel, self.next_ts(), BOT_USER, text, thread, BOT_ID, streaming=True)
        self._append(message)
        self._take("chat.startStream", message, arguments)
        return {"ok": True, "channel": channel, "ts": message.ts}

    def _go_on(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        message = self._message(channel, arguments.get("ts"))
        if message is None:
            raise Refused("message_not_found")
        if message.bot_id != BOT_ID:
            raise Refused("message_not_owned_by_app")
        if not message.streaming:
            raise Refused("message_not_in_streaming_state")
        message.text += _delta(arguments, required=method == "chat.appendStream")
        if method == "chat.stopStream":
            message.streaming = False
            message.blocks = _checked_blocks(arguments.get("blocks") or [])
            message.metadata = _metadata(arguments)
        self._take(method, message, arguments)
        return {"ok": True, "channel": channel, "ts": message.ts}

    def _set_status(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel, thread = self._channel({"channel": arguments.get("channel_id")}), arguments.get("thread_ts")
        status, loading = arguments.get("status"), arguments.get("loading_messages") or []
        if not isinstance(status, str) or not isinstance(loading, list) or len(loading) > 10:
            raise Refused("invalid_arguments")
        if self._message(channel, thread) is None:
            raise Refused("thread_not_found")
        self.statuses[channel, str(thread)] = status
        return {"ok": True}

    def _begin_upload(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        name, length = arguments.get("filename"), str(arguments.get("length", ""))
        if not name or not isinstance(name, str) or not length.isdecimal() or length == "0":
            raise Refused("invalid_arguments")
        file = f"F{next(self._count):08d}"
        self.uploads[file] = Upload(name, int(length))
        return {"ok": True, "upload_url": f"{self.url.removesuffix('/api')}/upload/v1/{file}", "file_id": file}

    async def _bring(self, request: web.Request) -> web.StreamResponse:
        """The address itself is the permission: a token has no business here."""
        if fault := self.faults.take("upload"):
            return await self.faults.show(request, fault)
        await asyncio.sleep(self.upload_s)
        upload, content = self.uploads.get(request.match_info["id"]), await request.read()
        if upload is None or upload.content is not None:
            return web.Response(status=404)
        if len(content) != upload.length or "Authorization" in request.headers:
            return web.Response(status=400)
        upload.content = content
        return web.Response(text=f"OK - {len(content)}")

    def _complete_upload(self, _: str, arguments: dict[str, Any]) -> dict[str, Any]:
        files = arguments.get("files")
        if not isinstance(files, list) or not files or not all(set(one) <= {"id", "title"} for one in files):
            raise Refused("invalid_arguments")
        brought = [self.uploads.get(str(one.get("id"))) for one in files]
        if not all(one and one.content is not None for one in brought):
            raise Refused("file_not_found")
        channel, thread = self._channel({"channel": arguments.get("channel_id")}), arguments.get("thread_ts")
        if thread is not None and self._message(channel, thread) is None:
            raise Refused("thread_not_found")
        text = str(arguments.get("initial_comment") or "")
        message = Message(channel, self.next_ts(), BOT_USER, text, thread, BOT_ID, files=[one["id"] for one in files])
        self._append(message)
        for one, upload in zip(files, brought, strict=True):
            assert upload
            assert upload.content is not None
            self.files[one["id"]] = (upload.content, "application/octet-stream")
        self._take("files.completeUploadExternal", message, arguments)
        return {"ok": True, "files": [{"id": one["id"], "title": one.get("title", "")} for one in files]}

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        """What a `response_url` takes; without a token, as it is one."""
        if fault := self.faults.take("response_url"):
            return await self.faults.show(request, fault)
        response = self.responses.get(request.match_info["id"])
        if response is None or response.until_s < time.time() or response.uses_left == 0:
            return web.Response(status=404, text="expired_url" if response else "no_service")
        try:
            if "Authorization" in request.headers:
                raise Refused("invalid_payload")
            body = await _arguments(request)
            self._take_response(response, body)
        except Refused as error:
            self.refused.append(("response_url", str(error)))
            return web.Response(status=400, text=str(error))
        response.uses_left -= 1
        async with self._changed:
            self._changed.notify_all()
        return web.Response(text="ok")

    def _take_response(self, response: Response, body: dict[str, Any]) -> None:
        if set(body) - _RESPONSE_KEYS or body.get("response_type", "ephemeral") not in {"ephemeral", "in_channel"}:
            raise Refused("invalid_payload")
        original = response.message
        if body.get("delete_original"):
            if original:
                self.messages.remove(original)
            return
        text = _content(body)
        if original and body.get("replace_original", True):
            original.text, original.blocks, original.edited = text, body.get("blocks") or [], True
            self._take("response_url", original, body)
        elif body.get("response_type") == "in_channel":
            blocks = body.get("blocks") or []
            message = Message(response.channel, self.next_ts(), "", text, None, BOT_ID, blocks=blocks)
            self._append(message)
            self._take("response_url", message, body)
        else:
            self.whispers.append(Whisper(response.channel, response.user, text, None, is_shown=True))
            self._take("response_url", Message(response.channel, "", "", text, None, BOT_ID), body)

    def _append(self, message: Message) -> None:
        """A message of ours. It ends the status of its thread."""
        self.messages.append(message)
        if message.thread_ts:
            self.statuses.pop((message.channel, message.thread_ts), None)

    def _read(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        channel = self._channel(arguments)
        oldest = float(arguments.get("oldest", 0))
        limit = int(arguments.get("limit", 100))
        if not 1 <= limit <= 999:
            raise Refused("invalid_limit")
        mine = [one for one in self.messages if one.channel == channel]
        if method == "conversations.replies":
            root = self._message(channel, arguments.get("ts"))
            if root is None:
                raise Refused("thread_not_found")
            found = [root] + [one for one in mine if one.thread_ts == root.ts and float(one.ts) > oldest]
        else:
            found = [one for one in reversed(mine) if one.thread_ts is None and float(one.ts) > oldest]
        start = int(arguments.get("cursor") or 0)
        metadata = str(arguments.get("include_all_metadata", "")).lower() in {"true", "1"}
        page = [_shown(one, metadata=metadata) for one in found[start : start + limit]]
        more = start + limit < len(found)
        cursor = str(start + limit) if more else ""
        return {"ok": True, "messages": page, "has_more": more, "response_metadata": {"next_cursor": cursor}}

    def _channel(self, arguments: Mapping[str, Any]) -> str:
        channel = arguments.get("channel")
        if not isinstance(channel, str) or channel not in self.channels:
            raise Refused("channel_not_found")
        if channel in self.foreign:
            raise Refused("not_in_channel")
        if channel in self.archived:
            raise Refused("is_archived")
        return channel

    def _message(self, channel: str, ts: Any) -> Message | None:
        if not isinstance(ts, str) or not _TS.fullmatch(ts):
            raise Refused("invalid_ts_latest" if ts else "invalid_arguments")
        return next((one for one in self.messages if one.channel == channel and one.ts == ts), None)

    def next_ts(self) -> str:
        """Later than the one before, by Slack's clock, which is ours."""
        last = float(self.messages[-1].ts) if self.messages else 0.0
        return f"{max(time.time(), last + 0.000_1):.6f}"

    def _take(self, method: str, message: Message, body: dict[str, Any]) -> None:
        key = ((message.metadata or {}).get("event_payload") or {}).get("key")
        taken = Taken(time.time(), method, message.channel, message.ts, message.thread_ts, message.text, key, body)
        self.taken.append(taken)
        if self._ledger:
            self._ledger.write(json.dumps(asdict(taken), ensure_ascii=False) + "\n")
            self._ledger.flush()
            os.fsync(self._ledger.fileno())

    # alone

    async def _say(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(await self.say(**await request.json())))

    async def _next(self, request: web.Request) -> web.Response:
        self.next(**await request.json())
        return web.json_response({"ok": True})

    async def _give_ledger(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(one) for one in self.taken])


def sign(raw: bytes, *, secret: str = SIGNING_SECRET, at_s: float | None = None) -> dict[str, str]:
    """The two headers that prove a body to be Slack's."""
    stamp = str(int(time.time() if at_s is None else at_s))
    digest = hmac.new(secret.encode(), b"v0:%b:%b" % (stamp.encode(), raw), hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


async def _arguments(request: web.Request) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        name: json.loads(value) if name == "files" else value for name, value in request.query.items()
    }
    if request.method != "POST" or not request.can_read_body:
        return arguments
    if request.content_type == "application/json":
        try:
            given = json.loads(await request.read())
        except ValueError:
            raise Refused("invalid_json") from None
        if not isinstance(given, dict):
            raise Refused("json_not_object")
        return arguments | given
    if request.content_type != "application/x-www-form-urlencoded":
        raise Refused("invalid_post_type")
    form = {name: str(value) for name, value in (await request.post()).items()}
    return arguments | {
        name: json.loads(value) if name in {"metadata", "blocks", "chunks", "files"} else value
        for name, value in form.items()
    }


def _content(arguments: Mapping[str, Any]) -> str:
    """What a message shows, by the documented limits: 4,000 of text, 12,000 of Markdown, 50 blocks."""
    text, markdown, blocks = arguments.get("text"), arguments.get("markdown_text"), arguments.get("blocks")
    if markdown is not None and (text is not None or blocks is not None):
        raise Refused("markdown_text_conflict")
    shown = markdown if text is None else text
    if shown is not None and not isinstance(shown, str):
        raise Refused("invalid_arguments")
    if not shown and not blocks:
        raise Refused("no_text")
    if len(text or "") > 4_000 or len(markdown or "") > 12_000:
        raise Refused("msg_too_long")
    _checked_blocks(blocks or [])
    return shown or ""


def _checked_blocks(blocks: Any) -> list[dict[str, Any]]:
    """Blocks of text and of buttons, by their documented limits; there are no others here."""
    if not isinstance(blocks, list) or len(blocks) > 50:
        raise Refused("invalid_blocks")
    for block in blocks:
        match block:
            case {"type": "section", "text": {"type": "mrkdwn" | "plain_text", "text": str(text)}, **rest} if 0 < len(
                text
            ) <= 3_000 and set(rest) <= {"block_id", "expand"}:
                pass
            case {"type": "actions", "elements": [_, *_] as buttons, **rest} if (
                len(buttons) <= 25
                and all(map(_is_button, buttons))
                and len({one["action_id"] for one in buttons}) == len(buttons)
                and set(rest) <= {"block_id"}
            ):
                pass
            case _:
                raise Refused("invalid_blocks")
    return blocks


def _is_button(element: Any) -> bool:
    match element:
        case {"type": "button", "text": {"type": "plain_text", "text": str(label)}, "action_id": str(action), **rest}:
            known = set(rest) <= {"value", "style", "url"} and rest.get("style", "primary") in {"primary", "danger"}
            sized = 0 < len(label) <= 75 and 0 < len(action) <= 255 and 0 < len(str(rest.get("value", "x"))) <= 2_000
            return known and sized
    return False


def _delta(arguments: Mapping[str, Any], *, required: bool) -> str:
    """What a call adds to a stream: `markdown_text` or `chunks`, at most 12,000 characters of each."""
    text, chunks = arguments.get("markdown_text"), arguments.get("chunks")
    if text is not None and chunks is not None:
        raise Refused("markdown_text_conflict")
    if chunks is not None:
        if not isinstance(chunks, list) or not all(one.get("type") in _CHUNKS for one in chunks):
            raise Refused("invalid_chunks")
        texts = [one["text"] for one in chunks if one["type"] == "markdown_text"]
    else:
        texts = [] if text is None else [text]
    if not all(isinstance(one, str) for one in texts):
        raise Refused("invalid_arguments")
    if required and not chunks and not any(texts):
        raise Refused("no_text")
    if any(len(one) > 12_000 for one in texts):
        raise Refused("msg_too_long")
    return "".join(texts)


def _metadata(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = arguments.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or set(metadata) != {"event_type", "event_payload"}:
        raise Refused("invalid_metadata_format")
    kind, payload = metadata["event_type"], metadata["event_payload"]
    if not isinstance(kind, str) or not re.fullmatch(r"[A-Za-z0-9_]+", kind) or not isinstance(payload, dict):
        raise Refused("invalid_metadata_format")
    if len(json.dumps(metadata)) > 16_000:
        raise Refused("metadata_too_large")
    return metadata


def _shown(message: Message, *, metadata: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "message", "user": message.user, "ts": message.ts, "text": message.text}
    if message.thread_ts:
        shown["thread_ts"] = message.thread_ts
    if message.bot_id:
        shown["bot_id"] = message.bot_id
    if message.blocks:
        shown["blocks"] = message.blocks
    if message.files:
        shown["files"] = [{"id": file} for file in message.files]
    if message.edited:
        shown["edited"] = {"user": message.user, "ts": message.ts}
    if metadata and message.metadata:
        shown["metadata"] = message.metadata
    return shown


class Workspace:
    """The stand-in for the play that is given on all platforms."""

    platform = "slack"
    environment: Mapping[str, str] = {"SLACK_SECRET": SIGNING_SECRET, "SLACK_TOKEN": BOT_TOKEN}

    def __init__(self) -> None:
        self.slack = SlackTwin()

    async def __aenter__(self) -> Self:
        await self.slack.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.slack.__aexit__(kind, error, trace)

    @property
    def connection(self) -> dict[str, Any]:
        secrets = {"signing_secret": "$SLACK_SECRET", "bot_token": "$SLACK_TOKEN"}
        return {"platform": "slack", "api_base": self.slack.url, **secrets}

    @property
    def shown(self) -> list[twins.Shown]:
        return [self._show(message) for message in self.slack.messages if message.bot_id]

    def _show(self, message: Message) -> twins.Shown:
        return twins.Shown(
            room=message.channel,
            id=message.ts,
            text=message.text,
            thread=message.thread_ts,
            buttons=[one["text"]["text"] for one in message.buttons],
            file=self.slack.files[message.files[0]][0] if message.files else None,
            is_growing=message.streaming,
        )

    async def mention(self, hook: str, text: str) -> twins.Said:
        return _said(await self.slack.say(hook, text))

    async def follow_up(self, hook: str, before: twins.Said, text: str) -> twins.Said:
        thread = before.thread or before.id
        return _said(await self.slack.say(hook, text, channel=before.room, thread_ts=thread, mention=False))

    async def direct(self, hook: str, text: str) -> twins.Said:
        return _said(await self.slack.say(hook, text, channel=DIRECT))

    async def picture(self, hook: str, text: str, png: bytes) -> twins.Said:
        files = [self.slack.file("picture.png", png, "image/png")]
        return _said(await self.slack.say(hook, text, channel=DIRECT, subtype="file_share", files=files))

    async def command(self, hook: str, line: str) -> twins.Said:
        return _said(await self.slack.command(hook, line.removeprefix("/"), channel=DIRECT))

    async def press(self, hook: str, shown: twins.Shown, label: str) -> twins.Said:
        [message] = [one for one in self.slack.messages if (one.channel, one.ts) == (shown.room, shown.id)]
        return _said(await self.slack.press(hook, message, label))

    async def reply_to(self, said: twins.Said, timeout_s: float = 60.0) -> twins.Shown:
        begun = await self.slack.reply_to(Said(said.room, said.id, said.thread), timeout_s)
        await self.slack.until(lambda: not begun.streaming, timeout_s)
        return self._show(begun)


def _said(said: Said) -> twins.Said:
    return twins.Said(said.channel, said.ts, said.thread_ts, said.statuses)


async def _alone(port: int, ledger: Path | None) -> None:
    async with SlackTwin(port=port, ledger=ledger) as twin:
        sys.stdout.write(f"{twin.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A stand-in for Slack.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--ledger", type=Path)
    given = options.parse_args()
    try:
        asyncio.run(_alone(given.port, given.ledger))
    except KeyboardInterrupt:
        sys.exit(0)
