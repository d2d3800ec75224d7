"""Crashes, outages and refusals: nothing lost, nothing twice, nobody left in silence."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Sized
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from config.settings import MailboxSettings, RedisSettings, RqSettings, Settings
from gateway.bell import open_bell
from gateway.conversation.deaths import ALONE_AFTER, BURY_AFTER, SOLE_AFTER
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.running.embedded import embedded
from gateway.store import Layout, open_store
from tests.end_to_end.conftest import QUICK, Stage
from tests.harness.deployment import free_port
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, fails, says
from tests.harness.processes import until
from tests.harness.proxy import Proxy
from tests.harness.slack_twin import DIRECT, TEAM

POISONS = 3


async def test_a_worker_killed_while_the_model_speaks_is_replaced_by_another_that_answers_once(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("first try", hold=hold) if len(stage.model.asked) == 1 else says("answered"))
    await stage.start()
    doomed = stage.deskmate.running[-1]
    said = await stage.slack.say(stage.hook, "hello?")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    doomed.kill()
    await stage.deskmate.start_worker()
    reply = await stage.slack.reply_to(said)
    assert reply.text == "answered"
    hold.set()
    assert stage.posts() == ["answered"]


async def test_a_worker_killed_after_a_tool_is_followed_by_one_that_goes_on_from_there(stage: Stage) -> None:
    hold = asyncio.Event()

    def script(asked: Asked) -> Reply:
        if "tool_result" not in asked.body.decode():
            return calls("current_time")
        return says("never seen", hold=hold) if len(stage.model.asked) == 2 else says("done")

    stage.model.answer_with(script)
    await stage.start()
    said = await stage.slack.say(stage.hook, "time?")
    await stage.model.until(lambda: len(stage.model.asked) == 2)
    stage.deskmate.running[-1].kill()
    await stage.deskmate.start_worker()
    assert (await stage.slack.reply_to(said)).text == "done"
    assert len(stage.model.asked) == 3, "the first step is not asked for again"
    assert stage.model.asked[1].request["messages"] == stage.model.asked[2].request["messages"]
    hold.set()


async def test_a_worker_paused_past_its_lease_says_nothing_when_it_wakes(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("late", hold=hold) if len(stage.model.asked) == 1 else says("in time"))
    await stage.start()
    sleeper = stage.deskmate.running[-1]
    said = await stage.slack.say(stage.hook, "hello?")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    sleeper.signal(signal.SIGSTOP)
    await stage.deskmate.start_worker()
    assert (await stage.slack.reply_to(said)).text == "in time"
    sleeper.signal(signal.SIGCONT)
    hold.set()
    await until(lambda: bool(sleeper.lines("claim lost")))
    assert stage.posts() == ["in time"]


async def heard(stage: Stage, within_s: float) -> None:
    """Ring, and wait until a worker has taken the bell."""
    bell = open_bell(stage.deskmate.redis_url, RqSettings(key_prefix=f"{stage.deskmate.prefix}:rq"), wait_s=1)
    bell.ring(0)
    await bell.close()
    async with Redis.from_url(stage.deskmate.redis_url) as redis, asyncio.timeout(within_s):
        while await redis.exists(bell.queue_key):
            await asyncio.sleep(0.05)


async def test_f66_bells_are_heard_again_where_the_line_to_them_died_and_nobody_said_so(stage: Stage) -> None:
    """F66: meanwhile work is found by looking for it."""
    stage.model.answer_with(says("found"))
    async with Proxy(stage.deskmate.redis_url) as proxy:
        stage.deskmate.environment["BELLS"] = proxy.redis_url
        await stage.start(settings={"rq": {"url": "$BELLS"}})
        await heard(stage, 10)
        proxy.half_open()
        said = await stage.slack.say(stage.hook, "hello?")
        assert (await stage.slack.reply_to(said)).text == "found"
        await heard(stage, 30)  # it takes 7 s, and as long as a busy machine wants
        assert stage.posts() == ["found"]


async def test_a_worker_that_stood_still_past_its_lease_counts_it_and_goes_on(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("in the end", hold=hold))
    await stage.start()
    worker = stage.deskmate.running[-1]
    said = await stage.slack.say(stage.hook, "hello?")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(QUICK["lease_s"] * 1.5)  # nothing tells that it is long enough
    worker.signal(signal.SIGCONT)
    await until(lambda: bool(worker.lines("turn taken over")))
    assert worker.lines("turn taken over")[0]["fields"]["tries"] == 1
    hold.set()
    assert (await stage.slack.reply_to(said)).text == "in the end"


async def test_a_gateway_killed_under_load_loses_nothing_that_it_took(stage: Stage) -> None:
    stage.model.answer_with(lambda asked: says(f"re: {asked.text.split()[-1]}"))
    await stage.start()

    async def talk(number: int) -> None:
        await stage.slack.say(stage.hook, f"n{number}", thread_ts=None)

    talking = [asyncio.create_task(talk(number)) for number in range(20)]
    await until(lambda: len(stage.model.asked) > 2)
    stage.deskmate.running[0].kill()
    await stage.deskmate.start_gateway()
    await asyncio.gather(*talking)
    await stage.slack.until(lambda: len(stage.posts()) >= 20)
    assert sorted(stage.posts()) == sorted(f"re: n{number}" for number in range(20))


async def test_the_first_stop_signal_finishes_what_runs_and_leaves_the_rest_for_others(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda asked: says("finished", hold=hold) if "one" in asked.text else says("by another"))
    await stage.start()
    worker = stage.deskmate.running[-1]
    first = await stage.slack.say(stage.hook, "one")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    stopping = asyncio.create_task(worker.stop())
    await until(lambda: bool(worker.lines("draining")))
    second = await stage.slack.say(stage.hook, "two")
    hold.set()
    assert (await stage.slack.reply_to(first)).text == "finished"
    assert await stopping == 0
    assert not stage.asked_with("two")
    await stage.deskmate.start_worker()
    assert (await stage.slack.reply_to(second)).text == "by another"


async def test_a_turn_longer_than_the_grace_time_is_handed_over_at_once(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(lambda _: says("never", hold=hold) if len(stage.model.asked) == 1 else says("by another"))
    await stage.start(settings={"worker": {"grace_s": 0.3}, "mailbox": {"lease_s": 60}})
    said = await stage.slack.say(stage.hook, "one")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    assert await stage.deskmate.running[-1].stop() == 0
    await stage.deskmate.start_worker()
    assert (await stage.slack.reply_to(said)).text == "by another"
    hold.set()


async def test_suspended_workers_take_nothing_until_they_are_resumed(stage: Stage) -> None:
    stage.model.answer_with(says("here"))
    await stage.start()
    code, shown = await stage.deskmate.run("rq", "suspend")
    assert code == 0, shown

    async def state() -> str:
        return (await stage.deskmate.run("rq", "info", "--only-workers"))[1]

    async with asyncio.timeout(60):
        while "suspended" not in await state():
            pass
    said = await stage.slack.say(stage.hook, "anybody?")
    assert "1 worker" in await state()
    assert not stage.model.asked
    assert (await stage.deskmate.run("rq", "resume"))[0] == 0
    await stage.slack.reply_to(said)


async def test_rq_tells_of_a_busy_worker_and_can_shut_it_down(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(says("done", hold=hold))
    await stage.start()
    said = await stage.slack.say(stage.hook, "work")
    async with asyncio.timeout(60):
        while "busy" not in (await stage.deskmate.run("rq", "info", "--only-workers"))[1]:
            pass
    worker = stage.deskmate.running[-1]
    name = worker.lines("worker ready")[0]["fields"]["worker"]
    async with Redis.from_url(stage.deskmate.redis_url) as redis:
        await redis.publish(f"{stage.deskmate.prefix}:rq:pubsub:{name}", json.dumps({"command": "shutdown"}))
    hold.set()
    await stage.slack.reply_to(said)
    async with asyncio.timeout(60):
        assert await worker.process.wait() == 0


async def test_when_redis_is_gone_messages_get_503_and_all_is_served_when_it_is_back(
    stage: Stage, tmp_path: Path
) -> None:
    stage.model.answer_with(says("served"))
    settings = Settings(data=tmp_path / "store", redis=RedisSettings())
    async with embedded(settings) as url:
        stage.deskmate.redis_url = url
        await stage.start()
        first = await stage.slack.say(stage.hook, "before")
        await stage.slack.reply_to(first)
        async with Redis.from_url(url) as redis:
            server = int((await redis.info("server"))["process_id"])
        os.kill(server, signal.SIGSTOP)
        event = {"user": "U1", "type": "message", "channel_type": "im", "ts": "1760000000.000009", "text": "hi"}
        raw = stage.slack.envelope({**event, "channel": DIRECT})
        answers = await stage.slack.deliver(stage.hook, raw)
        assert set(answers) <= {503, 0}
        os.kill(server, signal.SIGCONT)
        assert (await stage.slack.deliver(stage.hook, raw))[-1] == 200
        await stage.slack.until(lambda: len(stage.posts()) == 2)
        assert stage.posts() == ["served", "served"]


async def test_a_model_that_is_away_leads_to_a_notice_and_an_operators_line(stage: Stage) -> None:
    stage.model.answer_with(fails(529, "overloaded_error"))
    await stage.start(settings={"model": {"retry_for_s": 1.0, "max_retries": 0}})
    said = await stage.slack.say(stage.hook, "hello?")
    assert "can't be reached" in (await stage.slack.reply_to(said)).text
    assert "529" in stage.deskmate.running[-1].lines("model failed")[-1]["fields"]["reason"]
    stage.model.answer_with(says("back"))
    again = await stage.slack.say(stage.hook, "and now?", thread_ts=said.ts)
    await stage.slack.until(lambda: "back" in stage.posts())
    assert again.statuses[-1] == 200


async def test_a_passing_fault_of_the_model_is_not_seen_by_the_person(stage: Stage) -> None:
    stage.model.answer_with(lambda _: fails(500) if len(stage.model.asked) <= 2 else says("fine"))
    await stage.start()
    assert (await stage.slack.reply_to(await stage.slack.say(stage.hook, "hello?"))).text == "fine"


async def test_a_wrong_model_key_is_told_to_both_and_stands_in_no_log(stage: Stage) -> None:
    stage.deskmate.environment["MODEL_KEY"] = "sk-wrong-0123456789"
    await stage.start()
    said = await stage.slack.say(stage.hook, "hello?")
    reply = await stage.slack.reply_to(said)
    assert "does not take our requests" in reply.text
    line = stage.deskmate.running[-1].lines("model failed")[-1]
    assert line["level"] == "error"
    assert "401" in line["fields"]["reason"]
    assert line["fields"]["reference"] in reply.text
    for running in stage.deskmate.running:
        for secret in stage.deskmate.environment.values():
            assert secret not in running.log.read_text()


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}], [{"type": "text", "text": " \n "}]], ids=repr)
async def test_an_empty_answer_is_asked_for_once_more_and_then_told(
    stage: Stage, content: list[dict[str, str]]
) -> None:
    stage.model.answer_with(Reply(content))
    await stage.start()
    said = await stage.slack.say(stage.hook, "hello?")
    assert "no answer" in (await stage.slack.reply_to(said)).text
    assert len(stage.model.asked) == 2


async def test_limits_end_a_turn_with_a_message(stage: Stage) -> None:
    stage.model.answer_with(lambda _: calls("current_time"))
    await stage.start(profile={"limits": {"steps": 3}})
    said = await stage.slack.say(stage.hook, "for ever")
    assert "3 steps" in (await stage.slack.reply_to(said)).text
    assert len(stage.model.asked) == 3
    stage.model.answer_with(says("well"))
    await stage.slack.say(stage.hook, "are you there?", thread_ts=said.ts)
    await stage.slack.until(lambda: "well" in stage.posts())


async def test_a_turn_over_its_time_ends_with_a_message(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(says("never", hold=hold))
    await stage.start(profile={"limits": {"turn_s": 1.0}})
    assert "1 seconds" in (await stage.slack.reply_to(await stage.slack.say(stage.hook, "hm"))).text
    hold.set()


async def test_slack_refusing_for_a_while_delays_the_reply_and_does_not_double_it(stage: Stage) -> None:
    stage.model.answer_with(says("patience"))
    await stage.start()
    stage.slack.next(status=429, retry_after=4, on="chat.postMessage")
    said = await stage.slack.say(stage.hook, "hello?")
    other = await stage.slack.say(stage.hook, "hello too?")
    assert (await stage.slack.reply_to(other)).text == "patience"
    assert (await stage.slack.reply_to(said)).text == "patience"
    assert stage.posts() == ["patience"] * 2


async def test_a_send_without_an_answer_is_looked_for_before_it_is_sent_again(stage: Stage) -> None:
    stage.model.answer_with(says("once"))
    await stage.start()
    stage.slack.next(hang=True, taken=True, on="chat.postMessage")
    said = await stage.slack.say(stage.hook, "hello?")
    await stage.slack.reply_to(said)
    worker = stage.deskmate.running[-1]
    await until(lambda: bool(worker.lines("send unclear")))
    again = await stage.slack.say(stage.hook, "more", thread_ts=said.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert stage.posts() == ["once", "once"]
    assert again.statuses[-1] == 200


async def test_a_message_that_kills_its_worker_is_buried_with_a_notice_and_its_neighbours_live(stage: Stage) -> None:
    """First the model's answer is what kills, which the stand-in gives by killing its caller; then the tool that it calls."""
    hold = asyncio.Event()

    async def kills(_: asyncio.StreamReader, to_caller: asyncio.StreamWriter) -> None:
        kill_caller(to_caller.get_extra_info("peername"))
        to_caller.close()

    page = await asyncio.start_server(kills, "127.0.0.1")
    place = f"127.0.0.1:{page.sockets[0].getsockname()[1]}"

    def script(asked: Asked) -> Reply:
        if "poison" not in asked.text:
            return says("innocent", before_s=0.5)
        if len(stage.asked_with("poison")) > 1:
            return calls("web_fetch", {"url": f"http://{place}/"})
        kill_caller(asked.peer)
        return says("never", hold=hold)

    stage.model.answer_with(script)
    await stage.start(settings={"tools": {"web_fetch": {"allow_private": [place]}}})
    poison = await stage.slack.say(stage.hook, "poison")
    innocent = await stage.slack.say(stage.hook, "hello?")

    async def keep_a_worker() -> None:
        while True:
            await stage.deskmate.running[-1].process.wait()
            await stage.deskmate.start_worker()

    keeping = asyncio.create_task(keep_a_worker())
    assert (await stage.slack.reply_to(innocent, timeout_s=150)).text == "innocent"
    assert "several attempts" in (await stage.slack.reply_to(poison, timeout_s=150)).text
    keeping.cancel()
    await stage.slack.say(stage.hook, "and now?", thread_ts=poison.ts)
    await stage.slack.until(lambda: stage.posts().count("innocent") == 2)
    hold.set()
    page.close()
    assert len(stage.posts()) == 3


