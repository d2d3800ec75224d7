"""Workers are exchanged one after the other while people talk, as a deploy does it."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.end_to_end.conftest import Stage
from tests.harness.model_replies import says


async def test_workers_are_exchanged_under_load_and_nobody_notices(stage: Stage) -> None:
    """F29, F30: each message is answered once, no turn counts as one whose holder died, each old one ends well."""
    messages = 24
    stage.model.answer_with(lambda asked: says(f"re: {asked.text.split()[-1]}", before_s=0.3))
    await stage.start()
    await stage.deskmate.start_worker()
    old = [one for one in stage.deskmate.running if one.name == "worker"]
    exchanged = asyncio.Event()

    async def talk() -> None:
        for number in range(messages):
            await stage.slack.say(stage.hook, f"n{number}", thread_ts=None)
            if number > messages // 2:
                await exchanged.wait()

    talking = asyncio.create_task(talk())
    for worker in old:
        await stage.deskmate.start_worker()
        assert await worker.stop() == 0
    exchanged.set()
    await talking
    await stage.slack.until(lambda: len(stage.posts()) >= messages)
    assert Counter(stage.posts()) == Counter(f"re: n{number}" for number in range(messages))
    told = [line for one in stage.deskmate.running for line in one.lines("turn taken over")]
    assert not any(line["fields"]["tries"] for line in told)
