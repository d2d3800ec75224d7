"""A deployment of real processes, a strict model and a strict Slack, for each test its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.deployment import Deployment
from tests.harness.fake_model import KEY, FakeModel
from tests.harness.slack_twin import BOT_TOKEN, SIGNING_SECRET, SlackTwin

QUICK = {"lease_s": 1.5, "poll_s": 0.3, "send_timeout_s": 0.8}
"""Waits of a test run: a dead worker is missed after 1.5 s instead of 6."""
PROFILE = {"skills": ["*"], "tools": ["load_skill", "web_fetch", "current_time"], "instructions": "You are a test."}


WITHIN_S = 240
"""For a whole test on a busy machine. A wait within it fails first, and says for what."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(WITHIN_S))


@dataclass
class Stage:
    """Who plays in an end-to-end test."""

    deskmate: Deployment
    model: FakeModel
    slack: SlackTwin

    @property
    def hook(self) -> str:
        return self.deskmate.hook("slack-main")

    @property
    def slack_settings(self) -> dict[str, Any]:
        """Of the connection."""
        return {
            "platform": "slack",
            "api_base": self.slack.url,
            "signing_secret": "$SLACK_SECRET",
            "bot_token": "$SLACK_TOKEN",
            "timeout_s": 0.7,
            "messages_per_s": 0,
        }

    def set(self, settings: dict[str, Any] | None = None, profile: dict[str, Any] | None = None) -> None:
        """Settings and profile beyond the usual; before anything is started."""
        usual: dict[str, Any] = {
            "model": {"provider": "anthropic", "name": "fake", "base_url": self.model.url, "api_key": "$MODEL_KEY"},
            "mailbox": QUICK,
            "worker": {"grace_s": 10},
            "connections": {"slack-main": self.slack_settings},
        }
        for name, part in (settings or {}).items():
            usual[name] = {**usual.get(name, {}), **part} if isinstance(part, dict) else part
        self.deskmate.write(usual, {**PROFILE, **(profile or {})})

    async def start(self, workers: int = 1, **more: Any) -> None:
        self.set(**more)
        await self.deskmate.start_gateway()
        for _ in range(workers):
            await self.deskmate.start_worker()

    def asked_with(self, text: str) -> list[Any]:
        """Requests to the model that hold this text."""
        return [asked for asked in self.model.asked if text.encode() in asked.body]

    def posts(self) -> list[str]:
        """What we said in Slack, in order, each message as it stands now."""
        return [message.text for message in self.slack.messages if message.bot_id]


@asynccontextmanager
async def staged(folder: Path, redis_url: str) -> AsyncIterator[Stage]:
    """The stand-ins, and a deployment of which nothing runs yet."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(FakeModel())
        slack = await stack.enter_async_context(SlackTwin())
        environment = {"MODEL_KEY": KEY, "SLACK_SECRET": SIGNING_SECRET, "SLACK_TOKEN": BOT_TOKEN}
        deskmate = await stack.enter_async_context(Deployment(folder, redis_url, {}, environment))
        yield Stage(deskmate, model, slack)


@pytest.fixture
async def stage(tmp_path: Path, redis_url: str) -> AsyncIterator[Stage]:
    async with staged(tmp_path, redis_url) as stage:
        yield stage
