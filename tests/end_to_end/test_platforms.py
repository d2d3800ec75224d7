"""One play on every platform: a mention, a thread that goes on, a direct message with a picture, a button, a slash command;
and the worker is killed in the midst of it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.conftest import PROFILE, QUICK
from tests.harness.all_twins import TWINS
from tests.harness.deployment import Deployment, Running
from tests.harness.fake_model import KEY, Asked, FakeModel
from tests.harness.model_replies import Reply, calls, says
from tests.harness.twins import Shown, Twin

NOTE: Final = {"name": "web-access", "file": "references/sites/twin.example.md", "content": "- the door is on the left"}
APPROVE: Final = "Approve"


def png(width: int = 3, height: int = 2) -> bytes:
    """A small red picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@dataclass
class Stage:
    """A deployment with one connection, its platform and a model that answers as it is told."""

    twin: Twin
    model: FakeModel
    deskmate: Deployment
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Until it is set, the model keeps its answers to itself."""

    @property
    def hook(self) -> str:
        return self.deskmate.hook("main")

    def answer(self, asked: Asked) -> Reply:
        """To what was said last, in capitals; what is to be noted is noted first."""
        last = asked.request["messages"][-1]["content"]
        text = " ".join(block.get("text", "") for block in last if isinstance(block, dict) and block["type"] == "text")
        if "please note" in text:
            return calls("save_skill_reference", NOTE)
        word = next((one for one in ("noted", "again", "picture") if one in text), "noted")
        return says(f"**{word.upper()}** it is. 好的 🚀", deltas=3, hold=self.held)

    def finals(self, word: str) -> list[Shown]:
        return [one for one in self.twin.shown if word in one.text and not one.is_growing]

    async def killed(self, worker: Running) -> Running:
        """Kill it and start another."""
        worker.kill()
        await worker.process.wait()
        return await self.deskmate.start_worker()


@asynccontextmanager
async def played(make: Callable[[], Twin], folder: Path, redis_url: str) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        twin = await stack.enter_async_context(make())
        model = await stack.enter_async_context(FakeModel())
        environment = {"MODEL_KEY": KEY, **twin.environment}
        deskmate = await stack.enter_async_context(Deployment(folder, redis_url, {}, environment))
        settings = {
            "model": {"provider": "anthropic", "name": "fake", "base_url": model.url, "api_key": "$MODEL_KEY"},
            "mailbox": QUICK,
            "connections": {"main": twin.connection},
        }
        tools = [*PROFILE["tools"], "save_skill_reference"]
        deskmate.write(settings, {**PROFILE, "tools": tools, "roles": {"approver": ["*/*"]}})
        stage = Stage(twin, model, deskmate)
        model.answer_with(stage.answer)
        yield stage


async def until(holds: Callable[[], Any], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.05)


def texts_of(asked: Asked) -> str:
    return json.dumps(asked.request["messages"], ensure_ascii=False)


@pytest.mark.parametrize("platform", TWINS)
async def test_all_that_people_do_is_answered_once_though_workers_are_killed(
    platform: str, tmp_path: Path, redis_url: str
) -> None:
    async with played(TWINS[platform], tmp_path, redis_url) as stage:
        twin, hook = stage.twin, stage.hook
        await stage.deskmate.start_gateway()
        if platform in LISTENING:
            await stage.deskmate.start_listener()
        worker = await stage.deskmate.start_worker()

        mention = await twin.mention(hook, "please note where the door is")
        picture = await twin.picture(hook, "what is in this picture?", png())
        await until(lambda: len({texts_of(asked) for asked in stage.model.asked}) >= 3)  # both answers are being made
        worker = await stage.killed(worker)
        stage.held.set()
        first, second = await asyncio.gather(twin.reply_to(mention), twin.reply_to(picture))
        await until(lambda: stage.finals("NOTED") and stage.finals("PICTURE"))
        assert "**" not in f"{stage.finals('NOTED')[0].text}{stage.finals('PICTURE')[0].text}" or platform in MARKDOWN
        assert first.room == mention.room
        assert second.room == picture.room
        images = [
            block["source"]
            for asked in stage.model.asked
            for message in asked.request["messages"]
            for block in message["content"]
            if block["type"] == "image"
        ]
        assert images
        assert {(one["media_type"], base64.b64decode(one["data"])) for one in images} == {("image/png", png())}
        cards = [one for one in twin.shown if APPROVE in one.buttons]
        assert len(cards) == 1

        # A kill between a send and its note may repeat it, where a platform has no key: test_trouble.py has those cases.
        await until(lambda: len(worker.lines("sent")) >= 2)
        worker.kill()
        await worker.process.wait()
        again = await twin.follow_up(hook, mention, "and again, please")
        pressed = await twin.press(hook, cards[0], APPROVE)
        helped = await twin.command(hook, "/help")
        assert all(
            status in {200, 204} for said in (mention, picture, again, pressed, helped) for status in said.statuses
        )
        await stage.deskmate.start_worker()
        await until(lambda: stage.finals("AGAIN") and stage.finals("/new") and stage.finals("counts from now on"))
        [card] = [one for one in twin.shown if (one.room, one.id) == (cards[0].room, cards[0].id)]
        assert not card.buttons
        for word in ("NOTED", "PICTURE", "AGAIN", "counts from now on", "/new"):
            assert len([one for one in stage.finals(word) if one != card]) == 1, word
        assert not [one for one in twin.shown if one.is_growing]


LISTENING: Final = {"discord"}
"""Platforms that bring messages over a connection that we hold."""
MARKDOWN: Final = {"feishu", "discord", "wecom", "standard_webhooks"}
"""Platforms that read Markdown themselves."""
