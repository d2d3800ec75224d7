"""The half that talks: against a strict stand-in for Slack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from gateway.conversation.key import ConversationKey
from gateway.events import Attachment
from gateway.platforms import Address, ConnectionRefused, NotDownloaded, Outbound, Outside, Part
from gateway.platforms.slack import Adapter, Settings
from tests.harness.faults import Fault
from tests.harness.slack_twin import (
    BOT_TOKEN,
    BOT_USER,
    CHANNEL,
    DIRECT,
    SIGNING_SECRET,
    TEAM,
    USER,
    Message,
    SlackTwin,
    Whisper,
)
from tests.harness.web import canary

KEY = "k" * 26
DM = Address(ConversationKey("slack-main", DIRECT, TEAM))


@pytest.fixture
async def slack() -> AsyncIterator[SlackTwin]:
    async with SlackTwin() as twin:
        yield twin


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def adapter(slack: SlackTwin, http: aiohttp.ClientSession) -> Adapter:
    return connect(slack.url, http)


def connect(api_base: str, http: aiohttp.ClientSession, **keys: Any) -> Adapter:
    given = {"signing_secret": SecretStr(SIGNING_SECRET), "bot_token": SecretStr(BOT_TOKEN), **keys}
    return Adapter(
        "slack-main",
        Settings(platform="slack", api_base=api_base, **given),
        Outside(http, cast("Any", None), cast("Any", None), cast("Any", None)),
    )


def thread(slack: SlackTwin) -> Address:
    """A place to answer: somebody began a thread there."""
    ts = f"{time.time() - 1:.6f}"
    slack.messages.append(Message(CHANNEL, ts, "U0USER1", "hi"))
    return Address(ConversationKey("slack-main", CHANNEL, f"{TEAM}:{ts}"))


def text(markdown: str) -> Part:
    [part] = Adapter.render(cast("Adapter", None), Outbound(markdown))
    return part


async def test_a_reply_goes_into_its_thread_quietly_and_with_its_key(slack: SlackTwin, adapter: Adapter) -> None:
    to = thread(slack)
    outcome = await adapter.send(to, text("**Hi** & <!here>"), KEY)
    [taken] = slack.taken
    assert outcome.kind == "ok"
    assert outcome.sent
    assert outcome.sent.message_id == taken.ts
    assert (taken.channel, f"{TEAM}:{taken.thread_ts}") == (CHANNEL, to.conversation.thread)
    assert taken.text == "*Hi* &amp; &lt;!here&gt;"
    assert taken.key == KEY
    assert {name: taken.body[name] for name in ("unfurl_links", "unfurl_media", "link_names", "parse")} == {
        "unfurl_links": False,
        "unfurl_media": False,
        "link_names": False,
        "parse": "none",
    }


async def test_a_reply_in_a_direct_message_has_no_thread(slack: SlackTwin, adapter: Adapter) -> None:
    assert (await adapter.send(DM, text("hi"), KEY)).kind == "ok"
    assert slack.taken[0].thread_ts is None


async def test_what_is_for_one_person_is_shown_to_them_alone(slack: SlackTwin, adapter: Adapter) -> None:
    to = thread(slack)
    root = str(to.conversation.thread).partition(":")[2]
    slack.messages.append(Message(CHANNEL, f"{time.time():.6f}", USER, "more", root))
    [part] = adapter.render(Outbound("**Only** for you", only_for=USER))
    outcome = await adapter.send(replace(to, extra={"in_thread": True}), part, KEY)
    assert outcome.kind == "ok"
    assert slack.whispers == [Whisper(CHANNEL, USER, "*Only* for you", root, is_shown=True)]
    assert not [message for message in slack.messages if message.bot_id]


async def test_what_is_for_one_person_stays_out_of_a_thread_that_has_no_reply_yet(
    slack: SlackTwin, adapter: Adapter
) -> None:
    [part] = adapter.render(Outbound("hi", only_for=USER))
    await adapter.send(thread(slack), part, KEY)
    assert [(one.thread_ts, one.is_shown) for one in slack.whispers] == [(None, True)]


async def test_who_is_not_in_the_channel_is_told_nothing(slack: SlackTwin, adapter: Adapter) -> None:
    [part] = adapter.render(Outbound("hi", only_for="U0STRANGER"))
    outcome = await adapter.send(thread(slack), part, KEY)
    assert (outcome.kind, slack.whispers) == ("target_gone", [])


async def test_the_fallback_is_sent_as_plain_text(slack: SlackTwin, adapter: Adapter) -> None:
    fallback = text("**Hi** <x>").fallback
    assert fallback
    await adapter.send(DM, Part(fallback), KEY)
    assert (slack.taken[0].text, slack.taken[0].body["mrkdwn"]) == ("**Hi** &lt;x&gt;", False)


async def test_an_edit_replaces_the_text_and_keeps_the_key(slack: SlackTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(DM, text("one"), KEY)).sent
    assert sent
    outcome = await adapter.edit(DM, sent, text("one **two** @everyone"))
    assert outcome.kind == "ok"
    [message] = slack.messages
    assert message.text == "one *two* @\u200beveryone"
    assert slack.taken[1].key == KEY
    assert slack.taken[1].body["parse"] == "none"


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_reply_whose_answer_was_lost_is_found_by_its_key(
    slack: SlackTwin, adapter: Adapter, *, in_thread: bool
) -> None:
    to = thread(slack) if in_thread else DM
    since_ms = round(time.time() * 1000)
    missing = await adapter.find(to, KEY, since_ms)
    assert (missing.kind, missing.sent) == ("target_gone", None)
    slack.next(close=True, taken=True)
    assert (await adapter.send(to, text("hi"), KEY)).kind == "ambiguous"
    found = await adapter.find(to, KEY, since_ms)
    assert found.kind == "ok"
    assert found.sent
    assert found.sent.message_id == slack.taken[0].ts
    assert (await adapter.find(to, "another", since_ms)).kind == "target_gone"


async def test_a_look_back_reads_page_after_page(slack: SlackTwin, adapter: Adapter) -> None:
    to = thread(slack)
    for number in range(250):
        root = (to.conversation.thread or "").partition(":")[2]
        slack.messages.append(Message(CHANNEL, f"{time.time() - 0.5 + number / 10_000:.6f}", "U0USER1", "x", root))
    await adapter.send(to, text("hi"), KEY)
    assert (await adapter.find(to, KEY, round(time.time() * 1000))).kind == "ok"
    assert slack.calls.count("conversations.replies") == 3


async def test_a_look_back_that_fails_does_not_say_that_nothing_is_there(slack: SlackTwin, adapter: Adapter) -> None:
    slack.next(status=500)
    assert (await adapter.find(DM, KEY, 0)).kind == "transient"
    slack.next(error="missing_scope")
    assert (await adapter.find(DM, KEY, 0)).kind == "auth_failed"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 429, "retry_after": 7}, "rate_limited"),
        ({"error": "ratelimited"}, "rate_limited"),
        ({"error": "msg_too_long"}, "too_long"),
        ({"error": "invalid_blocks"}, "bad_format"),
        ({"error": "invalid_auth"}, "auth_failed"),
        ({"error": "channel_not_found"}, "target_gone"),
        ({"error": "is_archived"}, "target_gone"),
        ({"error": "restricted_action"}, "rejected"),
        ({"error": "service_unavailable"}, "transient"),
        ({"error": "fatal_error"}, "ambiguous"),
        ({"status": 401}, "auth_failed"),
        ({"status": 404, "body": "<html>"}, "rejected"),
        ({"status": 413}, "too_long"),
        ({"status": 500}, "ambiguous"),
        ({"status": 502, "body": "<html>"}, "ambiguous"),
        ({"status": 503}, "transient"),
        ({"status": 200, "body": "<html>sign in"}, "ambiguous"),
        ({"status": 200, "body": [1]}, "ambiguous"),
        ({"status": 200, "body": {"ok": True}}, "ambiguous"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "rejected"),
        ({"close": True}, "ambiguous"),
    ],
)
async def test_each_ending_is_told_apart(slack: SlackTwin, adapter: Adapter, fault: dict[str, Any], kind: str) -> None:
    slack.next(**fault)
    outcome = await adapter.send(DM, text("hi"), KEY)
    assert outcome.kind == kind
    assert outcome.detail.startswith("chat.postMessage: ")
    assert BOT_TOKEN not in outcome.detail
    assert (await adapter.send(DM, text("hi"), KEY)).kind == "ok"


@pytest.mark.parametrize(("value", "wait_s"), [("7", 7.0), ("0", 0.0), ("-1", 1.0), ("nan", 1.0), ("99999999", 3600.0)])
async def test_the_wait_that_slack_asks_for_is_believed_within_reason(
    slack: SlackTwin, adapter: Adapter, value: str, wait_s: float
) -> None:
    slack.faults.order(Fault(status=429, headers={"Retry-After": value}))
    assert (await adapter.send(DM, text("hi"), KEY)).retry_after_s == wait_s


async def test_an_answer_that_does_not_come_is_ambiguous_in_time(slack: SlackTwin, http: aiohttp.ClientSession) -> None:
    slack.next(hang=True, taken=True)
    begun = time.monotonic()
    outcome = await connect(slack.url, http, timeout_s=0.1).send(DM, text("hi"), KEY)
    assert outcome.kind == "ambiguous"
    assert time.monotonic() - begun < 1
    assert len(slack.taken) == 1


async def test_nobody_there_is_transient_for_nothing_was_sent(
    http: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    lonely = connect(f"http://127.0.0.1:{unused_tcp_port}/api", http)
    outcome = await lonely.send(DM, text("hi"), KEY)
    assert outcome.kind == "transient"
    with pytest.raises(ConnectionRefused, match=r"auth\.test: not reached"):
        await lonely.identity()


async def test_an_edit_that_was_lost_may_be_made_again(slack: SlackTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(DM, text("one"), KEY)).sent
    assert sent
    slack.next(close=True, taken=True)
    assert (await adapter.edit(DM, sent, text("two"))).kind == "transient"


async def test_no_redirect_takes_the_token_elsewhere(http: aiohttp.ClientSession) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        outcome = await connect(f"http://127.0.0.1:{runner.addresses[0][1]}/api", http).send(DM, text("hi"), KEY)
    finally:
        await runner.cleanup()
    assert outcome.kind == "rejected"
    assert asked == ["/api/chat.postMessage"]


async def test_identity_is_who_the_token_says_and_no_other_workspace(
    slack: SlackTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    me = await adapter.identity()
    assert (me.id, me.is_self, adapter.me) == (BOT_USER, True, me)
    assert (await connect(slack.url, http, team_id=TEAM).identity()).id == BOT_USER
    with pytest.raises(ConnectionRefused, match="T0OTHER"):
        await connect(slack.url, http, team_id="T0OTHER").identity()
    with pytest.raises(ConnectionRefused, match="invalid_auth"):
        await connect(slack.url, http, bot_token=SecretStr("xoxb-wrong")).identity()


async def test_a_cancelled_send_stays_cancelled(slack: SlackTwin, adapter: Adapter) -> None:
    slack.next(hang=True)
    task = asyncio.create_task(adapter.send(DM, text("hi"), KEY))
    async with asyncio.timeout(5):
        while not slack.calls:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_every_part_of_a_long_answer_is_taken(slack: SlackTwin, adapter: Adapter) -> None:
    markdown = "\n\n".join(["| a & b | c |\n|---|---|\n" + "| x | y |\n" * 300, "word & <more> " * 900, "🚀" * 5_000])
    for number, part in enumerate(adapter.render(Outbound(markdown))):
        outcome = await adapter.send(DM, part, f"{KEY}{number}")
        assert outcome.sent
        assert (await adapter.edit(DM, outcome.sent, part)).kind == "ok"
    assert len({one.key for one in slack.taken}) > 5


def attached(file: dict[str, Any]) -> Attachment:
    """As `parse` makes it of a file that an event shows."""
    return Attachment("file", file["name"], file["mimetype"], file["size"], {"url": file["url_private_download"]})


async def test_a_file_is_downloaded_with_the_token(slack: SlackTwin, adapter: Adapter) -> None:
    file = attached(slack.file("zahlen.csv", b"a;b\n1;2\n"))
    assert await adapter.download(file, 9) == b"a;b\n1;2\n"


async def test_a_page_that_somebody_attached_is_no_login(slack: SlackTwin, adapter: Adapter) -> None:
    file = attached(slack.file("seite.html", b"<html>Report", "text/html"))
    assert await adapter.download(file, 100) == b"<html>Report"


async def test_a_login_page_in_place_of_the_file_is_said_with_what_is_missing(
    slack: SlackTwin, http: aiohttp.ClientSession
) -> None:
    adapter = connect(slack.url, http, bot_token=SecretStr("xoxb-without-the-scope"))
    for name, mime in (("zahlen.csv", "text/csv"), ("seite.html", "text/html")):
        with pytest.raises(NotDownloaded, match=r"login page.*files:read"):
            await adapter.download(attached(slack.file(name, b"1;2", mime)), 100)


@pytest.mark.parametrize("told", [9, 3])
async def test_a_file_that_is_too_long_is_refused_whatever_was_said_of_it(
    slack: SlackTwin, adapter: Adapter, told: int
) -> None:
    file = replace(attached(slack.file("zahlen.csv", b"123456789")), size_bytes=told)
    with pytest.raises(NotDownloaded, match=r"allowed are 8|more than 8 bytes"):
        await adapter.download(file, 8)


@pytest.mark.parametrize(
    "where",
    [
        "http://files.slack.com/files-pri/T-F/x",  # unencrypted
        "https://files.slack.com:8443/x",
        "https://files.slack.com.evil.example/x",
        "https://evilslack.com/x",
        "https://xoxb@files.slack.com/x",
        "https://evil.example/files.slack.com",
        "file:///etc/passwd",
        "//evil.example/x",
    ],
)
async def test_the_token_goes_to_slack_only(slack: SlackTwin, adapter: Adapter, where: str) -> None:
    """Neither for what an event says, nor for a redirect."""
    with pytest.raises(NotDownloaded, match=r"not Slack's|no address of Slack's"):
        await adapter.download(Attachment("file", "x", "", 1, {"url": where}), 100)
    slack.next(on="file", status=302, headers={"Location": where})
    with pytest.raises(NotDownloaded, match=r"not Slack's|no address of Slack's"):
        await adapter.download(attached(slack.file("x", b"1")), 100)


async def test_nobody_else_is_even_visited(slack: SlackTwin, adapter: Adapter) -> None:
    with canary() as elsewhere:
        slack.next(on="file", status=302, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        with pytest.raises(NotDownloaded):
            await adapter.download(attached(slack.file("x", b"1")), 100)
        assert elsewhere.visits() == 0


@pytest.mark.parametrize("host", ["files.slack.com", "team-x.slack.com", "slack.com", "files-origin.slack-files.com"])
def test_slacks_own_hosts_are_taken(host: str) -> None:
    adapter = connect("https://slack.com/api", cast("Any", None))
    assert adapter._file_url(f"https://{host}/files-pri/T1-F1/download/x.csv").host == host


async def test_a_file_that_slack_only_announces_is_told_as_such(adapter: Adapter) -> None:
    with pytest.raises(NotDownloaded, match="Slack gives no address"):
        await adapter.download(Attachment("file", "x", "", 1, {}), 100)


async def test_a_redirect_among_slacks_hosts_is_followed_and_an_endless_one_is_not(
    slack: SlackTwin, adapter: Adapter
) -> None:
    file = slack.file("x", b"1")
    slack.next(on="file", status=302, headers={"Location": file["url_private"]}, times=3)
    assert await adapter.download(attached(file), 100) == b"1"
    slack.next(on="file", status=302, headers={"Location": file["url_private"]}, times=4)
    with pytest.raises(NotDownloaded, match="redirects"):
        await adapter.download(attached(file), 100)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [({"status": 500}, "status 500"), ({"status": 404}, "not there any more"), ({"close": True}, "no answer")],
)
async def test_a_file_that_does_not_come_is_told_as_such(
    slack: SlackTwin, adapter: Adapter, fault: dict[str, Any], reason: str
) -> None:
    slack.next(on="file", times=2, **fault)  # a broken connection is tried once more below us
    with pytest.raises(NotDownloaded, match=reason):
        await adapter.download(attached(slack.file("x", b"1")), 100)
