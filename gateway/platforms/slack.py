"""Slack: the Events API, slash commands and buttons in, the Web API out.

One connection is one app in one workspace (or one app that several workspaces installed, see `team_id`). A
conversation is a thread: its key holds the channel's id, and as `thread` the workspace and the thread's first message,
`T…:1712.34`; in a direct message outside threads the workspace alone.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway import mrkdwn
from gateway.conversation.key import ConversationKey, key_of
from gateway.events import Actor, Attachment, Event, ReplyHandle
from gateway.markdown import split
from gateway.net import REDIRECTS
from gateway.platforms import (
    Address,
    Capabilities,
    ConnectionRefused,
    Growing,
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
from gateway.wire import (
    Answer,
    Signer,
    call,
    check_fresh,
    media_type,
    object_of,
    objects_of,
    one_header,
    origin,
    read_form,
    read_json,
    seconds,
    size_of,
    text_of,
)

WINDOW_S: Final = 300
TEXT_LIMIT: Final = 3_900
"""Characters of a part in Slack's dialect. `chat.update` refuses more than 4,000 and a post of more than about 4,040 is
cut in two, so that one limit is safe for both, and a streamed message can be edited to its end."""
METADATA_TYPE: Final = "deskmate_reply"
IN_THREAD: Final = "in_thread"
"""In `Event.extra`: what is answered stands in a thread that others see as one."""
DOWNLOAD_S: Final = 30.0
"""The longest that one file may take."""
REDIRECTS_MAX: Final = 3
PAGES_MAX: Final = 10
"""How far `find` looks: pages of 100 messages since the send."""

_FILES_AT: Final = re.compile(r"https://(?:[a-z0-9-]+\.)*slack(?:-files)?\.com:443", re.ASCII)
_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TS: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?", re.ASCII)
_FIRST_MENTION: Final = re.compile(r"\A\s*<@([A-Z0-9]+)")
_SUBTYPES: Final = {"", "file_share", "thread_broadcast"}
_SYSTEM: Final = {"USLACK", "USLACKBOT"}
_HANDLE_S: Final = 1_800
_HANDLE_USES: Final = 5

_MEANINGS: Final[dict[OutcomeKind, str]] = {
    "rate_limited": "ratelimited rate_limited message_limit_exceeded",
    "transient": "service_unavailable request_timeout team_added_to_org accesslimited",
    "ambiguous": "fatal_error internal_error",  # Slack: "some aspect of the operation" may have succeeded
    "bad_format": "invalid_blocks invalid_blocks_format invalid_attachments invalid_metadata_format invalid_arguments",
    "too_long": "msg_too_long msg_blocks_too_long metadata_too_large",
    "auth_failed": "not_authed invalid_auth account_inactive token_revoked token_expired no_permission missing_scope "
    "not_allowed_token_type access_denied ekm_access_denied org_login_required team_access_not_granted",
    "target_gone": "channel_not_found not_in_channel is_archived is_inactive user_not_found thread_not_found "
    "message_not_found cannot_reply_to_message team_not_found user_not_in_channel",
}
_ERRORS: Final[dict[str, OutcomeKind]] = {error: kind for kind, errors in _MEANINGS.items() for error in errors.split()}
"""What an `error` of the Web API means to a sender; any other is `rejected`."""


class Settings(Connection):
    """Keys of a connection with `platform: slack`."""

    api_base: WebAddress = "https://slack.com/api"
    """Where the Web API's methods are: `<api_base>/chat.postMessage`."""
    signing_secret: Secret = Field(min_length=1)
    """Of the app's page "Basic information"; proves that a request is Slack's."""
    previous_signing_secret: Secret | None = Field(None, min_length=1)
    """The one before, while Slack changes over. Take it out afterwards."""
    bot_token: Secret = Field(min_length=1)
    """`xoxb-...`, of the page "OAuth & Permissions"."""
    team_id: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """The only workspace that is listened to. Without it: every workspace that installed the app."""
    bot_user_id: str | None = Field(None, pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Our own user id, if events do not tell it (Slack's do)."""
    command: str = Field("deskmate", pattern=r"^[a-z0-9_-]{1,32}$")
    """The slash command whose first word is ours: `/deskmate stop` is `/stop`."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @field_validator("api_base")
    @classmethod
    def _has_an_origin(cls, value: str) -> str:
        origin(value)
        return value


class Adapter(Plain):
    """One Slack connection."""

    capabilities = Capabilities(text_limit=TEXT_LIMIT, look_back=True, ephemeral=True, columns=80)

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.me: Actor | None = None
        """Who we are, once `identity` was asked."""
        self._connection = connection
        self._settings = settings
        self._http = outside.http
        self._base = URL(settings.api_base)
        self._token = settings.bot_token.get_secret_value()
        secrets = (settings.signing_secret, settings.previous_signing_secret)
        self._signers = [Signer(one.get_secret_value().encode()) for one in secrets if one]
        self._handle_origins = {"https://hooks.slack.com:443", origin(settings.api_base)}

    # pure

    def verify(self, request: RawRequest, now_s: float) -> None:
        signature = one_header(request, "X-Slack-Signature")
        if not _SIGNATURE.fullmatch(signature):
            raise Unauthorized("X-Slack-Signature: not v0= and 64 hexadecimal digits")
        stamp = one_header(request, "X-Slack-Request-Timestamp")
        at_s = seconds("X-Slack-Request-Timestamp", stamp)
        signed = b"v0:%b:%b" % (stamp.encode(), request.body)
        given = bytes.fromhex(signature[3:])
        # Every key is tried, so that the time taken does not tell which one fits.
        matches = [hmac.compare_digest(signer.digest(signed), given) for signer in self._signers]
        if not any(matches):
            raise Unauthorized("X-Slack-Signature: does not match (is signing_secret this app's?)")
        check_fresh("X-Slack-Request-Timestamp", at_s, now_s, WINDOW_S)

    def handshake(self, request: RawRequest) -> HttpReply | None:
        if b"url_verification" not in request.body and b"ssl_check" not in request.body:
            return None
        kind = media_type(request)
        if kind == _FORM and "ssl_check" in read_form(request.body):
            return _OK
        if kind != _JSON:
            return None
        body = read_json(request.body)
        if body.get("type") != "url_verification":
            return None
        challenge = text_of(body.get("challenge"))
        if not challenge:
            raise Malformed("a url_verification without its challenge")
        return HttpReply(body=json.dumps({"challenge": challenge}).encode())

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        kind = media_type(request)
        try:
            if kind == _JSON:
                return self._envelope(read_json(request.body))
            if kind == _FORM:
                form = read_form(request.body)
                if "payload" in form:
                    return self._pressed(read_json(form["payload"]), now_s)
                if "command" in form:
                    return [self._commanded(form, request.headers["X-Slack-Signature"], now_s)]
        except ValueError as error:  # a key that no conversation can have
            raise Malformed(str(error)) from None
        raise Malformed("neither an event nor a slash command nor a pressed button")

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        del events  # Slack takes an empty 200 for all of them
        return _OK

    def render(self, outbound: Outbound) -> list[Part]:
        return [
            Part({"text": text, "mrkdwn": True}, {"text": mrkdwn.escape(piece), "mrkdwn": False}, outbound.only_for)
            for piece, text in _fitting(outbound.markdown.strip("\n"), TEXT_LIMIT)
        ] or [Part({"text": "…", "mrkdwn": False}, only_for=outbound.only_for)]

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("message", interval_s=1.0)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        if part.only_for:
            return await self._whisper(to, part, part.only_for, key)
        body = {
            "channel": to.conversation.channel,
            **part.payload,
            **_QUIET,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": _metadata(key),
        }
        if thread := _thread_ts(to.conversation):
            body["thread_ts"] = thread
        outcome, answer = await self._post("chat.postMessage", body)
        if outcome.kind != "ok":
            return outcome
        sent = _sent(to.conversation.channel, answer, key)
        return Outcome("ok", sent) if sent else Outcome("ambiguous", detail="chat.postMessage: ok without a ts")

    async def _whisper(self, to: Address, part: Part, user: str, key: str) -> Outcome:
        """To one person of the channel. It carries no metadata, and what it is answered with is no message's time."""
        body = {"channel": to.conversation.channel, "user": user, "text": part.payload.get("text", ""), **_QUIET}
        # In a thread that has no reply yet Slack shows it to nobody.
        if to.extra.get(IN_THREAD) and (thread := _thread_ts(to.conversation)):
            body["thread_ts"] = thread
        outcome, _ = await self._post("chat.postEphemeral", body)
        return Outcome("ok", Sent(key)) if outcome.kind == "ok" else outcome

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        body = {
            "channel": text_of(sent.ref.get("channel")) or to.conversation.channel,
            "ts": sent.message_id,
            "text": part.payload.get("text", ""),
            **_QUIET,
        }
        if key := text_of(sent.ref.get("key")):
            body["metadata"] = _metadata(key)
        outcome, _ = await self._post("chat.update", body)
        if outcome.kind == "ambiguous":  # the same edit again does no harm
            return Outcome("transient", detail=outcome.detail)
        return Outcome("ok", sent) if outcome.kind == "ok" else outcome

    async def find(self, to: Address, key: str, since_ms: int) -> Outcome:
        channel, thread = to.conversation.channel, _thread_ts(to.conversation)
        # Two clocks may differ by a minute; a message found a second time is no harm, one overlooked is.
        params = {
            "channel": channel,
            "oldest": f"{max(since_ms / 1000 - 60, 0):.6f}",
            "limit": "100",
            "include_all_metadata": "true",
        }
        if thread:
            params["ts"] = thread
        for _ in range(PAGES_MAX):
            outcome, page = await self._get("conversations.replies" if thread else "conversations.history", params)
            if outcome.kind != "ok":
                return outcome
            for message in objects_of(page.get("messages")):
                metadata = object_of(message.get("metadata"))
                if (
                    metadata.get("event_type") == METADATA_TYPE
                    and object_of(metadata.get("event_payload")).get("key") == key
                ):
                    return Outcome("ok", _sent(channel, message, key))
            cursor = text_of(object_of(page.get("response_metadata")).get("next_cursor"))
            if not cursor:
                return Outcome("target_gone", detail="no message of ours with this key")
            params["cursor"] = cursor
        return Outcome("transient", detail=f"more than {PAGES_MAX} pages since the send")

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        part = self.render(Outbound(growing.markdown))[0]
        return await self.edit(to, sent, part) if sent else await self.send(to, part, key)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """With the bot's token, which leaves for Slack's hosts only, whatever a redirect says."""
        where = text_of(attachment.fetch.get("url"))
        if not where:
            raise NotDownloaded("Slack gives no address for it")
        if attachment.size_bytes > max_bytes:
            raise NotDownloaded(f"it has {attachment.size_bytes} bytes, allowed are {max_bytes}")
        for _ in range(REDIRECTS_MAX + 1):
            url = self._file_url(where)
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = await call(self._http, "GET", url, headers=headers, timeout_s=DOWNLOAD_S, max_bytes=max_bytes)
            if isinstance(answer, Outcome):
                raise NotDownloaded(f"Slack did not give it: {answer.detail}")
            if answer.status not in REDIRECTS:
                return _file_of(answer, attachment)
            where = _joined(url, answer.headers.get("Location", ""))
        raise NotDownloaded(f"more than {REDIRECTS_MAX} redirects")

    def _file_url(self, where: str) -> URL:
        """An address that may see the token."""
        try:
            place = origin(where)
        except ValueError as error:
            raise NotDownloaded(f"it has no address of Slack's: {error}") from None
        if place != origin(self._settings.api_base) and not _FILES_AT.fullmatch(place):
            raise NotDownloaded(f"its address leads to {place}, which is not Slack's")
        return URL(where)

    async def identity(self) -> Actor:
        outcome, answer = await self._post("auth.test", {})
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)
        team = text_of(answer.get("team_id"))
        if self._settings.team_id and team != self._settings.team_id:
            raise ConnectionRefused(f"bot_token belongs to workspace {team}, team_id says {self._settings.team_id}")
        self.me = Actor(text_of(answer.get("user_id")), text_of(answer.get("user")), is_bot=True, is_self=True)
        return self.me

    # reading

    def _envelope(self, body: dict[str, Any]) -> list[Event]:
        if body.get("type") != "event_callback":
            return []
        event = object_of(body.get("event"))
        team = self._team(text_of(body.get("team_id")) or text_of(event.get("team")))
        kind, message = _change(event)
        us = self._us(body)
        if not kind or _is_machine(message, us):
            return []
        channel = _id("channel", event.get("channel"))
        ts = at = _ts("ts", message.get("ts"))
        direct = event.get("channel_type") == "im" or channel.startswith("D")
        mentioned = event["type"] == "app_mention"
        raw = text_of(message.get("text"))
        own = us or (set(_FIRST_MENTION.findall(raw)) if mentioned else us)
        key = f"{kind}:{team}:{channel}:{ts}"
        if kind != "message":
            at = text_of(event.get("event_ts")) or ts
            key += f":{text_of(event.get('event_ts')) or text_of(event.get('ts'))}"
        event_id = text_of(body.get("event_id"))
        said = Event(
            kind=kind,
            conversation=self._conversation(team, channel, message.get("thread_ts"), ts, direct=direct),
            actor=Actor(_id("user", message.get("user"))),
            dedupe_keys=(f"id:{event_id[:128]}", key) if event_id else (key,),
            at_ms=_ms(at),
            message_id=ts,
            text="" if kind == "delete" else mrkdwn.read(raw, own),
            addressed=direct or mentioned or mrkdwn.mentions(raw, us),
            is_direct=direct,
            attachments=_attachments(message) if kind != "delete" and "files" in message else (),
            extra={IN_THREAD: True} if message.get("thread_ts") else {},
        )
        return [said]

    def _commanded(self, form: Mapping[str, str], signature: str, now_s: float) -> Event:
        team = self._team(form.get("team_id", ""))
        channel, user = _id("channel_id", form.get("channel_id")), _id("user_id", form.get("user_id"))
        name, text = form["command"].removeprefix("/"), form.get("text", "").strip()
        if name == self._settings.command:
            name, _, text = text.removeprefix("/").partition(" ")
        direct = channel.startswith("D")
        return Event(
            kind="command",
            conversation=self._conversation(team, channel, None, "", direct=direct),
            actor=Actor(user, form.get("user_name", "")),
            dedupe_keys=(f"command:{form.get('trigger_id', '')[:128] or signature}",),
            at_ms=round(now_s * 1000),
            name=name.lower() or "help",
            text=mrkdwn.read(text),
            is_direct=direct,
            reply_handle=self._handle(form.get("response_url", ""), now_s),
        )

    def _pressed(self, body: dict[str, Any], now_s: float) -> list[Event]:
        if body.get("type") != "block_actions":
            return []
        user = object_of(body.get("user"))
        team = self._team(text_of(object_of(body.get("team")).get("id")) or text_of(user.get("team_id")))
        container, message = object_of(body.get("container")), object_of(body.get("message"))
        channel = _id("channel", object_of(body.get("channel")).get("id") or container.get("channel_id"))
        ts = _ts("message", message.get("ts") or container.get("message_ts"))
        direct = channel.startswith("D")
        thread = message.get("thread_ts") or container.get("thread_ts")
        conversation = self._conversation(team, channel, thread, ts, direct=direct)
        actor = Actor(_id("user", user.get("id")), text_of(user.get("name")) or text_of(user.get("username")))
        handle = self._handle(text_of(body.get("response_url")), now_s)
        return [
            Event(
                kind="action",
                conversation=conversation,
                actor=actor,
                dedupe_keys=(
                    f"action:{team}:{channel}:{ts}:{actor.id}:{name}:{text_of(action.get('action_ts'))}"[:512],
                ),
                at_ms=round(now_s * 1000),
                message_id=ts,
                name=name,
                value=text_of(action.get("value")) or text_of(object_of(action.get("selected_option")).get("value")),
                is_direct=direct,
                reply_handle=handle,
                extra={IN_THREAD: True} if thread else {},
            )
            for action in objects_of(body.get("actions"))
            if (name := text_of(action.get("action_id")))
        ]

    def _team(self, team: str) -> str:
        """The workspace's id, if it is one that we listen to."""
        team = _id("team", team)
        if self._settings.team_id and team != self._settings.team_id:
            raise Unauthorized(f"workspace {team} is not this connection's team_id")
        return team

    def _us(self, body: dict[str, Any]) -> set[str]:
        """Our own user ids, as far as the event, the settings and `auth.test` tell."""
        us = {
            text_of(one.get("user_id")) for one in objects_of(body.get("authorizations")) if one.get("is_bot") is True
        }
        us.add(self._settings.bot_user_id or "")
        us.add(self.me.id if self.me else "")
        us.discard("")
        return us

    def _conversation(self, team: str, channel: str, thread: Any, ts: str, *, direct: bool) -> ConversationKey:
        root = _ts("thread_ts", thread) if thread else "" if direct else ts
        return key_of(self._connection, channel, f"{team}:{root}" if root else team)

    def _handle(self, url: str, now_s: float) -> ReplyHandle | None:
        """The address for a late answer, if it is one that Slack would give."""
        try:
            if origin(url) not in self._handle_origins:
                return None
        except ValueError:
            return None
        return ReplyHandle("response_url", {"url": url}, round((now_s + _HANDLE_S) * 1000), _HANDLE_USES)

    # calling

    async def _post(self, method: str, body: dict[str, Any]) -> tuple[Outcome, dict[str, Any]]:
        raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json; charset=utf-8"}
        url = self._base / method
        return _understood(
            method, await call(self._http, "POST", url, headers=headers, body=raw, timeout_s=self._settings.timeout_s)
        )

    async def _get(self, method: str, params: Mapping[str, str]) -> tuple[Outcome, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._token}"}
        url = self._base / method
        outcome, answer = _understood(
            method,
            await call(self._http, "GET", url, headers=headers, params=params, timeout_s=self._settings.timeout_s),
        )
        return (Outcome("transient", detail=outcome.detail) if outcome.kind == "ambiguous" else outcome), answer


_OK: Final = HttpReply()
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_QUIET: Final = {"parse": "none", "link_names": False}
"""Names in the text call nobody. `chat.update` would look for them by default."""


def _id(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Malformed(f"{name}: missing, or not an id")
    return value


def _ts(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _TS.fullmatch(value):
        raise Malformed(f"{name}: missing, or not a time of Slack's")
    return value


def _ms(ts: str) -> int:
    """Milliseconds of a time that may be one of Slack's."""
    whole, _, rest = ts.partition(".")
    return int(f"{whole}{rest[:3]:0<3}") if _TS.fullmatch(ts) else 0


def _change(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What an event does to which message: `message`, `edit`, `delete`, or nothing that is ours to see."""
    subtype = text_of(event.get("subtype"))
    if event.get("type") == "app_mention" or (event.get("type") == "message" and subtype in _SUBTYPES):
        return "message", event
    message, before = object_of(event.get("message")), object_of(event.get("previous_message"))
    kind, changed = "", event
    if event.get("type") == "message" and subtype == "message_deleted":
        kind, changed = "delete", {**before, "ts": event.get("deleted_ts")}
    elif event.get("type") == "message" and subtype == "message_changed":
        if message.get("subtype") == "tombstone":  # how the first message of a thread is deleted
            kind, changed = "delete", {**before, "ts": message.get("ts")}
        elif "edited" in message and message.get("text") != before.get(
            "text"
        ):  # else a preview came, a reply was counted
            kind, changed = "edit", message
    return kind, changed


def _is_machine(message: Mapping[str, Any], us: set[str]) -> bool:
    """Whether we, another bot or Slack itself said it. Two bots that answer each other would never end."""
    user = text_of(message.get("user"))
    return bool(
        message.get("bot_id") or message.get("subtype") == "bot_message" or not user or user in us or user in _SYSTEM
    )


def _attachments(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    return tuple(map(_attachment, objects_of(message.get("files"))))


def _attachment(file: Mapping[str, Any]) -> Attachment:
    mime = text_of(file.get("mimetype"))
    kind = mime.partition("/")[0]
    url = text_of(file.get("url_private_download")) or text_of(file.get("url_private"))
    return Attachment(
        kind=kind if kind in {"image", "audio", "video"} else "file",
        name=text_of(file.get("name")) or text_of(file.get("title")),
        mime=mime,
        size_bytes=size_of(file.get("size")),
        fetch={"id": text_of(file.get("id")), "url": url} if url else {},
    )


def _joined(here: URL, location: str) -> str:
    try:
        return str(here.join(URL(location)))
    except ValueError:
        raise NotDownloaded("a redirect to something that is no address") from None


def _file_of(answer: Answer, attachment: Attachment) -> bytes:
    """The file, if it is that and not the page for a login, which comes with a 200 where a token lacks the right."""
    if answer.status == 404:
        raise NotDownloaded("it is not there any more")
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    # A page of HTML that somebody attached is as long as was said; the login is not.
    if answer.status == 200 and kind == "text/html" and len(answer.body) != attachment.size_bytes:
        raise NotDownloaded("Slack sent a login page in its place; the app needs the scope files:read")
    if answer.status != 200:
        raise NotDownloaded(f"Slack did not give it: status {answer.status}")
    return answer.body


def _thread_ts(conversation: ConversationKey) -> str:
    return (conversation.thread or "").partition(":")[2]


def _metadata(key: str) -> dict[str, Any]:
    """Rides with a message, unseen, so that `find` knows it again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def _sent(channel: str, message: Mapping[str, Any], key: str) -> Sent | None:
    ts = text_of(message.get("ts"))
    return Sent(ts, {"channel": text_of(message.get("channel")) or channel, "key": key}) if _TS.fullmatch(ts) else None


def _fitting(markdown: str, room: int) -> list[tuple[str, str]]:
    """Pieces of the text, each with its form in Slack's dialect, none of either over the limit."""
    made: list[tuple[str, str]] = []
    for piece in split(markdown, room, lambda text: len(mrkdwn.escape(text))):
        source = str(piece).strip("\n")
        text = mrkdwn.write(source)
        if len(text) > TEXT_LIMIT:  # a table grows when it is aligned
            made += _fitting(source, room // 2) if room > 200 else [(source, mrkdwn.escape(source))]
        elif text.strip():
            made.append((source, text))
    return made


def _understood(method: str, answer: Answer | Outcome) -> tuple[Outcome, dict[str, Any]]:
    """What an answer of the Web API means. Most errors come with status 200."""
    if isinstance(answer, Outcome):
        return Outcome(answer.kind, detail=f"{method}: {answer.detail}"), {}
    body = answer.json() or {}
    error = text_of(body.get("error")) or f"status {answer.status}"
    detail = f"{method}: {error[:100]}"
    if needed := text_of(body.get("needed")):
        detail += f" (needed scope: {needed[:100]})"
    if answer.status == 429 or _ERRORS.get(error) == "rate_limited":
        wait_s = answer.retry_after_s()
        return Outcome("rate_limited", retry_after_s=1.0 if wait_s is None else wait_s, detail=detail), {}
    if answer.status == 200 and body.get("ok") is True:
        return Outcome("ok"), body
    if answer.status == 200 and body.get("ok") is not False:
        return Outcome("ambiguous", detail=f"{method}: an answer that is not the Web API's"), {}
    return Outcome(_ERRORS.get(error) or _by_status(answer.status), detail=detail), {}


def _by_status(status: int) -> OutcomeKind:
    if status in {401, 403}:
        return "auth_failed"
    if status == 413:
        return "too_long"
    if status in {408, 503}:
        return "transient"
    return "ambiguous" if status >= 500 else "rejected"