@pytest.mark.timeout(420)  # six workers die
async def test_a_slow_turn_beside_several_messages_that_kill_their_worker_is_answered(stage: Stage) -> None:
    """Each poison kills two workers, with the slow turn in hand, and then only the process that it has for itself."""
    hold = asyncio.Event()
    dying: set[asyncio.Task[None]] = set()
    deaths = 0

    async def die(peer: tuple[str, int]) -> None:
        asked = partial(stage.asked_with, "innocent")
        await stage.model.until(lambda: len(asked()) > deaths, within_s=120)  # it was begun again
        kill_caller(peer)

    def script(asked: Asked) -> Reply:
        if "poison" not in asked.text:
            return says("slow, and well", hold=hold)
        dying.add(asyncio.create_task(die(asked.peer)))
        return says("never", hold=asyncio.Event())

    stage.model.answer_with(script)
    await stage.start()

    async def keep_a_worker() -> None:
        nonlocal deaths
        while True:
            await stage.deskmate.running[-1].process.wait()
            deaths += 1
            await stage.deskmate.start_worker()

    keeping = asyncio.create_task(keep_a_worker())
    innocent = await stage.slack.say(stage.hook, "innocent")
    await stage.model.until(lambda: bool(stage.asked_with("innocent")))
    for number in range(POISONS):
        poison = await stage.slack.say(stage.hook, f"poison {number}")
        if number == POISONS - 1:  # it now goes on with nothing beside it, and the last poison waits for that
            await stage.model.until(lambda: len(stage.asked_with("innocent")) > POISONS * ALONE_AFTER, within_s=120)
            hold.set()
            assert (await stage.slack.reply_to(innocent)).text == "slow, and well"
        assert "several attempts" in (await stage.slack.reply_to(poison, timeout_s=120)).text
    keeping.cancel()
    assert deaths == POISONS * ALONE_AFTER
    assert stage.posts().count("slow, and well") == 1
    assert len(stage.posts()) == 1 + POISONS


