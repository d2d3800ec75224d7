"""A message in, a reply out: real processes, strict stand-ins."""

from __future__ import annotations

import asyncio
import itertools
import json

from aiohttp import web

from tests.end_to_end.conftest import Stage
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import until
from tests.harness.web import site


async def test_a_mention_gets_one_reply_in_its_thread_however_often_it_is_delivered(stage: Stage) -> None:
    stage.model.answer_with(says("**Good** morning.", deltas=5))
    await stage.start()
    said = await stage.slack.say(stage.hook, "good morning?")
    reply = await stage.slack.reply_to(said)
    assert "Good" in reply.text
    assert reply.thread_ts == said.ts
    again = stage.slack.envelope(
        {"user": "U1", "type": "app_mention", "ts": said.ts, "text": "x", "channel": said.channel}
    )
    assert await asyncio.gather(*(stage.slack.deliver(stage.hook, again) for _ in range(4))) == [[200]] * 4
    second = await stage.slack.say(stage.hook, "and?", thread_ts=said.ts)
    await stage.slack.reply_to(second)
    assert len(stage.posts()) == 2
    assert len(stage.model.asked) == 2


async def test_a_tool_turn_records_each_step_and_each_request_begins_with_the_one_before(stage: Stage) -> None:
    def script(asked: Asked) -> Reply:
        results = [
            one for one in asked.request["messages"] if one["role"] == "user" and "tool_result" in json.dumps(one)
        ]
        if "again" in asked.text:
            return says("Once more.")
        return [calls("load_skill", {"name": "web-access"}), calls("current_time"), says("It is noon.")][len(results)]

    stage.model.answer_with(script)
    await stage.start()
    said = await stage.slack.say(stage.hook, "what time is it?")
    assert "noon" in (await stage.slack.reply_to(said)).text
    await stage.slack.reply_to(await stage.slack.say(stage.hook, "again", thread_ts=said.ts))
    requests = [asked.request for asked in stage.model.asked]
    assert len(requests) == 4
    for before, after in itertools.pairwise(requests):
        assert (before["system"], before["tools"]) == (after["system"], after["tools"])
        blocks = [[json.dumps(block) for block in message["content"]] for message in after["messages"]]
        for index, message in enumerate(before["messages"]):
            assert blocks[index][: len(message["content"])] == [json.dumps(block) for block in message["content"]]
    batch = requests[1]["messages"][2]["content"]
    assert [block["type"] for block in batch] == ["tool_result", "text"]
    assert "web-access" in batch[1]["text"]


async def test_a_tool_that_the_profile_does_not_list_is_refused_at_the_call(stage: Stage) -> None:
    def script(asked: Asked) -> Reply:
        return (
            says("Sorry.") if "tool_result" in asked.body.decode() else calls("web_fetch", {"url": "http://127.0.0.1/"})
        )

    stage.model.answer_with(script)
    await stage.start(profile={"tools": ["current_time"]})
    await stage.slack.reply_to(await stage.slack.say(stage.hook, "fetch it"))
    assert [tool["name"] for tool in stage.model.asked[0].request["tools"]] == ["current_time"]
    result = stage.model.asked[1].request["messages"][-1]["content"][0]
    assert result["is_error"]
    assert "no tool 'web_fetch'" in result["content"]


async def test_a_tool_that_is_added_to_a_profile_is_offered_without_a_restart(stage: Stage) -> None:
    def offered() -> set[str]:
        return {tool["name"] for tool in stage.model.asked[-1].request.get("tools", ())}

    async def say_until(has_it: bool) -> None:
        async with asyncio.timeout(60):
            while ("web_fetch" in offered()) is not has_it:
                await stage.slack.reply_to(await stage.slack.say(stage.hook, "and now?"))

    stage.model.answer_with(says("Here."))
    await stage.start(profile={"tools": ["current_time"]})
    await stage.slack.reply_to(await stage.slack.say(stage.hook, "first"))
    assert offered() == {"current_time"}
    stage.set(profile={"tools": ["current_time", "web_fetch"]})
    await say_until(has_it=True)
    stage.set({"model": {"name": "another"}}, profile={"tools": ["current_time"]})
    await say_until(has_it=False)
    assert {asked.request["model"] for asked in stage.model.asked} == {"fake"}


