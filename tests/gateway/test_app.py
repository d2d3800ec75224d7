"""The HTTP edge under bad input: bytes over a raw connection, and what comes back."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway import app as app_module
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.platforms import Capabilities, ConnectionRefused, HttpReply, Plain, RawRequest, Unauthorized, slack
from gateway.store import Layout
from tests.gateway.served import Answer, Served, answer_of, envelope, post, served
from tests.harness import webhook_twin
from tests.harness.proxy import Proxy
from tests.harness.slack_twin import sign

MENTION = {"type": "app_mention", "text": "<@U0BOT01> hi"}
HOOK = "/webhooks/slack-main"


@pytest.fixture
async def gateway(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[Served]:
    async with served(tmp_path, redis_url, layout.prefix, {"gateway": {"body_timeout_s": 0.3}}) as gateway:
        yield gateway


def whole() -> bytes:
    return json.dumps(envelope(MENTION)).encode()


async def still_serves(gateway: Served) -> bool:
    return (await gateway.say(MENTION, f"Ev{time.time_ns()}")).status == 200


def is_short_json(answer: Answer) -> bool:
    return (
        answer.headers["content-type"].startswith("application/json")
        and set(answer.json) == {"error"}
        and len(answer.body) < 100
    )


# who it is not from


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (lambda _: {}, "missing"),
        (lambda body: sign(body, secret="another"), "does not match"),
        (lambda body: sign(body, secret=""), "does not match"),
        (lambda body: sign(body + b" "), "does not match"),
        (lambda body: {**sign(body), "X-Slack-Signature": ""}, "empty"),
        (lambda body: {**sign(body), "X-Slack-Signature": "v0=é"}, "not printable ASCII"),
        (lambda body: [*sign(body).items(), *sign(body).items()], "more than one"),
        (lambda body: sign(body, at_s=time.time() - 330), "server's clock"),
        (lambda body: sign(body, at_s=time.time() + 330), "server's clock"),
        (lambda body: sign(body, at_s=0), "server's clock"),
    ],
)
async def test_what_is_not_proven_is_401_and_the_log_says_why(
    gateway: Served, headers: Callable[[bytes], Any], told: str
) -> None:
    body = whole()
    answer = await gateway.ask(post(HOOK, body, headers(body)))
    assert answer.status == 401
    assert answer.json == {"error": "unauthorized"}
    [line] = gateway.lines("refused")
    assert told in line["reason"]
    assert not await gateway.waiting()


@pytest.mark.parametrize(
    "stamp", ["", "nan", "inf", "1e400", "1_700_000_000", "-1", "+1700000000", "١٧٠٠٠٠٠٠٠٠", "9" * 30, "17 00"]
)
async def test_a_timestamp_that_is_none_is_401(gateway: Served, stamp: str) -> None:
    body = whole()
    headers = {**sign(body), "X-Slack-Request-Timestamp": stamp}
    assert (await gateway.ask(post(HOOK, body, headers))).status == 401


async def test_a_request_for_another_connection_is_401_and_marks_nothing_there(gateway: Served) -> None:
    data = {"conversation": "r", "message_id": "m1", "user": {"id": "u1"}, "text": "hi"}
    raw = json.dumps({"type": "message.created", "timestamp": "2026-01-01T00:00:00Z", "data": data}).encode()
    stolen = webhook_twin.sign("msg_1", raw.decode(), secret="whsec_cmVwbHktc2VjcmV0LWZvci10ZXN0cw==")
    assert (await gateway.deliver("bridge", raw, stolen)).status == 401
    assert (await gateway.deliver("slack-main", raw, webhook_twin.sign("msg_1", raw.decode()))).status == 401
    assert (await gateway.deliver("bridge", raw, webhook_twin.sign("msg_1", raw.decode()))).status == 200
    assert gateway.outcomes() == ["new"]


@pytest.mark.parametrize(
    ("path", "version", "kept"),
    [
        (HOOK, "HTTP/1.1", True),
        (f"{HOOK}?retry=1", "HTTP/1.1", True),
        (HOOK, "HTTP/1.0", False),
        (HOOK, "HTTP/1.1\r\nConnection: close", False),
    ],
)
async def test_every_way_in_leads_to_the_same_answer(gateway: Served, path: str, version: str, *, kept: bool) -> None:
    body = whole()
    request = post(path, body, sign(body)).replace(b"HTTP/1.1", version.encode(), 1)
    async with gateway.connection() as (reader, writer):
        for state in ("new", "known") if kept else ("new",):
            writer.write(request)
            answer = await answer_of(reader)
            assert (answer.status, answer.body) == (200, b"")
            assert answer.headers["content-type"] == "application/json"
            assert abs(parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()) < 3
            assert gateway.outcomes()[-1] == state
        assert kept or await reader.read() == b""
    assert len(await gateway.waiting()) == 1


async def test_a_replay_is_accepted_a_thousand_times_and_stored_once(gateway: Served) -> None:
    body = whole()
    raw = post(HOOK, body, sign(body))
    async with gateway.connection() as (reader, writer):
        for _ in range(10):
            writer.write(raw * 100)
            assert {(await answer_of(reader)).status for _ in range(100)} == {200}
    assert len(await gateway.waiting()) == 1
    assert sorted(set(gateway.outcomes())) == ["known", "new"]
    assert gateway.outcomes().count("new") == 1


async def test_who_tries_out_secrets_is_told_to_the_operator_once_and_keeps_no_right_sender_out(
    gateway: Served,
) -> None:
    """S-W9: wherever the tries say that they come from."""
    body = whole()
    async with gateway.connection() as (reader, writer):
        for number in range(250):
            headers = {**sign(body, secret=f"guess {number}"), "X-Forwarded-For": f"192.0.2.{number}"}
            writer.write(post(HOOK, body, headers))
            assert (await answer_of(reader)).status == 401
    [told] = gateway.lines("refused again and again")
    assert told["connection"] == "slack-main"
    assert not await gateway.waiting()
    assert await still_serves(gateway)


# where it is not


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /webhooks/nobody", 404),
        ("POST /webhooks/web", 404),
        ("POST /webhooks/Slack-Main", 404),
        ("POST /webhooks/slack-main/", 404),
        ("POST /webhooks/", 404),
        ("POST /webhook/slack-main", 404),
        ("POST /bot/webhooks/slack-main", 404),
        ("POST /webhooks/slack-main%2F..", 404),
        ("POST /webhooks/%00", 404),
        ("POST /../../etc/passwd", 404),
        ("GET /", 404),
        ("GET /webhooks/slack-main", 405),
        ("PUT /webhooks/slack-main", 405),
        ("OPTIONS /webhooks/slack-main", 405),
        ("DELETE /healthz", 405),
    ],
)
async def test_a_wrong_address_is_short_json_and_the_log_names_the_right_ones(
    gateway: Served, line: str, status: int
) -> None:
    answer = await gateway.ask(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    assert answer.status == status
    assert is_short_json(answer)
    [told] = gateway.lines("refused")
    if status == 404:
        assert told["there"] == "/webhooks/bridge, /webhooks/slack-main"
        assert told["path"]
    else:
        assert answer.headers["allow"]


async def test_head_gets_a_head(gateway: Served) -> None:
    async with gateway.connection() as (reader, writer):
        writer.write(b"HEAD /webhooks/slack-main HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        writer.write(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


# what can't be read


def chunked(body: bytes, size: int) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def squeezed(body: bytes, **headers: str) -> bytes:
    return post(HOOK, body, {**sign(body), "Content-Encoding": "gzip", **headers})


CHUNKED = {"Transfer-Encoding": "chunked"}
BOMB = gzip.compress(bytes(200 * 2**20), 9)
WRONG = {
    "length over the limit": (post(HOOK, b"{}", {"Content-Length": str(2**30)}), 413),
    "body over the limit": (post(HOOK, b" " * (2**20 + 1)), 413),
    "chunks over the limit": (post(HOOK, chunked(b" " * (2**20 + 1), 65_536), CHUNKED), 413),
    "gzip bomb": (squeezed(BOMB), 413),
    "gzip bomb in chunks": (
        post(HOOK, chunked(BOMB, 4_096), {**CHUNKED, "Content-Encoding": "gzip"}),
        413,
    ),
    "broken gzip": (squeezed(b"\x1f\x8b\x08nothing of the kind"), 400),
    "half a gzip": (squeezed(gzip.compress(whole())[:-20]), 400),
    "no gzip at all": (squeezed(b"{}"), 400),
    "a type that takes long to read": (post(HOOK, b"{}", {"Content-Type": "x/y;" + '"' * 5_000}), 415),
    "an encoding of tomorrow": (squeezed(b"{}", **{"Content-Encoding": "br"}), 415),
    "two encodings": (squeezed(gzip.compress(gzip.compress(whole())), **{"Content-Encoding": "gzip, gzip"}), 415),
    "broken deflate": (squeezed(zlib.compress(whole())[5:], **{"Content-Encoding": "deflate"}), 400),
    "a header of 64 KiB": (post(HOOK, b"{}", {"X-Long": "x" * 65_536}), 400),
    "a header name of 64 KiB": (post(HOOK, b"{}", {"X" * 65_536: "x"}), 400),
    "a path of 64 KiB": (post(f"/{'x' * 65_536}", b"{}"), 400),
    "5,000 headers": (post(HOOK, b"{}", [(f"X-{number}", "x") for number in range(5_000)]), 400),
    "TE and CL": (post(HOOK, chunked(b"{}", 9), {**CHUNKED, "Content-Length": "2"}), 400),
    "two lengths": (post(HOOK, b"{}", [("Content-Length", "2"), ("Content-Length", "2")]), 400),
    "two different lengths": (post(HOOK, b"{}", [("Content-Length", "2"), ("Content-Length", "1")]), 400),
    "a negative length": (post(HOOK, b"{}", {"Content-Length": "-2"}), 400),
    "a length in words": (post(HOOK, b"{}", {"Content-Length": "two"}), 400),
    "a folded header": (post(HOOK, b"{}", {"X-Fold": "a\r\n b"}), 400),
    "a chunk of a broken size": (post(HOOK, b"zz\r\n{}\r\n0\r\n\r\n", CHUNKED), 400),
    "a chunk longer than told": (post(HOOK, b"1\r\n{}\r\n0\r\n\r\n", CHUNKED), 400),
    "another encoding of the transfer": (post(HOOK, b"{}", {"Transfer-Encoding": "gzip, chunked"}), 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9 + b"\r\n\r\n", 400),
    "HTTP of no version": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "a NUL in the path": (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "trailers without end": (post(HOOK, b"0\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", CHUNKED), 400),
    "a form that is none": (post(HOOK, b"\xff" * 99, {"Content-Type": "multipart/form-data"}), 401),
}


@pytest.mark.parametrize("name", WRONG)
async def test_broken_http_is_a_short_refusal_and_others_do_not_notice(gateway: Served, name: str) -> None:
    raw, status = WRONG[name]
    memory = psutil.Process(os.getpid()).memory_info().rss
    answer = await gateway.ask(raw)
    assert answer.status == status
    assert is_short_json(answer)
    assert await still_serves(gateway)
    assert psutil.Process(os.getpid()).memory_info().rss - memory < 64 * 2**20
    assert not [record for record in gateway.log if record.exc_info]


PAGES = "/chat/api/messages"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (post(PAGES, b"\x1f\x8b\x08nothing", {"Content-Encoding": "gzip"}), 400),
        (post(PAGES, b"zz\r\n{}\r\n0\r\n\r\n", CHUNKED), 400),
        (post(PAGES, BOMB, {"Content-Encoding": "gzip"}), 400),
        (post(PAGES, b"{", {"Content-Length": "9"}), 408),
        (post(PAGES, b"[" * 500_000), 400),
        (post(PAGES, b'{"conversation": "c", "id": "i", "text": NaN}'), 400),
        (post(PAGES, b'{"conversation": "c", "id": "i", "text": "\\ud800 hi"}'), 202),
        (post("/chat/login", b"\xff" * 99, {"Content-Type": "multipart/form-data"}), 415),
    ],
    ids=range(8),
)
async def test_the_chat_pages_doors_are_as_strict(
    tmp_path: Path, redis_url: str, layout: Layout, raw: bytes, status: int
) -> None:
    waits = {"chat": {"enabled": True}, "gateway": {"body_timeout_s": 0.3}}
    async with served(tmp_path, redis_url, layout.prefix, waits) as gateway:
        raw = raw.replace(b"Host: x", f"Host: 127.0.0.1:{gateway.port}".encode())
        assert (await gateway.ask(raw)).status == status
        assert not [record for record in gateway.log if record.exc_info]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b'{"type": "event_callback"', 400),
        (b"\xff\xfe{\x00}\x00", 400),
        (b'{"type": "event_callback", "type": "event_callback"}', 400),
        (b'{"type": NaN}', 400),
        (b'{"type": Infinity}', 400),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b"[" * 500_000, 400),
        (b'{"a": ' + b"9" * 5_000 + b"}", 400),
        (json.dumps({"type": "event_callback", **{str(n): n for n in range(50_000)}}).encode(), 400),
        (json.dumps({"type": "something_new"}).encode(), 200),
        (json.dumps({"type": ["event_callback"]}).encode(), 200),
        (json.dumps({"type": "event_callback", "event": "x"}).encode(), 400),
        (json.dumps(envelope({**MENTION, "user": None})).encode(), 200),
        (json.dumps(envelope({**MENTION, "channel": 7})).encode(), 400),
        (json.dumps(envelope({**MENTION, "channel": "C\ud800"})).encode(), 400),
        (json.dumps(envelope({**MENTION, "channel": "C" * 2_000})).encode(), 400),
        (json.dumps(envelope({**MENTION, "ts": "NaN"})).encode(), 400),
        (json.dumps(envelope({**MENTION, "text": "<@U0BOT01> \ud800 \x00 hi"})).encode(), 200),
        (json.dumps(envelope({**MENTION, "text": {"a": 1}})).encode(), 200),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_signed_body_that_makes_no_sense_is_refused_or_ignored_and_never_stored_broken(
    gateway: Served, body: bytes, status: int
) -> None:
    answer = await gateway.deliver("slack-main", body, sign(body))
    assert answer.status == status
    assert status == 200 or is_short_json(answer)
    for event in await gateway.waiting():
        event.text.encode()
    assert not [record for record in gateway.log if record.exc_info]


@pytest.mark.parametrize(
    "kinds", [[], ["text/plain"], ["multipart/form-data; boundary=x"], ["application/json", "application/json"]]
)
async def test_a_signed_body_of_another_type_is_400(gateway: Served, kinds: list[str]) -> None:
    body = whole()
    headers = [*sign(body).items(), *(("Content-Type", kind) for kind in kinds or [""])]
    assert (await gateway.ask(post(HOOK, body, headers))).status == 400


async def test_ten_thousand_chunks_are_one_body(gateway: Served) -> None:
    body = whole().ljust(10_000)
    assert (await gateway.ask(post(HOOK, chunked(body, 1), {**sign(body), **CHUNKED}))).status == 200
    assert gateway.outcomes() == ["new"]


async def test_a_body_that_comes_with_its_head_has_the_same_limit(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    """Nothing is waited for then, and aiohttp's own limit is not asked."""
    async with served(tmp_path, redis_url, layout.prefix, {"gateway": {"body_max_bytes": 1_024}}) as gateway:
        for size, status in ((1_024, 200), (1_025, 413)):
            body = whole().ljust(size)
            assert (await gateway.ask(post(HOOK, body, sign(body)))).status == status


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
async def test_a_packed_body_is_read_and_its_signature_is_that_of_what_is_in_it(
    gateway: Served, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    body = whole()
    answer = await gateway.ask(post(HOOK, pack(body), {**sign(body), "Content-Encoding": encoding}))
    assert answer.status == 200
    assert gateway.outcomes() == ["new"]


async def test_a_bomb_keeps_nobody_waiting(gateway: Served) -> None:
    longest_s, done = 0.0, False

    async def watch() -> None:
        nonlocal longest_s
        while not done:
            before_s = time.process_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.process_time() - before_s)

    watching = asyncio.create_task(watch())
    assert (await gateway.ask(squeezed(BOMB))).status == 413
    done = True
    await watching
    assert longest_s < 0.1


