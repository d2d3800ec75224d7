"""The gateway process: webhooks in, health, the chat page. A 2xx leaves only after the events are in Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from config.loading import Loaded
from config.settings import Settings
from gateway.bell import Bell, open_bell
from gateway.connections import adapters
from gateway.conversation.mailbox import Mailbox
from gateway.events import Event
from gateway.feed import Feed
from gateway.intake import Intake
from gateway.logs import log
from gateway.platforms import Adapter, ConnectionRefused, HttpReply, Malformed, Outside, RawRequest, Unauthorized
from gateway.store import Layout, Store, Unreachable, open_store
from gateway.web.chat import add_chat

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BELL_WAIT_S = 2.0
IDENTITY_RETRY_S = 30.0


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

    async def close(self) -> None:
        await self.feed.close()
        await self.bell.close()
        await self.store.close()
        await self.http.close()


async def open_parts(loaded: Loaded, redis_url: str, rq_url: str) -> Parts:
    """Everything that a gateway needs, by name. Redis is not asked for anything yet."""
    settings = loaded.settings
    store = open_store(
        redis_url,
        Layout(settings.redis.key_prefix, settings.redis.partitions),
        timeout_s=settings.redis.timeout_s,
    )
    mailbox = Mailbox(store, settings.mailbox)
    bell = open_bell(rq_url, settings.rq, wait_s=BELL_WAIT_S)
    feed = Feed(store)
    http = aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
    return Parts(
        settings=settings,
        store=store,
        mailbox=mailbox,
        bell=bell,
        feed=feed,
        http=http,
        adapters=adapters(loaded, Outside(http, feed)),
        intake=Intake(mailbox, bell, loaded),
    )


class Gateway:
    """The HTTP side of deskmate; `app` is what a server serves."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._opened = False
        self.app = web.Application(
            middlewares=[plain_errors], client_max_size=parts.settings.gateway.body_max_bytes, logger=logger
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
        self.app.cleanup_ctx.append(self._lifetime)

    async def _lifetime(self, _: web.Application) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._open(), name="open")]
        tasks += [
            asyncio.create_task(introduce(name, adapter), name=f"identity {name}")
            for name, adapter in self._parts.adapters.items()
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._parts.close()

    async def _open(self) -> None:
        """Learn the epoch as soon as Redis answers; until then webhooks get 503."""
        while not self._opened:
            try:
                if await self._parts.mailbox.open():
                    log(
                        logger,
                        "new epoch: this Redis was empty",
                        level=logging.WARNING,
                        epoch=self._parts.mailbox.epoch,
                    )
                self._opened = True
            except Unreachable as error:
                log(logger, "redis not reachable", level=logging.WARNING, reason=str(error))
                await asyncio.sleep(0.5)

    async def healthz(self, _: web.Request) -> web.Response:
        """The process answers."""
        return web.json_response({"ok": True})

    async def readyz(self, _: web.Request) -> web.Response:
        """Redis is there, with the data that we know, and somebody works."""
        state = {"redis": False, "data": False, "workers": 0}
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(self._parts.settings.gateway.accept_timeout_s):
                state["data"] = self._opened and await self._parts.mailbox.is_warm()
                state["redis"] = True
                state["workers"] = len(await self._parts.mailbox.workers())
        ready = all(state.values())
        return web.json_response({"ready": ready, **state}, status=200 if ready else 503)

    async def webhook(self, request: web.Request) -> web.Response:
        """One delivery of a platform: verified, parsed, stored, answered."""
        name = request.match_info["connection"]
        adapter = self._parts.adapters.get(name)
        if adapter is None or name == "web":
            there = ", ".join(f"/webhooks/{one}" for one in self._parts.adapters if one != "web") or "none configured"
            log(logger, "no such connection", path=request.path, there=there)
            return refusal(404, "no such connection")
        if request.method not in {"POST", "GET"}:
            return refusal(405, "method not allowed")
        raw = await raw_request(request, self._parts.settings.gateway.body_timeout_s)
        try:
            adapter.verify(raw, time.time())
            handshake = adapter.handshake(raw)
            if handshake is not None:
                return reply(handshake)
            return await self._store(adapter, adapter.parse(raw, time.time()))
        except Unauthorized as why:
            log(logger, "refused", level=logging.WARNING, connection=name, reason=str(why))
            return refusal(401, "unauthorized")
        except Malformed as why:
            log(logger, "refused", level=logging.WARNING, connection=name, reason=str(why))
            return refusal(400, "malformed")

    async def _store(self, adapter: Adapter, events: Sequence[Event]) -> web.Response:
        """Success only when all of them are in Redis, or were before; else 503, so that the platform sends again."""
        try:
            async with asyncio.timeout(self._parts.settings.gateway.accept_timeout_s):
                received = await self._parts.intake.receive(events)
        except (Unreachable, TimeoutError) as error:
            log(logger, "not stored", level=logging.ERROR, reason=str(error) or "timeout")
            return refusal(503, "try again")
        if any(one.state in {"full", "cold"} for one in received):
            return refusal(503, "try again")
        return reply(adapter.acknowledge(events))


async def raw_request(request: web.Request, timeout_s: float) -> RawRequest:
    """The request with its body, within the limits of size (413) and time (408); a broken encoding is 400."""
    try:
        if request.content.is_eof():  # it came with the head, as a webhook's does: nothing to wait for
            body = await request.read()
        else:
            async with asyncio.timeout(timeout_s):
                body = await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout from error
    except (aiohttp.ClientPayloadError, aiohttp.http_exceptions.HttpProcessingError, ValueError) as error:
        raise web.HTTPBadRequest(reason="broken body") from error
    return RawRequest(request.method, request.path, dict(request.query), CIMultiDict(request.headers), body)


def reply(answer: HttpReply) -> web.Response:
    return web.Response(
        status=answer.status, body=answer.body, content_type=answer.content_type, headers=dict(answer.headers)
    )


def refusal(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors are short JSON; what they mean stands in the log."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        log(logger, "refused", path=request.path, method=request.method, status=error.status)
        headers = {"Connection": "close"} if error.status in {408, 413} else None
        return web.json_response({"error": error.reason}, status=error.status, headers=headers)
    except Exception:
        logger.exception("request failed: %s %s", request.method, request.path)
        return refusal(500, "internal error")


async def introduce(name: str, adapter: Adapter) -> None:
    """Learn who we are on a platform, so that our own echoes are known; try until it works."""
    while True:
        try:
            me = await adapter.identity()
        except ConnectionRefused as why:
            log(logger, "connection refused", level=logging.ERROR, connection=name, reason=str(why))
            await asyncio.sleep(IDENTITY_RETRY_S)
        else:
            log(logger, "connected", connection=name, identity=me.id)
            return
