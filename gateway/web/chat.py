"""The chat page `/chat` over HTTP: the page, its messages in, its stream out, its login."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict
from redis.exceptions import RedisError

from config.settings import Settings
from gateway.content_types import media_type
from gateway.feed import PLACE, Feed
from gateway.files import FILE_MAX_BYTES, Files
from gateway.intake import Intake
from gateway.logs import log
from gateway.phrases import phrases, say
from gateway.platforms import Adapter, Malformed, RawRequest, parsed
from gateway.platforms.webchat import CONVERSATION, FILES_MAX, MESSAGES_PATH, TEXT_MAX, conversation_key
from gateway.store import Store, Unreachable
from gateway.web.assets import Asset, assets
from gateway.web.door import SECURITY_HEADERS, Door, Refused, language_of_request
from gateway.web.transcript import SHOWN_MAX, STOP, transcript
from gateway.web.uploads import Uploads
from gateway.wire import read_form, read_json

logger = logging.getLogger(__name__)

HEARTBEAT_S: Final = 15.0
RECONNECT_MS: Final = 1_000
STREAMS_PER_BROWSER: Final = 32

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_chat(  # noqa: PLR0917 - called in one place, with the parts of a gateway
    app: web.Application, settings: Settings, adapter: Adapter, intake: Intake, store: Store, feed: Feed
) -> None:
    """Serve the chat page. When `app` shuts down, all streams end; pages come back by themselves."""
    chat = Chat(settings, adapter, intake, store, feed)
    app.add_routes(
        [
            web.get("/", chat.guarded(chat.front, open_to_all=True)),
            web.get("/chat", chat.guarded(chat.page)),
            web.get("/chat/static/{name}", chat.guarded(chat.asset, open_to_all=True)),
            web.get("/chat/login", chat.guarded(chat.login_page, open_to_all=True)),
            web.post("/chat/login", chat.guarded(chat.log_in, open_to_all=True)),
            web.post("/chat/logout", chat.guarded(chat.log_out)),
            web.get("/chat/api/conversation", chat.guarded(chat.conversation)),
            web.get("/chat/api/stream", chat.guarded(chat.stream)),
            web.post("/chat/api/files", chat.guarded(chat.file)),
            web.post(MESSAGES_PATH, chat.guarded(chat.message)),
            web.post("/chat/api/stop", chat.guarded(chat.stop)),
        ]
    )
    app.on_shutdown.append(chat.end_streams)


class Chat:
    """The handlers of the page."""

    def __init__(self, settings: Settings, adapter: Adapter, intake: Intake, store: Store, feed: Feed) -> None:
        self._settings = settings
        self._adapter = adapter
        self._intake = intake
        self._store = store
        self._feed = feed
        self._uploads = Uploads(Files(store))
        self._door = Door(settings, store)
        self._open_streams: dict[str, int] = {}

    def guarded(self, handler: Handler, *, open_to_all: bool = False) -> Handler:
        """`handler` behind the door; refusals and an unreachable Redis become answers in the person's language."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                self._door.admit(request)
                if not open_to_all and not await self._door.is_known(request):
                    return self._ask_for_password(request)
                response = await handler(request)
            except Refused as why:
                log(logger, "refused", path=request.path, status=why.status, reason=str(why))
                response = _refusal(request, why.status, say(why.phrase, language_of_request(request), **why.values))
            except Unreachable as error:
                log(logger, "redis not reachable", logging.ERROR, path=request.path, reason=str(error))
                response = _refusal(request, 503, say("chat.away", language_of_request(request)))
            if not response.prepared:
                for name, value in SECURITY_HEADERS.items():
                    response.headers.setdefault(name, value)
            return response

        return handle

    # ---- pages ----

    async def front(self, _: web.Request) -> web.Response:
        """Whoever types the address alone wants to see something."""
        return _see_other("/chat")

    async def page(self, request: web.Request) -> web.Response:
        return self._html(request, "chat.html")

    async def asset(self, request: web.Request) -> web.Response:
        found: Asset | None = assets().get(request.match_info["name"])
        if found is None:
            raise Refused(404, "chat.not_found", "no such file")
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == found.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)

    async def login_page(self, request: web.Request) -> web.Response:
        if self._door.password is None or await self._door.is_known(request):
            return _see_other("/chat")
        return self._html(request, "login.html")

    async def log_in(self, request: web.Request) -> web.Response:
        if _media_type(request) != "application/x-www-form-urlencoded":
            raise Refused(415, "chat.not_understood", "a login is a form")
        try:
            given = read_form(await self._body(request)).get("password", "")
        except Malformed as error:
            raise Refused(400, "chat.not_understood", str(error)) from error
        response = _see_other("/chat")
        if self._door.password is not None and await self._door.log_in(request, response, given):
            return response
        log(logger, "wrong password", logging.WARNING, path=request.path)
        return self._html(request, "login.html", status=403, error=say("login.wrong", language_of_request(request)))

    async def log_out(self, request: web.Request) -> web.Response:
        response = _see_other("/chat/login")
        await self._door.log_out(request, response)
        return response

    # ---- messages in ----

    async def message(self, request: web.Request) -> web.Response:
        said = await self._json(request)
        return await self._receive(request, said)

    async def file(self, request: web.Request) -> web.Response:
        """A file for a message that follows: its body, as it is. It is kept for a day, for this conversation only."""
        browser = self._door.browser(request)
        conversation_id = conversation_key(_conversation(request), browser.id).id
        response = web.json_response(await self._uploads.take(request, conversation_id), status=201)
        self._door.keep_browser(request, response, browser)
        return response

    async def stop(self, request: web.Request) -> web.Response:
        said = await self._json(request)
        return await self._receive(request, {**said, "text": STOP, "files": None})

    async def _receive(self, request: web.Request, said: dict[str, Any]) -> web.Response:
        text = said.get("text")
        if isinstance(text, str) and len(text) > TEXT_MAX:
            raise Refused(413, "chat.too_long", "text over the limit", limit=TEXT_MAX)
        if not isinstance(text, str) or not (text.strip() or said.get("files")):
            raise Refused(400, "chat.not_understood", "no text")
        browser = self._door.browser(request)
        raw = RawRequest(
            method="POST",
            path=MESSAGES_PATH,
            query={},
            headers=CIMultiDict(request.headers),
            body=json.dumps({**said, "browser": browser.id}).encode(),
        )
        now_s = time.time()
        self._adapter.verify(raw, now_s)
        try:
            events = parsed(self._adapter, raw, now_s)
        except Malformed as why:
            raise Refused(400, "chat.not_understood", str(why)) from why
        try:
            async with asyncio.timeout(self._settings.gateway.accept_timeout_s):
                events = [await self._uploads.checked(event) for event in events]
                [received] = await self._intake.receive(events)
        except TimeoutError as error:
            raise Unreachable("timeout") from error
        if received.state == "full":
            raise Refused(429, "message.full", "the inbox is full")
        if received.state == "over":
            raise Refused(429, "rate.over", received.reason)
        if received.comes_again:
            raise Unreachable(received.reason or received.state)
        response = web.json_response({"accepted": received.state}, status=202)
        self._door.keep_browser(request, response, browser)
        return response

    # ---- what happens, out ----

    async def conversation(self, request: web.Request) -> web.Response:
        """All that is to be shown, and the `place` from which to follow the stream."""
        browser = self._door.browser(request)
        conversation_id = conversation_key(_conversation(request), browser.id).id
        # The place is taken first: what happens in between is then in both, and the page knows it by its text.
        place = await self._feed.place(conversation_id)
        name = self._store.layout.key
        try:
            async with self._store.redis.pipeline(transaction=True) as pipeline:
                pipeline.llen(name(conversation_id, "history"))
                pipeline.lrange(name(conversation_id, "history"), -SHOWN_MAX, -1)
                pipeline.zrange(name(conversation_id, "inbox"), 0, -1)
                pipeline.lrange(name(conversation_id, "control"), 0, -1)
                length, lines, inbox, control = await pipeline.execute()
        except (RedisError, OSError) as error:
            raise Unreachable(str(error)) from error
        shown = transcript(lines, length - len(lines), inbox, control)
        response = web.json_response({**shown.dump(), "place": place}, dumps=_dumps)
        self._door.keep_browser(request, response, browser)
        return response

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: entries of the feed after `Last-Event-ID` or `after`; `gone` says to read anew."""
        browser = self._door.browser(request)
        conversation_id = conversation_key(_conversation(request), browser.id).id
        after = request.headers.get("Last-Event-ID") or request.query.get("after") or None
        if after is not None and not PLACE.fullmatch(after):
            raise Refused(400, "chat.not_understood", "`after` is no place")
        with self._counted(browser.id):
            response = web.StreamResponse(
                headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            )
            self._door.keep_browser(request, response, browser)
            await response.prepare(request)
            tasks = [
                asyncio.create_task(self._write(response, conversation_id, after), name="stream"),
                asyncio.create_task(self._beat(request, response), name="heartbeat"),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Unreachable):  # the page asks again, and is told then
                log(logger, "redis not reachable", logging.ERROR, path=request.path, reason=str(error))
            elif isinstance(error, Exception) and not isinstance(error, ConnectionError):  # else the page has gone
                raise error
        return response

    async def _write(self, response: web.StreamResponse, conversation_id: str, after: str | None) -> None:
        await response.write(b"retry: %d\n\n" % RECONNECT_MS)
        async with contextlib.aclosing(self._feed.follow(conversation_id, after)) as following:
            async for place, entry in following:
                name = "event: gone\n" if entry["type"] == "gone" else ""
                await response.write(f"{name}id: {place}\ndata: {_dumps(entry)}\n\n".encode())

    async def _beat(self, request: web.Request, response: web.StreamResponse) -> None:
        """Comments now and then: proxies keep the connection, we notice when the page has gone, or may stay no longer."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if not await self._door.is_known(request):
                return
            await response.write(b":\n\n")

    async def end_streams(self, _: web.Application) -> None:
        await self._feed.close()

    @contextlib.contextmanager
    def _counted(self, browser: str) -> Iterator[None]:
        if self._open_streams.get(browser, 0) >= STREAMS_PER_BROWSER:
            raise Refused(429, "chat.too_many_pages", "too many open streams of one browser")
        self._open_streams[browser] = self._open_streams.get(browser, 0) + 1
        try:
            yield
        finally:
            self._open_streams[browser] -= 1
            if not self._open_streams[browser]:
                del self._open_streams[browser]

    # ---- inside ----

    def _ask_for_password(self, request: web.Request) -> web.Response:
        if request.path.startswith("/chat/api/") or request.method != "GET":
            response = _refusal(request, 401, say("login.needed", language_of_request(request)))
        elif request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            # Who follows a link from elsewhere brings no strict cookie: our own page asks once more, and then it comes.
            response = web.Response(
                text='<!doctype html><meta http-equiv="refresh" content="0">', content_type="text/html"
            )
        else:
            response = _see_other("/chat/login")
        response.headers.update(SECURITY_HEADERS)
        return response

    def _html(self, request: web.Request, name: str, status: int = 200, error: str = "") -> web.Response:
        language = language_of_request(request)
        spoken = phrases(language)
        given = {
            "language": "zh-Hans" if language == "zh" else "en",
            "error": error,
            "rehearsal": "" if self._settings.model.provider == "rehearsal" else "hidden",
            "logout": "" if self._door.password is not None else "hidden",
            "page": _dumps(
                {
                    "rehearsal": self._settings.model.provider == "rehearsal",
                    "text_max": TEXT_MAX,
                    "file_max_bytes": FILE_MAX_BYTES,
                    "files_max": FILES_MAX,
                    "phrases": {
                        key: text for key, text in spoken.items() if key.startswith(("chat.", "step.", "model."))
                    },
                }
            ),
        }
        return web.Response(text=_filled(_template(name), {**spoken, **given}), status=status, content_type="text/html")

    async def _json(self, request: web.Request) -> dict[str, Any]:
        if _media_type(request) != "application/json":
            raise Refused(415, "chat.not_understood", "the content type is not application/json")
        try:
            said = read_json(await self._body(request))
        except Malformed as error:
            raise Refused(400, "chat.not_understood", str(error)) from error
        return {name: said.get(name) for name in ("conversation", "text", "id", "files")}

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._settings.gateway.body_timeout_s):
                return await request.read()
        except TimeoutError as error:
            raise Refused(408, "chat.not_understood", "the body did not come in time") from error
        except web.HTTPRequestEntityTooLarge as error:
            raise Refused(413, "chat.too_long", "the body is too large", limit=TEXT_MAX) from error