# what does not come to an end


async def test_a_body_that_drips_is_408_in_time_and_others_do_not_notice(gateway: Served) -> None:
    async with gateway.connection() as (reader, writer):
        writer.write(post(HOOK, b"{", {"Content-Length": "1000"}))

        async def drip() -> None:
            while True:
                writer.write(b" ")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        started = time.monotonic()
        assert await still_serves(gateway)
        answer = await answer_of(reader)
        dripping.cancel()
    assert answer.status == 408
    assert is_short_json(answer)
    assert answer.headers["connection"] == "close"
    assert 0.25 < time.monotonic() - started < 2


@pytest.mark.parametrize("raw", [post(HOOK, b"{", {"Content-Length": "1000"}), post(HOOK, b"5\r\n{", CHUNKED)])
async def test_a_sender_that_goes_away_in_the_middle_leaves_a_line_and_no_traceback(
    gateway: Served, raw: bytes
) -> None:
    async with gateway.connection() as (_, writer):
        writer.write(raw)
        await writer.drain()
        await still_serves(gateway)  # so that the head was read
        writer.transport.abort()
    async with asyncio.timeout(30):
        while not gateway.lines("the sender went away") and not gateway.lines("refused"):
            await asyncio.sleep(0.01)
    assert not [record for record in gateway.log if record.exc_info]