@pytest.mark.timeout(420)  # three workers die, each with its children
async def test_what_takes_its_worker_down_with_it_is_buried_and_who_was_beside_it_is_answered(stage: Stage) -> None:
    """As one that uses up the memory of a container: there all processes end, also where it is alone in its own."""
    dying: set[asyncio.Task[None]] = set()
    before, deaths = SOLE_AFTER - 1, 0  # the last of those that both were beside each other in, and what comes then

    async def die() -> None:
        beside = partial(stage.asked_with, "innocent")
        await stage.model.until(lambda: len(beside()) > deaths or before + deaths >= SOLE_AFTER, within_s=120)
        worker = psutil.Process(stage.deskmate.running[-1].pid)
        for one in (worker, *worker.children(recursive=True)):
            one.kill()

    def script(asked: Asked) -> Reply:
        if "poison" in asked.text:
            dying.add(asyncio.create_task(die()))
            return says("never", hold=asyncio.Event())
        if "innocent" in asked.text and before + deaths < SOLE_AFTER:
            return says("never", hold=asyncio.Event())
        return says("well", before_s=0.5)

    async def keep_a_worker() -> None:
        nonlocal deaths
        while True:
            await stage.deskmate.running[-1].process.wait()
            deaths += 1
            await stage.deskmate.start_worker()

    stage.model.answer_with(script)
    await stage.start(workers=0)
    innocent = await stage.slack.say(stage.hook, "innocent")
    poison = await stage.slack.say(stage.hook, "poison")
    await as_if_many_had_died(stage, before)
    await stage.deskmate.start_worker()
    keeping = asyncio.create_task(keep_a_worker())
    assert (await stage.slack.reply_to(innocent, timeout_s=150)).text == "well"
    assert "several attempts" in (await stage.slack.reply_to(poison, timeout_s=60)).text
    keeping.cancel()
    assert deaths == BURY_AFTER - before
    await stage.slack.say(stage.hook, "and now?", thread_ts=poison.ts)
    await stage.slack.until(lambda: stage.posts().count("well") == 2)
    assert len(stage.posts()) == 3


