"""Slack: the Events API, slash commands and buttons in, the Web API out.

One connection is one app in one workspace (or one app that several workspaces installed, see `team_id`). A
conversation is a thread: its key holds the channel's id, and as `thread` the workspace and the thread's first message,
`T…:1712.34`; in a direct message outside threads the workspace alone.

An answer grows in one message: where Slack streams (`native_streaming`) a stream, which gets Markdown as it comes, else
a post that is edited. Either way an edit ends it with the whole text in Slack's own dialect.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal
from urllib.parse import urlencode

from pydantic import Field, field_validator
from yarl import URL

from config.settings import Connection, Secret, WebAddress
from gateway.conversation.key import ConversationKey, key_of
from gateway.events import Actor, Attachment, Event, ReplyHandle, kind_of
from gateway.files import FILE_MAX_BYTES
from gateway.net import REDIRECTS
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
from gateway.text import mrkdwn
from gateway.text.dialect import ZERO_WIDTH
from gateway.text.markdown import fitting
from gateway.text.urls import address_of
from gateway.wire import (
    DOWNLOAD_S,
    UPLOAD_S,
    Answer,
    Signer,
    by_status,
    call,
    check_fresh,
    dumped,
    file_of,
    harmless,
    id_of,
    may_open,
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
    waits,
)

WINDOW_S: Final = 300
TEXT_LIMIT: Final = 3_900
"""Characters of a part in Slack's dialect. `chat.update` refuses more than 4,000 and a post of more than about 4,040 is
cut in two, so that one limit is safe for both, and a streamed message can be edited to its end."""
SECTION_LIMIT: Final = 3_000
"""Characters of one block of text; a message with buttons is made of blocks."""
BUTTONS_MAX: Final = 25
"""Of one block of buttons."""
BUTTON_LIMIT: Final = 75
"""Characters of a button's label."""
ACTION: Final = "deskmate:"
"""What the ids of our buttons begin with. Any other is somebody else's."""
GUEST_S: Final = 1.5
"""The longest that who pressed or commanded is asked about: Slack waits three seconds for our 200."""
STATUS_S: Final = 120.0
"""How long Slack shows a status that nothing ends."""
BURST: Final = 4
"""Messages that a channel takes at once after a pause."""
METADATA_TYPE: Final = "deskmate_reply"
IN_THREAD: Final = "in_thread"
"""In `Event.extra`: what is answered stands in a thread that others see as one."""
RECIPIENT: Final = "recipient"
"""In `Event.extra`, where an answer may be a stream: workspace and user of whom it answers, and our own user ids."""
STREAM: Final = "stream"
"""In `Sent.ref`, while the message is an open stream: who streams, and what it shows; empty where nobody knows that."""
REDIRECTS_MAX: Final = 3
PAGES_MAX: Final = 10
"""How far `find` looks: pages of 100 messages since the send."""

_FILES_AT: Final = re.compile(r"https://(?:[a-z0-9-]+\.)*slack(?:-files)?\.com:443", re.ASCII)
_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TS: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?", re.ASCII)
_FIRST_MENTION: Final = re.compile(r"\A\s*<@([A-Z0-9]+)")
_SUBTYPES: Final = {"", "file_share", "thread_broadcast", "bot_message"}
_OUTSIDE: Final = ("is_restricted", "is_ultra_restricted", "is_stranger")
_SYSTEM: Final = {"USLACK", "USLACKBOT"}
_HANDLE_S: Final = 1_800
_LOGIN: Final = "a login page means that the app lacks the scope files:read"
_OK: Final = HttpReply()
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_QUIET: Final = {"parse": "none", "link_names": False}
"""Names in the text call nobody. `chat.update` would look for them by default."""
# Of the methods that show a text, `chat.postMessage` and a `response_url` take these; `chat.update`, `chat.postEphemeral` and the
# streams have no such argument.
_NO_PREVIEWS: Final = {"unfurl_links": False, "unfurl_media": False}
"""Slack does not open what a message links to. Edits, streams and what is for one person know no such words."""