# stopping


async def test_open_requests_end_when_the_gateway_stops_and_nobody_is_reset(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with (
        Proxy(redis_url) as proxy,
        served(tmp_path, proxy.redis_url, layout.prefix, {"gateway": {"shutdown_s": 4}}) as gateway,
    ):
        proxy.slow(to_client_s=0.3)
        bodies = [json.dumps(envelope(MENTION, f"Ev{number}")).encode() for number in range(50)]
        asked = [asyncio.create_task(gateway.deliver("slack-main", body, sign(body))) for body in bodies]
        async with gateway.connection() as half, gateway.connection() as idle, gateway.connection() as late:
            half[1].write(post(HOOK, b"{", {"Content-Length": "1000"}))
            for reader, writer in (idle, late):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await answer_of(reader)).status == 200
            started = time.monotonic()
            stopping = asyncio.create_task(gateway.runner.stop())
            async with asyncio.timeout(2):
                while gateway.runner.sites:
                    await asyncio.sleep(0.01)
            late[1].write(post(HOOK, bodies[0], sign(bodies[0])))
            assert (await answer_of(late[0])).status == 503
            assert (await answer_of(half[0])).status == 503
            assert await idle[0].read() == b""
        assert {(await answer).status for answer in asked} == {200}
        await stopping
    assert time.monotonic() - started < 4