async def test_who_ends_the_process_of_a_turn_that_goes_on_alone_is_not_taken_for_its_death(stage: Stage) -> None:
    """As whoever stops a service tells it to all of its processes."""
    hold = asyncio.Event()
    stage.model.answer_with(says("in the end", hold=hold))
    await stage.start(workers=0)
    said = await stage.slack.say(stage.hook, "hello?")
    await as_if_many_had_died(stage, ALONE_AFTER)
    await stage.deskmate.start_worker()
    worker = stage.deskmate.running[-1]
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    [alone] = [one for one in psutil.Process(worker.pid).children(recursive=True) if "workers.alone" in one.cmdline()]
    alone.terminate()
    await stage.model.until(lambda: len(stage.model.asked) == 2, within_s=30)
    hold.set()
    assert (await stage.slack.reply_to(said)).text == "in the end"
    assert len(worker.lines("ended alone")) == 1
    assert stage.posts() == ["in the end"]


async def as_if_many_had_died(stage: Stage, many: int) -> None:
    """Of all that waits."""
    async with Redis.from_url(stage.deskmate.redis_url) as redis:
        async for ready in redis.scan_iter(f"{stage.deskmate.prefix}:*:ready:*"):
            root = ready.decode().partition(":ready:")[0]
            waiting: Any = await redis.zrange(ready, 0, -1)
            for conversation in waiting:
                await redis.hset(f"{root}:c:{conversation.decode()}", "tries", str(many))


