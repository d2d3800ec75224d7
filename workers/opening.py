"""The one place where the parts of a worker meet."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from config.loading import Loaded
from config.rules import rule_of
from config.settings import Settings, environment
from config.watching import Watched
from gateway import platforms
from gateway.boards import Boards
from gateway.connections import adapters
from gateway.conversation.mailbox import Mailbox
from gateway.feed import Feed
from gateway.files import Files
from gateway.logs import log
from gateway.serving import cancelled, refuse_unfit
from gateway.shelf.notes import Notes
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, Store, Unreachable, open_store
from skills.bundles import Cache
from skills.programs import Programs
from workers.agent import Agent
from workers.desk import Desk
from workers.models import load_model
from workers.offers import Offers
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
    folder = settings.data / "skills"
    shelf = Shelf(store, Cache(folder), rule=rule_of, present=_present(environment(), loaded.secret_values))
    programs = Programs(settings.skills, folder, environment(), loaded.secret_values)
    watched = Watched(loaded)
    watching: asyncio.Task[None] | None = None
    try:
        async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http:
            mailbox = Mailbox(store, settings.mailbox)
            await _meet(store, mailbox, settings)
            await _first_snapshot(shelf, Packer(store, settings.skills, worker))
            watching = asyncio.create_task(watched.follow(), name="watch")
            yield Desk(
                worker=worker,
                watched=watched,
                mailbox=mailbox,
                adapters=adapters(
                    loaded, platforms.Outside(http, feed, Files(store), Boards(store), settings.tools.web_fetch)
                ),
                agent=Agent(settings, model, Offers(settings, load_tools(Outside(settings, http)), programs)),
                shelf=shelf,
                notes=Notes(store),
            )
    finally:
        if watching:
            await cancelled([watching])
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


async def _first_snapshot(shelf: Shelf, packer: Packer) -> None:
    """Where no gateway has ever looked at the folders of skills, do it once: without skills no turn should begin.

    Raises `NotADirectoryError`, `Unreachable`.
    """
    while not await shelf.warm():
        if not await packer.step():
            await asyncio.sleep(PAUSE_S)  # another worker is at it


def _present(variables: Mapping[str, str], secrets: Collection[str]) -> frozenset[str]:
    """The names of variables that could be handed to a program: set, and none of the product's own secrets."""
    return frozenset(name for name, value in variables.items() if value and value not in secrets)