# a loop that stands still


async def test_that_something_held_the_loop_is_told_and_what_was_acknowledged_is_there(gateway: Served) -> None:
    """F17: whoever asks meanwhile has no answer, which is what a look at `/healthz` from outside tells."""
    async with gateway.connection() as (reader, writer):
        body = whole()
        writer.write(post(HOOK, body, sign(body)))
        await writer.drain()
        time.sleep(1.6)  # noqa: ASYNC251  # as somebody's code would
        assert (await answer_of(reader)).status == 200
    async with asyncio.timeout(5):
        while not (told := gateway.lines("stood still")):
            await asyncio.sleep(0.01)
    assert told[0]["ms"] > 1_000
    assert len(await gateway.waiting()) == 1


# Redis in trouble


async def test_a_slow_redis_is_503_before_the_platform_gives_up_and_the_late_write_counts_once(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    waits = {"gateway": {"accept_timeout_s": 0.3}, "redis": {"timeout_s": 0.3}}
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix, waits) as gateway:
        proxy.slow(to_server_s=0.8)
        started = time.monotonic()
        answer = await gateway.say(MENTION | {"ts": "1760000000.000100"}, "Ev1")
        assert answer.status == 503
        assert is_short_json(answer)
        assert time.monotonic() - started < 0.7
        proxy.heal()
        async with asyncio.timeout(30):
            while not await gateway.waiting():
                await asyncio.sleep(0.01)
        assert (await gateway.say(MENTION | {"ts": "1760000000.000100"}, "Ev1")).status == 200
        assert len(await gateway.waiting()) == 1
        assert gateway.outcomes() == ["away", "known"]


