"""The one place where the parts of a worker meet."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from config.loading import Loaded
from config.settings import Settings, environment
from config.watching import Watched
from gateway import platforms
from gateway.connections import adapters
from gateway.conversation.mailbox import Mailbox
from gateway.feed import Feed
from gateway.files import Files
from gateway.logs import log
from gateway.serving import refuse_unfit
from gateway.store import Layout, Store, Unreachable, open_store
from skills.library import Shelf, roots
from skills.programs import Programs
from workers.agent import Agent
from workers.desk import Desk
from workers.models import load_model
from workers.tools import Outside, load_tools

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.5
TELL_S: Final = 10.0
"""How often the log says that Redis is still away."""


@asynccontextmanager
async def open_desk(loaded: Loaded, redis_url: str, worker: str) -> AsyncIterator[Desk]:
    """A desk with everything on it, for one process. Waits for a Redis that is away.

    Raises `Unfit`, `WrongPartitions`, `ConfigError`.
    """
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url, layout, timeout_s=settings.redis.timeout_s)
    feed = Feed(store)
    model = load_model(settings.model)
    shelf = Shelf(roots(settings.skills))
    programs = Programs(settings.skills, settings.data / "programs", environment(), loaded.secret_values)
    try:
        async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http:
            mailbox = Mailbox(store, settings.mailbox)
            await _meet(store, mailbox, settings)
            await shelf.current()
            yield Desk(
                worker=worker,
                watched=Watched(loaded),
                mailbox=mailbox,
                adapters=adapters(loaded, platforms.Outside(http, feed, Files(store), settings.tools.web_fetch)),
                agent=Agent(settings, model, load_tools(Outside(settings, http)), programs),
                shelf=shelf,
            )
    finally:
        await model.close()
        await feed.close()
        await store.close()


async def _meet(store: Store, mailbox: Mailbox, settings: Settings) -> None:
    """Look at Redis and learn the epoch, as soon as it answers. Raises `Unfit`, `WrongPartitions`."""
    clock = asyncio.get_running_loop().time
    told_s = -math.inf
    while True:
        try:
            await refuse_unfit(store, settings)
            if await mailbox.open():
                log(logger, "new epoch: this Redis was empty", level=logging.WARNING, epoch=mailbox.epoch)
        except Unreachable as error:
            if clock() - told_s >= TELL_S:
                told_s = clock()
                advice = "start it, or correct redis.url (REDIS_URL)"
                log(logger, "redis not reachable, waiting", logging.WARNING, reason=str(error), advice=advice)
            await asyncio.sleep(PAUSE_S)
        else:
            return
