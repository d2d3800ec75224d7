"""A stand-in for Discord: its HTTP API kept strictly, the Gateway's websocket, signed interactions, a ledger of what it took.

    async with DiscordTwin() as discord:
        said = await discord.mention(hook, "hi")            # over the Gateway, once somebody listens there
        said = await discord.command(hook, "/help")         # an interaction to `hook`
        reply = await discord.reply_to(said)
        discord.next(status=429, retry_after=2.0)           # the next call; `on="create message"` for one kind

Connect deskmate with `discord.connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.harness.faults import Fault, Faults
from tests.harness.twins import Said, Shown

SEED: Final = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
"""Of RFC 8032, 7.1, test 1."""
KEY: Final = Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC_KEY: Final = KEY.public_key().public_bytes_raw().hex()
BOT_TOKEN: Final = "MTAwMDAw.test.discord-bot-token"
APPLICATION: Final = "775799577604522054"
BOT: Final = "775799577604522055"
"""Not the application's id: applications of the first years have two."""
GUILD: Final = "290926798626357999"
CHANNEL: Final = "645027906669510667"
DIRECT: Final = "645027906669510668"
USER: Final = "53908232506183680"

ANSWER_WITHIN_S: Final = 3.0
TOKEN_S: Final = 900.0
NONCE_S: Final = 300.0
FILE_MAX_BYTES: Final = 10_485_760
_EPOCH_MS: Final = 1_420_070_400_000
_KEYS: Final = {"content", "embeds", "flags", "allowed_mentions", "components", "attachments", "tts"}
_CREATE_KEYS: Final = _KEYS | {"nonce", "enforce_nonce", "message_reference", "sticker_ids"}
_GUILD_MESSAGES, _DIRECT_MESSAGES, _MESSAGE_CONTENT = 1 << 9, 1 << 12, 1 << 15
_KNOWN_INTENTS: Final = (1 << 17) - 1 | 3 << 20 | 3 << 24
_PRIVILEGED: Final = 1 << 1 | 1 << 8 | _MESSAGE_CONTENT


class Refused(Exception):
    """An error of the API: HTTP status, its own code, and for a form what is wrong with which field."""

    def __init__(self, status: int, code: int, message: str, field_: str = "", error: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"message": message, "code": code}
        if field_:
            self.body["errors"] = {field_: {"_errors": [{"code": error, "message": message}]}}


