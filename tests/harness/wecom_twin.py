"""A stand-in for WeCom: encrypted callbacks to an intelligent bot or an app, streams that it comes for, its API.

    async with WecomTwin() as wecom:
        said = await wecom.mention(f"{gateway}/webhooks/wecom-main", "hi")   # resent like WeCom does
        reply = await wecom.reply_to(said)                                   # the stream's text, once it is whole

Connect deskmate with `wecom.connection` (or `wecom.app_connection`) and `wecom.environment`. What deskmate sends and WeCom
would refuse is in `refused`. All encryption is done by wechatpy, so that two implementations have to agree.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from wechatpy.crypto.pkcs7 import PKCS7Encoder
from wechatpy.enterprise.crypto import PrpCrypto

from tests.harness.faults import Faults
from tests.harness.twins import Said, Shown

TOKEN: Final = "wecom-test-token"
AES_KEY: Final = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
CORP_ID: Final = "ww0123456789abcdef"
CORP_SECRET: Final = "corp-test-secret"
AGENT_ID: Final = 1_000_002
BOT: Final = "Deskmate Bot"
BOT_ID: Final = "aibTEST"
GROUP: Final = "wrGROUP1"
USER: Final = "zhangsan"
LATER: Final = "later"

RESPONSE_S: Final = 3_600.0
CONTENT_MAX_BYTES: Final = 20_480
APP_TEXT_MAX_BYTES: Final = 2_048
USED: Final = 990_001
"""The stand-in's own number: WeCom does not write down what it answers to a second use of a `response_url`."""

_TASK_ID: Final = re.compile(r"[0-9A-Za-z_@-]{1,128}", re.ASCII)
_CARD_KEYS: Final = {"card_type", "main_title", "sub_title_text", "button_list", "task_id"}


class Refused(Exception):
    """What WeCom would not take, in words; `code` is the API's `errcode`."""

    def __init__(self, why: str, code: int = 40_058) -> None:
        super().__init__(why)
        self.code = code


@dataclass(slots=True)
class Post:
    """What we said: a stream's message, its card, one by `response_url`, or an app's."""

    kind: str
    id: str
    room: str
    said: str
    """The `msgid` of the message or press that it answers."""
    text: str = ""
    card: dict[str, Any] | None = None
    is_over: bool = True
    texts: list[str] = field(default_factory=list)
    """Of a stream: all that was shown, one after the other."""


@dataclass(slots=True)
class Response:
    """One `response_url`."""

    room: str
    said: str
    until_s: float
    is_used: bool = False