def _conversation(request: web.Request) -> str:
    asked = request.query.get("conversation", "")
    if not CONVERSATION.fullmatch(asked):
        raise Refused(400, "chat.not_understood", f"`conversation` must be of the form {CONVERSATION.pattern}")
    return asked


def _media_type(request: web.Request) -> str:
    return media_type(request.headers.get("Content-Type", ""))


def _see_other(where: str) -> web.Response:
    return web.Response(status=303, headers={"Location": where})


def _refusal(request: web.Request, status: int, text: str) -> web.Response:
    headers = {"Connection": "close"} if status in {408, 413} else {}
    if request.path.startswith("/chat/api/"):
        return web.json_response({"error": text}, status=status, headers=headers, dumps=_dumps)
    language = language_of_request(request)
    page = _filled(_template("refused.html"), {**phrases(language), "language": language, "error": text})
    return web.Response(text=page, status=status, content_type="text/html", headers=headers)


@cache
def _template(name: str) -> str:
    return (resources.files(__package__) / "pages" / name).read_text(encoding="utf-8")


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with each `{{key}}` as text; a missing key is a mistake of ours and raises `KeyError`."""

    def text(found: re.Match[str]) -> str:
        value = values[found[1]]
        # JSON stands in a script element, which knows no entities, only its own end.
        return value.replace("<", "\\u003c") if found[1] == "page" else html.escape(value)

    return re.sub(r"\{\{([a-z_.]+)\}\}", text, template)


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