@dataclass(slots=True)
class Message:
    """One message of a channel, as the stand-in keeps it."""

    id: str
    channel: str
    author: str
    content: str
    components: list[dict[str, Any]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    flags: int = 0
    edited: bool = False
    loading: bool = False
    """Deferred: people see that something is thought about."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One call that took effect, in order."""

    what: str
    channel: str
    id: str
    body: dict[str, Any]


@dataclass(slots=True)
class Interaction:
    """One use of a command or a button. Its token can be used once it was acknowledged."""

    id: str
    token: str
    channel: str
    made_s: float
    original: str = ""


@dataclass(slots=True)
class Session:
    """One session of the Gateway; it goes on without its connection."""

    id: str
    intents: int
    sent: list[dict[str, Any]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    pack: Callable[[str], bytes] | None = None


class DiscordTwin:
    """One server with one channel, and one direct chat, of one application. `granted`: it may see all texts."""

    platform = "discord"
    environment: Mapping[str, str] = {"DISCORD_BOT_TOKEN": BOT_TOKEN}

    def __init__(self, *, heartbeat_ms: int = 5_000, granted: bool = False) -> None:
        self.taken: list[Taken] = []
        self.calls: list[str] = []
        """Every call that came in, refused ones too."""
        self.refused: list[tuple[str, str]] = []
        self.messages: list[Message] = []
        self.channels = {CHANNEL: GUILD, DIRECT: ""}
        """And the server that each is in."""
        self.forbidden: set[str] = set()
        self.commands: list[dict[str, Any]] = []
        self.endpoint = ""
        self.interactions: dict[str, Interaction] = {}
        self.sessions: dict[str, Session] = {}
        self.identified = 0
        self.resumed: list[int] = []
        """The sequence number that each RESUME named."""
        self.heartbeats: list[Any] = []
        self.is_deaf = False
        """Heartbeats are not answered."""
        self.sessions_left = 1_000
        self.files: dict[str, tuple[bytes, str]] = {}
        self.upload_s = 0.0
        """How long the bytes of a file take."""
        self.faults = Faults()
        self.url = ""
        """For `api_base`."""
        self._heartbeat_ms = heartbeat_ms
        self._granted = granted
        self._nonces: dict[str, tuple[float, Message]] = {}
        self._count = itertools.count(1)
        self._changed = asyncio.Condition()
        app = web.Application(client_max_size=32 * 1_048_576)
        app.add_routes(
            [
                web.get("/gateway", self._gateway),
                web.get("/cdn/{id}/{name}", self._file),
                web.route("*", "/api/v10/{path:.*}", self._call),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._origin = f"127.0.0.1:{self._runner.addresses[0][1]}"
        self.url = f"http://{self._origin}/api/v10"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.end()
        await self.drop()
        await self._runner.cleanup()
        await self._http.close()

    @property
    def connection(self) -> dict[str, Any]:
        keys = {"public_key": PUBLIC_KEY, "bot_token": "$DISCORD_BOT_TOKEN", "message_content": self._granted}
        return {"platform": "discord", "api_base": self.url, **keys}

    @property
    def shown(self) -> list[Shown]:
        return [
            Shown(
                one.channel,
                one.id,
                one.content,
                buttons=[button["label"] for row in one.components for button in row["components"]],
                file=one.files[0][1] if one.files else None,
            )
            for one in self.messages
            if one.author == BOT and not one.loading
        ]

    # on order

    def next(self, *, retry_after: float | None = None, is_global: bool = False, times: int = 1, **fault: Any) -> None:
        """The next call fails as told: `status`, `body`, `hang` or `close`, `taken`, `on` a kind of call."""
        made = Fault(**fault)
        if retry_after is not None:
            body = {"message": "You are being rate limited.", "retry_after": retry_after, "global": is_global}
            headers = {"Retry-After": str(int(retry_after) + 1), "X-RateLimit-Scope": "global" if is_global else "user"}
            made = Fault(**{**asdict(made), "status": 429, "body": body, "headers": headers | {"Via": "1.1 google"}})
        self.faults.order(made, times)

    # people

    async def mention(self, hook: str, text: str) -> Said:
        del hook
        return await self.say(f"<@{BOT}> {text}", mentions=[BOT])

    async def follow_up(self, hook: str, before: Said, text: str) -> Said:
        """As a reply, which calls whoever is answered unless people switch that off."""
        del hook
        answered = [one for one in self.messages if one.author == BOT and one.channel == before.room][-1]
        return await self.say(text, channel=before.room, answered=answered, mentions=[BOT])

    async def direct(self, hook: str, text: str) -> Said:
        del hook
        return await self.say(text, channel=DIRECT)

    async def picture(self, hook: str, text: str, png: bytes) -> Said:
        del hook
        return await self.say(text, channel=DIRECT, attachments=[self.file("picture.png", png, "image/png")])

    async def command(self, hook: str, line: str) -> Said:
        option = {"type": 3, "name": "line", "value": line.removeprefix("/")}
        data = {"id": "771825006014889984", "name": "deskmate", "type": 1, "options": [option]}
        return await self.interact(hook, {"type": 2, "data": data}, DIRECT)

    async def press(self, hook: str, shown: Shown, label: str) -> Said:
        message = self._message(shown.room, shown.id)
        buttons = [button for row in message.components for button in row["components"]]
        pressed = next(button for button in buttons if button["label"] == label)
        data = {"custom_id": pressed["custom_id"], "component_type": 2}
        body = {"type": 3, "data": data, "message": self.wire(message)}
        return await self.interact(hook, body, shown.room)

    async def say(
        self,
        text: str,
        *,
        channel: str = CHANNEL,
        user: str = USER,
        answered: Message | None = None,
        waits: bool = True,
        **extra: Any,
    ) -> Said:
        """A person, or the bot whose id is `user`, writes; whoever listens is told. `waits` until somebody does."""
        if waits:
            await self.until(lambda: any(one.socket for one in self.sessions.values()))
        message = Message(self._next_id(), channel, user, text)
        self.messages.append(message)
        data = self.wire(message) | extra
        data["mentions"] = [_user(one) for one in extra.get("mentions", [])]
        if answered:
            data |= {"type": 19, "referenced_message": self.wire(answered)}
        await self.dispatch("MESSAGE_CREATE", data)
        return Said(channel, message.id)

    async def interact(self, hook: str, body: Mapping[str, Any], channel: str, user: str = USER) -> Said:
        """One interaction to `hook`, sent once: Discord does not try again."""
        made = Interaction(self._next_id(), f"aW50ZXJhY3Rpb24_{next(self._count)}", channel, time.time())
        self.interactions[made.token] = made
        whole = {
            "version": 1,
            "id": made.id,
            "token": made.token,
            "application_id": APPLICATION,
            "channel_id": channel,
            "locale": "en-US",
            **(
                {"guild_id": GUILD, "member": {"user": _user(user)}}
                if self.channels[channel]
                else {"user": _user(user)}
            ),
            **body,
        }
        status, answer = await self.deliver(hook, whole)
        if status == 200:
            self._acknowledge(made, json.loads(answer), body["type"])
        return Said(channel, made.id, statuses=[status])

    async def deliver(self, hook: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Sign and send; the status, 0 for none in time, and the answer."""
        raw = json.dumps(body).encode()
        headers = sign(raw) | {"Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        try:
            async with self._http.post(hook, data=raw, headers=headers, timeout=timeout) as answer:
                return answer.status, await answer.read()
        except (TimeoutError, aiohttp.ClientError):
            return 0, b""

    def file(self, name: str, content: bytes, mime: str) -> dict[str, Any]:
        """A file as a message shows it."""
        file = str(next(self._count))
        self.files[file] = (content, mime)
        url = f"http://{self._origin}/cdn/{file}/{name}"
        return {"id": file, "filename": name, "content_type": mime, "size": len(content), "url": url, "proxy_url": url}

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever something came in."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Shown:
        def found() -> Shown | None:
            return next((one for one in self.shown if one.room == said.room and int(one.id) > int(said.id)), None)

        reply = await self.until(found, timeout_s)
        assert isinstance(reply, Shown)
        return reply

    # the HTTP API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"].split("/")
        what, handler = self._handler(request.method, path)
        self.calls.append(what)
        fault = self.faults.take(what)
        if fault and not fault.taken:
            return await self._show(request, fault)
        status, answer = 200, None
        try:
            if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
                raise Refused(403, 40333, "internal network error")
            if (
                path[0] not in {"webhooks", "interactions"}
                and request.headers.get("Authorization") != f"Bot {BOT_TOKEN}"
            ):
                raise Refused(401, 0, "401: Unauthorized")
            answer = await handler(request, *path) if handler else None
            if not handler:
                raise Refused(404, 0, "404: Not Found")
        except Refused as error:
            self.refused.append((what, str(error)))
            status, answer = error.status, error.body
        async with self._changed:
            self._changed.notify_all()
        if fault:
            return await self._show(request, fault)
        return web.Response(status=204) if answer is None else _as_json(status, answer)

    async def _show(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if isinstance(fault.body, dict | list):
            return _as_json(fault.status, fault.body, fault.headers)
        return await self.faults.show(request, fault)

    def _handler(self, method: str, path: list[str]) -> tuple[str, Any]:
        match method, path:
            case "GET", ["users", "@me"]:
                return "identity", self._me
            case "GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]:
                return "application", self._application
            case "PATCH", ["applications", "@me"]:
                return "register the address", self._set_endpoint
            case "PUT", ["applications", _, "commands"]:
                return "register commands", self._set_commands
            case "GET", ["gateway", "bot"]:
                return "find the Gateway", self._find_gateway
            case "POST", ["channels", _, "messages"]:
                return "create message", self._create
            case "PATCH", ["channels", _, "messages", _]:
                return "edit message", self._edit
            case "DELETE", ["channels", _, "messages", _]:
                return "delete message", self._delete
            case "POST", ["channels", _, "typing"]:
                return "typing", self._type
            case "PATCH", ["webhooks", _, _, "messages", "@original"]:
                return "edit response", self._fill
            case "POST", ["interactions", _, _, "callback"]:
                return "acknowledge", self._called_back
        return f"{method} {'/'.join(path)}", None

    async def _me(self, *_: Any) -> dict[str, Any]:
        return _user(BOT)

    async def _application(self, *_: Any) -> dict[str, Any]:
        ours = {
            "id": APPLICATION,
            "name": "deskmate",
            "verify_key": PUBLIC_KEY,
            "interactions_endpoint_url": self.endpoint or None,
        }
        shown = {"icon": None, "description": "", "bot_public": True, "bot_require_code_grant": False, "flags": 0}
        return {**ours, **shown, "summary": "", "team": None, "owner": _user(USER)}

    async def _set_endpoint(self, request: web.Request, *_: Any) -> dict[str, Any]:
        """As Discord does: a true ping has to be answered, and one whose signature is false has to be refused."""
        url = (await _json(request))["interactions_endpoint_url"]
        body = {"id": self._next_id(), "application_id": APPLICATION, "type": 1, "token": "t", "version": 1}
        status, answer = await self.deliver(url, body)
        raw = json.dumps(body).encode()
        forged = sign(raw + b" ") | {"Content-Type": "application/json"}
        async with self._http.post(url, data=raw, headers=forged) as refusal:
            if status != 200 or json.loads(answer) != {"type": 1} or refusal.status != 401:
                reason = "The specified interactions endpoint url could not be verified."
                raise Refused(
                    400, 50035, reason, "interactions_endpoint_url", "APPLICATION_INTERACTIONS_ENDPOINT_URL_INVALID"
                )
        self.endpoint = url
        return await self._application()

    async def _set_commands(self, request: web.Request, *path: str) -> list[Any]:
        if path[1] != APPLICATION:
            raise Refused(403, 20012, "You are not authorized to perform this action on this application")
        commands = await _json(request)
        for one in commands:
            texts = [
                (one.get("name"), 32),
                *((part.get("description"), 100) for part in (one, *one.get("options", []))),
            ]
            if not all(isinstance(text, str) and 1 <= len(text) <= most for text, most in texts):
                raise Refused(400, 50035, "Invalid Form Body", "description", "BASE_TYPE_BAD_LENGTH")
        self.commands = commands
        return self.commands

    async def _find_gateway(self, *_: Any) -> dict[str, Any]:
        limit = {"total": 1_000, "remaining": self.sessions_left, "reset_after": 200, "max_concurrency": 1}
        return {"url": f"ws://{self._origin}/gateway", "shards": 1, "session_start_limit": limit}

    async def _create(self, request: web.Request, *path: str) -> dict[str, Any]:
        channel = self._channel(path[1])
        if request.content_type == "multipart/form-data":
            await asyncio.sleep(self.upload_s)
        body, files = await _content(request, _CREATE_KEYS)
        nonce = str(body.get("nonce", ""))
        if len(nonce) > 25:
            raise Refused(400, 50035, "Must be 25 or fewer in length.", "nonce", "BASE_TYPE_MAX_LENGTH")
        made_s, known = self._nonces.get(nonce, (0.0, None))
        if body.get("enforce_nonce") and known and time.time() - made_s < NONCE_S:
            return self.wire(known)
        message = Message(self._next_id(), channel, BOT, "")
        _put(message, body, files, new=True)
        self.messages.append(message)
        self._nonces[nonce] = (time.time(), message)
        self.taken.append(Taken("create message", channel, message.id, body))
        await self.dispatch("MESSAGE_CREATE", self.wire(message))
        return self.wire(message) | {"nonce": nonce}

    async def _edit(self, request: web.Request, *path: str) -> dict[str, Any]:
        message = self._message(self._channel(path[1]), path[3])
        if message.author != BOT:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        return await self._change("edit message", message, request)

    async def _delete(self, _: web.Request, *path: str) -> None:
        message = self._message(self._channel(path[1]), path[3])
        if message.author != BOT:
            raise Refused(403, 50003, "Cannot execute action on this channel type")
        self.messages.remove(message)
        self.taken.append(Taken("delete message", message.channel, message.id, {}))

    async def _fill(self, request: web.Request, *path: str) -> dict[str, Any]:
        made = self.interactions.get(path[2])
        if path[1] != APPLICATION or not made or not made.original:
            raise Refused(404, 10015, "Unknown Webhook")
        if time.time() - made.made_s > TOKEN_S:
            raise Refused(401, 50027, "Invalid Webhook Token")
        return await self._change("edit response", self._message(made.channel, made.original), request)

    async def _change(self, what: str, message: Message, request: web.Request) -> dict[str, Any]:
        body, files = await _content(request, _KEYS)
        _put(message, body, files, new=False)
        self.taken.append(Taken(what, message.channel, message.id, body))
        return self.wire(message)

    async def _type(self, _: web.Request, *path: str) -> None:
        self._channel(path[1])

    async def _called_back(self, request: web.Request, *path: str) -> None:
        made = self.interactions.get(path[2])
        if not made or made.id != path[1] or time.time() - made.made_s > ANSWER_WITHIN_S:
            raise Refused(404, 10062, "Unknown interaction")
        answer = await _json(request)
        self._acknowledge(made, answer, 3 if answer["type"] == 6 else 2)

    def _acknowledge(self, made: Interaction, answer: Mapping[str, Any], kind: int) -> None:
        assert answer == {"type": 5 if kind == 2 else 6}, answer
        if answer["type"] == 5:
            message = Message(self._next_id(), made.channel, BOT, "", loading=True)
            self.messages.append(message)
            made.original = message.id

    async def _file(self, request: web.Request) -> web.StreamResponse:
        """Whoever has the address has the file."""
        if fault := self.faults.take("file"):
            return await self.faults.show(request, fault)
        assert "Authorization" not in request.headers
        content, mime = self.files.get(request.match_info["id"], (None, ""))
        if content is None:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=content, content_type=mime)

    def _channel(self, channel: str) -> str:
        if channel not in self.channels:
            raise Refused(404, 10003, "Unknown Channel")
        if channel in self.forbidden:
            raise Refused(403, 50001, "Missing Access")
        return channel

    def _message(self, channel: str, message: str) -> Message:
        found = next((one for one in self.messages if one.channel == channel and one.id == message), None)
        if found is None:
            raise Refused(404, 10008, "Unknown Message")
        return found

    def wire(self, message: Message) -> dict[str, Any]:
        """A message as the API and the Gateway show it."""
        made_ms = (int(message.id) >> 22) + _EPOCH_MS
        shown = {
            "id": message.id,
            "channel_id": message.channel,
            "author": _user(message.author),
            "content": message.content,
            "timestamp": datetime.fromtimestamp(made_ms / 1000, UTC).isoformat(),
            "edited_timestamp": datetime.now(UTC).isoformat() if message.edited else None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": message.flags,
            "components": message.components,
        }
        guild = self.channels.get(message.channel)
        return shown | ({"guild_id": guild} if guild else {})

    def _next_id(self) -> str:
        return str((round(time.time() * 1000) - _EPOCH_MS << 22) + next(self._count) % 4_096)

    # the Gateway

    async def dispatch(self, kind: str, data: Mapping[str, Any]) -> None:
        """To each session that asked for it; one without a connection gets it when it resumes."""
        for session in self.sessions.values():
            wanted = _GUILD_MESSAGES if data.get("guild_id") else _DIRECT_MESSAGES
            if kind.startswith("MESSAGE") and not session.intents & wanted:
                continue
            seen = dict(data)
            is_open = not data.get("guild_id") or BOT in [
                one["id"] for one in (*data.get("mentions", []), data["author"])
            ]
            if kind == "MESSAGE_CREATE" and not is_open and not session.intents & _MESSAGE_CONTENT:
                seen |= {"content": "", "attachments": [], "components": [], "embeds": []}
            payload = {"op": 0, "t": kind, "s": len(session.sent) + 1, "d": seen}
            session.sent.append(payload)
            await self._tell(session, payload)

    async def order(self, op: int, data: Any = None) -> None:
        """Send an opcode to whoever listens: 1 a heartbeat is wanted, 7 reconnect, 9 the session is invalid."""
        for session in list(self.sessions.values()):
            await self._tell(session, {"op": op, "t": None, "s": None, "d": data})
            if op == 9 and data is not True:
                del self.sessions[session.id]

    async def drop(self, code: int = 4000, *, over: bool = False) -> None:
        """Close all connections; with `over` their sessions as well."""
        for session in list(self.sessions.values()):
            if socket := session.socket:
                session.socket = None
                await socket.close(code=code)
            if over:
                del self.sessions[session.id]

    async def _tell(self, session: Session, payload: Mapping[str, Any]) -> None:
        if session.socket:
            with contextlib.suppress(ConnectionError):  # it gets it when it resumes
                await _send(session.socket, session.pack, payload)

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        compress = request.query.get("compress")
        if (
            request.query.get("v") != "10"
            or request.query.get("encoding") != "json"
            or compress not in {None, "zlib-stream"}
        ):
            return web.Response(status=400)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        stream = zlib.compressobj()
        pack = (lambda text: stream.compress(text.encode()) + stream.flush(zlib.Z_SYNC_FLUSH)) if compress else None
        await _send(socket, pack, {"op": 10, "t": None, "s": None, "d": {"heartbeat_interval": self._heartbeat_ms}})
        session: Session | None = None
        try:
            async for message in socket:
                payload = json.loads(message.data)
                if len(message.data) > 4_096:
                    await socket.close(code=4002)
                elif payload["op"] == 1:
                    self.heartbeats.append(payload["d"])
                    if not self.is_deaf:
                        await _send(socket, pack, {"op": 11, "t": None, "s": None, "d": None})
                elif payload["op"] in {2, 6} and session:
                    await socket.close(code=4005)
                elif payload["op"] in {2, 6}:
                    session = await self._begin(socket, pack, payload["op"], payload["d"])
                elif payload["op"] not in {3, 4, 8}:
                    await socket.close(code=4001)
                async with self._changed:
                    self._changed.notify_all()
        finally:
            if session and session.socket is socket:
                session.socket = None
                if socket.close_code in {1000, 1001}:
                    self.sessions.pop(session.id, None)
        return socket

    async def _begin(
        self, socket: web.WebSocketResponse, pack: Callable[[str], bytes] | None, op: int, data: dict[str, Any]
    ) -> Session | None:
        """A new session, or one that goes on; None if there is none."""
        if data.get("token") != BOT_TOKEN:
            await socket.close(code=4004)
            return None
        if op == 6:
            return await self._resume(socket, pack, data)
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~_KNOWN_INTENTS or "properties" not in data:
            await socket.close(code=4013)
            return None
        if intents & _PRIVILEGED and not self._granted:
            await socket.close(code=4014)
            return None
        self.identified += 1
        session = Session(f"session{next(self._count)}", intents, socket=socket, pack=pack)
        self.sessions[session.id] = session
        ready = {"v": 10, "user": _user(BOT), "guilds": [], "session_id": session.id, "shard": [0, 1]}
        ready |= {"resume_gateway_url": f"ws://{self._origin}/gateway", "application": {"id": APPLICATION, "flags": 0}}
        payload = {"op": 0, "t": "READY", "s": 1, "d": ready}
        session.sent.append(payload)
        await self._tell(session, payload)
        return session

    async def _resume(
        self, socket: web.WebSocketResponse, pack: Callable[[str], bytes] | None, data: dict[str, Any]
    ) -> Session | None:
        self.resumed.append(data["seq"])
        session = self.sessions.get(data["session_id"])
        if session is None:
            await _send(socket, pack, {"op": 9, "t": None, "s": None, "d": False})
            return None
        if data["seq"] > len(session.sent):
            await socket.close(code=4007)
            return None
        session.socket, session.pack = socket, pack
        for payload in session.sent[data["seq"] :]:
            await self._tell(session, payload)
        done = {"op": 0, "t": "RESUMED", "s": len(session.sent) + 1, "d": {}}
        session.sent.append(done)
        await self._tell(session, done)
        return session


def sign(raw: bytes, *, key: Ed25519PrivateKey = KEY, at_s: float | None = None) -> dict[str, str]:
    """The two headers that prove a body to be Discord's."""
    stamp = str(int(time.time() if at_s is None else at_s))
    return {"X-Signature-Ed25519": key.sign(stamp.encode() + raw).hex(), "X-Signature-Timestamp": stamp}


async def _send(socket: web.WebSocketResponse, pack: Callable[[str], bytes] | None, payload: Mapping[str, Any]) -> None:
    text = json.dumps(payload)
    await (socket.send_bytes(pack(text)) if pack else socket.send_str(text))


def _as_json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """Discord names no character set, and there are clients that compare the header with just this."""
    whole = {**(headers or {}), "Content-Type": "application/json"}
    return web.Response(status=status, body=json.dumps(body).encode(), headers=whole)


def _user(user: str) -> dict[str, Any]:
    name = "deskmate" if user == BOT else f"user{user[-2:]}"
    return {
        "id": user,
        "username": name,
        "global_name": name.title(),
        "discriminator": "0",
        "avatar": None,
        "bot": user == BOT,
    }


async def _json(request: web.Request) -> Any:
    if request.content_type != "application/json":
        raise Refused(400, 50109, "The request body contains invalid JSON.")
    try:
        return json.loads(await request.read())
    except ValueError:
        raise Refused(400, 50109, "The request body contains invalid JSON.") from None


async def _content(request: web.Request, known: set[str]) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    """The body of a message and its files, checked by the documented rules. What Discord would ignore is refused as well."""
    files: list[tuple[str, bytes]] = []
    if request.content_type == "multipart/form-data":
        form = await request.post()
        payload = form["payload_json"]
        body = json.loads(payload if isinstance(payload, str | bytes | bytearray) else payload.file.read())
        for name, value in form.items():
            if isinstance(value, web.FileField):
                if name != f"files[{len(files)}]" or not value.filename:
                    raise Refused(400, 50035, "Invalid Form Body", name, "BASE_TYPE_REQUIRED")
                files.append((value.filename, value.file.read()))
        if sum(len(content) for _, content in files) > FILE_MAX_BYTES:
            raise Refused(413, 40005, "Request entity too large")
    else:
        body = await _json(request)
    if set(body) - known:
        raise Refused(400, 50035, "Invalid Form Body", min(set(body) - known), "UNKNOWN_KEY")
    if len(body.get("content") or "") > 2_000:
        raise Refused(400, 50035, "Must be 2000 or fewer in length.", "content", "BASE_TYPE_MAX_LENGTH")
    if set((body.get("allowed_mentions") or {}).get("parse", [])) - {"roles", "users", "everyone"}:
        raise Refused(400, 50035, "Invalid Form Body", "allowed_mentions", "BASE_TYPE_CHOICES")
    _check(body.get("components") or [])
    return body, files


def _check(rows: list[dict[str, Any]]) -> None:
    buttons = [button for row in rows for button in row["components"]]
    ids = [button.get("custom_id", "") for button in buttons]
    if not (
        len(rows) <= 5
        and all(row["type"] == 1 and 1 <= len(row["components"]) <= 5 for row in rows)
        and all(one["type"] == 2 and one["style"] in {1, 2, 3, 4} and 1 <= len(one["label"]) <= 80 for one in buttons)
        and all(1 <= len(one) <= 100 for one in ids)
        and len(set(ids)) == len(ids)
    ):
        raise Refused(400, 50035, "Invalid Form Body", "components", "COMPONENT_LAYOUT_INVALID")


def _put(message: Message, body: Mapping[str, Any], files: list[tuple[str, bytes]], *, new: bool) -> None:
    content = (body["content"] or "").strip() if "content" in body else message.content
    components = body.get("components", message.components)
    attached = files or message.files
    if not content and not components and not attached and not body.get("embeds"):
        raise Refused(400, 50006, "Cannot send an empty message")
    message.content, message.components, message.files = content, components, attached
    message.flags, message.edited, message.loading = body.get("flags", message.flags), not new, False
