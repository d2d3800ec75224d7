"""The one place where the parts of a worker meet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import aiohttp

from config.loading import Loaded
from config.settings import environment
from config.watching import Watched
from gateway import platforms
from gateway.boards import Boards
from gateway.connections import adapters
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.recordings import Recordings
from gateway.feed import Feed
from gateway.files import Files
from gateway.logs import Mask, log
from gateway.rights.pins import Pins
from gateway.running.serving import cancelled, meet
from gateway.shelf.notes import Notes
from gateway.shelf.packing import Packer
from gateway.shelf.shelf import Shelf
from gateway.store import Layout, Store, open_store
from skills.bundles import Cache
from skills.programs import Programs
from workers.agent.agent import Agent
from workers.agent.asking import Asking
from workers.agent.circuits import Circuits
from workers.agent.recording import Recording
from workers.calling.calls import RunTool, run_tool
from workers.calling.unsaid import unsaid
from workers.course import Course
from workers.desk import Desk
from workers.heard import Heard
from workers.mcp import open_servers
from workers.models import Model, load_model
from workers.passing import Passing
from workers.prompt.offers import Offers
from workers.tools import Outside, load_tools

logger = logging.getLogger(__name__)

ShelfT = TypeVar("ShelfT", bound=Shelf)

PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Instead:
    """What a replay has in the place of what asks and acts."""

    model: Model
    run_tool: RunTool
    shelf: Shelf


@asynccontextmanager
async def open_desk(
    loaded: Loaded,
    redis_url: str,
    worker: str,
    instead: Instead | None = None,
    *,
    ring: Callable[[int], None] | None = None,
) -> AsyncIterator[Desk]:
    """A desk with everything on it, for one process. Waits for a Redis that is away. `ring`: see `Passing`; without it others
    look by themselves.

    Raises `Unfit`, `WrongPartitions`, `ConfigError`.
    """
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url, layout, timeout_s=settings.redis.timeout_s)
    feed = Feed(store)
    mailbox = Mailbox(store, settings.mailbox, data=None if instead else settings.data)
    model = instead.model if instead else _recorded(load_model(settings.model), loaded, mailbox)
    folder = settings.data / "skills"
    shelf = instead.shelf if instead else open_shelf(loaded, store, Shelf)
    programs = Programs(settings.skills, folder, environment(), loaded.secret_values)
    servers = open_servers(settings, Pins(store))
    watched = Watched(loaded)
    watching: asyncio.Task[None] | None = None
    try:
        async with aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as http:
            await meet(store, mailbox, settings)
            if not instead:
                await _first_snapshot(shelf, Packer(store, settings.skills, worker))
            watching = asyncio.create_task(watched.follow(), name="watch")
            yield Desk(
                worker=worker,
                watched=watched,
                mailbox=mailbox,
                adapters=adapters(
                    loaded,
                    platforms.Outside(
                        http, feed, Files(store), Boards(store), settings.tools.web_fetch, mailbox.now_ms
                    ),
                ),
                course=Course(
                    watched=watched,
                    mailbox=mailbox,
                    agent=Agent(
                        settings,
                        Asking(settings, model, Circuits(store, settings.model)),
                        Offers(settings, load_tools(Outside(settings, http, programs)), programs, servers),
                        instead.run_tool if instead else unsaid(run_tool, loaded.secret_values),
                    ),
                    shelf=shelf,
                    notes=Notes(store),
                    passing=Passing(mailbox, ring or _nowhere),
                    heard=Heard(shelf, watched),
                ),
            )
    finally:
        if watching:
            await cancelled([watching])
        if servers:
            await servers.close()
        await model.close()
        await feed.close()
        await store.close()


def _nowhere(partition: int) -> None:
    del partition


def open_shelf(loaded: Loaded, store: Store, kind: type[ShelfT]) -> ShelfT:
    """What this machine makes of the skills that the store has."""
    present = _present(environment(), loaded.secret_values)
    return kind(store, Cache(loaded.settings.data / "skills"), present=present)


async def _first_snapshot(shelf: Shelf, packer: Packer) -> None:
    """Where no gateway has ever looked at the folders of skills, do it once: without skills no turn should begin.

    Raises `NotADirectoryError`, `Unreachable`.
    """
    while not await shelf.warm():
        if not await packer.step():
            await asyncio.sleep(PAUSE_S)  # another worker is at it


def _recorded(model: Model, loaded: Loaded, mailbox: Mailbox) -> Model:
    """The same model; it keeps what it is asked, where the settings say so."""
    settings = loaded.settings.recordings
    if not settings.keep:
        return model
    log(
        logger,
        "requests and answers are kept, with what people write (recordings.keep)",
        level=logging.WARNING,
        retention_s=settings.retention_s,
        turn_max_bytes=settings.turn_max_bytes,
    )
    return Recording(
        model, Recordings(mailbox.store, settings), Mask(loaded.secret_values, thorough=True), mailbox.now_ms
    )


def _present(variables: Mapping[str, str], secrets: Collection[str]) -> frozenset[str]:
    """The names of variables that could be handed to a program: set, and none of the product's own secrets."""
    return frozenset(name for name, value in variables.items() if value and value not in secrets)
