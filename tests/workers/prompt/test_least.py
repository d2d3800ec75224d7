"""The least that a budget may be: what is told beside what really happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.workers.at_desk import at_desk
from workers.prompt.least import too_small


def least_of(what: str) -> int:
    return int(re.findall(r"wanted: ([\d,]+) tokens or more", what)[0].replace(",", ""))


async def test_below_it_nobody_is_answered_and_from_it_on_somebody_is(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    def profile(tokens: int) -> dict[str, Any]:
        tools = ["load_skill", "current_time", "web_fetch"]
        return {"skills": ["*"], "tools": tools, "budget": {"channel": {"month": {"tokens": tokens}}}}

    async def told(folder: str, tokens: int) -> tuple[list[str], list[str]]:
        (tmp_path / folder).mkdir()
        async with at_desk(tmp_path / folder, redis_url, f"{layout.prefix}{folder}", profile=profile(tokens)) as world:
            world.model.answer_with(says("Well."))
            warned = [str(one) for one in await too_small(await world.desk.watched.current())]
            return warned, await world.ask("What is the matter?", actor=Actor("U-1", "Somebody"))

    [warned], _ = await told("a", 10)
    assert "budget.channel.month.tokens" in warned
    least = least_of(warned)
    [again], [refused] = await told("b", least - 1)
    assert least_of(again) == least
    assert "now or later" in refused, "it can't ask the model"
    assert await told("c", least) == ([], ["Well."])
