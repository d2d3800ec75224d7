"""A mailbox on a real server, with short times, and the rules that must hold in every state of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from config.settings import MailboxSettings
from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Accepted, Mailbox
from gateway.events import Actor, Event
from gateway.store import Layout, Store, open_store

PLAY = MailboxSettings(lease_s=60, bell_ms=120, inbox_max=3)
"""Leases end by `World.lapse`, not by time: a busy machine changes no outcome."""


def key(thread: str = "t", channel: str = "room") -> ConversationKey:
    return ConversationKey("c", channel, thread)


def event(text: str, where: ConversationKey, dedupe: str | None = None) -> Event:
    return Event(
        kind="message",
        conversation=where,
        actor=Actor("u1"),
        dedupe_keys=(dedupe or f"d-{text}",),
        at_ms=now_ms(),
        message_id=text,
        text=text,
    )


async def until(condition: Callable[[], Awaitable[Any]], within_s: float = 5.0) -> Any:
    """Wait for a condition; its value. The last look begins when the time is over: who was slow to look has seen it."""
    end = time.monotonic() + within_s
    while True:
        is_last = time.monotonic() >= end
        if found := await condition():
            return found
        assert not is_last, "it did not come true in time"
        await asyncio.sleep(0.01)


@dataclass
class World:
    """One partition, and whoever works on it."""

    url: str
    layout: Layout
    settings: MailboxSettings = PLAY
    stores: list[Store] = field(default_factory=list)
    patience_s: float = 5.0
    """How long a claim is waited for; a guard that is taken out does not come back by waiting."""
    timeout_s: float = 2.0
    """How long an answer of the server is waited for."""

    async def mailbox(self) -> Mailbox:
        """As a process of its own would have it."""
        store = open_store(self.url, self.layout, timeout_s=self.timeout_s)
        self.stores.append(store)
        mailbox = Mailbox(store, self.settings)
        await mailbox.open()
        return mailbox

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def say(self, mailbox: Mailbox, text: str, where: ConversationKey | None = None, **more: Any) -> Accepted:
        where = where or key()
        said = event(text, where)
        return await mailbox.accept(where, said.dump(), dedupe_keys=said.dedupe_keys, at_ms=said.at_ms, **more)

    async def claim_one(self, mailbox: Mailbox, worker: str = "w1") -> Claim:
        async def look() -> Claim | None:
            claimed = await mailbox.claim(0, worker, 1)
            return claimed.grants[0] if claimed.grants else None

        found: Claim = await until(look, self.patience_s)
        return found

    async def lapse(self) -> None:
        """All leases have run out: their holders died, or slept too long."""
        due = f"{self.layout.root(0)}:due"
        redis: Any = self.stores[0].redis
        for conversation in await redis.zrange(due, 0, -1):
            await redis.zadd(due, {conversation: 0}, xx=True)

    async def take_over(self, mailbox: Mailbox, worker: str = "w2") -> Claim:
        """Another worker claims what the first one left behind."""
        await self.lapse()
        return await self.claim_one(mailbox, worker)

    async def take_all(self, mailbox: Mailbox, claim: Claim, turn_id: str = "turn") -> None:
        stored = await mailbox.load(claim.conversation)
        turn = {"id": turn_id, "start": len(stored.history), "to": {}}
        await mailbox.take(claim, turn, members=stored.inbox, control=len(stored.control))

    async def keys(self) -> dict[bytes, bytes]:
        """All keys of this world, dumped: what `restore` brings back, as a server that lost its tail would."""
        redis: Any = self.stores[0].redis
        names = [name async for name in redis.scan_iter(f"{self.layout.prefix}:*", count=1_000)]
        return {name: dumped for name in names if (dumped := await redis.dump(name)) is not None}

    async def restore(self, kept: dict[bytes, bytes]) -> None:
        redis: Any = self.stores[0].redis
        async for name in redis.scan_iter(f"{self.layout.prefix}:*", count=1_000):
            await redis.delete(name)
        for name, dumped in kept.items():
            await redis.restore(name, 0, dumped)

    async def check(self) -> None:
        """What must hold in every state."""
        redis: Any = self.stores[0].redis
        root = self.layout.root(0)
        ready: list[str] = []
        async for name in redis.scan_iter(f"{root}:ready:*", count=1_000):
            ready += [one.decode() for one in await redis.zrange(name, 0, -1)]
        due = [one.decode() for one in await redis.zrange(f"{root}:due", 0, -1)]
        assert not set(ready) & set(due), "a conversation is in ready and in due"
        assert len(ready) == len(set(ready)), "a conversation is ready in two channels"
        assert int(await redis.get(f"{root}:waiting") or 0) == len(ready), "the count of those who wait is wrong"
        running: dict[str, int] = {}
        async for name in redis.scan_iter(f"{root}:c:*", count=1_000):
            conversation = name.decode().removeprefix(f"{root}:c:")
            if ":" in conversation:
                continue
            token, channel, turn = await redis.hmget(name, "token", "channel", "turn")
            busy = await redis.exists(f"{name.decode()}:inbox", f"{name.decode()}:control")
            states = [one.split()[0] for one in await redis.hvals(f"{name.decode()}:states")]
            if busy or turn or any(state not in {b"sent", b"given_up"} for state in states):
                assert conversation in {*ready, *due}, "a conversation with work is nowhere"
            if token:
                assert conversation in due, "a claim without an end"
                running[channel.decode()] = running.get(channel.decode(), 0) + 1
        stored = {name.decode(): int(count) for name, count in (await redis.hgetall(f"{root}:running")).items()}
        assert stored == running, "the count of places is wrong"
        if sole := await redis.get(f"{root}:sole"):
            conversation, token = sole.split()
            there = await redis.hget(f"{root}:c:{conversation.decode()}", "token")
            assert there == token, "nobody holds what has a worker for itself"


def texts(history: Iterable[Any]) -> list[str]:
    return [record.data["event"]["text"] for record in history if record.type == "event"]


fresh = itertools.count()


def now_ms() -> int:
    return int(time.time() * 1000)
