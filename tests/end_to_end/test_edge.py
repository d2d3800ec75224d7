"""Gateways as processes: stopped under load, beside each other, on a Redis that is full, unfit or slow."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis.asyncio import Redis

from config.settings import RedisSettings, Settings
from gateway.running.embedded import embedded
from tests.end_to_end.conftest import QUICK, Stage
from tests.gateway.served import envelope
from tests.harness.deployment import free_port
from tests.harness.model_replies import says
from tests.harness.processes import until
from tests.harness.proxy import Proxy
from tests.harness.slack_twin import BOT_USER, CHANNEL, SIGNING_SECRET, USER, Message, sign

NEXT_SECRET = "signed-by-the-next-secret"


def mention(number: int, text: str = "hi", **event: Any) -> bytes:
    """The one event of a post, its text and time told by the number."""
    said = {"type": "app_mention", "text": f"<@{BOT_USER}> {text} n{number}", "ts": f"1760000300.{number:06}", **event}
    return json.dumps(envelope(said, f"Ev{number}{said['type']}")).encode()


def known(stage: Stage, *numbers: int) -> None:
    """The posts of `mention`, so that Slack knows the threads in which they are answered."""
    stage.slack.messages += [Message(CHANNEL, f"1760000300.{number:06}", USER, "") for number in numbers]


async def post(http: aiohttp.ClientSession, url: str, body: bytes, secret: str = SIGNING_SECRET) -> int:
    """The answer's status; 0 where the connection broke."""
    headers = {**sign(body, secret=secret), "Content-Type": "application/json"}
    try:
        async with http.post(url, data=body, headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as answer:
            assert answer.content_type == "application/json" or answer.status == 200
            return answer.status
    except aiohttp.ClientConnectionError:
        return 0


@asynccontextmanager
async def server(stage: Stage, folder: Path) -> AsyncIterator[Redis]:
    """A server of the test's own, which the deployment uses."""
    async with embedded(Settings(data=folder / "store", redis=RedisSettings())) as url:
        stage.deskmate.redis_url = url
        async with Redis.from_url(url) as redis:
            yield redis


async def test_a_rolling_restart_under_load_resets_nobody_and_loses_nothing(stage: Stage) -> None:
    """With another secret of the platform: first both count, and when it uses the new one the old one counts no more."""
    stage.model.answer_with(says("ok"))
    stage.deskmate.environment["SLACK_NEXT"] = NEXT_SECRET
    await stage.start()
    both = {"signing_secret": "$SLACK_NEXT", "previous_signing_secret": "$SLACK_SECRET"}
    secret = SIGNING_SECRET
    statuses: Counter[int] = Counter()
    stop = asyncio.Event()
    numbers = iter(range(100_000))

    async def send_on(http: aiohttp.ClientSession) -> None:
        while not stop.is_set():
            number = next(numbers)
            known(stage, number)
            body = mention(number)
            while (status := await post(http, stage.hook, body, secret)) != 200:
                statuses[status] += 1
            statuses[status] += 1
            await asyncio.sleep(0.05)  # the pace of a busy team, so that the answers keep up

    connections = aiohttp.TCPConnector(force_close=True)  # each request may meet either gateway
    async with aiohttp.ClientSession(connector=connections) as http:
        sending = [asyncio.create_task(send_on(http)) for _ in range(4)]
        for settings in (both, {"signing_secret": "$SLACK_NEXT"}):
            stage.set(settings={"connections": {"slack-main": {**stage.slack_settings, **settings}}})
            coming = await stage.deskmate.start_gateway()
            await until(lambda: bool(coming.lines("gateway ready")))  # noqa: B023  # else it was another that answered
            leaving = next(
                one for one in stage.deskmate.running if one.name == "gateway" and one.process.returncode is None
            )
            assert await leaving.stop() == 0
            secret = NEXT_SECRET
        assert await post(http, stage.hook, mention(next(numbers))) == 401
        stop.set()
        await asyncio.gather(*sending)
    assert set(statuses) <= {200, 503}
    assert statuses[200] > 20
    await stage.slack.until(lambda: len(stage.posts()) == statuses[200])


async def test_fifty_open_requests_at_the_stop_signal_are_answered_while_another_takes_the_new_ones(
    stage: Stage,
) -> None:
    async with Proxy(stage.deskmate.redis_url) as proxy:
        stage.deskmate.redis_url = proxy.redis_url
        stage.set(settings={"gateway": {"shutdown_s": 5}})
        first = await stage.deskmate.start_gateway()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            proxy.slow(to_client_s=0.5)
            open_ones = [asyncio.create_task(post(http, stage.hook, mention(number))) for number in range(50)]
            await until(lambda: bool(proxy.held))
            stopping = asyncio.create_task(first.stop())
            await until(lambda: bool(first.lines("gateway stops")))
            answered = Counter(await asyncio.gather(*open_ones))
            assert set(answered) <= {200, 503}
            assert await stopping == 0
            proxy.heal()
            await stage.deskmate.start_gateway()
            again = [post(http, stage.hook, mention(number)) for number in range(50)]
            assert set(await asyncio.gather(*again)) == {200}
    assert [line["fields"]["outcome"] for line in stage.deskmate.running[-1].lines("message")].count(
        "new"
    ) <= 50 - answered[200]


async def test_a_second_stop_signal_ends_a_gateway_at_once(stage: Stage) -> None:
    stage.set(settings={"gateway": {"shutdown_s": 30, "body_timeout_s": 30}})
    gateway = await stage.deskmate.start_gateway()
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.deskmate.port)
    gateway.signal(signal.SIGTERM)
    await until(lambda: bool(gateway.lines("gateway stops")))
    gateway.signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await gateway.process.wait() in {0, 130}
        assert await reader.read() == b""
    writer.close()


