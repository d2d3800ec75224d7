"""The stand-in by itself: what it says, how it insists, and that it runs alone."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from tests.harness.twins import Shown, Twin
from tests.harness.webhook_twin import REPLY_SECRET, SECRET, Bridge, WebhookTwin, sign


@asynccontextmanager
async def hook(take: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Where a gateway would take events."""
    app = web.Application()
    app.router.add_post("/webhooks/bridge", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/webhooks/bridge"
    finally:
        await runner.cleanup()


async def test_an_event_keeps_its_id_until_it_is_taken() -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((dict(request.headers), await request.read()))
        return web.Response(status=503 if len(got) < 3 else 202)

    async with hook(take) as url, WebhookTwin(retry_s=(0.0, 0.0)) as chat:
        said = await chat.say(url, "hi", thread="t1")
    assert said.statuses == [503, 503, 202]
    assert len({headers["webhook-id"] for headers, _ in got}) == 1
    for headers, body in got:
        assert Webhook(SECRET).verify(body, headers)["data"]["text"] == "hi"


@pytest.mark.parametrize(
    ("raw", "secret", "status"),
    [
        ('{"type":"reply.completed","timestamp":"2026-01-01T00:00:00Z","data":{"text":"hi"}}', REPLY_SECRET, 400),
        ('{"type":"reply.other","timestamp":"2026-01-01T00:00:00Z","data":{}}', REPLY_SECRET, 400),
        ("{}", SECRET, 401),
    ],
)
async def test_a_reply_of_another_shape_or_signature_is_refused(raw: str, secret: str, status: int) -> None:
    async with WebhookTwin() as chat, aiohttp.ClientSession() as session:
        headers = sign("msg_1", raw, secret=secret)
        async with session.post(chat.url, data=raw, headers=headers) as answer:
            assert answer.status == status
        assert len(chat.refused) == 1
        assert chat.taken == []


@pytest.mark.parametrize("module", ["tests.harness.webhook_twin", "tests.harness.slack_twin"])
async def test_it_runs_alone_and_is_told_what_to_do_over_http(module: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "--ledger", str(tmp_path / "took.jsonl"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        origin = url.rpartition("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{origin}/twin/next", json={"status": 500}) as answer:
                assert answer.status == 200
            async with session.post(f"{url}/auth.test" if url.endswith("/api") else url) as answer:
                assert answer.status in {401, 500}
            async with session.get(f"{origin}/twin/ledger") as answer:
                assert json.loads(await answer.read()) == []
    finally:
        process.terminate()
        async with asyncio.timeout(10):
            await process.wait()


async def reply(chat: WebhookTwin, webhook_id: str, kind: str, data: dict[str, Any]) -> None:
    """As deskmate sends it."""
    raw = json.dumps({"type": kind, "timestamp": "2026-01-01T00:00:00Z", "data": data})
    headers = sign(webhook_id, raw, secret=REPLY_SECRET)
    async with aiohttp.ClientSession() as session, session.post(chat.url, data=raw, headers=headers) as answer:
        assert answer.status == 200


async def test_the_stand_in_is_a_twin() -> None:
    got: list[tuple[str, dict[str, Any]]] = []

    async def take(request: web.Request) -> web.Response:
        body = Webhook(SECRET).verify(await request.read(), dict(request.headers))
        got.append((body["type"], body["data"]))
        return web.Response()

    bridge = Bridge()
    twin: Twin = bridge
    async with hook(take) as url, twin:
        said = await twin.mention(url, "hi")
        where = {"conversation": said.room, "thread": said.thread, "user": None, "in_reply_to": said.id}
        button = {"label": "Go", "command": "skill approve 7F3K", "style": "plain"}
        part = {"text": "ho", "part": 1, "parts": 1, "notice": False, "buttons": [button]}
        await reply(bridge.chat, "r1", "reply.completed", {**where, **part})
        shown = await twin.reply_to(said, 5)
        pressed = await twin.press(url, shown, "Go")
        more = await twin.follow_up(url, said, "more")
        direct = await twin.direct(url, "psst")
        others = [await twin.picture(url, "look", b"png"), await twin.command(url, "/help")]
        assert shown == Shown("room-1", "r1", "ho", said.thread, buttons=["Go"])
        assert twin.shown == [shown]
        await reply(bridge.chat, "s1", "action.settled", {**where, "message_id": "r1", "text": "done"})
        assert twin.shown == [replace(shown, buttons=[])]
    assert [one.statuses for one in (said, pressed, more, direct, *others)] == [[200]] * 6
    assert {one.room for one in (direct, *others)} == {"u1"}
    assert [
        (kind, one["conversation"], one["thread"], one.get("addressed", True), one["text"]) for kind, one in got
    ] == [
        ("message.created", "room-1", said.thread, True, "hi"),
        ("action.pressed", "room-1", said.thread, True, ""),
        ("message.created", "room-1", said.thread, False, "more"),
        ("message.created", None, None, True, "psst"),
        ("message.created", None, None, True, "look"),
        ("message.created", None, None, True, "/help"),
    ]
    assert (got[1][1]["value"], got[1][1]["message_id"]) == ("skill approve 7F3K", "r1")
    assert got[4][1]["attachments"][0]["content"] == "cG5n"
