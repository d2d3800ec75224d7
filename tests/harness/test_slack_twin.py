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

from tests.harness.slack_twin import BOT_TOKEN, BOT_USER, CHANNEL, DIRECT, SIGNING_SECRET, SlackTwin


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