async def test_pairs_at_two_gateways_at_once_get_one_turn_each(stage: Stage) -> None:
    stage.model.answer_with(lambda asked: says(f"re: {asked.text.split()[-1]}"))
    await stage.start()
    known(stage, *range(100))
    other = free_port()
    await stage.deskmate.start_gateway(other)
    urls = (stage.hook, f"http://127.0.0.1:{other}/webhooks/slack-main")
    plain = {"type": "message", "channel_type": "channel"}
    async with aiohttp.ClientSession() as http:
        for at in range(0, 100, 20):
            pairs = [
                post(http, url, mention(number, **kind))
                for number in range(at, at + 20)
                for url, kind in zip(urls, ({}, plain), strict=True)
            ]
            assert set(await asyncio.gather(*pairs)) == {200}
    await stage.slack.until(lambda: len(stage.posts()) >= 100)
    assert sorted(stage.posts()) == sorted(f"re: n{number}" for number in range(100))
    outcomes = Counter(
        line["fields"]["outcome"]
        for one in stage.deskmate.running
        if one.name == "gateway"
        for line in one.lines("message")
    )
    assert outcomes == {"new": 100, "known": 100}


@pytest.mark.parametrize("where", ["before the write", "before the answer"])
async def test_a_gateway_killed_around_the_write_has_promised_nothing_and_the_repetition_gets_one_turn(
    stage: Stage, where: str
) -> None:
    stage.model.answer_with(says("once"))
    direct = stage.deskmate.redis_url
    async with Proxy(direct) as proxy, aiohttp.ClientSession() as http, Redis.from_url(direct) as redis:
        stage.deskmate.redis_url = proxy.redis_url
        stage.set()
        known(stage, 1)
        gateway = await stage.deskmate.start_gateway()
        if where == "before the write":
            proxy.hold()
        else:
            proxy.slow(to_client_s=60)
        asked = asyncio.create_task(post(http, stage.hook, mention(1)))
        await until(lambda: bool(proxy.held))

        async def inboxes() -> int:
            return len([key async for key in redis.scan_iter(match=f"{stage.deskmate.prefix}:*:inbox")])

        async with asyncio.timeout(60):
            while where == "before the answer" and not await inboxes():
                await asyncio.sleep(0.01)
        gateway.kill()
        assert await asked == 0
        proxy.cut()
        proxy.heal()
        await stage.deskmate.start_gateway()
        await stage.deskmate.start_worker()
        assert await post(http, stage.hook, mention(1)) == 200
        await stage.slack.until(lambda: len(stage.posts()) == 1)
        outcomes = [line["fields"]["outcome"] for line in stage.deskmate.running[1].lines("message")]
        assert outcomes == (["new"] if where == "before the write" else ["known"])
        assert (await stage.deskmate.run("status", "--json"))[0] == 0
    assert (len(stage.model.asked), stage.posts()) == (1, ["once"])


