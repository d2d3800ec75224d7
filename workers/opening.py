"""The one place where the parts of a worker meet."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from config.loading import Loaded
from config.settings import environment
from gateway import platforms
from gateway.connections import adapters
from gateway.conversation.mailbox import Mailbox
from gateway.feed import Feed
from gateway.logs import log
from gateway.serving import refuse_unfit
from gateway.store import Layout, open_store
from skills.library import Shelf, roots
from skills.programs import Programs
from workers.agent import Agent
from workers.desk import Desk
from workers.models import load_model
from workers.tools import Outside, load_tools

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_desk(loaded: Loaded, redis_url: str, worker: str) -> AsyncIterator[Desk]:
    """A desk with everything on it, for one process. Raises `Unreachable`, `Unfit`, `WrongPartitions`, `ConfigError`."""
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url, layout, timeout_s=settings.redis.timeout_s)
    feed = Feed(store)
    model = load_model(settings.model)
    shelf = Shelf(roots(settings.skills))
    programs = Programs(settings.skills, settings.data / "programs", environment(), loaded.secret_values)
    try:
        async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http:
            await refuse_unfit(store, settings)
            mailbox = Mailbox(store, settings.mailbox)
            if await mailbox.open():
                log(logger, "new epoch: this Redis was empty", level=logging.WARNING, epoch=mailbox.epoch)
            await shelf.current()
            yield Desk(
                worker=worker,
                loaded=loaded,
                mailbox=mailbox,
                adapters=adapters(loaded, platforms.Outside(http, feed)),
                agent=Agent(settings, model, load_tools(Outside(settings, http)), programs),
                shelf=shelf,
            )
    finally:
        await model.close()
        await feed.close()
        await store.close()
