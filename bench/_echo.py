"""A plain aiohttp server that gives back what it is sent: what the gateway is compared with. Prints its address."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


async def serve() -> None:
    app = web.Application()
    app.router.add_post("/echo", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1_024).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["--uvloop"]:
        import uvloop

        uvloop.run(serve())
    else:
        asyncio.run(serve())