async def test_a_bell_that_is_never_rung_delays_an_answer_by_a_poll_at_most(stage: Stage) -> None:
    stage.model.answer_with(says("found"))
    async with Proxy(stage.deskmate.redis_url) as proxy:
        stage.deskmate.environment["BELLS"] = proxy.redis_url
        await stage.start(settings={"rq": {"url": "$BELLS"}})
        proxy.hold()
        started = time.monotonic()
        await stage.slack.reply_to(await stage.slack.say(stage.hook, "hello?"), 5)
        assert time.monotonic() - started < 3
        proxy.heal()


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_a_gateway_without_file_descriptors_recovers_when_it_has_some(stage: Stage) -> None:
    stage.model.answer_with(says("here"))
    await stage.start()
    gateway = stage.deskmate.running[0]
    used = open_files(gateway.pid)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used + 8, used + 8))
    greedy = [await asyncio.open_connection("127.0.0.1", stage.deskmate.port) for _ in range(40)]
    await until(lambda: open_files(gateway.pid) >= used + 8)
    for _, writer in greedy:
        writer.close()
    said = await stage.slack.say(stage.hook, "hello?")
    assert said.statuses[-1] == 200
    assert (await stage.slack.reply_to(said)).text == "here"
    assert gateway.process.returncode is None


async def test_a_full_redis_takes_nothing_new_and_what_it_has_is_answered(stage: Stage, tmp_path: Path) -> None:
    hold = asyncio.Event()
    stage.model.answer_with(says("served", hold=hold))
    async with server(stage, tmp_path) as redis, aiohttp.ClientSession() as http:
        await stage.start(settings={"worker": {"concurrency": 2}})
        known(stage, *range(8))
        assert {await post(http, stage.hook, mention(number)) for number in range(4)} == {200}
        await stage.model.until(lambda: len(stage.model.asked) == 2)
        await redis.config_set("maxmemory", "1")
        assert {await post(http, stage.hook, mention(number)) for number in range(8)} == {200, 503}
        assert stage.deskmate.running[0].lines("not stored")[-1]["fields"]["reason"].startswith("accept: ")

        async def next_due_ms() -> float:
            due: Any = await redis.zrange(f"{stage.deskmate.prefix}:{{0}}:due", 0, 0, withscores=True)
            return float(due[0][1])

        first_ms = await next_due_ms()
        async with asyncio.timeout(60):  # what runs is renewed meanwhile, and neither lost nor counted as a death
            while await next_due_ms() < first_ms + 2_000 * QUICK["lease_s"]:
                await asyncio.sleep(0.05)
        hold.set()
        await stage.slack.until(lambda: len(stage.posts()) == 4)
        await redis.config_set("maxmemory", "0")
        assert {await post(http, stage.hook, mention(number)) for number in range(8)} == {200}
        await stage.slack.until(lambda: len(stage.posts()) == 8)
        assert stage.posts() == ["served"] * 8
        assert not stage.deskmate.running[-1].lines("claim lost")
        assert [one.process.returncode for one in stage.deskmate.running] == [None, None]


@pytest.mark.parametrize("command", ["gateway", "worker"])
async def test_a_redis_that_evicts_is_refused_at_the_start_and_seen_when_it_begins_later(
    stage: Stage, tmp_path: Path, command: str
) -> None:
    async with server(stage, tmp_path) as redis:
        stage.set()
        if command == "gateway":
            await stage.deskmate.start_gateway()
            await redis.config_set("maxmemory-policy", "allkeys-lru")
            async with stage.deskmate.http.get(f"{stage.deskmate.url}/readyz") as answer:
                assert (answer.status, (await answer.json())["fit"]) == (503, False)
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        code, said = await stage.deskmate.run(command, *(["--port", "0"] if command == "gateway" else []))
    assert code == 1
    assert "allkeys-lru" in said
    assert "noeviction" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("connection", "named"),
    [
        ({"platform": "slack", "bot_token": "$SLACK_TOKEN"}, "signing_secret"),
        ({"platform": "slack", "bot_token": "$SLACK_TOKEN", "signing_secret": "$EMPTY"}, "EMPTY"),
        ({"platform": "slack", "bot_token": "$SLACK_TOKEN", "signing_secret": ""}, "signing_secret"),
        ({"platform": "standard_webhooks", "reply_url": "http://127.0.0.1:9/"}, "secret"),
        ({"platform": "standard_webhooks", "reply_url": "http://127.0.0.1:9/", "secret": "$SHORT"}, "secret"),
    ],
)
async def test_a_connection_that_could_not_prove_anything_is_refused_at_the_start(
    stage: Stage, connection: dict[str, Any], named: str
) -> None:
    stage.deskmate.environment |= {"EMPTY": "", "SHORT": "whsec_c2hvcnQ="}
    stage.set(settings={"connections": {"open-door": connection}})
    code, said = await stage.deskmate.run("gateway", "--port", "0")
    assert code != 0
    assert "open-door" in said
    assert named in said
    assert "Traceback" not in said


