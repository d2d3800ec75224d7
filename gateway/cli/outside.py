"""What adapters may use of the world, for commands that ask platforms something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from config.settings import Settings
from gateway.boards import Boards
from gateway.feed import Feed
from gateway.files import Files
from gateway.platforms import Outside
from gateway.running.embedded import socket_path, socket_url
from gateway.store import Layout, Store, open_store


@asynccontextmanager
async def opened_outside(settings: Settings, url: str | None) -> AsyncIterator[tuple[Store, Outside]]:
    """`url`: of a Redis that may be asked; none where there is none, as nobody asks it anything then."""
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    nobody = socket_url(socket_path(settings.data))
    store = open_store(url or nobody, layout, timeout_s=settings.redis.timeout_s)  # connects when first used
    feed = Feed(store)
    try:
        async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield store, Outside(http, feed, Files(store), Boards(store), settings.tools.web_fetch)
    finally:
        await feed.close()
        await store.close()
