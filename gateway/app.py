"""The gateway process: webhooks in, health, the chat page, the admin pages. A 2xx leaves only after the events are in Redis."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import secrets
import socket
import time
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from config.loading import Loaded
from config.settings import Settings
from config.watching import Watched
from gateway import reloads
from gateway.admin.visits import House
from gateway.bell import Bell, open_bell
from gateway.boards import Boards
from gateway.connections import adapters
from gateway.content_types import LONGEST
from gateway.conversation.mailbox import Mailbox
from gateway.events import Event
from gateway.feed import Feed
from gateway.files import Files
from gateway.intake import Intake
from gateway.logs import log
from gateway.platforms import (
    Adapter,
    ConnectionRefused,
    HttpReply,
    Malformed,
    Outside,
    RawRequest,
    Unauthorized,
    parsed,
)
from gateway.rights.guests import Guests
from gateway.running.checks import check_server
from gateway.running.patience import Patience
from gateway.running.serving import cancelled, meet
from gateway.running.standstill import tell_standstills
from gateway.shelf.notes import Notes
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, Store, Unreachable, open_store
from gateway.web.admin.serving import add_admin
from gateway.web.chat import add_chat
from skills.bundles import Cache

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[web.StreamResponse]]

BELL_WAIT_S = 2.0
CLOSE_S = 1.0
BROKEN_BODY = (aiohttp.ClientPayloadError, aiohttp.http_exceptions.HttpProcessingError, web.RequestPayloadError)
"""What reading a request raises where its chunks or its compression are not what its head says."""
IDENTITY_RETRY_S = (0.5, 30.0)
"""Between two tries to learn who we are: at first, and at most."""
READY_MAX_BYTES = 1_024
GUESSES_MAX = 100
"""So many requests of one connection in a minute that prove nothing are told to the operator as somebody who guesses."""
GUESSES_WINDOW_S = 60.0


@dataclass(slots=True)
class Guesses:
    """How often a connection was asked by somebody who could not prove who they are. Whoever can is never kept out by it."""

    begun_s: float = 0.0
    count: int = 0

    def are_many(self, now_s: float) -> bool:
        """One more. True once in a minute: when there were too many in it."""
        if now_s - self.begun_s > GUESSES_WINDOW_S:
            self.begun_s, self.count = now_s, 0
        self.count += 1
        return self.count == GUESSES_MAX


@dataclass(frozen=True, slots=True)
class Parts:
    """What a gateway process is made of."""

    settings: Settings
    store: Store
    mailbox: Mailbox
    bell: Bell
    feed: Feed
    http: aiohttp.ClientSession
    adapters: Mapping[str, Adapter]
    intake: Intake
    watched: Watched

    async def close(self) -> None:
        """Within `CLOSE_S`: nobody waits for an answer any more, and a bell is a hint."""
        await self.feed.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(self.bell.close(), self.store.close())
        await self.http.close()


async def open_parts(loaded: Loaded, redis_url: str, rq_url: str) -> Parts:
    """Everything that a gateway needs, by name. Redis is not asked for anything yet."""
    settings = loaded.settings
    store = open_store(
        redis_url,
        Layout(settings.redis.key_prefix, settings.redis.partitions),
        timeout_s=settings.redis.timeout_s,
    )
    mailbox = Mailbox(store, settings.mailbox, data=settings.data)
    bell = open_bell(rq_url, settings.rq, wait_s=BELL_WAIT_S)
    feed = Feed(store)
    watched = Watched(loaded)
    http = aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
    return Parts(
        settings=settings,
        store=store,
        mailbox=mailbox,
        bell=bell,
        feed=feed,
        http=http,
        adapters=adapters(
            loaded, Outside(http, feed, Files(store), Boards(store), settings.tools.web_fetch, mailbox.now_ms)
        ),
        intake=Intake(mailbox, bell, watched),
        watched=watched,
    )


def house_of(parts: Parts) -> House:
    """What the admin pages work with."""
    cache = Cache(parts.settings.data / "skills")
    shelf = Shelf(parts.store, cache, present=None)  # the variables of workers are not ours
    return House(parts.store, parts.mailbox, shelf, Notes(parts.store), parts.watched.latest, parts.intake.receive)


class Gateway:
    """The HTTP side of deskmate; `app` is what a server serves."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._opened = False
        self._leaving = False
        self._opening: asyncio.Task[None] | None = None
        self._reading: set[asyncio.Timeout] = set()
        self._accepting = Patience(parts.settings.gateway.accept_timeout_s)
        self._guests = Guests(parts.store)
        self._guesses: defaultdict[str, Guesses] = defaultdict(Guesses)
        """By connection."""
        self._webhooks = {
            f"/webhooks/{name}": partial(self._deliver, name, adapter)
            for name, adapter in parts.adapters.items()
            if name != "web"
        }
        self.app = web.Application(
            middlewares=[self._answered], client_max_size=parts.settings.gateway.body_max_bytes, logger=logger
        )
        self.app.add_routes(
            [
                web.get("/healthz", self.healthz),
                web.get("/readyz", self.readyz),
                web.route("*", "/webhooks/{connection}", self.webhook),
            ]
        )
        if parts.settings.chat.enabled:
            add_chat(self.app, parts.settings, parts.adapters["web"], parts.intake, parts.store, parts.feed)
        if parts.settings.admin.enabled:
            add_admin(self.app, parts.settings, house_of(parts), parts.http)
        self.app.on_shutdown.append(self._end_reading)
        self.app.cleanup_ctx.append(self._lifetime)

    async def until(self, stop: asyncio.Event) -> None:
        """Until told to stop. Raises `Unfit` or `WrongPartitions` if Redis turns out to be none that we may use."""
        if self._opening is None:
            raise RuntimeError("the app is not set up")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait([stopped, self._opening], return_when=asyncio.FIRST_COMPLETED)
            if self._opening.done():
                self._opening.result()
            await stopped
        finally:
            stopped.cancel()

    def at_once(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse] | None:
        """The answer to a delivery that is here whole, as almost all are. None: the app has to find out what it is.

        The app would come to the same answer, by a way (router, match info, chain of middlewares) that costs as much CPU
        as storing the event.
        """
        webhook = self._webhooks.get(request.raw_path)
        return self._answered(request, webhook) if webhook and request.content.is_eof() else None

    def leave(self) -> None:
        """Take nothing new: requests that begin from now on get 503, others end as usual."""
        self._leaving = True

    async def _end_reading(self, _: web.Application) -> None:
        """Bodies that are still on their way will not arrive: aiohttp reads no more."""
        for waiting in self._reading:
            if not waiting.expired():
                waiting.reschedule(0)

    async def _lifetime(self, _: web.Application) -> AsyncIterator[None]:
        self._opening = asyncio.create_task(self._open(), name="open")
        tasks = [self._opening, asyncio.create_task(self._pack(self._opening), name="pack")]
        tasks.append(asyncio.create_task(self._parts.watched.follow(), name="watch"))
        tasks.append(asyncio.create_task(tell_standstills(), name="standstill"))
        tasks.append(asyncio.create_task(self._tell_reloads(self._opening), name="reloads"))
        tasks += [
            asyncio.create_task(introduce(name, adapter), name=f"identity {name}")
            for name, adapter in self._parts.adapters.items()
        ]
        yield
        await cancelled(tasks)
        await self._parts.close()

    async def _open(self) -> None:
        """As soon as Redis answers; until then webhooks get 503."""
        await meet(self._parts.store, self._parts.mailbox, self._parts.settings)
        self._opened = True

    async def _pack(self, opening: asyncio.Task[None]) -> None:
        """Look at the folders of skills, unless another gateway does."""
        await asyncio.wait([opening])
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        if not opening.cancelled() and opening.exception() is None:
            await Packer(self._parts.store, self._parts.settings.skills, name).run()

    async def _tell_reloads(self, opening: asyncio.Task[None]) -> None:
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await reloads.follow(self._parts.watched, self._parts.store)

    async def healthz(self, _: web.Request) -> web.Response:
        """The process answers."""
        return web.json_response({"ok": True})

    async def readyz(self, _: web.Request) -> web.Response:
        """Redis is there, is fit for messages, has the data that we know (else `why` says what is wrong), and somebody works."""
        state: dict[str, Any] = {"redis": False, "fit": False, "data": False, "workers": 0}
        why = ""
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(self._parts.settings.gateway.accept_timeout_s):
                why = await self._parts.mailbox.why_cold()
                state["redis"] = True
                state["data"] = self._opened and not why
                findings = await check_server(self._parts.store.redis, self._parts.settings)
                state["fit"] = all(one.level != "fail" for one in findings)
                state["workers"] = len(await self._parts.mailbox.workers())
        ready = all(state.values())
        told = {"ready": ready, **state, **({"why": f"{why}: see `deskmate redis adopt`"} if why else {})}
        return web.json_response(told, status=200 if ready else 503)

    async def webhook(self, request: web.Request) -> web.StreamResponse:
        """One delivery of a platform: verified, parsed, stored, answered."""
        deliver = self._webhooks.get(f"/webhooks/{request.match_info['connection']}")
        if deliver is None:
            raise web.HTTPNotFound(reason="no such connection")
        return await deliver(request)

    async def _deliver(self, name: str, adapter: Adapter, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in adapter.capabilities.methods:
            raise web.HTTPMethodNotAllowed(request.method, adapter.capabilities.methods)
        raw = await self._read(request)
        try:
            adapter.verify(raw, time.time())
            handshake = adapter.handshake(raw)
            if handshake is not None:
                return reply(request, handshake)
            if not adapter.is_ready:
                log(logger, "not taken yet", level=logging.WARNING, connection=name, reason="who we are is not known")
                return refusal(503, "try again")
            events = parsed(adapter, raw, self._parts.mailbox.now_ms() / 1_000)
        except Unauthorized as why:
            log(logger, "refused", level=logging.WARNING, connection=name, reason=str(why))
            if self._guesses[name].are_many(asyncio.get_running_loop().time()):
                advice = "somebody tries out secrets, or a sender has a wrong one"
                log(
                    logger,
                    "refused again and again",
                    logging.ERROR,
                    connection=name,
                    in_a_minute=GUESSES_MAX,
                    advice=advice,
                )
            return refusal(401, "unauthorized")
        except Malformed as why:
            log(logger, "refused", level=logging.WARNING, connection=name, reason=str(why))
            return refusal(400, "malformed")
        if events and events[0].kind == "pull":
            return await self._pulled(request, adapter, events[0])
        if not events:
            log(logger, "message", outcome="ignored", reason="no event that we serve", connection=name)
        is_stored = await self._store(adapter, events)
        return reply(request, adapter.acknowledge(events)) if is_stored else refusal(503, "try again")

    async def _pulled(self, request: web.BaseRequest, adapter: Adapter, event: Event) -> web.StreamResponse:
        """The platform comes for a text, again and again until it is whole."""
        try:
            with self._accepting:
                is_idle = await self._parts.mailbox.is_idle(event.conversation)
                return reply(request, await adapter.pulled(event, is_idle=is_idle))
        except (Unreachable, TimeoutError) as error:
            log(logger, "not told", level=logging.WARNING, reason=str(error) or "timeout")
            return refusal(503, "try again")

    async def _read(self, request: web.BaseRequest) -> RawRequest:
        """The request with its body, within the limits of size (413) and time (408)."""
        limit = self._parts.settings.gateway.body_max_bytes
        if request.content.is_eof():  # it came with the head, as a webhook's does: nothing to wait for
            body = request.content.read_nowait()
        else:
            if (request.content_length or 0) > limit:
                raise web.HTTPRequestEntityTooLarge(limit, request.content_length or 0)
            try:
                body = await self._read_on(request)
            except TimeoutError as error:
                raise (web.HTTPServiceUnavailable if self._leaving else web.HTTPRequestTimeout) from error
        if len(body) > limit:
            raise web.HTTPRequestEntityTooLarge(limit, len(body))
        if encoding := request.headers.get("Content-Encoding"):
            body = unpacked(body, encoding, limit)
        if request.raw_path in self._webhooks:  # an address as it is: nothing in it to decode
            path, query = request.raw_path, {}
        else:
            path, query = request.path, dict(request.query)
        return RawRequest(request.method, path, query, CIMultiDict(request.headers), body)

    async def _read_on(self, request: web.BaseRequest) -> bytes:
        async with asyncio.timeout(self._parts.settings.gateway.body_timeout_s) as waiting:
            self._reading.add(waiting)
            try:
                return await request.read()
            finally:
                self._reading.discard(waiting)

    async def _store(self, adapter: Adapter, events: Sequence[Event]) -> bool:
        """True only when all of them are in Redis, or were before; else the platform has to send again."""
        try:
            with self._accepting:
                events = await self._guests.recognized(adapter, events)
                received = await self._parts.intake.receive(events)
                await self._guests.remember(self._parts.watched.latest().settings, events)
        except (Unreachable, TimeoutError) as error:
            log(logger, "not stored", level=logging.ERROR, reason=str(error) or "timeout")
            return False
        return not any(one.comes_again for one in received)

    @web.middleware
    async def _answered(self, request: web.BaseRequest, handler: Handler) -> web.StreamResponse:
        """Errors are short JSON; what they mean stands in the log."""
        try:
            self._check_door(request)
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            fields = {"path": request.path, "method": request.method, "status": error.status}
            if error.status == 404:
                fields["there"] = self._addresses()
            log(logger, "refused", logging.INFO, error=None, **fields)
            answer = refusal(error.status, error.reason.lower())
            if allowed := error.headers.get("Allow"):
                answer.headers["Allow"] = allowed
            if error.status in {408, 413, 503}:
                answer.force_close()
            return answer
        except BROKEN_BODY as error:
            log(logger, "refused", path=request.path, method=request.method, status=400, reason=type(error).__name__)
            return refusal(400, "broken body")
        except ConnectionError:
            log(logger, "the sender went away", path=request.path, method=request.method)
            raise
        except Exception as error:  # noqa: BLE001  # nobody is told more than that
            log(logger, "request failed", logging.ERROR, error=error, path=request.path, method=request.method)
            return refusal(500, "internal error")

    def _check_door(self, request: web.BaseRequest) -> None:
        if self._leaving:
            raise web.HTTPServiceUnavailable
        if len(request.headers.get("Content-Type", "")) > LONGEST:
            raise web.HTTPUnsupportedMediaType

    def _addresses(self) -> str:
        """Where platforms may send to, for an operator who looks for a wrong address."""
        return ", ".join(f"/webhooks/{one}" for one in self._parts.adapters if one != "web") or "none configured"


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """The body as its sender wrote it. No more than `limit` is unpacked: a small body can hold gigabytes."""
    if encoding.lower() == "identity":
        return body
    if encoding.lower() not in {"gzip", "x-gzip", "deflate"}:
        raise web.HTTPUnsupportedMediaType(reason="encoding not supported")
    packed = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        found = packed.decompress(body, limit + 1)
    except zlib.error as error:
        raise web.HTTPBadRequest(reason="broken body") from error
    if len(found) > limit:
        raise web.HTTPRequestEntityTooLarge(limit, len(found))
    if not packed.eof:
        raise web.HTTPBadRequest(reason="broken body")
    return found


def reply(request: web.BaseRequest, answer: HttpReply) -> web.StreamResponse:
    is_usual = answer.status == 200 and not answer.headers and len(answer.body) <= READY_MAX_BYTES
    if is_usual and request.keep_alive and request.version == aiohttp.HttpVersion11:
        return _ready(answer.body, answer.content_type)
    return web.Response(
        status=answer.status, body=answer.body, content_type=answer.content_type, headers=dict(answer.headers)
    )


class Ready(web.StreamResponse):
    """A success answer that is the same for all requests of an open HTTP/1.1 connection, with its bytes made before.

    It keeps nothing of a request. aiohttp makes headers anew for each answer, for as much CPU as verifying a request.
    """

    def __init__(self, body: bytes, content_type: str) -> None:
        super().__init__()
        self._head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nDate: " % (
            content_type.encode(),
            len(body),
        )
        self._rest = b"\r\n\r\n" + body

    @property
    def keep_alive(self) -> bool:
        return True

    async def prepare(self, request: web.BaseRequest) -> None:
        await request.writer.write(self._head + _date(int(time.time())) + self._rest)

    async def write_eof(self, data: bytes = b"") -> None:
        """All was written by `prepare`."""


@functools.lru_cache(maxsize=64)
def _ready(body: bytes, content_type: str) -> Ready:
    return Ready(body, content_type)


@functools.lru_cache(maxsize=2)
def _date(at_s: int) -> bytes:
    return formatdate(at_s, usegmt=True).encode()


def refusal(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)


async def introduce(name: str, adapter: Adapter) -> None:
    """Learn who we are on a platform, so that our own echoes and mentions are known; try until it works."""
    pause_s = IDENTITY_RETRY_S[0]
    while True:
        try:
            me = await adapter.identity()
        except ConnectionRefused as why:
            log(logger, "connection refused", level=logging.ERROR, connection=name, reason=str(why))
        except Exception as error:  # noqa: BLE001  # whatever it is, without this the connection stays deaf
            log(logger, "connection broke", level=logging.ERROR, error=error, connection=name)
        else:
            log(logger, "connected", connection=name, identity=me.id)
            return
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, IDENTITY_RETRY_S[1])
