"""The chat page as a gateway serves it, on a real Redis, and a worker of which a test says each move."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from config.loading import load
from config.settings import RqSettings
from config.watching import Watched
from gateway.bell import open_bell
from gateway.boards import Boards
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.feed import Feed
from gateway.files import Files
from gateway.intake import Intake
from gateway.platforms import Address, Button, Growing, Outbound, Outside, StepLine
from gateway.platforms.webchat import Adapter
from gateway.platforms.webchat import Settings as PageSettings
from gateway.store import Store
from gateway.web.chat import add_chat


class Worker:
    """Does to Redis what a worker does, one move at a call."""

    def __init__(self, store: Store, adapter: Adapter) -> None:
        self._store = store
        self.adapter = adapter
        self._steps: list[StepLine] = []

    async def take(self) -> Event:
        """Wait for a message, in whatever conversation, and take it into a turn."""
        pattern = self._store.layout.key("*", "inbox")
        async with asyncio.timeout(30):
            while True:
                async for inbox in self._store.redis.scan_iter(match=pattern):
                    members: list[Any] = await self._store.redis.zrange(inbox, 0, 0)
                    for member in members:
                        event = Event.load(member.partition(b":")[2].decode())
                        await self._store.redis.zrem(inbox, member)
                        await self.record(event, "event", event=json.loads(event.dump()), turn="t")
                        self._steps = []
                        return event
                await asyncio.sleep(0.01)

    async def record(self, event: Event, kind: str, /, **fields: Any) -> None:
        record = Record(kind, int(time.time() * 1000), fields)
        await self._store.redis.rpush(self._store.layout.key(event.conversation.id, "history"), record.dump())

    async def show(self, event: Event, text: str) -> None:
        await self.adapter.show(Address(event.conversation), Growing(text, tuple(self._steps)), "key", None)

    async def skill(self, event: Event, name: str) -> None:
        await self.record(event, "tool_start", step=1, id=f"call {name}", name="load_skill")
        await self.record(event, "tool_result", step=1, id=f"call {name}", name="load_skill", text="loaded")
        await self.record(event, "skill", id=name, tier="builtin", hash="h", text="body", characters=4)
        self._steps.append(StepLine("skill", name, "done"))

    async def tool(self, event: Event, name: str, *, failed: bool | None = False) -> None:
        """A tool that ran, or with `failed` none: that runs."""
        await self.record(event, "tool_start", step=1, id=f"call {name}", name=name)
        if failed is not None:
            await self.record(event, "tool_result", step=1, id=f"call {name}", name=name, text="", error=failed)
        self._steps.append(StepLine("tool", name, "running" if failed is None else "failed" if failed else "done"))

    async def reply(self, event: Event, text: str, *, notice: bool = False, key: str = "key 1") -> None:
        """Record and send."""
        if not notice:
            content = [{"type": "text", "text": text}]
            await self.record(event, "answer", step=1, content=content, model="rehearsal", stop_reason="end_turn")
        await self.record(event, "reply", text=text, turn="t", **({"notice": True} if notice else {}))
        await self.send(event, text, notice=notice, key=key)

    async def send(
        self, event: Event, text: str, *, notice: bool = False, key: str = "key 1", buttons: Sequence[Button] = ()
    ) -> None:
        [part] = self.adapter.render(Outbound(text, is_notice=notice, buttons=tuple(buttons)))
        outcome = await self.adapter.send(Address(event.conversation), part, key)
        assert outcome.kind == "ok"


@dataclass(frozen=True, slots=True)
class World:
    """A gateway's chat page, served."""

    url: str
    store: Store
    feed: Feed
    worker: Worker

    async def converse(self, said: str, reply: str) -> Event:
        """The next message is answered; it must be what was `said`."""
        event = await self.worker.take()
        assert event.text == said
        await self.worker.reply(event, reply)
        return event


@contextlib.asynccontextmanager
async def served(
    store: Store, redis_url: str, folder: Path, *, settings: Sequence[str] = (), secret: str = "", port: int = 0
) -> AsyncIterator[World]:
    """The chat page at `url`, with lines of `settings` in its file and `$SECRET` filled."""
    file = folder / "deskmate.yaml"
    file.write_text("\n".join(["model: {provider: rehearsal}", *settings]))
    loaded = load(file, variables={"SECRET": secret} if secret else {})
    mailbox = Mailbox(store, loaded.settings.mailbox)
    await mailbox.open()
    bell = open_bell(redis_url, RqSettings(key_prefix=f"{store.layout.prefix}:rq"), wait_s=1)
    feed = Feed(store)
    async with aiohttp.ClientSession() as http:
        adapter = Adapter("web", PageSettings(stream_interval_ms=10), Outside(http, feed, Files(store), Boards(store)))
        app = web.Application(client_max_size=loaded.settings.gateway.body_max_bytes)
        add_chat(app, loaded.settings, adapter, Intake(mailbox, bell, Watched(loaded)), store, feed)
        runner = web.AppRunner(app, shutdown_timeout=2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        address = runner.addresses[0]
        worker_feed = Feed(store)
        try:
            worker = Worker(
                store,
                Adapter(
                    "web", PageSettings(stream_interval_ms=10), Outside(http, worker_feed, Files(store), Boards(store))
                ),
            )
            yield World(f"http://127.0.0.1:{address[1]}", store, feed, worker)
        finally:
            await runner.cleanup()
            await feed.close()
            await bell.close()
