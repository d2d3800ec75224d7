"""A whole worker at its desk, within the test's own process: real Redis, real settings, a strict model over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from config.loading import load
from gateway.bell import open_bell
from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.intake import Intake
from tests.gateway.conversation.world import now_ms
from tests.harness.fake_model import KEY, FakeModel
from tests.harness.model_replies import says
from tests.harness.processes import until
from tests.workers.room import Room
from workers.desk import Desk
from workers.opening import open_desk

WHERE = ConversationKey("chat", "room", "t")


@dataclass
class AtDesk:
    """People, the intake, one worker and the model."""

    desk: Desk
    intake: Intake
    model: FakeModel
    room: Room
    rung: list[int] = field(default_factory=list)
    """Partitions that the worker rang for."""
    numbers: Any = field(default_factory=itertools.count)

    def event(self, text: str = "", where: ConversationKey = WHERE, **changed: Any) -> Event:
        name = f"m{next(self.numbers)}"
        made = Event(
            kind="message",
            conversation=where,
            actor=Actor("U-MAX", "Max"),
            dedupe_keys=(f"message:{name}",),
            at_ms=now_ms(),
            message_id=name,
            text=text,
        )
        return replace(made, **changed)

    async def say(self, text: str = "", where: ConversationKey = WHERE, **changed: Any) -> str:
        """What became of it."""
        [received] = await self.intake.receive([self.event(text, where, **changed)])
        return received.state

    async def work(self) -> None:
        """Attend to all that may be claimed now."""
        while grants := (await self.desk.mailbox.claim(0, self.desk.worker, 1, by_bell=True)).grants:
            await self.desk.attend(grants[0], lambda: 0)

    async def ask(self, text: str = "", where: ConversationKey = WHERE, **changed: Any) -> list[str]:
        """Say it, and what the chat gets for it."""
        before = len(self.room.sent)
        assert await self.say(text, where, **changed) == "new"
        await self.work()
        return self.room.sent[before:]

    @asynccontextmanager
    async def busy(self, text: str = "", where: ConversationKey = WHERE, **changed: Any) -> AsyncIterator[Claim]:
        """Said, and worked on meanwhile. At the end of the block it is as one whose worker died, unless the claim was lost
        before, which it is once it is given back.
        """
        assert await self.say(text, where, **changed) == "new"
        [claim] = (await self.desk.mailbox.claim(0, self.desk.worker, 1)).grants
        attending = asyncio.create_task(self.desk.attend(claim, lambda: 0))
        try:
            yield claim
        finally:
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)

    async def beside(self, claim: Claim, text: str, **changed: Any) -> list[str]:
        """Said while a turn of the conversation runs, and what the chat gets for it at once."""
        before = len(self.room.sent)
        assert await self.say(text, **changed) == "new"
        claim.news.set()
        await until(lambda: len(self.room.sent) > before)
        return self.room.sent[before:]

    async def history(self, where: ConversationKey = WHERE) -> list[Record]:
        return list((await self.desk.mailbox.load(where.id)).history)


@asynccontextmanager
async def at_desk(
    folder: Path,
    redis_url: str,
    prefix: str,
    *,
    room: Room | None = None,
    profile: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[AtDesk]:
    """The model says `Well.` unless told otherwise. The connection is `chat`."""
    (folder / "profiles").mkdir()
    (folder / "profiles/default.yaml").write_text(yaml.safe_dump(dict(profile or {})))
    async with FakeModel(says("Well.")) as model:
        more = dict(settings or {})
        named = {"provider": "anthropic", "name": "fake", "base_url": model.url, "api_key": "$MODEL_KEY"}
        whole = {
            "redis": {"key_prefix": prefix},
            "rq": {"key_prefix": f"{prefix}:rq"},
            "model": {**named, **more.pop("model", {})},
            "data": str(folder / "data"),
            **more,
        }
        file = folder / "deskmate.yaml"
        file.write_text(yaml.safe_dump(whole))
        loaded = load(file, variables={"MODEL_KEY": KEY, **(variables or {})})
        room = room or Room()
        there: Any = {"chat": room}
        rung: list[int] = []
        bell = open_bell(redis_url, loaded.settings.rq, wait_s=1.0)
        try:
            async with open_desk(loaded, redis_url, "w1", ring=rung.append) as opened:
                desk = replace(opened, adapters=there)
                yield AtDesk(desk, Intake(desk.mailbox, bell, desk.watched), model, room, rung)
        finally:
            await bell.close()