class WecomTwin:
    """One corporation with one bot and one app. `stream_s`: for so long it comes for a text, every `poll_s`.

    `retry_s`: the pauses before a callback without a 2xx is sent again.
    """

    platform = "wecom"
    environment: Mapping[str, str] = {
        "WECOM_TOKEN": TOKEN,
        "WECOM_AES_KEY": AES_KEY,
        "WECOM_CORP_SECRET": CORP_SECRET,
    }

    def __init__(
        self, *, poll_s: float = 0.2, stream_s: float = 360.0, retry_s: tuple[float, ...] = (0.2, 0.5, 1.0)
    ) -> None:
        self.posts: list[Post] = []
        self.calls: list[str] = []
        self.refused: list[str] = []
        self.faults = Faults()
        self.gone: set[str] = set()
        """People whom the app can't send to any more."""
        self.tokens: list[str] = []
        """Access tokens that were given out; the last one is good."""
        self.url = ""
        """For `api_base`."""
        self._poll_s, self._stream_s, self._retry_s = poll_s, stream_s, retry_s
        self._crypto = PrpCrypto(base64.b64decode(f"{AES_KEY}="))
        self._count = itertools.count(1)
        self._bodies: dict[str, tuple[str, str]] = {}
        self._responses: dict[str, Response] = {}
        self._files: dict[str, bytes] = {}
        self._tasks: set[str] = set()
        self._polling: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()
        app = web.Application(client_max_size=2**24)
        app.add_routes(
            [
                web.post("/cgi-bin/aibot/response", self._take_response),
                web.get("/cgi-bin/gettoken", self._give_token),
                web.post("/cgi-bin/message/send", self._take_message),
                web.get("/media/{id}", self._give_file),
            ]
        )
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
        for task in self._polling.values():
            task.cancel()
        await asyncio.gather(*self._polling.values(), return_exceptions=True)
        self.faults.end()
        await self._runner.cleanup()
        await self._http.close()

    @property
    def connection(self) -> dict[str, Any]:
        """Of the bot."""
        return {
            "platform": "wecom",
            "api_base": self.url,
            "token": "$WECOM_TOKEN",
            "encoding_aes_key": "$WECOM_AES_KEY",
            "bot_name": BOT,
            "later_text": LATER,
        }

    @property
    def app_connection(self) -> dict[str, Any]:
        app = {"receive_id": CORP_ID, "agent_id": AGENT_ID, "corp_secret": "$WECOM_CORP_SECRET"}
        return {**self.connection, **app}

    @property
    def shown(self) -> list[Shown]:
        return [_shown(post) for post in self.posts]

    # people

    async def mention(self, hook: str, text: str) -> Said:
        return await self.say(hook, {"msgtype": "text", "text": {"content": f"@{BOT} {text}"}}, group=True)

    async def follow_up(self, hook: str, before: Said, text: str) -> Said:
        """WeCom calls a bot for mentions only."""
        del before
        return await self.mention(hook, text)

    async def direct(self, hook: str, text: str) -> Said:
        return await self.say(hook, {"msgtype": "text", "text": {"content": text}})

    async def picture(self, hook: str, text: str, png: bytes) -> Said:
        items = [
            {"msgtype": "text", "text": {"content": text}},
            {"msgtype": "image", "image": {"url": self.attach(png)}},
        ]
        return await self.say(hook, {"msgtype": "mixed", "mixed": {"msg_item": items}})

    async def command(self, hook: str, line: str) -> Said:
        return await self.direct(hook, line)

    async def press(self, hook: str, shown: Shown, label: str) -> Said:
        post = next(one for one in self.posts if one.id == shown.id)
        assert post.card
        key = next(one["key"] for one in post.card["button_list"] if one["text"] == label)
        event = {"card_type": "button_interaction", "event_key": key, "task_id": post.card["task_id"]}
        body = {"msgtype": "event", "event": {"eventtype": "template_card_event", "template_card_event": event}}
        return await self.say(hook, body, group=not post.room.startswith("user:"))

    async def say(self, hook: str, body: Mapping[str, Any], *, group: bool = False, user: str = USER) -> Said:
        """A message or an event of the bot: `body` without what all have in common."""
        msgid = f"MSG{next(self._count):06d}="
        room = GROUP if group else f"user:{user}"
        code = f"RC{next(self._count)}"
        self._responses[code] = Response(room, msgid, time.time() + RESPONSE_S)
        whole = {
            "msgid": msgid,
            "aibotid": BOT_ID,
            **({"chatid": GROUP} if group else {}),
            "chattype": "group" if group else "single",
            "from": {"userid": user},
            "response_url": f"{self.url}/cgi-bin/aibot/response?response_code={code}",
            **({"create_time": int(time.time())} if body["msgtype"] == "event" else {}),
            **body,
        }
        self._bodies[msgid] = (json.dumps(whole, ensure_ascii=False), "")
        return await self._tell(hook, Said(room, msgid), () if body["msgtype"] == "event" else self._retry_s)

    async def say_to_app(self, hook: str, text: str, user: str = USER) -> Said:
        msgid = f"{4_561_255_354_251_345_929 + next(self._count)}"
        body = (
            f"<xml><ToUserName><![CDATA[{CORP_ID}]]></ToUserName><FromUserName><![CDATA[{user}]]></FromUserName>"
            f"<CreateTime>{int(time.time())}</CreateTime><MsgType><![CDATA[text]]></MsgType>"
            f"<Content><![CDATA[{text}]]></Content><MsgId>{msgid}</MsgId><AgentID>{AGENT_ID}</AgentID></xml>"
        )
        self._bodies[msgid] = (body, CORP_ID)
        return await self._tell(hook, Said(f"user:{user}", msgid), self._retry_s)

    async def resend(self, hook: str, said: Said) -> Said:
        """The same once more, as WeCom does where it saw no answer."""
        return await self._tell(hook, said, ())

    def attach(self, content: bytes) -> str:
        """Where a file lies, encrypted as WeCom does it."""
        name = f"{next(self._count)}"
        self._files[name] = self._crypto.cipher.encrypt(PKCS7Encoder.encode(content))
        return f"{self.url}/media/{name}?sign=a%3Db%26c"

    def spoil(self, url: str, stored: bytes) -> None:
        """Put something else where a file lies."""
        self._files[url.partition("?")[0].rpartition("/")[2]] = stored

    async def check_address(
        self, hook: str, echo: str = "5927782489442352469", receive_id: str = ""
    ) -> tuple[int, str]:
        """What saving the callback's address does: the answer's status and text."""
        encrypted = self._crypto.encrypt(echo, receive_id).decode()
        async with self._http.get(hook, params={**self._signed(encrypted), "echostr": encrypted}) as answer:
            return answer.status, await answer.text()

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever something was said."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Shown:
        def found() -> Post | None:
            ours = (one for one in self.posts if one.kind != "card" and one.room == said.room)
            answers = (one for one in ours if one.said in {said.id, ""})
            post = next((one for one in answers if one.text != LATER), None)
            return post if post and post.is_over else None

        post = await self.until(found, timeout_s)
        assert isinstance(post, Post)
        return _shown(post)

    # calling back

    async def _tell(self, hook: str, said: Said, retry_s: tuple[float, ...]) -> Said:
        body, receive_id = self._bodies[said.id]
        for pause_s in (0.0, *retry_s):
            await asyncio.sleep(pause_s)
            status, answer = await self._call(hook, body, receive_id)
            said.statuses.append(status)
            if status == 200:
                if answer is not None:
                    await self._refusing(self._begin, hook, said, json.loads(body), answer)
                break
        return said

    async def _call(self, hook: str, body: str, receive_id: str = "") -> tuple[int, dict[str, Any] | None]:
        """One callback: status, 0 for none, and what was answered, decrypted."""
        encrypted = self._crypto.encrypt(body, receive_id).decode()
        query = self._signed(encrypted)
        raw = json.dumps({"encrypt": encrypted})
        if receive_id:
            raw = f"<xml><ToUserName><![CDATA[{receive_id}]]></ToUserName><Encrypt><![CDATA[{encrypted}]]></Encrypt></xml>"
        try:
            async with self._http.post(
                hook, params=query, data=raw.encode(), timeout=aiohttp.ClientTimeout(total=5.0)
            ) as answer:
                given = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return 0, None
        if answer.status != 200 or not given:
            return answer.status, None
        return 200, await self._refusing(self._open, given, query["nonce"])

    def _signed(self, encrypted: str) -> dict[str, str]:
        stamp, nonce = str(int(time.time())), f"{next(self._count):010d}"
        return {"msg_signature": _sign(stamp, nonce, encrypted), "timestamp": stamp, "nonce": nonce}

    async def _open(self, raw: bytes, nonce: str) -> dict[str, Any]:
        """An encrypted answer."""
        envelope = json.loads(raw)
        if set(envelope) != {"encrypt", "msgsignature", "timestamp", "nonce"}:
            raise Refused(f"an envelope of {sorted(envelope)}")
        if not isinstance(envelope["timestamp"], int) or abs(envelope["timestamp"] - time.time()) > 60:
            raise Refused("timestamp: not seconds of now")
        if envelope["nonce"] != nonce:
            raise Refused("nonce: not that of the callback")
        if envelope["msgsignature"] != _sign(str(envelope["timestamp"]), nonce, envelope["encrypt"]):
            raise Refused("msgsignature: does not match")
        opened: dict[str, Any] = json.loads(self._crypto.decrypt(envelope["encrypt"], ""))
        return opened

    async def _begin(self, hook: str, said: Said, body: Mapping[str, Any], answer: dict[str, Any]) -> None:
        if body["msgtype"] == "event":
            await self._replace(body, answer)
            return
        stream = _checked_stream(answer, first=True)
        if stream["id"] in self._polling:
            return
        if any(post.said == said.id for post in self.posts):
            raise Refused("the stream of a message that is sent again has another id")
        post = Post("stream", stream["id"], said.room, said.id, is_over=False)
        self.posts.append(post)
        await self._update(post, answer)
        common = {name: body[name] for name in ("aibotid", "chatid", "chattype", "from") if name in body}
        self._polling[post.id] = asyncio.create_task(self._poll(hook, post, common), name=f"stream {post.id}")

    async def _poll(self, hook: str, post: Post, common: Mapping[str, Any]) -> None:
        """Come for the text until it is whole, or the time is over."""
        until_s = time.monotonic() + self._stream_s
        while not post.is_over and time.monotonic() < until_s:
            await asyncio.sleep(self._poll_s)
            body = {"msgid": f"PULL{next(self._count)}", **common, "msgtype": "stream", "stream": {"id": post.id}}
            _, answer = await self._call(hook, json.dumps(body))
            if answer is not None:
                await self._refusing(self._update, post, answer)

    async def _update(self, post: Post, answer: dict[str, Any]) -> None:
        stream = _checked_stream(answer)
        if stream["id"] != post.id:
            raise Refused("stream.id: another stream's")
        if answer["msgtype"] == "stream_with_template_card":
            if any(one.kind == "card" and one.said == post.said for one in self.posts):
                raise Refused("a second card for one message")
            card = self._checked_card(answer.get("template_card"))
            title = card["main_title"]["title"]
            self.posts.append(Post("card", card["task_id"], post.room, post.said, title, card))
        post.text, post.is_over = stream.get("content", ""), bool(stream.get("finish"))
        if post.texts[-1:] != [post.text]:
            post.texts.append(post.text)
        await self._notify()

    async def _replace(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """A card by another, for those who are named; the one person here who presses is among them."""
        card, event = answer.get("template_card", {}), body["event"]["template_card_event"]
        if set(answer) != {"response_type", "userids", "template_card"} or answer["userids"] != [
            body["from"]["userid"]
        ]:
            raise Refused(f"an event's answer is empty or updates a card: {sorted(answer)}")
        if answer["response_type"] != "update_template_card" or card.get("task_id") != event["task_id"]:
            raise Refused("task_id: not that of the event")
        leads = card.get("card_action", {}).get("type") in {1, 2}
        if card.get("card_type") != "text_notice" or not card.get("main_title", {}).get("title") or not leads:
            raise Refused("template_card: not a notice that leads somewhere")
        post = next(one for one in self.posts if one.id == event["task_id"])
        post.card, post.text = None, card["main_title"]["title"]
        await self._notify()

    async def _refusing(self, act: Callable[..., Any], *given: Any) -> Any:
        try:
            return await act(*given)
        except (Refused, ValueError, KeyError) as error:
            self.refused.append(f"{type(error).__name__}: {error}")
            return None

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # the API

    async def _answered(self, request: web.Request, what: str, act: Callable[..., Any]) -> web.StreamResponse:
        self.calls.append(what)
        fault = self.faults.take(what)
        if fault and not fault.taken:
            return await self.faults.show(request, fault)
        try:
            answer = {"errcode": 0, "errmsg": "ok", **(await act(request) or {})}
        except Refused as error:
            self.refused.append(f"{what}: {error}")
            answer = {"errcode": error.code, "errmsg": str(error)}
        await self._notify()
        return await self.faults.show(request, fault) if fault else web.json_response(answer)

    async def _take_response(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(request, "response", self._respond)

    async def _respond(self, request: web.Request) -> None:
        response = self._responses.get(request.query.get("response_code", ""))
        if response is None or set(request.query) != {"response_code"}:
            raise Refused("response_code: unknown", 40_001)
        if response.is_used or response.until_s < time.time():
            raise Refused("response_code: used or over", USED)
        body = await _json(request)
        if (
            set(body) != {"msgtype", "markdown"}
            or body["msgtype"] != "markdown"
            or set(body["markdown"]) != {"content"}
        ):
            raise Refused("not a markdown message", 40_008)
        content = body["markdown"]["content"]
        if not isinstance(content, str) or not content.strip():
            raise Refused("content: empty", 44_004)
        if len(content.encode()) > CONTENT_MAX_BYTES:
            raise Refused("content: too long", 45_002)
        response.is_used = True
        self.posts.append(Post("response", f"R{next(self._count)}", response.room, response.said, content))

    async def _give_token(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(request, "gettoken", self._token)

    async def _token(self, request: web.Request) -> dict[str, Any]:
        if dict(request.query) != {"corpid": CORP_ID, "corpsecret": CORP_SECRET}:
            raise Refused("invalid credential", 40_001)
        self.tokens.append(f"token-{next(self._count)}")
        return {"access_token": self.tokens[-1], "expires_in": 7_200}

    async def _take_message(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(request, "message/send", self._send)

    async def _send(self, request: web.Request) -> dict[str, Any]:
        if request.query.get("access_token") not in self.tokens[-1:]:
            raise Refused("invalid access_token", 40_014)
        body = await _json(request)
        optional = {"toparty", "totag", "safe", "enable_duplicate_check", "enable_id_trans"}
        if (
            not {"touser", "msgtype", "agentid", "text"}
            <= set(body)
            <= {"touser", "msgtype", "agentid", "text"} | optional
        ):
            raise Refused(f"keys {sorted(body)}")
        if body["agentid"] != AGENT_ID:
            raise Refused("agentid", 40_056)
        content = body["text"]["content"]
        if not content or len(content.encode()) > APP_TEXT_MAX_BYTES:
            raise Refused("text.content: empty or too long", 45_002)
        if body["touser"] in self.gone:
            return {"invaliduser": body["touser"]}
        self.posts.append(Post("app", f"A{next(self._count)}", f"user:{body['touser']}", "", content))
        return {"msgid": self.posts[-1].id}

    async def _give_file(self, request: web.Request) -> web.StreamResponse:
        self.calls.append("media")
        if fault := self.faults.take("media"):
            return await self.faults.show(request, fault)
        content = self._files.get(request.match_info["id"])
        if content is None or request.raw_path.partition("?")[2] != "sign=a%3Db%26c":
            return web.Response(
                status=403, text="<Error><Code>AccessDenied</Code></Error>", content_type="application/xml"
            )
        return web.Response(body=content)

    def _checked_card(self, card: Any) -> dict[str, Any]:
        if not isinstance(card, dict) or set(card) - _CARD_KEYS or card.get("card_type") != "button_interaction":
            raise Refused("template_card: not a card of buttons")
        buttons, keys = card.get("button_list") or [], set()
        for button in buttons:
            keys.add(button["key"])
            if (
                set(button) - {"text", "style", "key"}
                or not button["text"]
                or button.get("style", 1) not in {1, 2, 3, 4}
            ):
                raise Refused("button_list: not a button")
        if not 1 <= len(buttons) <= 6 or len(keys) != len(buttons) or any(len(key.encode()) > 1_024 for key in keys):
            raise Refused("button_list: too many, a key twice or too long")
        if not card.get("main_title", {}).get("title"):
            raise Refused("main_title.title: missing")
        task = card.get("task_id", "")
        if not _TASK_ID.fullmatch(task) or task in self._tasks:
            raise Refused("task_id: not one, or there already")
        self._tasks.add(task)
        return card


def _checked_stream(answer: Mapping[str, Any], *, first: bool = False) -> dict[str, Any]:
    """The stream of an answer, by the documented limits."""
    kind, stream = answer.get("msgtype"), answer.get("stream")
    known = {"msgtype", "stream"} | ({"template_card"} if kind == "stream_with_template_card" else set())
    if kind not in {"stream", "stream_with_template_card"} or set(answer) - known or not isinstance(stream, dict):
        raise Refused(f"an answer of {kind}: {sorted(answer)}")
    if set(stream) - {"id", "finish", "content", "msg_item", "feedback"} or not isinstance(stream.get("finish"), bool):
        raise Refused(f"stream: {sorted(stream)}")
    if first and not stream.get("id"):
        raise Refused("stream.id: missing")
    if len(stream.get("content", "").encode()) > CONTENT_MAX_BYTES:
        raise Refused("stream.content: too long")
    if stream.get("msg_item") and not stream["finish"]:
        raise Refused("stream.msg_item: before the end")
    return stream


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads((await request.read()).decode("utf-8"))
    except ValueError:
        raise Refused("not JSON in UTF-8", 47_001) from None
    if not isinstance(body, dict):
        raise Refused("not an object", 47_001)
    return body


def _sign(stamp: str, nonce: str, encrypted: str) -> str:
    return hashlib.sha1("".join(sorted([TOKEN, stamp, nonce, encrypted])).encode()).hexdigest()


def _shown(post: Post) -> Shown:
    buttons = [one["text"] for one in post.card["button_list"]] if post.card else []
    return Shown(post.room, post.id, post.text, buttons=buttons, is_growing=not post.is_over)