def kill_caller(peer: tuple[str, int]) -> None:
    """Kill the process at the other end of a loopback connection."""
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr[1] == peer[1] and connection.pid:
            psutil.Process(connection.pid).kill()


async def test_what_holds_up_its_process_again_and_again_is_buried_with_a_notice(stage: Stage) -> None:
    """At first its worker, past the lease; then the process that it has for itself, and that one for ever."""
    stage.model.answer_with(lambda _: says("never", hold=asyncio.Event()))
    await stage.start()
    worker = stage.deskmate.running[-1]
    said = await stage.slack.say(stage.hook, "hello?")

    async def hold_up() -> None:
        whole = psutil.Process(worker.process.pid)
        asked = stage.model.asked
        for attempt in range(BURY_AFTER):
            await stage.model.until(partial(more_than, asked, attempt))
            if attempt >= ALONE_AFTER:
                [alone] = [one for one in whole.children(recursive=True) if "workers.alone" in one.cmdline()]
                alone.suspend()
                continue
            whole.suspend()
            await asyncio.sleep(QUICK["lease_s"] * 1.5)  # nothing tells that it is long enough
            whole.resume()

    holding = asyncio.create_task(hold_up())
    reply = await stage.slack.reply_to(said, timeout_s=150)
    await holding
    [buried] = worker.lines("buried")
    assert buried["fields"]["reference"] in reply.text
    assert len(worker.lines("stuck alone")) == BURY_AFTER - ALONE_AFTER


