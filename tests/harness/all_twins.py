"""The stand-in of each platform, by the platform's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.harness.discord_twin import DiscordTwin
from tests.harness.feishu_twin import FeishuTwin
from tests.harness.slack_twin import Workspace
from tests.harness.telegram_twin import TelegramTwin
from tests.harness.twins import Twin
from tests.harness.webhook_twin import Bridge
from tests.harness.wecom_twin import WecomTwin

TWINS: Final[dict[str, Callable[[], Twin]]] = {
    "slack": Workspace,
    "telegram": TelegramTwin,
    "feishu": FeishuTwin,
    "discord": DiscordTwin,
    "wecom": WecomTwin,
    "standard_webhooks": Bridge,
}
