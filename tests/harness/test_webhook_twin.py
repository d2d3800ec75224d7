"""The stand-in by itself: what it says, how it insists, and that it runs alone."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from tests.harness.webhook_twin import REPLY_SECRET, SECRET, WebhookTwin, sign


async def test_an_event_keeps_its_id_until_it_is_taken() -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((dict(request.headers), await request.read()))
        return web.Response(status=503 if len(got) < 3 else 202)

    app = web.Application()
    app.router.add_post("/webhooks/bridge", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with WebhookTwin(retry_s=(0.0, 0.0)) as chat:
            said = await chat.say(f"http://127.0.0.1:{runner.addresses[0][1]}/webhooks/bridge", "hi", thread="t1")
    finally:
        await runner.cleanup()
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
