"""The stand-in, proven with the client and the verifier that Slack itself wrote."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

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
    Workspace,
)
from tests.harness.twins import Twin


@pytest.fixture
async def slack() -> AsyncIterator[SlackTwin]:
    async with SlackTwin(retry_s=(0.0, 0.0, 0.0)) as twin:
        yield twin


@pytest.fixture
async def client(slack: SlackTwin) -> AsyncIterator[AsyncWebClient]:
    async with aiohttp.ClientSession() as session:
        yield AsyncWebClient(BOT_TOKEN, base_url=f"{slack.url}/", session=session)


class Gateway:
    """Takes what is sent to it, after refusing as often as told."""

    def __init__(self, refusals: int = 0) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self._refusals = refusals

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/webhooks/slack", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/webhooks/slack"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        return web.Response(status=503 if len(self.got) <= self._refusals else 200)


async def test_slack_s_client_posts_edits_and_reads_back(slack: SlackTwin, client: AsyncWebClient) -> None:
    assert (await client.auth_test())["user_id"] == BOT_USER
    metadata = {"event_type": "x", "event_payload": {"key": "k1"}}
    posted = await client.chat_postMessage(channel=CHANNEL, text="hi", metadata=metadata)
    answered = await client.chat_postMessage(channel=CHANNEL, text="in thread", thread_ts=posted["ts"])
    await client.chat_update(channel=CHANNEL, ts=posted["ts"], text="ho")
    replies = await client.conversations_replies(channel=CHANNEL, ts=posted["ts"], include_all_metadata=True)
    assert [one["text"] for one in replies["messages"]] == ["ho", "in thread"]
    assert replies["messages"][0]["metadata"] == metadata
    history = await client.conversations_history(channel=CHANNEL)
    assert [one["ts"] for one in history["messages"]] == [posted["ts"]]
    assert "metadata" not in history["messages"][0]
    assert [one.method for one in slack.taken] == ["chat.postMessage", "chat.postMessage", "chat.update"]
    assert slack.taken[1].ts == answered["ts"]
    assert slack.taken[0].key == "k1"


def root(slack: SlackTwin, channel: str = CHANNEL) -> str:
    """A thread that somebody began."""
    slack.messages.append(Message(channel, "1760000000.000100", USER, "hi"))
    return "1760000000.000100"


async def test_slack_s_client_streams_and_an_open_stream_is_not_edited(
    slack: SlackTwin, client: AsyncWebClient
) -> None:
    who: dict[str, Any] = {"recipient_team_id": TEAM, "recipient_user_id": USER}
    begun = await client.chat_startStream(channel=CHANNEL, thread_ts=root(slack), markdown_text="**Hel", **who)
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await client.chat_update(channel=CHANNEL, ts=begun["ts"], text="Hello")
    await client.chat_appendStream(channel=CHANNEL, ts=begun["ts"], markdown_text="lo**")
    assert slack.messages[-1].streaming
    metadata = {"event_type": "x", "event_payload": {"key": "k1"}}
    await client.chat_stopStream(channel=CHANNEL, ts=begun["ts"], markdown_text="!", metadata=metadata)
    for late in (client.chat_appendStream, client.chat_stopStream):
        with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
            await late(channel=CHANNEL, ts=begun["ts"], markdown_text="?")
    assert (slack.messages[-1].text, slack.messages[-1].streaming) == ("**Hello**!", False)
    await client.chat_update(channel=CHANNEL, ts=begun["ts"], text="Hello")
    replies = await client.conversations_replies(channel=CHANNEL, ts=slack.messages[0].ts, include_all_metadata=True)
    assert (replies["messages"][1]["text"], replies["messages"][1]["metadata"]) == ("Hello", metadata)


async def test_the_client_s_own_helper_streams_in_chunks(slack: SlackTwin, client: AsyncWebClient) -> None:
    stream = await client.chat_stream(channel=DIRECT, thread_ts=root(slack, DIRECT), buffer_size=4)
    for text in ("Good ", "morning", ", all"):
        await stream.append(markdown_text=text)
    await stream.stop()
    assert (slack.messages[-1].text, slack.messages[-1].streaming) == ("Good morning, all", False)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"thread_ts": "1.2"}, "thread_not_found"),
        ({"thread_ts": None}, "thread_not_found"),
        ({"recipient_user_id": None}, "missing_recipient_user_id"),
        ({"recipient_team_id": None}, "missing_recipient_team_id"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"chunks": [{"type": "song"}], "markdown_text": None}, "invalid_chunks"),
        ({"chunks": []}, "markdown_text_conflict"),
        ({"metadata": {}}, "invalid_arguments"),
    ],
)
async def test_the_rules_of_streams_are_kept(
    slack: SlackTwin, client: AsyncWebClient, change: dict[str, Any], error: str
) -> None:
    who = {"recipient_team_id": TEAM, "recipient_user_id": USER}
    given = {"channel": CHANNEL, "thread_ts": root(slack), "markdown_text": "x", **who, **change}
    with pytest.raises(SlackApiError) as caught:
        await client.api_call("chat.startStream", json={name: one for name, one in given.items() if one is not None})
    assert caught.value.response["error"] == error
    assert slack.taken == []


async def test_slack_s_client_brings_a_file(slack: SlackTwin, client: AsyncWebClient) -> None:
    answer = await client.files_upload_v2(
        filename="zahlen.csv", content=b"1;2\n", channel=CHANNEL, thread_ts=root(slack), initial_comment="here"
    )
    [file] = slack.messages[-1].files
    assert answer["files"][0]["id"] == file
    assert slack.files[file][0] == b"1;2\n"
    assert (slack.messages[-1].thread_ts, slack.messages[-1].text) == (slack.messages[0].ts, "here")


async def test_a_file_that_was_not_brought_is_not_posted(slack: SlackTwin, client: AsyncWebClient) -> None:
    place = await client.files_getUploadURLExternal(filename="x", length=3)
    with pytest.raises(SlackApiError, match="file_not_found"):
        await client.files_completeUploadExternal(files=[{"id": place["file_id"]}], channel_id=CHANNEL)
    async with aiohttp.ClientSession() as http:
        for body, status in ((b"1234", 400), (b"123", 200), (b"123", 404)):
            async with http.post(place["upload_url"], data=body) as answer:
                assert answer.status == status
    assert slack.messages == []
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        await client.api_call("files.getUploadURLExternal", json={"filename": "x", "length": 3})


async def test_a_status_ends_with_the_next_message(slack: SlackTwin, client: AsyncWebClient) -> None:
    thread = root(slack, DIRECT)
    await client.assistant_threads_setStatus(channel_id=DIRECT, thread_ts=thread, status="...")
    assert slack.statuses == {(DIRECT, thread): "..."}
    await client.chat_postMessage(channel=DIRECT, thread_ts=thread, text="done")
    assert slack.statuses == {}


BUTTON: dict[str, Any] = {
    "type": "button",
    "action_id": "a",
    "text": {"type": "plain_text", "text": "Go"},
    "value": "go",
}
SECTION: dict[str, Any] = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}],
        [{"type": "section", "text": {"type": "markdown", "text": "x"}}],
        [SECTION] * 51,
        [{"type": "actions", "elements": []}],
        [{"type": "actions", "elements": [BUTTON, BUTTON]}],
        [{"type": "actions", "elements": [BUTTON | {"text": {"type": "plain_text", "text": "x" * 76}}]}],
        [{"type": "actions", "elements": [BUTTON | {"value": "x" * 2_001}]}],
        [{"type": "actions", "elements": [BUTTON | {"action_id": "x" * 256}]}],
        [{"type": "actions", "elements": [BUTTON | {"style": "green"}]}],
        [{"type": "song"}],
        ["x"],
    ],
)
async def test_blocks_that_slack_refuses_are_refused(slack: SlackTwin, client: AsyncWebClient, blocks: Any) -> None:
    with pytest.raises(SlackApiError, match="invalid_blocks"):
        await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)
    assert slack.taken == []


async def test_blocks_stay_until_they_are_taken_away(slack: SlackTwin, client: AsyncWebClient) -> None:
    blocks: list[dict[str, Any]] = [SECTION, {"type": "actions", "elements": [BUTTON]}]
    posted = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)
    await client.chat_update(channel=CHANNEL, ts=posted["ts"], text="y")
    assert slack.messages[0].blocks == blocks
    await client.chat_update(channel=CHANNEL, ts=posted["ts"], text="y", blocks=[])
    assert slack.messages[0].blocks == []


async def test_slack_s_webhook_client_answers_late_five_times(slack: SlackTwin) -> None:
    async with aiohttp.ClientSession() as session:
        hook = AsyncWebhookClient(slack.response_url(CHANNEL, USER), session=session)
        for text in ("one", "two", "three", "four"):
            assert (await hook.send(text=text, response_type="in_channel")).status_code == 200
        assert (await hook.send(text="x", response_type="loud")).status_code == 400
        assert (await hook.send(text="five")).status_code == 200
        assert (await hook.send(text="six")).status_code == 404
        late = slack.response_url(CHANNEL, USER)
        slack.responses[late.rpartition("/")[2]].until_s = 0
        assert (await AsyncWebhookClient(late, session=session).send(text="x")).status_code == 404
    assert [one.text for one in slack.messages] == ["one", "two", "three", "four"]
    assert [(one.user, one.text) for one in slack.whispers] == [(USER, "five")]


async def test_commands_and_presses_come_signed_and_once(slack: SlackTwin, client: AsyncWebClient) -> None:
    blocks = [{"type": "actions", "elements": [BUTTON]}]
    await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)
    async with Gateway(refusals=2) as gateway:
        said = await slack.command(gateway.url, "help")
        pressed = await slack.press(gateway.url, slack.messages[0], "Go")
    assert (said.statuses, pressed.statuses) == ([503], [503])
    verifier = SignatureVerifier(SIGNING_SECRET)
    assert all(verifier.is_valid_request(body, headers) for headers, body in gateway.got)
    with pytest.raises(ValueError, match="unpack"):
        await slack.press(gateway.url, slack.messages[0], "Stop")


async def test_the_stand_in_is_a_twin() -> None:
    twin: Twin = Workspace()
    async with twin, Gateway() as gateway:
        said = await twin.mention(gateway.url, "hi")
        more = await twin.follow_up(gateway.url, said, "and?")
        other = [
            await twin.direct(gateway.url, "hi"),
            await twin.picture(gateway.url, "look", b"png"),
            await twin.command(gateway.url, "/help"),
        ]
        async with aiohttp.ClientSession() as session:
            client = AsyncWebClient(BOT_TOKEN, base_url=f"{twin.connection['api_base']}/", session=session)
            blocks: list[dict[str, Any]] = [SECTION, {"type": "actions", "elements": [BUTTON]}]
            await client.chat_postMessage(channel=CHANNEL, thread_ts=said.id, text="x", blocks=blocks)
        shown = await twin.reply_to(said)
        pressed = await twin.press(gateway.url, shown, "Go")
    assert [one.statuses for one in (said, more, *other, pressed)] == [[200, 200], *([[200]] * 5)]
    assert (more.room, more.thread) == (said.room, said.id)
    assert {one.room for one in other} == {DIRECT}
    assert twin.shown == [shown]
    assert (shown.text, shown.buttons, shown.thread, pressed.thread) == ("x", ["Go"], said.id, said.id)


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("chat.postMessage", {"channel": CHANNEL}, "no_text"),
        ("chat.postMessage", {"channel": CHANNEL, "text": "x" * 4_001}, "msg_too_long"),
        ("chat.postMessage", {"channel": "C9", "text": "x"}, "channel_not_found"),
        ("chat.postMessage", {"channel": CHANNEL, "text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
        ("chat.postMessage", {"channel": CHANNEL, "text": "x", "thread_ts": "1.2"}, "thread_not_found"),
        ("chat.postMessage", {"channel": CHANNEL, "text": "x", "metadata": {"key": 1}}, "invalid_metadata_format"),
        ("chat.postMessage", {"channel": CHANNEL, "text": "x", "nonsense": 1}, "invalid_arguments"),
        ("chat.update", {"channel": CHANNEL, "text": "x", "ts": "1.2"}, "message_not_found"),
        ("chat.nothing", {}, "unknown_method"),
    ],
)
async def test_the_rules_are_kept(
    slack: SlackTwin, client: AsyncWebClient, method: str, arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises(SlackApiError) as caught:
        await client.api_call(method, json=arguments)
    assert caught.value.response["error"] == error
    assert slack.taken == []


async def test_a_wrong_token_and_somebody_else_s_message_are_refused(slack: SlackTwin, client: AsyncWebClient) -> None:
    async with Gateway() as gateway:
        said = await slack.say(gateway.url, "hi")
    with pytest.raises(SlackApiError, match="cant_update_message"):
        await client.chat_update(channel=CHANNEL, ts=said.ts, text="x")
    client.token = "xoxb-wrong"
    with pytest.raises(SlackApiError, match="invalid_auth"):
        await client.auth_test()


async def test_only_a_message_of_ours_that_is_no_open_stream_can_be_deleted(
    slack: SlackTwin, client: AsyncWebClient
) -> None:
    said = await slack.say("http://127.0.0.1:9/", "mine", kinds=())
    with pytest.raises(SlackApiError, match="cant_delete_message"):
        await client.chat_delete(channel=CHANNEL, ts=said.ts)
    begun = await client.api_call(
        "chat.startStream",
        json={"channel": CHANNEL, "thread_ts": said.ts, "recipient_team_id": "T", "recipient_user_id": "U"},
    )
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await client.chat_delete(channel=CHANNEL, ts=begun["ts"])
    await client.api_call("chat.stopStream", json={"channel": CHANNEL, "ts": begun["ts"]})
    await client.chat_delete(channel=CHANNEL, ts=begun["ts"])
    assert [one.ts for one in slack.messages] == [said.ts]
    with pytest.raises(SlackApiError, match="message_not_found"):
        await client.chat_delete(channel=CHANNEL, ts=begun["ts"])


async def test_faults_come_in_their_order_and_a_lost_answer_took_effect(
    slack: SlackTwin, client: AsyncWebClient
) -> None:
    slack.next(status=429, retry_after=3)
    slack.next(error="fatal_error", on="chat.update")
    slack.next(status=500, taken=True)
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=CHANNEL, text="one")
    assert caught.value.response.headers["Retry-After"] == "3"
    with pytest.raises(SlackApiError):
        await client.chat_postMessage(channel=CHANNEL, text="two")
    assert [one.text for one in slack.taken] == ["two"]
    with pytest.raises(SlackApiError, match="fatal_error"):
        await client.chat_update(channel=CHANNEL, ts=slack.taken[0].ts, text="three")


async def test_what_a_person_says_arrives_signed_twice_and_again_until_it_is_taken(slack: SlackTwin) -> None:
    async with Gateway(refusals=2) as gateway:
        said = await slack.say(gateway.url, "hi")
    assert said.statuses == [503, 503, 200, 200]
    verifier = SignatureVerifier(SIGNING_SECRET)
    assert all(verifier.is_valid_request(body, headers) for headers, body in gateway.got)
    assert [headers.get("X-Slack-Retry-Num") for headers, _ in gateway.got] == [None, "1", "2", None]
    events = [json.loads(body) for _, body in gateway.got]
    assert [one["event"]["type"] for one in events] == ["message", "message", "message", "app_mention"]
    assert len({one["event_id"] for one in events}) == 2
    assert len({one["event"]["ts"] for one in events}) == 1


async def test_a_reply_is_waited_for_where_it_belongs(slack: SlackTwin, client: AsyncWebClient) -> None:
    async with Gateway() as gateway:
        asked = await slack.say(gateway.url, "hi", channel=DIRECT)
        other = await slack.say(gateway.url, "hi")
    await client.chat_postMessage(channel=CHANNEL, text="for the thread", thread_ts=other.ts)
    await client.chat_postMessage(channel=DIRECT, text="for the person")
    assert (await slack.reply_to(asked)).text == "for the person"
    assert (await slack.reply_to(other)).text == "for the thread"
    with pytest.raises(TimeoutError):
        await slack.until(lambda: len(slack.taken) > 2, timeout_s=0.01)


async def test_the_ledger_file_holds_what_was_taken_in_order(tmp_path: Path) -> None:
    file = tmp_path / "took.jsonl"
    async with SlackTwin(ledger=file) as slack, aiohttp.ClientSession() as session:
        client = AsyncWebClient(BOT_TOKEN, base_url=f"{slack.url}/", session=session)
        for text in ("one", "two"):
            await client.chat_postMessage(channel=CHANNEL, text=text)
    assert [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()] == ["one", "two"]
