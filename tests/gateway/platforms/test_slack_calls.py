"""The half that talks: against a strict stand-in for Slack."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from pydantic import SecretStr

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event, ReplyHandle
from gateway.platforms import (
    Address,
    Button,
    ConnectionRefused,
    Growing,
    NotDownloaded,
    Outbound,
    Outside,
    Pace,
    Part,
    RawRequest,
    Sent,
    StepLine,
)
from gateway.platforms.slack import Adapter, Settings
from gateway.wire import may_open
from tests.harness.faults import Fault
from tests.harness.slack_twin import (
    BOT_ID,
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
    """Whatever a test sends has no preview of what it links to, where Slack can be told so."""
    async with SlackTwin() as twin:
        yield twin
        texts = [one.body for one in twin.taken if one.method in {"chat.postMessage", "response_url"}]
        assert [one for one in texts if (one.get("unfurl_links"), one.get("unfurl_media")) != (False, False)] == []


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def adapter(slack: SlackTwin, http: aiohttp.ClientSession) -> Adapter:
    return connect(slack.url, http)


class Kept:
    """Files as workers keep them, by name."""

    def __init__(self, **files: bytes) -> None:
        self._files = files

    async def read(self, fetch: Mapping[str, Any], max_bytes: int) -> bytes:
        if fetch["file"] not in self._files:
            raise NotDownloaded("it is not kept any more")
        assert len(self._files[fetch["file"]]) <= max_bytes
        return self._files[fetch["file"]]


def connect(api_base: str, http: aiohttp.ClientSession, files: Kept | None = None, **keys: Any) -> Adapter:
    given = {"signing_secret": SecretStr(SIGNING_SECRET), "bot_token": SecretStr(BOT_TOKEN), **keys}
    return Adapter(
        "slack-main",
        Settings(platform="slack", api_base=api_base, **given),
        Outside(http, cast("Any", None), cast("Any", files), cast("Any", None)),
    )


def thread(slack: SlackTwin) -> Address:
    """A place to answer: somebody began a thread there."""
    ts = f"{time.time() - 1:.6f}"
    slack.messages.append(Message(CHANNEL, ts, "U0USER1", "hi"))
    return Address(ConversationKey("slack-main", CHANNEL, f"{TEAM}:{ts}"))


def assistant(slack: SlackTwin) -> Address:
    """A place where the answer may be a stream: a thread of an assistant, which begins with a message of ours."""
    ts = f"{time.time() - 1:.6f}"
    slack.messages.append(Message(DIRECT, ts, BOT_USER, "Hello!", ts, BOT_ID))
    extra = {"in_thread": True, "recipient": {"team": TEAM, "user": USER, "us": [BOT_USER]}}
    return Address(ConversationKey("slack-main", DIRECT, f"{TEAM}:{ts}"), extra)


def growing(text: str, *steps: StepLine) -> Growing:
    lines = "".join(f"_{one.name} {one.state}_\n\n" for one in steps)
    return Growing(text, steps, lines + text)


def answers(slack: SlackTwin) -> list[Message]:
    """Ours, but for what begins an assistant's thread."""
    return [one for one in slack.messages if one.bot_id and one.thread_ts != one.ts]


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
    async with asyncio.timeout(30):
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
    assert may_open(f"https://{host}/files-pri/T1-F1/download/x.csv", "Slack", adapter._file_places).host == host


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


# growing


async def test_a_growing_answer_is_a_post_and_its_edits_where_there_are_no_streams(
    slack: SlackTwin, adapter: Adapter
) -> None:
    to = thread(slack)
    sent = (await adapter.show(to, growing("Hel"), KEY, None)).sent
    assert sent
    assert (await adapter.show(to, growing("Hello **you**"), KEY, sent)).sent == sent
    assert (await adapter.edit(to, sent, text("Hello **you**!"))).kind == "ok"
    assert [one.text for one in answers(slack)] == ["Hello *you*!"]
    assert slack.calls == ["chat.postMessage", "chat.update", "chat.update"]


