"""A chat platform that takes everything at once: replies are counted by kind, and Slack's `auth.test` is answered.

Prints its address. `GET /count` gives the counts.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from aiohttp import web

WHO = {"ok": True, "user_id": "UBENCH", "user": "bench", "team_id": "T0001"}


async def serve() -> None:
    counts: Counter[str] = Counter()

    async def replies(request: web.Request) -> web.Response:
        counts[json.loads(await request.read())["type"]] += 1
        return web.Response()

    async def count(_: web.Request) -> web.Response:
        return web.json_response(counts)

    async def who(_: web.Request) -> web.Response:
        return web.json_response(WHO)

    app = web.Application()
    app.add_routes([web.post("/replies", replies), web.get("/count", count), web.post("/auth.test", who)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2_048).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
