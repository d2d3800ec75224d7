"""`/skill list` where a platform has no fixed-width type."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Stage
from tests.end_to_end.stories.world import opened, skill
from tests.harness.webhook_twin import REPLY_SECRET, SECRET, WebhookTwin


async def test_without_fixed_width_type_each_skill_is_a_block_of_lines(
    stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = random.Random(request.config.getoption("randomly_seed"))
    stage.deskmate.environment |= {"BRIDGE_SECRET": SECRET, "BRIDGE_REPLY_SECRET": REPLY_SECRET}
    async with WebhookTwin() as chat:
        bridge = {
            "platform": "standard_webhooks",
            "secret": "$BRIDGE_SECRET",
            "reply_secret": "$BRIDGE_REPLY_SECRET",
            "reply_url": chat.url,
        }
        async with opened(stage, tmp_path, words, {"connections": {"bridge": bridge}}) as world:
            ids = [f"财务-{world.word()}/{'很长的名字' * 4}", world.word()]
            for id_ in ids:
                world.write(id_, skill(f"说明 {id_[-8:]}", "x", version="2.1"))
            await world.reload()
            shown = (await chat.reply_to(await chat.say(stage.deskmate.hook("bridge"), "/skill list"))).text
    lines = shown.split("\n")
    for id_ in [*ids, "web-access"]:
        at = lines.index(f"● {id_}")
        assert ("builtin" if id_ == "web-access" else "org") in lines[at + 1]
        assert lines[at + 2].strip()