async def test_a_process_that_went_on_alone_to_a_good_end_goes_on_with_the_next_one(stage: Stage) -> None:
    """To start one takes seconds: where many have to go on, that would be as long for each."""
    asked: Counter[str] = Counter()

    def script(request: Asked) -> Reply:
        asked[request.text] += 1
        return says("done") if asked[request.text] > ALONE_AFTER else says("never", hold=asyncio.Event())

    stage.model.answer_with(script)
    await stage.start()
    worker = stage.deskmate.running[-1]
    whole = psutil.Process(worker.pid)
    for number in range(2):
        said = await stage.slack.say(stage.hook, f"hello {number}")
        for attempt in range(1, ALONE_AFTER + 1):
            await stage.model.until(lambda attempt=attempt: max(asked.values(), default=0) == attempt)  # type: ignore[misc]
            whole.suspend()
            await asyncio.sleep(QUICK["lease_s"] * 1.5)  # nothing tells that it is long enough
            whole.resume()
        assert (await stage.slack.reply_to(said)).text == "done"
        asked.clear()
    assert len(worker.lines("alone")) == 2
    alone = [line for line in worker.lines("turn taken over") if line["process"] == "alone"]
    assert len({line["pid"] for line in alone}) == 1
    assert [line["fields"]["tries"] for line in alone] == [ALONE_AFTER] * 2
    assert not worker.lines("stuck alone") + worker.lines("died alone")