async def test_a_burst_far_above_the_limit_is_shed_and_what_was_accepted_is_answered(stage: Stage) -> None:
    stage.model.answer_with(lambda asked: says(f"re: {asked.text.split()[-1]}"))
    await stage.start(settings={"mailbox": {"waiting_max": 10}, "worker": {"concurrency": 1}})
    known(stage, *range(100))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        statuses = await asyncio.gather(*(post(http, stage.hook, mention(number)) for number in range(100)))
    accepted = [number for number, status in enumerate(statuses) if status == 200]
    assert set(statuses) == {200, 503}
    await stage.slack.until(lambda: len(stage.posts()) >= len(accepted))
    assert sorted(stage.posts()) == sorted(f"re: n{number}" for number in accepted)
    outcomes = Counter(line["fields"]["outcome"] for line in stage.deskmate.running[0].lines("message"))
    assert outcomes == {"new": len(accepted), "full": 100 - len(accepted)}


async def test_bodies_that_are_much_too_big_leave_the_gateway_as_small_as_before(stage: Stage) -> None:
    stage.set()
    gateway = await stage.deskmate.start_gateway()

    def resident_kib() -> int:
        shown = Path(f"/proc/{gateway.pid}/status").read_text()
        return int(shown.partition("VmRSS:")[2].split()[0])

    async def flood() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.deskmate.port)
        writer.write(b"POST /webhooks/slack-main HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(16):
                writer.write(piece)
                await writer.drain()
            return int((await reader.readuntil(b"\r\n")).split()[1])
        finally:
            writer.transport.abort()

    before = resident_kib()
    assert set(await asyncio.gather(*(flood() for _ in range(8)))) == {413}
    async with aiohttp.ClientSession() as http:
        assert await post(http, stage.hook, mention(1)) == 200
    assert resident_kib() - before < 40 * 1_024


def test_the_gateway_imports_neither_the_models_sdk_nor_rq_nor_the_workers(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from gateway.cli import gateway, main
        import gateway.app, gateway.server, gateway.connections
        for name in gateway.connections.platform_names():
            gateway.connections.platform_settings(name)
        print([name for name in ("anthropic", "rq", "workers", "redis") if name in sys.modules])
    """
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (ran.stdout.strip(), ran.stderr) == ("['redis']", "")


async def test_every_message_has_one_outcome_line_and_the_counts_add_up(stage: Stage) -> None:
    stage.model.answer_with(says("ok"))
    await stage.start()
    slack, hook = stage.slack, stage.hook
    answered = await slack.say(hook, "for you")
    await slack.say(hook, "not for you", mention=False)
    await slack.deliver(hook, slack.envelope({"type": "reaction_added", "user": "U1"}))
    await slack.deliver(
        hook, slack.envelope({"type": "message", "subtype": "channel_join", "ts": "1.2", "channel": "C1"})
    )
    edit = {"user": "U1", "ts": answered.ts, "text": "edited", "edited": {"ts": "9.9"}}
    changed = {"type": "message", "subtype": "message_changed", "message": edit, "channel": "C0CHAN1", "ts": "9.9"}
    await slack.deliver(hook, slack.envelope(changed))
    await slack.reply_to(answered)
    told = stage.deskmate.running[0].lines("message")
    assert Counter((line["fields"]["outcome"], line["fields"].get("reason", "")) for line in told) == {
        ("new", ""): 1,
        ("known", ""): 1,
        ("ignored", "not addressed"): 1,
        ("ignored", "no event that we serve"): 2,
        ("ignored", "edit events have no effect"): 1,
    }
    assert {line["fields"].get("message") for line in told if line["fields"]["outcome"] in {"new", "known"}} == {
        answered.ts
    }
    assert not any(text in line for text in ("for you", "edited") for line in map(str, told))