async def test_a_silent_redis_is_503_and_all_is_well_when_it_speaks_again(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    waits = {"gateway": {"accept_timeout_s": 0.3}, "redis": {"timeout_s": 0.3}}
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix, waits) as gateway:
        proxy.hold()
        unaddressed = {"type": "message", "text": "hm", "thread_ts": "1760000000.000100", "channel_type": "channel"}
        asked = [gateway.say(MENTION if number % 2 else unaddressed, f"Ev{number}") for number in range(40)]
        assert {answer.status for answer in await asyncio.gather(*asked)} == {503}
        assert (await gateway.ask(b"GET /healthz HTTP/1.0\r\n\r\n")).status == 200
        ready = await gateway.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert (ready.status, ready.json["redis"]) == (503, False)
        proxy.heal()
        assert await still_serves(gateway)
        assert set(gateway.outcomes()) == {"away", "new"}


@pytest.mark.parametrize("after_bytes", [1, 2, 3, 5, 9, 17])
async def test_an_answer_of_redis_that_breaks_off_is_503_and_the_event_counts_once(
    tmp_path: Path, redis_url: str, layout: Layout, after_bytes: int
) -> None:
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix) as gateway:
        proxy.cut(after_bytes=after_bytes)
        assert (await gateway.say(MENTION | {"ts": "1760000000.000100"})).status == 503
        proxy.heal()
        assert (await gateway.say(MENTION | {"ts": "1760000000.000100"})).status == 200
        assert len(await gateway.waiting()) == 1


