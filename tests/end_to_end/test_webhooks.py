"""A program as a chat platform: signed events in, signed replies out, with everything that its end may do to us."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.end_to_end.conftest import Stage
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, fails, says
from tests.harness.processes import until
from tests.harness.webhook_twin import REPLY_SECRET, SECRET, WebhookTwin


@pytest.fixture
async def chat() -> AsyncIterator[WebhookTwin]:
    async with WebhookTwin() as twin:
        yield twin


async def start(stage: Stage, chat: WebhookTwin, *, bridge: dict[str, Any] | None = None, **more: Any) -> str:
    """Everything runs; gives the address for events."""
    whole = {
        "platform": "standard_webhooks",
        "secret": "$BRIDGE_SECRET",
        "reply_secret": "$BRIDGE_REPLY_SECRET",
        "reply_url": chat.url,
        "stream_interval_ms": 20,
        "timeout_s": 0.7,
        **(bridge or {}),
    }
    stage.deskmate.environment |= {"BRIDGE_SECRET": SECRET, "BRIDGE_REPLY_SECRET": REPLY_SECRET}
    settings = {"connections": {"bridge": whole}, **more.pop("settings", {})}
    await stage.start(settings=settings, **more)
    return stage.deskmate.hook("bridge")


async def test_an_event_gets_one_signed_reply_and_its_repetitions_none(stage: Stage, chat: WebhookTwin) -> None:
    stage.model.answer_with(says("**Good** morning."))
    hook = await start(stage, chat)
    said = await chat.say(hook, "good morning?", thread="t1")
    reply = await chat.reply_to(said)
    assert reply.data == {
        "conversation": "room-1",
        "thread": "t1",
        "user": None,
        "in_reply_to": said.message_id,
        "text": "**Good** morning.",
        "part": 1,
        "parts": 1,
        "notice": False,
    }
    again = await asyncio.gather(
        *(chat.say(hook, "good morning?", thread="t1", message_id=said.message_id) for _ in "123")
    )
    assert [one.statuses for one in again] == [[200]] * 3
    await chat.reply_to(await chat.say(hook, "and?", thread="t1"))
    assert [one.text for one in chat.taken] == ["**Good** morning."] * 2
    assert (len(stage.model.asked), chat.refused, chat.repeated) == (2, [], [])


async def test_a_growing_answer_is_shown_with_its_steps_and_whole_each_time(stage: Stage, chat: WebhookTwin) -> None:
    def script(_: Asked) -> Reply:
        step = len(stage.model.asked)
        if step == 3:
            return says("One two three four five six.", deltas=6, between_s=0.05)
        return [calls("load_skill", {"name": "web-access"}), calls("current_time")][step - 1]

    stage.model.answer_with(script)
    hook = await start(stage, chat)
    reply = await chat.reply_to(await chat.say(hook, "count"))
    assert reply.text == "One two three four five six."
    steps = [[(one["kind"], one["name"], one["state"]) for one in update.data["steps"]] for update in chat.updates]
    assert steps[-1] == [("skill", "web-access", "done"), ("tool", "current_time", "done")]
    shown = [update.text for update in chat.updates if update.text]
    assert len(shown) > 2
    for before, after in itertools.pairwise([*shown, reply.text]):
        assert after.startswith(before)
    assert {update.data["in_reply_to"] for update in chat.updates} == {reply.data["in_reply_to"]}
    assert max(update.at_s for update in chat.updates) <= reply.at_s
    assert not chat.refused


async def test_steps_that_are_over_at_once_are_shown_all_the_same(stage: Stage, chat: WebhookTwin) -> None:
    stage.model.answer_with(
        lambda asked: says("Noon.") if "tool_result" in asked.body.decode() else calls("current_time")
    )
    hook = await start(stage, chat, bridge={"stream_interval_ms": 10_000})
    await chat.reply_to(await chat.say(hook, "time?"))
    assert [update.data["steps"] for update in chat.updates] == [
        [{"kind": "tool", "name": "current_time", "state": "done"}]
    ]
    assert chat.updates[0].at_s <= chat.taken[0].at_s
    await chat.reply_to(await chat.say(hook, "no tool: tool_result"))
    assert len(chat.updates) == 1, "an answer that is quick comes as one message"


async def test_a_tool_that_fails_is_shown_as_failed(stage: Stage, chat: WebhookTwin) -> None:
    stage.model.answer_with(
        lambda asked: (
            says("No.", before_s=0.2)
            if "tool_result" in asked.body.decode()
            else calls("web_fetch", {"url": "http://127.0.0.1:1/"})
        )
    )
    hook = await start(stage, chat)
    await chat.reply_to(await chat.say(hook, "fetch"))
    assert ("web_fetch", "failed") in {
        (step["name"], step["state"]) for update in chat.updates for step in update.data["steps"]
    }


async def test_a_long_answer_comes_in_parts_each_once_and_in_order(stage: Stage, chat: WebhookTwin) -> None:
    text = "\n\n".join(f"Paragraph {number} says something." for number in range(40))
    stage.model.answer_with(says(text))
    hook = await start(stage, chat, bridge={"text_limit": 200})
    chat.next(status=503, on="reply.completed")
    said = await chat.say(hook, "tell")
    await chat.reply_to(said)
    parts = chat.taken[0].data["parts"]
    await chat.until(lambda: len(chat.taken) == parts)
    assert parts > 4
    assert [one.data["part"] for one in chat.taken] == list(range(1, parts + 1))
    assert len({one.webhook_id for one in chat.taken}) == parts
    assert "".join(one.text for one in chat.taken) == text


async def test_a_worker_killed_after_its_send_leaves_one_message_for_whoever_looks_at_the_id(
    stage: Stage, chat: WebhookTwin
) -> None:
    stage.model.answer_with(says("once"))
    hook = await start(stage, chat)
    chat.next(hang=True, taken=True, on="reply.completed")  # it has the reply, and the worker dies before it hears so
    said = await chat.say(hook, "hello?")
    await chat.reply_to(said)
    stage.deskmate.running[-1].kill()
    await stage.deskmate.start_worker()
    await chat.until(lambda: chat.repeated)
    assert chat.repeated == [chat.taken[0].webhook_id]
    await chat.reply_to(await chat.say(hook, "more"))
    assert [one.text for one in chat.taken] == ["once", "once"]
    assert len(stage.model.asked) == 2


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503},
        {"status": 500},
        {"status": 404},
        {"status": 429, "retry_after": 1},
        {"close": True},
        {"hang": True},
    ],
    ids=repr,
)
async def test_a_consumer_in_trouble_gets_the_same_id_again_until_it_has_the_reply(
    stage: Stage, chat: WebhookTwin, fault: dict[str, Any]
) -> None:
    stage.model.answer_with(says("patience"))
    hook = await start(stage, chat)
    chat.next(**fault, times=2, on="reply.completed")
    reply = await chat.reply_to(await chat.say(hook, "hello?"))
    worker = stage.deskmate.running[-1]
    await until(lambda: bool(worker.lines("sent")))
    assert not chat.faults.waiting
    assert [one.webhook_id for one in chat.taken] == [reply.webhook_id]
    assert len(stage.model.asked) == 1


async def test_a_consumer_that_is_gone_is_told_nothing_more_and_the_operator_knows(
    stage: Stage, chat: WebhookTwin
) -> None:
    stage.model.answer_with(says("nobody hears"))
    hook = await start(stage, chat)
    chat.next(status=410, on="reply.completed")
    await chat.say(hook, "hello?")
    worker = stage.deskmate.running[-1]
    await until(lambda: bool(worker.lines("send given up")))
    assert worker.lines("send given up")[-1]["fields"]["reason"] == "target_gone"
    code, shown = await stage.deskmate.run("status", "--json")
    assert code == 0
    assert "send target_gone" in shown
    await chat.reply_to(await chat.say(hook, "and now?"))
    assert len(chat.taken) == 1


@pytest.mark.parametrize(
    ("language", "profile", "told"),
    [
        (None, None, "can't be reached"),
        ("zh-CN", None, "目前无法连接模型"),
        ("zh_TW", None, "目前无法连接模型"),
        ("de", None, "can't be reached"),
        ("en-GB", "zh", "目前无法连接模型"),
        ("zh-CN", "en", "can't be reached"),
    ],
)
async def test_notices_speak_the_profiles_language_else_the_persons(
    stage: Stage, chat: WebhookTwin, language: str | None, profile: str | None, told: str
) -> None:
    stage.model.answer_with(fails(529, "overloaded_error"))
    hook = await start(
        stage,
        chat,
        settings={"model": {"retry_for_s": 0.0, "max_retries": 0}},
        profile={"language": profile} if profile else {},
    )
    reply = await chat.reply_to(await chat.say(hook, "hello?", language=language))
    assert told in reply.text
    assert reply.data["notice"]


async def test_commands_answer_in_chinese_without_the_model(stage: Stage, chat: WebhookTwin) -> None:
    hook = await start(stage, chat)
    assert "可用命令" in (await chat.reply_to(await chat.say(hook, "/help", language="zh-CN"))).text
    assert "没有正在运行" in (await chat.reply_to(await chat.say(hook, "/stop", language="zh-CN"))).text
    assert not stage.model.asked


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_message_may_name_its_reply_address_only_where_the_operator_allows_it(
    stage: Stage, chat: WebhookTwin, *, allowed: bool
) -> None:
    stage.model.answer_with(says("here"))
    async with WebhookTwin() as elsewhere:
        hook = await start(stage, chat, bridge={"reply_origins": [elsewhere.origin]} if allowed else {})
        receiver = elsewhere if allowed else chat
        await receiver.reply_to(await chat.say(hook, "hello?", reply_url=elsewhere.url))
        assert (len(chat.taken), len(elsewhere.taken)) == ((0, 1) if allowed else (1, 0))