_MEANINGS: Final[dict[OutcomeKind, str]] = {
    "rate_limited": "ratelimited rate_limited message_limit_exceeded",
    # An open stream can't be edited; it ends by itself after a few minutes, if not before.
    "transient": "service_unavailable request_timeout team_added_to_org accesslimited streaming_state_conflict",
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
_NOT_OURS: Final = {
    *("unknown_method", "method_deprecated", "deprecated_endpoint", "not_allowed_token_type", "missing_scope"),
    *("no_permission", "access_denied"),
}
"""Errors that say of a method that we don't have it, or have no right to it."""


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
    native_streaming: Literal["never", "direct", "threads"] = "direct"
    """Where growing answers are Slack's streams: in threads of direct messages (as an assistant's are), or in all
    threads. Elsewhere, and where a workspace refuses them, a message is edited."""
    messages_per_s: float = Field(1.0, ge=0)
    """Messages to one channel in a second, after four at once. Slack takes about one, and does not say it. 0: no limit."""
    timeout_s: float = Field(4.0, gt=0, le=60)
    """The longest that one call may take; less than `mailbox.send_timeout_s`."""

    @field_validator("api_base")
    @classmethod
    def _has_an_origin(cls, value: str) -> str:
        origin(value)
        return value


SCOPES: Final = (
    *("app_mentions:read", "assistant:write", "channels:history", "chat:write", "commands", "files:read"),
    *("files:write", "groups:history", "im:history", "mpim:history", "users:read"),
)
EVENTS: Final = (
    *("app_mention", "assistant_thread_context_changed", "assistant_thread_started"),
    *("message.channels", "message.groups", "message.im", "message.mpim"),
)
GUIDE: Final = Guide(
    steps=(
        "At https://api.slack.com/apps choose *Create New App*, *From a manifest*, your workspace, and paste the manifest.",
        "*Install App*: install it. The *Bot User OAuth Token* (`xoxb-...`) is `bot_token`.",
        "*Basic Information*: the *Signing Secret* is `signing_secret`.",
        "Start deskmate. Then, at *Event Subscriptions*, have Slack verify `{url}`.",
        "Invite the bot where it is to answer: `/invite @deskmate`.",
    ),
    scopes=SCOPES,
    manifest_name="App manifest (YAML)",
    manifest="""\
display_information:
  name: deskmate
features:
  app_home:
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  assistant_view:
    assistant_description: Answers, with the skills of your team
  bot_user:
    display_name: deskmate
    always_online: true
  slash_commands:
    - command: /deskmate
      description: stop, new, help ...
      url: {url}
      should_escape: false
oauth_config:
  scopes:
    bot:
"""
    + "".join(f"      - {scope}\n" for scope in SCOPES)
    + """\
settings:
  event_subscriptions:
    request_url: {url}
    bot_events:
"""
    + "".join(f"      - {event}\n" for event in EVENTS)
    + """\
  interactivity:
    is_enabled: true
    request_url: {url}
""",
    tells_guests="messages",
)


class Adapter(Plain):
    """One Slack connection."""

    capabilities = Capabilities(
        text_limit=TEXT_LIMIT,
        look_back=True,
        ephemeral=True,
        columns=80,
        buttons=BUTTONS_MAX,
        file_max_bytes=FILE_MAX_BYTES,
        typing_s=STATUS_S,
    )

    def __init__(self, connection: str, settings: Settings, outside: Outside) -> None:
        self.me: Actor | None = None
        """Who we are, once `identity` was asked."""
        self._connection = connection
        self._settings = settings
        self._outside = outside
        if settings.messages_per_s:
            pace = Pace("channel", BURST, BURST / settings.messages_per_s)
            self.capabilities = replace(self.capabilities, pace=(pace,))
        self._base = URL(settings.api_base)
        self._token = settings.bot_token.get_secret_value()
        keys = (settings.signing_secret, settings.previous_signing_secret)
        self._signers = [Signer(one.get_secret_value().encode()) for one in keys if one]
        home = origin(settings.api_base)
        self._handle_origins = {"https://hooks.slack.com:443", home}
        self._file_places = (home, _FILES_AT)
        self._bot_id = ""
        self._enterprise = ""
        self._life = secrets.token_hex(4)
        """Of this process: only who began a stream, and lives, knows how far it is."""
        self._refused: set[str] = set()
        """Methods that this workspace does not have; not to be asked for again."""

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
        return HttpReply(body=dumped({"challenge": challenge}))

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        kind = media_type(request)
        try:
            if kind == _JSON:
                return self._envelope(read_json(request.body))
            if kind == _FORM:
                form = read_form(request.body)
                if "payload" in form:
                    return self._actions(read_json(form["payload"]), now_s)
                if "command" in form:
                    return self._commanded(form, request.headers["X-Slack-Signature"], now_s)
        except ValueError as error:  # a key that no conversation can have
            raise Malformed(str(error)) from None
        raise Malformed("neither an event nor a slash command nor a pressed button")

    def acknowledge(self, events: Sequence[Event]) -> HttpReply:
        del events  # Slack takes an empty 200 for all of them
        return _OK

    def render(self, outbound: Outbound) -> list[Part]:
        pieces = _fitting(outbound.markdown, TEXT_LIMIT) or [_NOTHING]
        parts = [_part(piece, text, outbound.only_for) for piece, text in pieces]
        if outbound.buttons:
            parts[-1].payload["blocks"] = _blocks(pieces[-1][0], outbound.buttons)
        return parts

    def stream(self, to: Address) -> Stream:
        del to
        return Stream("message", interval_s=1.0)

    # outside

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        if part.file:
            return await self._upload(to, part.file)
        outcome = await (self._whisper(to, part, part.only_for, key) if part.only_for else self._say(to, part, key))
        handle = to.handle
        if outcome.kind != "target_gone" or not handle or part.only_for not in {None, handle.data.get("user")}:
            return outcome
        # A command may be given where we are no member: then there is only the address that came with it.
        kind = "ephemeral" if part.only_for else "in_channel"
        body = {**_shown(part), "response_type": kind, "replace_original": False}
        answered = await self._respond(handle, body)
        if answered.kind == "target_gone":
            return outcome
        return Outcome("ok", Sent(key)) if answered.kind == "ok" else answered

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        if STREAM in sent.ref:
            stopped, _ = await self._ask("chat.stopStream", _place(to, sent))
            if stopped.kind in {"rate_limited", "transient", "ambiguous"}:
                return harmless(stopped)
            # A refusal means that it is over: by its age, by somebody's click, or because we were here before.
            sent = replace(sent, ref={name: value for name, value in sent.ref.items() if name != STREAM})
        # Without `blocks` those of before might stay.
        body = {**_place(to, sent), "blocks": [], **_shown(part), **_QUIET}
        if key := text_of(sent.ref.get("key")):
            body["metadata"] = _metadata(key)
        outcome, _ = await self._ask("chat.update", body)
        return Outcome("ok", sent) if outcome.kind == "ok" else harmless(outcome)

    async def delete(self, to: Address, sent: Sent) -> Outcome:
        outcome, _ = await self._ask("chat.delete", _place(to, sent))
        return harmless(outcome)

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
        begun: Sent | None = None
        for _ in range(PAGES_MAX):
            method = "conversations.replies" if thread else "conversations.history"
            outcome, page = await self._ask(method, params, as_form=True)
            if outcome.kind == "target_gone" and to.handle:  # it may have gone that way, where we can't look
                return replace(outcome, kind="rejected")
            if outcome.kind != "ok":
                return harmless(outcome)
            for message in objects_of(page.get("messages")):
                if _key_of(message) == key:
                    return Outcome("ok", _sent(channel, message, key))
                if _is_bare(message, object_of(to.extra.get(RECIPIENT)).get("us", ())):
                    begun = _sent(channel, message, key, stream={})
            cursor = text_of(object_of(page.get("response_metadata")).get("next_cursor"))
            if not cursor:
                return (
                    Outcome("ok", begun) if begun else Outcome("target_gone", detail="no message of ours with this key")
                )
            params["cursor"] = cursor
        return Outcome("transient", detail=f"more than {PAGES_MAX} pages since the send")

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        first = _first(growing.markdown)
        part = _part(*(first or _NOTHING))
        # What is streamed can't be taken back: no step, as it will be over, and of a long answer the first part alone.
        text = calm(first[0]) if first else ""
        if sent is None:
            begun = await self._begin_stream(to, text, key) if text and not growing.steps else None
            return begun or await self._say(to, part, key)
        stream = object_of(sent.ref.get(STREAM))
        if stream.get("by") != self._life or not text.startswith(stream["text"]):
            return await self.edit(to, sent, part)
        if text == stream["text"]:
            return Outcome("ok", sent)
        more = {**_place(to, sent), "markdown_text": text[len(stream["text"]) :]}
        outcome, _ = await self._ask("chat.appendStream", more)
        match outcome.kind:
            case "ok":
                return Outcome("ok", replace(sent, ref={**sent.ref, STREAM: {**stream, "text": text}}))
            case "ambiguous":  # nobody knows what stands there now: the next look ends it
                return replace(outcome, sent=replace(sent, ref={**sent.ref, STREAM: {}}))
            case "rate_limited" | "transient":
                return outcome
        return await self.edit(to, sent, part)

    async def typing(self, to: Address, *, on: bool) -> None:
        """The status of an assistant's thread. There are no words in it, as nobody asked in which language.

        The next message ends it: to take it back would only have the reply wait for one more call.
        """
        method, thread = "assistant.threads.setStatus", _thread_ts(to.conversation)
        if not on or not thread or not _is_direct(to.conversation.channel) or method in self._refused:
            return
        body = {"channel_id": to.conversation.channel, "thread_ts": thread, "status": "…"}
        _, answer = await self._ask(method, body)
        self._note_refusal(method, answer)

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        """Slack's waiting sign has ended with our 200, and the answer is said like any other: the buttons go."""
        del text
        if not is_settled:
            return
        if event.extra.get("is_ephemeral"):
            await self._respond(event.reply_handle, {"delete_original": True})
        elif shown := text_of(event.extra.get("text")):
            part = Part({"text": shown})
            outcome = await self.edit(to, Sent(event.message_id), part)
            if outcome.kind == "target_gone":
                await self._respond(event.reply_handle, {**_shown(part), "replace_original": True})

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """With the bot's token, which leaves for Slack's hosts only, whatever a redirect says."""
        where = text_of(attachment.fetch.get("url"))
        if not where:
            raise NotDownloaded("Slack gives no address for it")
        if attachment.size_bytes > max_bytes:
            raise NotDownloaded(f"it has {attachment.size_bytes} bytes, allowed are {max_bytes}")
        for _ in range(REDIRECTS_MAX + 1):
            url = may_open(where, "Slack", self._file_places)
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = await call(
                self._outside.http, "GET", url, headers=headers, timeout_s=DOWNLOAD_S, max_bytes=max_bytes
            )
            if isinstance(answer, Outcome) or answer.status not in REDIRECTS:
                return file_of(answer, "Slack", attachment, why=_LOGIN)
            where = _joined(url, answer.headers.get("Location", ""))
        raise NotDownloaded(f"more than {REDIRECTS_MAX} redirects")

    async def identity(self) -> Actor:
        outcome, answer = await self._ask("auth.test", {})
        if outcome.kind == "auth_failed":
            raise ConnectionRefused(f"{outcome.detail} (is bot_token the xoxb- token of an app that is installed?)")
        if outcome.kind != "ok":
            raise ConnectionRefused(outcome.detail)
        team = text_of(answer.get("team_id"))
        if self._settings.team_id and team != self._settings.team_id:
            raise ConnectionRefused(f"bot_token belongs to workspace {team}, team_id says {self._settings.team_id}")
        self._bot_id = text_of(answer.get("bot_id"))
        self._enterprise = text_of(answer.get("enterprise_id"))
        self.me = Actor(text_of(answer.get("user_id")), text_of(answer.get("user")), is_bot=True, is_self=True)
        return self.me

    async def is_guest(self, event: Event) -> bool | None:
        """A slash command is waited for while this is asked: not for long."""
        method = "users.info"
        if method in self._refused:
            return None
        outcome, answer = await self._ask(method, {"user": event.actor.id}, as_form=True, timeout_s=GUEST_S)
        if outcome.kind != "ok":
            self._note_refusal(method, answer)
            return None
        user = object_of(answer.get("user"))
        if user.get("id") != event.actor.id:
            return None
        if any(user.get(name) is True for name in _OUTSIDE):
            return True
        # People of another workspace in a shared channel are no strangers to Slack.
        team, house = (event.conversation.thread or "").partition(":")[0], object_of(user.get("enterprise_user"))
        if user.get("team_id") == team or (self._enterprise and house.get("enterprise_id") == self._enterprise):
            return False
        teams = house.get("teams")
        return not (isinstance(teams, list) and team in teams)

    # reading

    def _envelope(self, body: dict[str, Any]) -> list[Event]:
        if body.get("type") != "event_callback":
            return []
        event = object_of(body.get("event"))
        team = _id("team", text_of(body.get("team_id")) or text_of(event.get("team")))
        kind, message = _change(event)
        us = self._us(body)
        actor = self._actor(message, us, text_of(body.get("api_app_id"))) if kind else None
        if not actor or self._is_elsewhere(team):
            return []
        if _is_from_outside(body, message, team):
            actor = replace(actor, is_guest=True)
        channel = _id("channel", event.get("channel"))
        ts = at = _ts("ts", message.get("ts"))
        direct = event.get("channel_type") == "im" or _is_direct(channel)
        mentioned = event["type"] == "app_mention"
        raw = text_of(message.get("text"))
        own = us or (set(_FIRST_MENTION.findall(raw)) if mentioned else us)
        key = f"{kind}:{team}:{channel}:{ts}"
        if kind != "message":
            at = text_of(event.get("event_ts")) or ts
            key += f":{text_of(event.get('event_ts')) or text_of(event.get('ts'))}"
        event_id = text_of(body.get("event_id"))
        conversation = self._conversation(team, channel, message.get("thread_ts"), ts, direct=direct)
        extra: dict[str, Any] = {IN_THREAD: True} if message.get("thread_ts") else {}
        where = self._settings.native_streaming
        streams = where == "threads" or (where == "direct" and direct)
        if streams and us and _thread_ts(conversation):
            home = text_of(message.get("user_team")) or text_of(message.get("team")) or team
            extra[RECIPIENT] = {"team": home, "user": actor.id, "us": sorted(us)}
        said = Event(
            kind=kind,
            conversation=conversation,
            actor=actor,
            dedupe_keys=(f"id:{event_id[:128]}", key) if event_id else (key,),
            at_ms=_ms(at),
            message_id=ts,
            text="" if kind == "delete" else mrkdwn.read(raw, own),
            addressed=direct or mentioned or mrkdwn.mentions(raw, us),
            is_direct=direct,
            forwarded="" if kind == "delete" else _shared(message, own),
            attachments=_attachments(message) if kind != "delete" and "files" in message else (),
            extra=extra,
        )
        return [said]

    def _actor(self, message: Mapping[str, Any], us: set[str], app: str) -> Actor | None:
        """Who said it; nobody for what Slack itself says. An app that speaks in a person's name is a bot."""
        user, bot = text_of(message.get("user")), text_of(message.get("bot_id"))
        if user in _SYSTEM or not (user or bot):
            return None
        ours = user in us or bool(bot and (bot == self._bot_id or message.get("app_id") == app != ""))
        return Actor(_id("user", user or bot), is_bot=bool(bot) or ours, is_self=ours)

    def _commanded(self, form: Mapping[str, str], signature: str, now_s: float) -> list[Event]:
        team = _id("team", form.get("team_id"))
        if self._is_elsewhere(team):
            return []
        channel, user = _id("channel_id", form.get("channel_id")), _id("user_id", form.get("user_id"))
        name, text = form["command"].removeprefix("/"), form.get("text", "").strip()
        if name == self._settings.command:
            name, _, text = text.removeprefix("/").partition(" ")
        direct = _is_direct(channel)
        given = Event(
            kind="command",
            conversation=self._conversation(team, channel, None, "", direct=direct),
            actor=Actor(user, form.get("user_name", ""), is_guest=None),
            dedupe_keys=(f"command:{form.get('trigger_id', '')[:128] or signature}",),
            at_ms=round(now_s * 1000),
            name=name.lower() or "help",
            text=mrkdwn.read(text),
            is_direct=direct,
            reply_handle=self._handle(form.get("response_url", ""), user, now_s),
        )
        return [given]

    def _actions(self, body: dict[str, Any], now_s: float) -> list[Event]:
        if body.get("type") != "block_actions":
            return []
        ours = [one for one in objects_of(body.get("actions")) if text_of(one.get("action_id")).startswith(ACTION)]
        if not ours:
            return []
        user = object_of(body.get("user"))
        team = _id("team", text_of(object_of(body.get("team")).get("id")) or text_of(user.get("team_id")))
        if self._is_elsewhere(team):
            return []
        container, message = object_of(body.get("container")), object_of(body.get("message"))
        channel = _id("channel", object_of(body.get("channel")).get("id") or container.get("channel_id"))
        ts = _ts("message", message.get("ts") or container.get("message_ts"))
        thread = message.get("thread_ts") or container.get("thread_ts")
        home = text_of(user.get("team_id"))
        actor = Actor(
            _id("user", user.get("id")),
            text_of(user.get("name")) or text_of(user.get("username")),
            # Of whom is at home here nothing says whether they are a guest.
            is_guest=(bool(home) and home != team and not body.get("enterprise")) or None,
        )
        direct, is_ephemeral = _is_direct(channel), container.get("is_ephemeral") is True
        conversation = self._conversation(team, channel, thread, "" if is_ephemeral else ts, direct=direct)
        extra: dict[str, Any] = {IN_THREAD: True} if thread else {}
        extra |= {"is_ephemeral": True} if is_ephemeral else {"text": text_of(message.get("text"))}
        handle = self._handle(text_of(body.get("response_url")), actor.id, now_s)
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
                value=value,
                is_direct=direct,
                reply_handle=handle,
                extra=extra,
            )
            for action in ours
            if (name := text_of(action.get("action_id"))) and (value := text_of(action.get("value")))
        ]

    def _is_elsewhere(self, team: str) -> bool:
        """Whether it is another workspace than the only one that is listened to."""
        return self._settings.team_id not in {None, team}

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

    def _handle(self, url: str, user: str, now_s: float) -> ReplyHandle | None:
        """The address for a late answer, if it is one that Slack would give. To one alone it goes to `user` only."""
        try:
            if origin(url) not in self._handle_origins:
                return None
        except ValueError:
            return None
        return ReplyHandle("response_url", {"url": url, "user": user}, round((now_s + _HANDLE_S) * 1000))

    # calling

    async def _say(self, to: Address, part: Part, key: str) -> Outcome:
        body = {
            "channel": to.conversation.channel,
            **part.payload,
            **_QUIET,
            **_NO_PREVIEWS,
            "metadata": _metadata(key),
        }
        if thread := _thread_ts(to.conversation):
            body["thread_ts"] = thread
        outcome, answer = await self._ask("chat.postMessage", body)
        if outcome.kind != "ok":
            return outcome
        sent = _sent(to.conversation.channel, answer, key)
        return Outcome("ok", sent) if sent else Outcome("ambiguous", detail="chat.postMessage: ok without a ts")

    async def _whisper(self, to: Address, part: Part, user: str, key: str) -> Outcome:
        """To one person of the channel. It carries no metadata, and what it is answered with is no message's time."""
        body = {"channel": to.conversation.channel, "user": user, **_shown(part), **_QUIET}
        # In a thread that has no reply yet Slack shows it to nobody.
        if to.extra.get(IN_THREAD) and (thread := _thread_ts(to.conversation)):
            body["thread_ts"] = thread
        outcome, _ = await self._ask("chat.postEphemeral", body)
        return Outcome("ok", Sent(key)) if outcome.kind == "ok" else outcome

    async def _respond(self, handle: ReplyHandle | None, body: Mapping[str, Any]) -> Outcome:
        """To the address that came with a command or a press. It knows us by itself: the token stays here."""
        if not handle or handle.expires_at_ms <= self._outside.now_ms():
            return Outcome("target_gone", detail="response_url: too late")
        answer = await self._call(
            URL(text_of(handle.data.get("url"))), dumped({**body, **_NO_PREVIEWS}), {"Content-Type": _JSON}
        )
        outcome = _by_status("response_url", answer)
        is_over = isinstance(answer, Answer) and answer.status in {404, 410}
        return replace(outcome, kind="target_gone") if is_over else outcome

    async def _upload(self, to: Address, file: Attachment) -> Outcome:
        """Ask where to, bring the bytes there, post it. Nobody sees anything before the last step."""
        try:
            content = await self._outside.files.read(file.fetch, self.capabilities.file_max_bytes)
            name = file.name or "file"
            outcome, place = await self._ask(
                "files.getUploadURLExternal", {"filename": name, "length": len(content)}, as_form=True
            )
            if outcome.kind != "ok":
                return harmless(outcome)
            url = may_open(text_of(place.get("upload_url")), "Slack", self._file_places)
        except NotDownloaded as error:
            return Outcome("rejected", detail=f"{file.name}: {error}")
        headers = {"Content-Type": "application/octet-stream"}
        brought = await self._call(url, content, headers, timeout_s=UPLOAD_S)
        if (outcome := _by_status("upload", brought)).kind != "ok":
            return harmless(outcome)
        body = {"files": [{"id": place.get("file_id"), "title": name}], "channel_id": to.conversation.channel}
        if thread := _thread_ts(to.conversation):
            body["thread_ts"] = thread
        outcome, _ = await self._ask("files.completeUploadExternal", body)
        return Outcome("ok", Sent(text_of(place.get("file_id")))) if outcome.kind == "ok" else outcome

    async def _begin_stream(self, to: Address, text: str, key: str) -> Outcome | None:
        """None where there can be none: then nothing was sent."""
        method, recipient = "chat.startStream", object_of(to.extra.get(RECIPIENT))
        if not recipient or method in self._refused:
            return None
        body = {
            "channel": to.conversation.channel,
            "thread_ts": _thread_ts(to.conversation),
            "recipient_team_id": recipient["team"],
            "recipient_user_id": recipient["user"],
            "markdown_text": text,
        }
        outcome, answer = await self._ask(method, body)
        if outcome.kind == "ok":
            sent = _sent(to.conversation.channel, answer, key, stream={"by": self._life, "text": text})
            return Outcome("ok", sent) if sent else Outcome("ambiguous", detail=f"{method}: ok without a ts")
        if outcome.kind in {"rate_limited", "transient", "ambiguous"}:
            return outcome
        self._note_refusal(method, answer)
        return None

    def _note_refusal(self, method: str, answer: Mapping[str, Any]) -> None:
        """What this workspace does not have is not asked for again. Any other refusal is of this one call."""
        if text_of(answer.get("error")) in _NOT_OURS:
            self._refused.add(method)

    async def _ask(
        self, method: str, body: Mapping[str, Any], *, as_form: bool = False, timeout_s: float | None = None
    ) -> tuple[Outcome, dict[str, Any]]:
        """One method of the Web API. Some of them read forms only."""
        raw = urlencode(body, errors="replace").encode() if as_form else dumped(body)
        kind = _FORM if as_form else f"{_JSON}; charset=utf-8"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        return _understood(method, await self._call(self._base / method, raw, headers, timeout_s=timeout_s))

    async def _call(
        self, url: URL, body: bytes, headers: Mapping[str, str], *, timeout_s: float | None = None
    ) -> Answer | Outcome:
        timeout_s = timeout_s or self._settings.timeout_s
        return await call(self._outside.http, "POST", url, headers=headers, body=body, timeout_s=timeout_s)