async def test_before_redis_was_there_events_get_503_and_readiness_says_so(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    waits = {"gateway": {"accept_timeout_s": 0.2}, "redis": {"timeout_s": 0.3}}
    async with Proxy(redis_url) as proxy:
        proxy.hold()
        async with served(tmp_path, proxy.redis_url, layout.prefix, waits, ready=False) as gateway:
            assert (await gateway.say(MENTION)).status == 503
            ready = await gateway.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
            assert ready.json == {"ready": False, "redis": False, "fit": False, "data": False, "workers": 0}
            proxy.heal()
            async with asyncio.timeout(30):
                while (await gateway.say(MENTION)).status != 200:
                    await asyncio.sleep(0.02)


async def test_readiness_counts_workers(gateway: Served) -> None:
    ready = await gateway.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
    assert ready.status == 503
    assert ready.json == {"ready": False, "redis": True, "fit": True, "data": True, "workers": 0}
    await gateway.parts.mailbox.beat("w1")
    ready = await gateway.ask(b"GET /readyz HTTP/1.0\r\n\r\n")
    assert (ready.status, ready.json["workers"]) == (200, 1)


async def test_a_redis_of_another_epoch_takes_nothing_and_readiness_is_red(gateway: Served) -> None:
    await gateway.parts.store.redis.hset(f"{gateway.parts.store.layout.root(0)}:meta", "epoch", "another")
    assert (await gateway.say(MENTION)).status == 503
    assert gateway.outcomes() == ["cold"]
    assert not (await gateway.ask(b"GET /readyz HTTP/1.0\r\n\r\n")).json["data"]


# a platform that comes for a text

PULLED = ConversationKey("pulling", "room")


class Pulling(Plain):
    """A platform that asks with each request how far its conversation is."""

    capabilities = Capabilities(text_limit=100)

    def __init__(self) -> None:
        self.does: Callable[[], Any] = lambda: asyncio.sleep(0)

    def verify(self, request: RawRequest, now_s: float) -> None:
        del now_s
        if request.body != b"who is it?":
            raise Unauthorized("not the platform")

    def handshake(self, request: RawRequest) -> None:
        del request

    def parse(self, request: RawRequest, now_s: float) -> list[Event]:
        del request, now_s
        return [Event(kind="pull", conversation=PULLED, actor=Actor("u"), dedupe_keys=("p",), at_ms=0)]

    async def pulled(self, event: Event, *, is_idle: bool) -> HttpReply:
        await self.does()
        return HttpReply(body=json.dumps({"conversation": event.conversation.channel, "idle": is_idle}).encode())


def with_pulls(gateway: Served) -> Pulling:
    adapter: Any = Pulling()
    gateway.gateway._webhooks["/webhooks/pulling"] = partial(gateway.gateway._deliver, "pulling", adapter)
    pulling: Pulling = adapter
    return pulling


async def pull(gateway: Served, body: bytes = b"who is it?") -> Answer:
    return await gateway.deliver("pulling", body, {})


async def test_a_platform_that_comes_for_a_text_hears_whether_there_is_more_to_come(gateway: Served) -> None:
    with_pulls(gateway)
    mailbox = gateway.parts.mailbox
    await mailbox.accept(PULLED, "{}", dedupe_keys=("d",), at_ms=0)
    for is_idle in (False, True):
        answer = await pull(gateway)
        assert (answer.status, answer.json) == (200, {"conversation": "room", "idle": is_idle})
        if grants := (await mailbox.claim(0, "w", 1)).grants:
            stored = await mailbox.load(PULLED.id)
            await mailbox.take(grants[0], {"id": "turn", "start": 0, "to": {}}, members=stored.inbox)
            await mailbox.append(grants[0], turn="close")
            await mailbox.settle(grants[0], "w", 0)


async def test_coming_for_a_text_is_no_message(gateway: Served) -> None:
    with_pulls(gateway)
    for _ in range(3):
        await pull(gateway)
    assert gateway.outcomes() == []
    store = gateway.parts.store
    assert [key async for key in store.redis.scan_iter(store.layout.key(PULLED.id) + "*")] == []


async def test_who_is_not_proven_gets_no_text(gateway: Served) -> None:
    pulling = with_pulls(gateway)

    def never() -> None:
        raise AssertionError("asked for a stranger")

    pulling.does = never
    assert (await pull(gateway, b"me")).status == 401


async def test_who_comes_for_a_text_while_redis_is_away_is_asked_to_come_again(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    waits = {"redis": {"timeout_s": 0.2}}
    async with Proxy(redis_url) as proxy, served(tmp_path, proxy.redis_url, layout.prefix, waits) as gateway:
        with_pulls(gateway)
        proxy.hold()
        answer = await pull(gateway)
        assert (answer.status, answer.json) == (503, {"error": "try again"})
        [line] = gateway.lines("not told")
        assert line["reason"]


async def test_a_text_that_takes_too_long_to_find_is_503(tmp_path: Path, redis_url: str, layout: Layout) -> None:
    async with served(tmp_path, redis_url, layout.prefix, {"gateway": {"accept_timeout_s": 0.1}}) as gateway:
        with_pulls(gateway).does = lambda: asyncio.sleep(60)
        assert (await pull(gateway)).status == 503
        assert [line["reason"] for line in gateway.lines("not told")] == ["timeout"]


async def test_before_we_know_who_we_are_nothing_is_taken_and_the_platform_sends_again(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"type": "app_mention", "text": "<@U0BOT01> hi", "ts": "1760000300.000400", "user": "U1", "channel": "C1"}
    monkeypatch.setattr(slack.Adapter, "is_ready", False)
    assert ((await gateway.say(said)).status, await gateway.waiting()) == (503, [])
    monkeypatch.setattr(slack.Adapter, "is_ready", True)
    assert (await gateway.say(said)).status == 200
    assert len(await gateway.waiting()) == 1


async def test_who_we_are_is_asked_until_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "IDENTITY_RETRY_S", (0.01, 0.02))
    asked: list[int] = []

    class Late(Plain):
        async def identity(self) -> Actor:
            asked.append(1)
            if len(asked) == 1:
                raise ConnectionRefused("not yet")
            if len(asked) == 2:
                raise RuntimeError("a fault that nobody thought of")
            return Actor("us")

    late: Any = Late()
    async with asyncio.timeout(30):
        await app_module.introduce("late", late)
    assert len(asked) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"user": {"id": "own "}},
        {"user": {"id": "own\u3164"}},
        {"conversation": " room"},
        {"conversation": "ro  om"},
        {"thread": "t "},
        {"conversation": None, "user": {"id": " own"}},
    ],
)
async def test_who_or_what_looks_like_another_is_malformed(gateway: Served, changed: dict[str, Any]) -> None:
    data = {"conversation": "room", "message_id": "m1", "user": {"id": "own"}, "text": "hi", **changed}
    raw = json.dumps({"type": "message.created", "data": data}).encode()
    assert (await gateway.deliver("bridge", raw, webhook_twin.sign("w1", raw.decode()))).status == 400
    assert "an id with blanks" in gateway.lines("refused")[-1]["reason"]
    assert not await gateway.waiting()
