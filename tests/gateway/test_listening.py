"""What comes over connections that we hold is stored, whatever happens to Redis meanwhile: nobody sends it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.loading import load
from gateway import listening
from gateway.app import Parts, open_parts
from gateway.connections import that_listen
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.listening import Listener, how_it_stands, listen
from gateway.platforms import Inlet, Plain
from gateway.store import Layout, Unreachable
from tests.harness.discord_twin import BOT_TOKEN, DIRECT, DiscordTwin
from tests.harness.processes import until
from tests.harness.proxy import Proxy

ROOM = ConversationKey("discord-main", "1", "0")


def event(name: str) -> Event:
    made: dict[str, Any] = {
        "conversation": ROOM,
        "actor": Actor("u1"),
        "dedupe_keys": (name,),
        "at_ms": 1,
        "text": name,
    }
    return Event(kind="message", message_id=name, **made)


@asynccontextmanager
async def opened(
    folder: Path, redis_url: str, layout: Layout, connection: dict[str, Any], **more: Any
) -> AsyncIterator[Parts]:
    file = folder / "deskmate.yaml"
    settings = {
        "data": str(folder / "data"),
        "redis": {"key_prefix": layout.prefix, "timeout_s": 0.5},
        "rq": {"key_prefix": f"{layout.prefix}:rq"},
        "connections": {"discord-main": connection},
        **more,
    }
    file.write_text(yaml.safe_dump(settings))
    (folder / "profiles").mkdir(exist_ok=True)
    (folder / "profiles/default.yaml").write_text("direct: open\n")
    loaded = load(file, variables={"DISCORD_BOT_TOKEN": BOT_TOKEN})
    assert that_listen(loaded) == ("discord-main",)
    parts = await open_parts(loaded, redis_url, redis_url)
    try:
        yield parts
    finally:
        await parts.close()


@pytest.fixture
async def twin() -> AsyncIterator[DiscordTwin]:
    async with DiscordTwin() as twin:
        yield twin


def listener(parts: Parts) -> Listener:
    return Listener(parts, "discord-main", parts.adapters["discord-main"])


async def stored(parts: Parts) -> list[str]:
    return await texts(parts, ROOM)


async def texts(parts: Parts, key: ConversationKey) -> list[str]:
    members: list[Any] = await parts.store.redis.zrange(parts.store.layout.key(key.id, "inbox"), 0, -1)
    return [Event.load(member.partition(b":")[2]).text for member in members]


async def gone(*_: object) -> None:
    raise Unreachable("killed")


async def test_what_comes_while_redis_is_away_is_stored_when_it_is_back(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PAUSE_S", (0.05, 0.1))
    async with Proxy(redis_url) as proxy, opened(tmp_path, proxy.redis_url, layout, twin.connection) as parts:
        await parts.mailbox.open()
        proxy.hold()
        storing = asyncio.create_task(listener(parts).receive([event("one"), event("two")]))
        await asyncio.sleep(1.2)
        assert not storing.done()
        proxy.cut()
        proxy.heal()
        async with asyncio.timeout(10):
            await storing
        assert await stored(parts) == ["one", "two"]


async def test_a_full_inbox_holds_back_what_comes_and_loses_nothing(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PAUSE_S", (0.05, 0.1))
    async with opened(tmp_path, redis_url, layout, twin.connection, mailbox={"inbox_max": 1}) as parts:
        await parts.mailbox.open()
        await listener(parts).receive([event("one")])
        storing = asyncio.create_task(listener(parts).receive([event("two")]))
        await asyncio.sleep(0.3)
        assert not storing.done()
        await parts.store.redis.delete(parts.store.layout.key(ROOM.id, "inbox"))  # as a worker that took it
        async with asyncio.timeout(30):
            await storing
        assert await stored(parts) == ["two"]


async def test_a_conversation_that_stays_full_is_told_so_and_holds_up_nobody(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PAUSE_S", (0.05, 0.1))
    monkeypatch.setattr(listening, "FULL_S", 0.2)
    here = ConversationKey("discord-main", DIRECT)
    async with opened(tmp_path, redis_url, layout, twin.connection, mailbox={"inbox_max": 1}) as parts:
        await parts.mailbox.open()
        one, two = (replace(event(name), conversation=here) for name in ("one", "two"))
        async with asyncio.timeout(10):
            await listener(parts).receive([one, two, event("elsewhere")])
        assert await texts(parts, here) == ["one"]
        assert await stored(parts) == ["elsewhere"]
        assert ["Too many messages" in shown.text for shown in twin.shown] == [True]


async def test_a_connection_that_breaks_is_held_again_and_ends_when_told(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "PAUSE_S", (0.02, 0.05))
    begun: list[int] = []

    class Breaking(Plain):
        async def identity(self) -> Actor:
            return Actor("us", is_self=True)

        async def listen(self, inlet: Inlet) -> None:
            begun.append(1)
            if len(begun) < 3:
                raise RuntimeError("a fault that nobody thought of")
            await inlet.receive([event("after all")])
            await asyncio.Event().wait()

    async with opened(tmp_path, redis_url, layout, twin.connection) as parts:
        breaking: Any = Breaking()
        parts.adapters["discord-main"] = breaking  # type: ignore[index]  # a test's own
        stop = asyncio.Event()
        listening_on = asyncio.create_task(listen(parts, ["discord-main"], stop))
        await until(lambda: len(begun) == 3)
        async with asyncio.timeout(30):
            while await stored(parts) != ["after all"]:
                await asyncio.sleep(0.02)
        stop.set()
        async with asyncio.timeout(30):
            await listening_on


async def test_one_listens_and_who_stands_by_goes_on_where_it_ended(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LEASE_MS", 600)
    monkeypatch.setattr(listening, "RENEW_S", 0.1)
    async with (
        opened(tmp_path, redis_url, layout, twin.connection) as parts,
        opened(tmp_path, redis_url, layout, twin.connection) as others,
    ):
        await parts.mailbox.open()
        await others.mailbox.open()
        first = asyncio.create_task(listener(parts).run())
        await twin.direct("", "one")
        await until(lambda: twin.identified == 1)
        second = asyncio.create_task(listener(others).run())
        await asyncio.sleep(0.5)
        assert twin.identified == 1, "the second stands by"
        monkeypatch.setattr(parts.store, "run", gone)  # as of a process that was killed: it gives nothing back
        first.cancel()
        await asyncio.wait([first])
        await twin.say("two", channel=DIRECT, waits=False)
        await twin.until(lambda: len(twin.resumed) == 1)
        await twin.direct("", "three")
        key = ConversationKey("discord-main", DIRECT)
        async with asyncio.timeout(10):
            while await texts(others, key) != ["one", "two", "three"]:
                await asyncio.sleep(0.02)
        assert twin.identified == 1, "no new session, in which what was said meanwhile would be missing"
        second.cancel()
        await asyncio.wait([second])


async def test_it_can_be_seen_whether_somebody_listens_and_what_keeps_it_from_hearing(
    tmp_path: Path, redis_url: str, layout: Layout, twin: DiscordTwin
) -> None:
    refused = {**twin.connection, "message_content": True}  # which is not granted
    async with opened(tmp_path, redis_url, layout, refused) as parts:
        await parts.mailbox.open()
        assert await how_it_stands(parts.store, "discord-main") == (False, "")
        listening_on = asyncio.create_task(listener(parts).run())
        async with asyncio.timeout(10):
            while not (await how_it_stands(parts.store, "discord-main"))[1]:
                await asyncio.sleep(0.02)
        listens, trouble = await how_it_stands(parts.store, "discord-main")
        assert (listens, "4014" in trouble) == (True, True)
        listening_on.cancel()
        await asyncio.wait([listening_on])
        assert not (await how_it_stands(parts.store, "discord-main"))[0]


async def test_who_is_told_to_stop_while_redis_is_away_ends(tmp_path: Path, layout: Layout, twin: DiscordTwin) -> None:
    async with opened(tmp_path, "redis://127.0.0.1:1", layout, twin.connection) as parts:
        stop = asyncio.Event()
        listening = asyncio.create_task(listen(parts, ["discord-main"], stop))
        await asyncio.sleep(0.1)
        assert not listening.done()
        stop.set()
        async with asyncio.timeout(10):
            await listening