async def test_a_tool_that_is_taken_out_of_a_profile_is_refused_in_the_turn_that_runs(stage: Stage) -> None:
    taken_out = asyncio.Event()

    def script(asked: Asked) -> Reply:
        last = asked.request["messages"][-1]["content"]
        if any(block.get("is_error") for block in last if isinstance(block, dict)):
            return says("It is gone.")
        if "tool_result" in asked.body.decode():
            return calls("current_time", hold=taken_out, before_s=0.2)
        return calls("current_time")

    stage.model.answer_with(script)
    limits = {"steps": 1_000}
    await stage.start(profile={"tools": ["current_time"], "limits": limits})
    await stage.slack.say(stage.hook, "what time is it?")
    await stage.model.until(lambda: len(stage.model.asked) == 2)
    stage.set(profile={"tools": [], "limits": limits})
    taken_out.set()
    await stage.slack.until(lambda: any("It is gone." in post for post in stage.posts()))
    offered = [asked.request["tools"] for asked in stage.model.asked]
    assert all(one == offered[0] for one in offered), "a turn's requests go on from one another"
    assert len(offered) < 20


async def test_two_messages_of_one_conversation_are_answered_one_after_the_other(stage: Stage) -> None:
    stage.model.answer_with(lambda asked: says(f"answer to {asked.text.split()[-1]}", before_s=0.4))
    await stage.start(workers=2)
    first = await stage.slack.say(stage.hook, "number one")
    await stage.slack.say(stage.hook, "number two", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert stage.posts() == ["answer to one", "answer to two"]
    roles = [(one["role"], one["content"][0]["text"]) for one in stage.model.asked[1].request["messages"]]
    assert [role for role, _ in roles] == ["user", "assistant", "user"]
    assert roles[1][1] == "answer to one"


async def test_steer_takes_a_newcomer_into_the_running_turn(stage: Stage) -> None:
    hold = asyncio.Event()

    def script(asked: Asked) -> Reply:
        if "tool_result" in asked.body.decode():
            return says("both done")
        return calls("current_time", hold=hold)

    stage.model.answer_with(script)
    await stage.start(profile={"queue": {"mode": "steer"}})
    first = await stage.slack.say(stage.hook, "begin")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    await stage.slack.say(stage.hook, "oh, and this", thread_ts=first.ts)
    hold.set()
    await stage.slack.reply_to(first)
    last = stage.model.asked[1].request["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert "oh, and this" in last[1]["text"]
    assert stage.posts() == ["both done"]


async def test_interrupt_drops_the_running_answer_and_answers_both(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(
        lambda asked: says("answered both") if "stop that" in asked.body.decode() else says("too late", hold=hold)
    )
    await stage.start(profile={"queue": {"mode": "interrupt"}})
    first = await stage.slack.say(stage.hook, "begin")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    await stage.slack.say(stage.hook, "stop that, do this", thread_ts=first.ts)
    await stage.slack.reply_to(first)
    assert stage.posts() == ["answered both"]
    hold.set()


async def test_collect_answers_what_came_meanwhile_in_one_turn(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("first", hold=hold) if len(stage.model.asked) == 1 else says("the rest"))
    await stage.start(profile={"queue": {"mode": "collect"}})
    first = await stage.slack.say(stage.hook, "one")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    for text in ("two", "three"):
        await stage.slack.say(stage.hook, text, thread_ts=first.ts)
    hold.set()
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert stage.posts() == ["first", "the rest"]
    texts = [block["text"] for block in stage.model.asked[1].request["messages"][-1]["content"]]
    assert ["two" in texts[0], "three" in texts[1]] == [True, True]


async def test_quiet_time_makes_one_turn_of_a_paste(stage: Stage) -> None:
    stage.model.answer_with(says("all of it"))
    await stage.start(profile={"queue": {"gather_ms": 400}})
    first = await stage.slack.say(stage.hook, "part one")
    for text in ("part two", "part three"):
        await stage.slack.say(stage.hook, text, thread_ts=first.ts)
    await stage.slack.reply_to(first)
    assert len(stage.model.asked) == 1
    assert len(stage.model.asked[0].request["messages"][0]["content"]) == 3


async def test_stop_ends_a_running_turn_within_two_seconds_and_the_next_message_is_answered(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda asked: says("4") if "2+2" in asked.body.decode() else says("never", hold=hold))
    await stage.start()
    first = await stage.slack.say(stage.hook, "a long story")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    await stage.slack.say(stage.hook, "/stop", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 1, 2.5)
    assert stage.posts() == ["Stopped."]
    await stage.slack.say(stage.hook, "what is 2+2?", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert stage.posts()[1] == "4"
    await stage.slack.say(stage.hook, "/stop", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 3)
    assert "Nothing is running" in stage.posts()[2]
    hold.set()


async def test_commands_and_empty_mentions_are_answered_without_the_model(stage: Stage) -> None:
    await stage.start()
    first = await stage.slack.say(stage.hook, "/help")
    assert "/stop" in (await stage.slack.reply_to(first)).text
    second = await stage.slack.say(stage.hook, "")
    assert "Hello" in (await stage.slack.reply_to(second)).text
    third = await stage.slack.say(stage.hook, "/nonsense")
    assert "no command /nonsense" in (await stage.slack.reply_to(third)).text
    assert not stage.model.asked


async def test_new_forgets_what_was_said(stage: Stage) -> None:
    stage.model.answer_with(says("ok"))
    await stage.start()
    first = await stage.slack.say(stage.hook, "remember 4711")
    await stage.slack.until(lambda: len(stage.posts()) == 1)
    await stage.slack.say(stage.hook, "/new", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    await stage.slack.say(stage.hook, "which number?", thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 3)
    assert b"4711" not in stage.model.asked[1].body


async def test_an_unaddressed_message_in_a_known_thread_goes_on_and_elsewhere_is_ignored(stage: Stage) -> None:
    stage.model.answer_with(says("yes"))
    await stage.start()
    await stage.slack.say(stage.hook, "nobody asked you", mention=False)
    first = await stage.slack.say(stage.hook, "hello")
    await stage.slack.reply_to(first)
    await until(lambda: bool(stage.deskmate.running[-1].lines("sent")))  # the chat has it before we have noted it
    await stage.slack.say(stage.hook, "still there?", mention=False, thread_ts=first.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert not stage.asked_with("nobody asked you")
    gateway = stage.deskmate.running[0]
    outcomes = [(line["fields"]["outcome"], line["fields"].get("reason")) for line in gateway.lines("message")]
    assert ("ignored", "not addressed") in outcomes


async def test_conversations_of_several_partitions_are_served_by_all_workers(stage: Stage) -> None:
    stage.model.answer_with(lambda asked: says(f"re {asked.text.split()[-1]}", before_s=0.2))
    await stage.start(
        workers=2,
        settings={
            "redis": {"partitions": 3},
            "mailbox": {"batch": 2, "poll_s": 0.3, "lease_s": 1.5, "send_timeout_s": 0.8},
        },
    )
    for number in range(12):
        await stage.slack.say(stage.hook, f"n{number}")
    await stage.slack.until(lambda: len(stage.posts()) == 12)
    assert sorted(stage.posts()) == sorted(f"re n{number}" for number in range(12))
    served = [len(worker.lines("turn")) for worker in stage.deskmate.running[1:]]
    assert all(served), served


async def test_stop_while_a_tool_runs_gives_the_call_a_result_and_the_next_question_an_answer(stage: Stage) -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        reached.set()
        await hold.wait()
        return web.Response(text="late")

    reached, hold = asyncio.Event(), asyncio.Event()

    def script(asked: Asked) -> Reply:
        if "2+2" in asked.body.decode():
            return says("4")
        uses = [{"type": "tool_use", "name": "current_time", "input": {}}]
        uses.append({"type": "tool_use", "name": "web_fetch", "input": {"url": f"http://127.0.0.1:{port}/"}})
        return Reply(uses, stop_reason="tool_use")

    async with site({"/": slow}) as port:
        stage.model.answer_with(script)
        await stage.start(settings={"tools": {"web_fetch": {"allow_private": [f"127.0.0.1:{port}"]}}})
        first = await stage.slack.say(stage.hook, "the slow report")
        await reached.wait()
        await stage.slack.say(stage.hook, "/stop", thread_ts=first.ts)
        await stage.slack.until(lambda: stage.posts() == ["Stopped."], 3)
        hold.set()
        await stage.slack.say(stage.hook, "what is 2+2?", thread_ts=first.ts)
        await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert stage.posts()[1] == "4"
    results = stage.asked_with("2+2")[0].request["messages"][2]["content"]
    assert "is_error" not in results[0], "the one that had ended is kept"
    assert "may have run in part" in results[1]["content"]