async def test_a_stream_gets_what_is_new_and_ends_as_the_whole_reply(slack: SlackTwin, adapter: Adapter) -> None:
    to, sent = assistant(slack), None
    for shown in ("Hel", "Hello **you", "Hello **you**", "Hello **you**"):
        outcome = await adapter.show(to, growing(shown), KEY, sent)
        assert outcome.kind == "ok"
        sent = outcome.sent
    assert sent
    [message] = answers(slack)
    assert (message.text, message.streaming) == ("Hello **you**", True)
    assert [one.body["markdown_text"] for one in slack.taken] == ["Hel", "lo **you", "**"]
    assert slack.taken[0].body["recipient_user_id"] == USER
    done = await adapter.edit(to, sent, text("Hello **you** & all"))
    assert done.kind == "ok"
    assert (message.text, message.streaming) == ("Hello *you* &amp; all", False)
    assert (await adapter.find(to, KEY, round(time.time() * 1000))).sent == done.sent
    assert answers(slack) == [message]


async def test_another_process_ends_a_stream_of_which_it_has_the_beginning_only(
    slack: SlackTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    to, other = assistant(slack), connect(slack.url, http)
    stored = (await adapter.show(to, growing("Hello"), KEY, None)).sent
    assert stored
    await adapter.show(to, growing("Hello there"), KEY, stored)
    shown = await other.show(to, growing("Hello world"), KEY, stored)  # it can't know of "there"
    [message] = answers(slack)
    assert (message.text, message.streaming) == ("Hello world", False)
    assert shown.sent
    assert (await other.edit(to, stored, text("Hello world!"))).kind == "ok", "the stream is over already"
    assert [one.text for one in answers(slack)] == ["Hello world!"]
    assert slack.refused == [("chat.stopStream", "message_not_in_streaming_state")]


@pytest.mark.parametrize("then", [growing("Bye"), growing("Hello", StepLine("tool", "web", "running"))])
async def test_what_does_not_go_on_from_the_stream_ends_it_in_an_edit(
    slack: SlackTwin, adapter: Adapter, then: Growing
) -> None:
    to = assistant(slack)
    first = await adapter.show(to, growing("Hello"), KEY, None)
    second = await adapter.show(to, then, KEY, first.sent)
    third = await adapter.show(to, growing("Done"), KEY, second.sent)
    assert (first.kind, second.kind, third.kind) == ("ok", "ok", "ok")
    assert slack.calls == ["chat.startStream", "chat.stopStream", "chat.update", "chat.update"]
    assert [one.text for one in answers(slack)] == ["Done"]


async def test_of_a_long_answer_the_first_part_is_streamed(slack: SlackTwin, adapter: Adapter) -> None:
    to, sent = assistant(slack), None
    for count in (700, 900, 1_500):
        sent = (await adapter.show(to, growing("word " * count), KEY, sent)).sent
    [first, _] = adapter.render(Outbound("word " * 1_500))
    assert answers(slack)[0].text.strip() == first.payload["text"]


async def test_steps_are_never_streamed(slack: SlackTwin, adapter: Adapter) -> None:
    await adapter.show(assistant(slack), growing("", StepLine("skill", "web-access", "running")), KEY, None)
    assert slack.calls == ["chat.postMessage"]


@pytest.mark.parametrize("error", ["unknown_method", "missing_scope", "not_allowed_token_type"])
async def test_a_workspace_without_streams_gets_a_post_and_is_not_asked_again(
    slack: SlackTwin, adapter: Adapter, error: str
) -> None:
    slack.next(on="chat.startStream", error=error)
    to = assistant(slack)
    for _ in range(2):
        assert (await adapter.show(to, growing("Hello"), KEY, None)).kind == "ok"
    assert slack.calls == ["chat.startStream", "chat.postMessage", "chat.postMessage"]
    assert {one.key for one in slack.taken} == {KEY}


@pytest.mark.parametrize(
    "error", ["invalid_arguments", "channel_type_not_supported", "msg_too_long", "thread_not_found"]
)
async def test_a_stream_that_is_refused_once_is_begun_the_next_time(
    slack: SlackTwin, adapter: Adapter, error: str
) -> None:
    slack.next(on="chat.startStream", error=error)
    to = assistant(slack)
    for _ in range(2):
        assert (await adapter.show(to, growing("Hello"), KEY, None)).kind == "ok"
    assert slack.calls == ["chat.startStream", "chat.postMessage", "chat.startStream"]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_growing_message_can_be_taken_back(slack: SlackTwin, adapter: Adapter, *, streams: bool) -> None:
    to = assistant(slack) if streams else thread(slack)
    shown = await adapter.show(to, growing("Hello"), KEY, None)
    assert shown.sent
    if streams:
        assert (await adapter.delete(to, shown.sent)).kind == "transient"  # Slack lets nobody touch an open one
        slack.next(on="chat.update", error="msg_too_long")
        assert (await adapter.edit(to, shown.sent, text("Hello"))).kind == "too_long"
    assert (await adapter.delete(to, shown.sent)).kind == "ok"
    assert answers(slack) == []
    assert (await adapter.delete(to, shown.sent)).kind == "target_gone"
    slack.next(on="chat.delete", close=True)
    assert (await adapter.delete(to, shown.sent)).kind == "transient"


@pytest.mark.parametrize("taken", [True, False])
async def test_a_stream_whose_beginning_is_unclear_is_found_or_was_never_there(
    slack: SlackTwin, adapter: Adapter, *, taken: bool
) -> None:
    to = assistant(slack)
    since_ms = round(time.time() * 1000)
    await adapter.send(to, text("a reply of before"), "another")
    slack.messages.append(Message(DIRECT, slack.next_ts(), BOT_USER, "", slack.messages[0].ts, BOT_ID, files=["F1"]))
    slack.next(on="chat.startStream", close=True, taken=taken)
    assert (await adapter.show(to, growing("Hello"), KEY, None)).kind == "ambiguous"
    found = await adapter.find(to, KEY, since_ms)
    assert found.kind == ("ok" if taken else "target_gone")
    if found.sent:
        assert (await adapter.edit(to, found.sent, text("Hello!"))).kind == "ok"
        assert (await adapter.find(to, KEY, since_ms)).sent == Sent(
            found.sent.message_id, {"channel": DIRECT, "key": KEY}
        )
    assert [one.text for one in answers(slack)][2:] == (["Hello!"] if taken else [])


async def test_more_of_which_nobody_knows_whether_it_came_ends_the_stream(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    first = await adapter.show(to, growing("Hello"), KEY, None)
    slack.next(on="chat.appendStream", close=True, taken=True)
    unclear = await adapter.show(to, growing("Hello world"), KEY, first.sent)
    assert unclear.kind == "ambiguous"
    assert (await adapter.show(to, growing("Hello world!"), KEY, unclear.sent)).kind == "ok"
    assert [one.text for one in answers(slack)] == ["Hello world!"]


async def test_a_stream_that_has_to_wait_loses_nothing(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    first = await adapter.show(to, growing("Hello"), KEY, None)
    slack.next(on="chat.appendStream", status=429, retry_after=3)
    waits = await adapter.show(to, growing("Hello world"), KEY, first.sent)
    assert (waits.kind, waits.retry_after_s, waits.sent) == ("rate_limited", 3, None)
    await adapter.show(to, growing("Hello world!"), KEY, first.sent)
    assert [one.text for one in answers(slack)] == ["Hello world!"]
    assert slack.calls[-1] == "chat.appendStream"


async def test_a_stream_that_slack_has_ended_becomes_an_edited_message(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    first = await adapter.show(to, growing("Hello"), KEY, None)
    slack.messages[-1].streaming = False  # by its age, or by somebody's click
    second = await adapter.show(to, growing("Hello **world**"), KEY, first.sent)
    assert second.kind == "ok"
    assert [one.text for one in answers(slack)] == ["Hello *world*"]


async def test_an_end_that_is_unclear_is_made_again(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    sent = (await adapter.show(to, growing("Hello"), KEY, None)).sent
    assert sent
    for method in ("chat.stopStream", "chat.update"):
        slack.next(on=method, close=True, taken=True)
        assert (await adapter.edit(to, sent, text("Hello!"))).kind == "transient"
    slack.next(on="chat.stopStream", status=429, retry_after=2)
    assert (await adapter.edit(to, sent, text("Hello!"))).kind == "rate_limited"
    assert (await adapter.edit(to, sent, text("Hello!"))).kind == "ok"
    assert [(one.text, one.streaming) for one in answers(slack)] == [("Hello!", False)]


async def test_a_stream_that_is_still_open_is_waited_for_and_not_answered_twice(
    slack: SlackTwin, adapter: Adapter
) -> None:
    to = assistant(slack)
    sent = (await adapter.show(to, growing("Hello"), KEY, None)).sent
    assert sent
    slack.next(on="chat.stopStream", error="restricted_action")
    assert (await adapter.edit(to, sent, text("Hello!"))).kind == "transient"


async def test_nothing_in_a_stream_is_live_wherever_it_was_cut(slack: SlackTwin, adapter: Adapter) -> None:
    """B053."""
    line = "<!channel> <@U0USER9> @here &lt;!here&gt; <https://evil.example|x> [https://bank.example](https://evil.example)"
    to, sent = assistant(slack), None
    for end in range(1, len(line) + 1):
        sent = (await adapter.show(to, growing(line[:end]), KEY, sent)).sent
    assert set(slack.calls) == {"chat.startStream", "chat.appendStream"}, "what was streamed stays a beginning"
    shown = answers(slack)[0].text
    assert shown.replace("\u200b", "") == line
    assert not any(live in shown for live in ("<!", "<@", "@here", "&lt;", "<h", "]("))


# what only assistants have


async def test_the_status_of_an_assistant_s_thread_ends_with_the_answer(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    await adapter.typing(to, on=True)
    assert list(slack.statuses.values()) == ["…"]
    await adapter.typing(to, on=False)
    assert slack.calls == ["assistant.threads.setStatus"], "the reply waits for nothing"
    await adapter.send(to, text("hi"), KEY)
    assert slack.statuses == {}


async def test_there_is_no_status_elsewhere(slack: SlackTwin, adapter: Adapter) -> None:
    await adapter.typing(DM, on=True)
    await adapter.typing(thread(slack), on=True)
    assert slack.calls == []


async def test_a_status_that_is_refused_is_not_asked_for_again(slack: SlackTwin, adapter: Adapter) -> None:
    to = assistant(slack)
    slack.next(on="assistant.threads.setStatus", close=True)
    slack.next(on="assistant.threads.setStatus", status=429, retry_after=1)
    slack.next(on="assistant.threads.setStatus", error="missing_scope")
    for _ in range(5):
        await adapter.typing(to, on=True)
    assert slack.calls == ["assistant.threads.setStatus"] * 3


# buttons

GO = (Button("Go", "skill approve 7F3K", "primary"), Button("No", "skill refuse 7F3K", "danger"))


def press(message: Message, **extra: Any) -> Event:
    """As `parse` makes it."""
    conversation = ConversationKey("slack-main", message.channel, TEAM)
    return Event(kind="action", conversation=conversation, actor=Actor(USER), dedupe_keys=("a",), at_ms=0,
                 message_id=message.ts, extra=extra or {"text": message.text})  # fmt: skip


async def test_buttons_are_shown_and_go_when_what_they_ask_for_is_settled(slack: SlackTwin, adapter: Adapter) -> None:
    [part] = adapter.render(Outbound("**Approve** it?\n\n" + "word & " * 300, buttons=GO))
    assert (await adapter.send(DM, part, KEY)).kind == "ok"
    [message] = slack.messages
    assert [one["text"]["text"] for one in message.buttons] == ["Go", "No"]
    before = message.text
    await adapter.pressed(DM, press(message), "no right", is_settled=False)
    assert message.buttons
    await adapter.pressed(DM, press(message), "done", is_settled=True)
    assert (message.text, message.blocks) == (before, [])


async def test_a_growing_answer_may_end_with_buttons(slack: SlackTwin, adapter: Adapter) -> None:
    for to in (DM, assistant(slack)):
        sent = (await adapter.show(to, growing("Approve"), KEY, None)).sent
        assert sent
        [part] = adapter.render(Outbound("Approve it?", buttons=GO))
        assert (await adapter.edit(to, sent, part)).kind == "ok"
        assert len(slack.messages[-1].buttons) == 2
        assert slack.messages[-1].text == "Approve it?"


async def test_buttons_for_one_person_go_with_their_message(slack: SlackTwin, adapter: Adapter) -> None:
    message = Message(CHANNEL, "1760000000.1", BOT_USER, "x", None, BOT_ID)
    slack.messages.append(message)
    handle = ReplyHandle("response_url", {"url": slack.response_url(CHANNEL, USER, message)}, late())
    event = replace(press(message, is_ephemeral=True), reply_handle=handle)
    await adapter.pressed(DM, event, "done", is_settled=True)
    assert slack.messages == []


async def test_buttons_go_where_we_are_no_member_as_well(slack: SlackTwin, adapter: Adapter) -> None:
    message = Message(CHANNEL, "1760000000.1", BOT_USER, "x", None, BOT_ID)
    slack.messages.append(message)
    slack.foreign.add(CHANNEL)
    handle = ReplyHandle("response_url", {"url": slack.response_url(CHANNEL, USER, message)}, late())
    await adapter.pressed(DM, replace(press(message), reply_handle=handle), "done", is_settled=True)
    assert [(one.text, one.edited) for one in slack.messages] == [("x", True)]


async def test_a_press_whose_end_can_not_be_shown_raises_nothing(slack: SlackTwin, adapter: Adapter) -> None:
    message = Message(CHANNEL, "1760000000.1", USER, "x")
    for event in (press(message), press(message, is_ephemeral=True)):
        await adapter.pressed(DM, event, "done", is_settled=True)
    slack.next(close=True)
    await adapter.pressed(DM, press(message), "done", is_settled=True)


# answers to commands


def late(in_s: float = 1_800) -> int:
    return round((time.time() + in_s) * 1000)


def commanded(slack: SlackTwin, *, user: str = USER, in_s: float = 1_800) -> Address:
    url = slack.response_url(CHANNEL, user)
    handle = ReplyHandle("response_url", {"url": url, "user": user}, late(in_s))
    return Address(ConversationKey("slack-main", CHANNEL, TEAM), handle=handle)


async def test_a_command_is_answered_as_a_message_of_ours(slack: SlackTwin, adapter: Adapter) -> None:
    assert (await adapter.send(commanded(slack), text("**hi**"), KEY)).kind == "ok"
    assert slack.calls == ["chat.postMessage"]
    assert [one.uses_left for one in slack.responses.values()] == [5]


async def test_how_long_an_address_lasts_is_told_by_the_servers_time(slack: SlackTwin, adapter: Adapter) -> None:
    slack.foreign.add(CHANNEL)
    adapter._outside = replace(adapter._outside, now_ms=lambda: late(7_200))
    assert (await adapter.send(commanded(slack), text("hi"), KEY)).kind == "target_gone"
    assert (await adapter.send(commanded(slack, in_s=7_300), text("hi"), KEY)).kind == "ok"


async def test_where_we_are_no_member_a_command_is_answered_by_its_own_address(
    slack: SlackTwin, adapter: Adapter
) -> None:
    slack.foreign.add(CHANNEL)
    [part] = adapter.render(Outbound("**hi** <!here>", buttons=GO))
    assert (await adapter.send(commanded(slack), part, KEY)).kind == "ok"
    [message] = slack.messages
    assert (message.text, len(message.buttons)) == ("*hi* &lt;!here&gt;", 2)
    [private] = adapter.render(Outbound("psst", only_for=USER))
    assert (await adapter.send(commanded(slack), private, KEY)).kind == "ok"
    assert [(one.user, one.text) for one in slack.whispers] == [(USER, "psst")]


async def test_what_is_for_one_person_is_not_shown_to_who_gave_the_command(slack: SlackTwin, adapter: Adapter) -> None:
    slack.foreign.add(CHANNEL)
    [private] = adapter.render(Outbound("psst", only_for="U0OTHER"))
    outcome = await adapter.send(commanded(slack), private, KEY)
    assert (outcome.kind, outcome.detail) == ("target_gone", "chat.postEphemeral: not_in_channel")
    assert slack.whispers == []


async def test_an_address_past_its_end_is_not_used(slack: SlackTwin, adapter: Adapter) -> None:
    slack.foreign.add(CHANNEL)
    outcome = await adapter.send(commanded(slack, in_s=-1), text("hi"), KEY)
    assert (outcome.kind, outcome.detail) == ("target_gone", "chat.postMessage: not_in_channel")
    used = commanded(slack)
    for response in slack.responses.values():
        response.uses_left = 0
    assert (await adapter.send(used, text("hi"), KEY)).detail == "chat.postMessage: not_in_channel"
    assert slack.messages == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 429, "headers": {"Retry-After": "5"}}, "rate_limited"),
        ({"status": 500}, "ambiguous"),
        ({"status": 400}, "rejected"),
        ({"close": True}, "ambiguous"),
    ],
)
async def test_how_an_answer_to_a_command_ends_is_told_apart(
    slack: SlackTwin, adapter: Adapter, fault: dict[str, Any], kind: str
) -> None:
    slack.foreign.add(CHANNEL)
    slack.faults.order(Fault(on="response_url", **fault))
    outcome = await adapter.send(commanded(slack), text("hi"), KEY)
    assert (outcome.kind, outcome.sent) == (kind, None)
    assert "response/" not in outcome.detail, "the address is a secret"


async def test_whether_such_an_answer_came_can_not_be_looked_up(slack: SlackTwin, adapter: Adapter) -> None:
    slack.foreign.add(CHANNEL)
    assert (await adapter.find(commanded(slack), KEY, 0)).kind == "rejected"
    assert (await adapter.find(thread(slack), KEY, 0)).kind == "target_gone"


# files out


def out(name: str = "zahlen.csv") -> Part:
    return Part(file=Attachment("file", name, "text/csv", 4, {"conversation": "c", "file": "f1"}))


async def test_a_file_is_brought_and_posted_where_it_belongs(slack: SlackTwin, http: aiohttp.ClientSession) -> None:
    adapter, to = connect(slack.url, http, Kept(f1=b"1;2\n")), thread(slack)
    outcome = await adapter.send(to, out("Zahlen & Größen.csv"), KEY)
    assert outcome.kind == "ok"
    message = slack.messages[-1]
    assert f"{TEAM}:{message.thread_ts}" == to.conversation.thread
    assert slack.files[message.files[0]][0] == b"1;2\n"
    assert slack.uploads[message.files[0]].name == "Zahlen & Größen.csv"
    assert outcome.sent == Sent(message.files[0])
    assert (await adapter.send(DM, out(), KEY)).kind == "ok"
    assert slack.messages[-1].thread_ts is None


async def test_bytes_may_take_longer_than_words(slack: SlackTwin, http: aiohttp.ClientSession) -> None:
    slack.upload_s = 0.6
    assert (await connect(slack.url, http, Kept(f1=b"1;2\n"), timeout_s=0.3).send(DM, out(), KEY)).kind == "ok"


async def test_a_file_that_is_not_kept_any_more_is_told_as_such(slack: SlackTwin, http: aiohttp.ClientSession) -> None:
    outcome = await connect(slack.url, http, Kept()).send(DM, out(), KEY)
    assert (outcome.kind, outcome.detail) == ("rejected", "zahlen.csv: it is not kept any more")
    assert slack.calls == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"on": "files.getUploadURLExternal", "close": True}, "transient"),
        ({"on": "files.getUploadURLExternal", "status": 429, "retry_after": 5}, "rate_limited"),
        ({"on": "files.getUploadURLExternal", "error": "missing_scope"}, "auth_failed"),
        ({"on": "upload", "status": 500}, "transient"),
        ({"on": "upload", "status": 302, "headers": {"Location": "/elsewhere"}}, "rejected"),
        ({"on": "upload", "close": True}, "transient"),
        ({"on": "files.completeUploadExternal", "close": True, "taken": True}, "ambiguous"),
        ({"on": "files.completeUploadExternal", "error": "channel_not_found"}, "target_gone"),
    ],
)
async def test_each_step_of_a_file_ends_honestly(
    slack: SlackTwin, http: aiohttp.ClientSession, fault: dict[str, Any], kind: str
) -> None:
    slack.next(**fault)
    adapter = connect(slack.url, http, Kept(f1=b"1;2\n"))
    assert (await adapter.send(DM, out(), KEY)).kind == kind
    posted = len(slack.messages)
    assert posted == (1 if kind == "ambiguous" else 0)
    assert (await adapter.send(DM, out(), KEY)).kind == "ok"