def more_than(those: Sized, number: int) -> bool:
    return len(those) > number


async def test_status_tells_who_runs_and_what_was_given_up(stage: Stage) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(says("done", hold=hold))
    await stage.start()
    said = await stage.slack.say(stage.hook, "work")
    await stage.model.until(lambda: len(stage.model.asked) == 1)
    code, shown = await stage.deskmate.run("status")
    assert code == 0
    assert "workers: 1" in shown
    assert re.search(r"slack-main/C0CHAN1/\S+  running for", shown)
    # Twice: an answer that took longer than a second begins as a growing message.
    stage.slack.next(error="is_archived", on="chat.postMessage", times=2)
    hold.set()
    worker = stage.deskmate.running[-1]
    await until(lambda: bool(worker.lines("send given up")))
    code, shown = await stage.deskmate.run("status", "--json")
    assert code == 0
    assert [letter["reason"] for letter in json.loads(shown)["dead"]] == ["send target_gone"]
    assert said.statuses == [200, 200]


async def test_an_emptied_redis_gets_503_until_an_operator_adopts_it(stage: Stage) -> None:
    stage.model.answer_with(says("here"))
    await stage.start()
    first = await stage.slack.say(stage.hook, "before")
    await stage.slack.reply_to(first)
    async with Redis.from_url(stage.deskmate.redis_url) as redis:
        async for name in redis.scan_iter(f"{stage.deskmate.prefix}:*"):
            await redis.delete(name)
    event = {"user": "U1", "type": "message", "channel_type": "im", "ts": "1760000000.000009", "text": "hi"}
    raw = stage.slack.envelope({**event, "channel": DIRECT})
    assert set(await stage.slack.deliver(stage.hook, raw)) == {503}
    code, shown = await stage.deskmate.run("redis", "adopt", "--yes")
    assert code == 0, shown
    assert (await stage.slack.deliver(stage.hook, raw))[-1] == 200
    await stage.slack.until(lambda: len(stage.posts()) == 2)


async def test_a_process_that_starts_on_an_emptied_redis_begins_nothing_there(stage: Stage) -> None:
    stage.model.answer_with(says("here"))
    await stage.start()
    await stage.slack.reply_to(await stage.slack.say(stage.hook, "before"))
    async with Redis.from_url(stage.deskmate.redis_url) as redis:
        async for name in redis.scan_iter(f"{stage.deskmate.prefix}:*"):
            await redis.delete(name)
        port = free_port()
        gateway, worker = (
            await stage.deskmate.begin("gateway", "--port", str(port)),
            await stage.deskmate.begin("worker"),
        )
        await until(lambda: bool(gateway.lines("data unknown") and worker.lines("data unknown")))
        ports = (stage.deskmate.port, port)
        hooks = [stage.hook.replace(f":{stage.deskmate.port}/", f":{port}/") for port in ports]
        event = {"user": "U1", "type": "message", "channel_type": "im", "ts": "1760000000.000009", "text": "hi"}
        raw = stage.slack.envelope({**event, "channel": DIRECT})
        for hook in hooks:
            assert set(await stage.slack.deliver(hook, raw)) == {503}
        for port in ports:
            ready = await stage.deskmate.readiness(port)
            assert (ready["ready"], ready["data"]) == (False, False)
            assert ready["why"] == "redis is empty, and was not: see `deskmate redis adopt`"
        code, shown = await stage.deskmate.run("dead", "list")
        assert (code, "Warning: Nothing goes on: redis is empty" in shown) == (0, True), shown
        code, shown = await stage.deskmate.run("skills", "off", "anything", "--everywhere")
        assert (code, "Nothing was changed" in shown) == (1, True), shown
        assert not await redis.exists(f"{stage.deskmate.prefix}:{{0}}:meta")
    code, shown = await stage.deskmate.run("redis", "adopt", "--yes")
    assert code == 0, shown
    await until(lambda: bool(worker.lines("worker ready")))

    async def all_know() -> bool:
        return all([(await stage.deskmate.readiness(port))["ready"] for port in ports])

    async with asyncio.timeout(60):
        while not await all_know():
            await asyncio.sleep(0.02)
    assert (await stage.slack.deliver(hooks[1], raw))[-1] == 200
    await stage.slack.until(lambda: len(stage.posts()) == 2)