# reading


def _id(name: str, value: Any) -> str:
    return id_of(name, value, _ID)


def _ts(name: str, value: Any) -> str:
    return id_of(name, value, _TS)


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
        # Else a preview came, or a reply was counted.
        elif "edited" in message and message.get("text") != before.get("text"):
            kind, changed = "edit", message
    return kind, changed


def _shared(message: Mapping[str, Any], own: set[str]) -> str:
    """The texts of messages that somebody shared, with or without a word of theirs."""
    shared = [one for one in objects_of(message.get("attachments")) if one.get("is_share") is True]
    return "\n".join(text for one in shared if (text := mrkdwn.read(text_of(one.get("text")), own)))


def _attachments(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    return tuple(map(_attachment, objects_of(message.get("files"))))


def _attachment(file: Mapping[str, Any]) -> Attachment:
    mime = text_of(file.get("mimetype"))
    url = text_of(file.get("url_private_download")) or text_of(file.get("url_private"))
    return Attachment(
        kind=kind_of(mime),
        name=text_of(file.get("name")) or text_of(file.get("title")),
        mime=mime,
        size_bytes=size_of(file.get("size")),
        fetch={"id": text_of(file.get("id")), "url": url} if url else {},
    )


def _joined(here: URL, location: str) -> str:
    try:
        return str(here.join(address_of(location)))
    except ValueError:
        raise NotDownloaded("a redirect to something that is no address") from None


def _thread_ts(conversation: ConversationKey) -> str:
    return (conversation.thread or "").partition(":")[2]


def _metadata(key: str) -> dict[str, Any]:
    """Rides with a message, unseen, so that `find` knows it again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def _key_of(message: Mapping[str, Any]) -> str:
    metadata = object_of(message.get("metadata"))
    is_ours = metadata.get("event_type") == METADATA_TYPE
    return text_of(object_of(metadata.get("event_payload")).get("key")) if is_ours else ""


def _is_bare(message: Mapping[str, Any], us: Collection[str]) -> bool:
    """An answer of ours without its mark: a stream, which gets it at the end. Files have none either, nor has what begins
    an assistant's thread.
    """
    is_answer = message.get("thread_ts") not in (None, message.get("ts"))
    return is_answer and message.get("user") in us and not _key_of(message) and not message.get("files")


def _place(to: Address, sent: Sent) -> dict[str, Any]:
    """Which message, in the words of all methods that change one."""
    return {"channel": text_of(sent.ref.get("channel")) or to.conversation.channel, "ts": sent.message_id}


def _sent(channel: str, message: Mapping[str, Any], key: str, stream: Mapping[str, str] | None = None) -> Sent | None:
    ts = text_of(message.get("ts"))
    ref = {"channel": text_of(message.get("channel")) or channel, "key": key}
    return Sent(ts, ref if stream is None else {**ref, STREAM: stream}) if _TS.fullmatch(ts) else None


def _part(piece: str, text: str, only_for: str | None = None) -> Part:
    return Part({"text": text, "mrkdwn": True}, {"text": mrkdwn.escape(piece), "mrkdwn": False}, only_for)


def _first(markdown: str) -> tuple[str, str] | None:
    """The first of `_fitting`. No more than twice the limit is looked at: nothing behind that changes it."""
    return next(iter(_fitting(markdown.lstrip("\n")[: 2 * TEXT_LIMIT], TEXT_LIMIT)), None)


_NOTHING: Final = ("…", "…")


def _fitting(markdown: str, limit: int) -> list[tuple[str, str]]:
    """Pieces of the text, each with its form in Slack's dialect, none of either over the limit."""
    return fitting(
        markdown.strip("\n"),
        limit,
        lambda text: len(mrkdwn.escape(text)),
        lambda piece: mrkdwn.write(piece).rstrip(),
        len,
    )


def calm(markdown: str) -> str:
    """Calls nobody in a stream, which reads Markdown as Slack does: no mention, no link with a label, no entity.

    A stream only ever gets what is new, so each of these characters is cut off from the next one, whatever that is.
    """
    return re.sub(r"[<@&\]]", lambda match: match[0] + ZERO_WIDTH, markdown)


def _blocks(markdown: str, buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """The text and the buttons below. `verbatim`: Slack finds no names in it, and no addresses either."""
    elements = [
        {
            "type": "button",
            "action_id": f"{ACTION}{number}",
            "text": {"type": "plain_text", "text": button.label[:BUTTON_LIMIT]},
            "value": button.command,
        }
        | ({} if button.style == "plain" else {"style": button.style})
        for number, button in enumerate(buttons[:BUTTONS_MAX])
    ]
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
        for _, text in _fitting(markdown, SECTION_LIMIT)
    ]
    return [*sections, {"type": "actions", "elements": elements}]


def _shown(part: Part) -> dict[str, Any]:
    """Text and blocks alone, for methods that know no more."""
    return {name: part.payload[name] for name in ("text", "blocks") if name in part.payload}


def _is_from_outside(body: Mapping[str, Any], message: Mapping[str, Any], team: str) -> bool:
    """Guests of the workspace; and people of another one, who write in a channel that is shared with it."""
    profile = object_of(message.get("user_profile"))
    if any(profile.get(name) is True for name in _OUTSIDE):
        return True
    home = text_of(message.get("user_team")) or text_of(profile.get("team")) or team
    return body.get("is_ext_shared_channel") is True and home != team


def _is_direct(channel: str) -> bool:
    return channel.startswith("D")


def _by_status(what: str, answer: Answer | Outcome) -> Outcome:
    """How a call ended that is none of the Web API: its status alone tells."""
    if isinstance(answer, Outcome):
        return replace(answer, detail=f"{what}: {answer.detail}")
    if answer.status == 200:
        return Outcome("ok")
    kind = by_status(answer.status)
    return Outcome(
        kind, None, waits(answer) if kind == "rate_limited" else None, detail=f"{what}: status {answer.status}"
    )


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
        # Of all limits only the one of messages in a month (of a free workspace) is not about this channel's pace.
        scope: Literal["channel", "connection"] = "connection" if error == "message_limit_exceeded" else "channel"
        return Outcome("rate_limited", None, waits(answer), scope, detail), body
    if answer.status == 200 and body.get("ok") is True:
        return Outcome("ok"), body
    if answer.status == 200 and body.get("ok") is not False:
        return Outcome("ambiguous", detail=f"{method}: an answer that is not the Web API's"), {}
    return Outcome(_ERRORS.get(error) or by_status(answer.status), detail=detail), body