@pytest.mark.parametrize(
    "where", ["https://evil.example/upload", "http://files.slack.com/upload/v1/x", "file:///x", ""]
)
async def test_a_file_is_brought_to_slack_only(slack: SlackTwin, http: aiohttp.ClientSession, where: str) -> None:
    body = {"ok": True, "upload_url": where, "file_id": "F1"}
    slack.faults.order(Fault(on="files.getUploadURLExternal", status=200, body=body))
    outcome = await connect(slack.url, http, Kept(f1=b"1;2\n")).send(DM, out(), KEY)
    assert outcome.kind == "rejected"
    assert "Slack's" in outcome.detail
    assert slack.calls == ["files.getUploadURLExternal"]


# whose limit


@pytest.mark.parametrize(
    ("fault", "scope", "wait_s"),
    [
        ({"status": 429, "retry_after": 7}, "channel", 7),
        ({"error": "ratelimited"}, "channel", 1),
        ({"error": "message_limit_exceeded"}, "connection", 1),
    ],
)
async def test_a_limit_is_the_channel_s_unless_it_is_the_workspace_s(
    slack: SlackTwin, adapter: Adapter, fault: dict[str, Any], scope: str, wait_s: float
) -> None:
    slack.next(**fault)
    outcome = await adapter.send(DM, text("hi"), KEY)
    assert (outcome.kind, outcome.scope, outcome.retry_after_s) == ("rate_limited", scope, wait_s)


@pytest.mark.parametrize(("per_s", "pace"), [(1, (Pace("channel", 4, 4),)), (8, (Pace("channel", 4, 0.5),)), (0, ())])
def test_a_channel_has_its_pace(per_s: float, pace: tuple[Pace, ...]) -> None:
    adapter = connect("https://slack.com/api", cast("Any", None), messages_per_s=per_s)
    assert adapter.capabilities.pace == pace
    assert adapter.capabilities.look_back


async def test_our_words_by_a_response_url_are_known_by_what_identity_told(slack: SlackTwin, adapter: Adapter) -> None:
    await adapter.identity()
    echo = slack.envelope({"type": "message", "subtype": "bot_message", "bot_id": BOT_ID, "channel": CHANNEL,
                           "ts": "1760000400.1", "text": "done"})  # fmt: skip
    headers = CIMultiDict({"Content-Type": "application/json"})
    [event] = adapter.parse(RawRequest("POST", "/", {}, headers, json.dumps(echo).encode()), 0)
    assert event.actor.is_self