async def test_a_sleeper_that_wakes_does_not_touch_the_message_that_another_has_finished(stage: Stage) -> None:
    words = " ".join(f"w{number}" for number in range(60))
    stage.model.answer_with(
        lambda _: says(words, deltas=60, between_s=0.2) if len(stage.model.asked) == 1 else says("THE WHOLE REPLY")
    )
    await stage.start()
    sleeper = stage.deskmate.running[-1]
    await stage.slack.say(stage.hook, "hello?")
    await stage.slack.until(lambda: "chat.update" in stage.slack.calls)
    sleeper.signal(signal.SIGSTOP)
    await stage.deskmate.start_worker()
    await stage.slack.until(lambda: stage.posts() == ["THE WHOLE REPLY"])
    sleeper.signal(signal.SIGCONT)
    await until(lambda: bool(sleeper.lines("claim lost")))
    await sleeper.stop()
    assert stage.posts() == ["THE WHOLE REPLY"]


async def test_the_answer_comes_anew_when_the_growing_message_was_deleted(stage: Stage) -> None:
    stage.model.answer_with(says(" ".join(["word"] * 40), deltas=40, between_s=0.08))
    await stage.start()
    await stage.slack.say(stage.hook, "hello?")
    await stage.slack.until(lambda: bool(stage.posts()))
    stage.slack.messages[:] = [message for message in stage.slack.messages if not message.bot_id]
    await stage.slack.until(lambda: stage.posts() == [" ".join(["word"] * 40)])


async def test_stop_reaches_a_turn_that_waits_for_the_model(stage: Stage) -> None:
    def script(_: Asked) -> Reply:
        first = len(stage.model.asked) == 1
        return fails(529, "overloaded_error", headers={"retry-after": "5"}) if first else says("too late")

    stage.model.answer_with(script)
    await stage.start()
    said = await stage.slack.say(stage.hook, "hello?")
    await until(lambda: bool(stage.deskmate.running[-1].lines("model failed")))
    await stage.slack.say(stage.hook, "/stop", thread_ts=said.ts)
    await stage.slack.until(lambda: bool(stage.posts()), 4)
    assert stage.posts() == ["Stopped."]
    assert len(stage.model.asked) == 1


async def test_an_event_nobody_can_read_is_buried_and_the_next_is_answered(stage: Stage) -> None:
    stage.model.answer_with(says("ok"))
    await stage.start()
    said = await stage.slack.say(stage.hook, "warm up")
    await stage.slack.reply_to(said)
    store = open_store(stage.deskmate.redis_url, Layout(stage.deskmate.prefix, 1), timeout_s=2)
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    key = ConversationKey("slack-main", said.channel, f"{TEAM}:{said.ts}")
    await mailbox.accept(key, '{"v": 1, "kind": "no such kind"}', dedupe_keys=("x1",), at_ms=1)
    await stage.slack.until(lambda: len(stage.posts()) == 2)
    assert "could not finish" in stage.posts()[1]
    await mailbox.accept(key, "no JSON at all", dedupe_keys=("x2",), at_ms=1)
    await stage.slack.until(lambda: len(stage.posts()) == 3)
    await store.redis.rpush(store.layout.key(key.id, "history"), "{broken")
    await stage.slack.say(stage.hook, "and now?", thread_ts=said.ts)
    await stage.slack.until(lambda: len(stage.posts()) == 4)
    assert stage.posts()[3] == "ok"
    assert len(stage.deskmate.running[-1].lines()) < 60, "it does not spin"
    await store.close()
