"""A stream, with real processes: an answer grows in it, and the worker that began it is killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Stage, staged
from tests.harness.model_replies import says
from tests.harness.slack_twin import BOT_ID, BOT_USER, DIRECT, Message

WORDS = " ".join(f"**w{number}**" for number in range(25))


@pytest.fixture
async def stage(tmp_path: Path, redis_url: str) -> AsyncIterator[Stage]:
    async with staged(tmp_path, redis_url) as stage:
        yield stage


async def test_the_next_worker_makes_the_stream_of_a_dead_one_whole(stage: Stage) -> None:
    slack = stage.slack
    root = Message(DIRECT, "1760000000.000100", BOT_USER, "Hello!", "1760000000.000100", BOT_ID)
    slack.messages.append(root)
    stage.model.answer_with(lambda _: says(WORDS, deltas=25, between_s=0.1 if len(stage.model.asked) == 1 else 0.0))
    await stage.start()
    await slack.say(stage.hook, "hello?", channel=DIRECT, thread_ts=root.ts)
    await slack.until(lambda: "chat.appendStream" in slack.calls)
    stage.deskmate.running[-1].kill()
    [answer] = [one for one in slack.messages if one.streaming]
    await stage.deskmate.start_worker()
    await slack.until(lambda: answer.text == WORDS.replace("**", "*"))
    assert not answer.streaming
    assert [one for one in slack.messages if one.bot_id] == [root, answer]
    assert "chat.postMessage" not in slack.calls
    assert "assistant.threads.setStatus" in slack.calls
