"""The files of a channel, by real workers: one writes, another reads and runs a command, people get a file; no other channel has them."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.conftest import Stage
from tests.end_to_end.requests import results
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says

ORDERS = {
    "write it": ("write_file", {"path": "data/sales.csv", "content": "CANARY-7QX\n1\n2\n3\n"}),
    "read it": ("read_file", {"path": "data/sales.csv"}),
    "count it": ("run_command", {"command": "grep -c '[0-9]$' data/sales.csv | tee data/count.txt"}),
    "send it": ("send_file", {"path": "data/count.txt"}),
    "list it": ("list_files", {}),
}


def obey(asked: Asked) -> Reply:
    """It does what the last message says, and tells what came."""
    last = str(asked.request["messages"][-1])
    if "tool_result" in last:
        return says(f"Came: {results(asked)[-1]['content']}")
    wanted = next(order for order in ORDERS if order in last)
    return calls(*ORDERS[wanted])


@pytest.mark.sandbox
async def test_a_channels_files_are_there_for_every_worker_after_new_and_for_no_other_channel(stage: Stage) -> None:
    stage.model.answer_with(obey)
    tools = ["write_file", "read_file", "list_files", "run_command", "send_file"]
    await stage.start(workers=2, profile={"tools": tools})

    async def told(order: str, channel: str = "C0ONE", thread: str | None = None) -> str:
        before = len(stage.posts())
        await stage.slack.say(stage.hook, order, channel=channel, thread_ts=thread)
        await stage.slack.until(lambda: any("Came:" in one for one in stage.posts()[before:]))
        return "\n".join(stage.posts()[before:])

    assert "Wrote data/sales.csv" in await told("write it")
    thread = next(one.thread_ts for one in stage.slack.messages if one.bot_id and one.thread_ts)
    before = len(stage.posts())
    await stage.slack.say(stage.hook, "/new", channel="C0ONE", thread_ts=thread)
    await stage.slack.until(lambda: len(stage.posts()) > before)
    assert "CANARY-7QX" in await told("read it", thread=thread)
    assert "Wrote" not in str(stage.model.asked[-1].request["messages"])
    assert re.search(r"Exit code 0\.\W+stdout\W+3\W+Files written:\W+data/count\.txt", await told("count it"))
    assert "count.txt goes to the chat" in await told("send it")
    assert [content for content, _ in stage.slack.files.values()] == [b"3\n"]
    asked = len(stage.model.asked)
    assert "no files" in await told("list it", channel="C0TWO")
    assert "There are: none" in await told("read it", channel="C0TWO")
    assert "No such file" in await told("count it", channel="C0TWO")
    assert not [one for one in stage.model.asked[asked:] if b"CANARY-7QX" in one.body]
