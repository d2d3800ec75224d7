"""A worker at its desk whose turns are recorded, and replays of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from config.loading import Loaded
from config.settings import RecordingSettings
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.recordings import Recordings
from gateway.store import Layout
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from workers.replay.case import Archive, Case
from workers.replay.compare import Report
from workers.replay.playing import play_recorded


@dataclass
class Replays:
    """`world` is where the turns were made."""

    world: AtDesk
    redis_url: str

    @property
    def loaded(self) -> Loaded:
        return self.world.desk.watched.latest()

    @property
    def archive(self) -> Archive:
        store = self.world.desk.mailbox.store
        settings = self.loaded.settings
        return Archive(Mailbox(store, settings.mailbox), Recordings(store, RecordingSettings()), keeps=True)

    async def case(self, requests: int) -> Case:
        """Of the last turn, as soon as so many of its requests are written down."""
        async with asyncio.timeout(30):
            while True:
                kept = await self.archive.recordings.turns()
                if kept and kept[0].requests >= requests:
                    return await self.archive.find(WHERE.id[:8], "last")
                await asyncio.sleep(0.005)

    async def play(self, case: Case, **profile: Any) -> Report:
        """Play it, under a profile that was changed."""
        loaded = self.loaded
        if profile:
            changed = {name: one.model_copy(update=profile) for name, one in loaded.profiles.items()}
            loaded = replace(loaded, profiles=changed, _rooms={})
        return await play_recorded(case, loaded, self.world.desk.mailbox.store, self.redis_url)


@asynccontextmanager
async def replays(folder: Path, redis_url: str, layout: Layout, **more: Any) -> AsyncIterator[Replays]:
    settings: Mapping[str, Any] = {"recordings": {"keep": True}, **more.pop("settings", {})}
    async with at_desk(folder, redis_url, layout.prefix, settings=settings, **more) as world:
        yield Replays(world, redis_url)
