"""The half that talks, against a strict stand-in for the Bot API; and the stand-in, against a client that others wrote."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Self, cast

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from pydantic import SecretStr
from telegram import Bot, InputFile, MessageEntity, Update
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter
from telegram.request import HTTPXRequest

from gateway.commands import spoken
from gateway.conversation.key import ConversationKey
from gateway.events import Attachment, Event
from gateway.platforms import (
    Address,
    Button,
    ConnectionRefused,
    Growing,
    NotDownloaded,
    Outbound,
    Outcome,
    Outside,
    Part,
    RawRequest,
    Sent,
)
from gateway.platforms.telegram import TEXT_LIMIT, Adapter, Settings
from tests.harness.telegram_twin import (
    BOT,
    BOT_TOKEN,
    FORUM,
    GROUP,
    HEADERS,
    SECRET,
    USER,
    USERNAME,
    Message,
    TelegramTwin,
)
from tests.harness.twins import Twin
from tests.harness.web import canary

KEY = "k" * 24
DIRECT = Address(ConversationKey("telegram", str(USER)))
ROOM = Address(ConversationKey("telegram", str(GROUP)), {"answers": 77})
TOPIC = Address(ConversationKey("telegram", str(FORUM), "36"))
PNG = b"\x89PNG\r\n\x1a\n and so on"
GIF = b"GIF89a and so on"


class Kept:
    """Files that wait to be sent, by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def read(self, fetch: Mapping[str, Any], max_bytes: int) -> bytes:
        assert max_bytes > 0
        if fetch["file"] not in self.files:
            raise NotDownloaded("it is not kept any more")
        return self.files[fetch["file"]]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramTwin]:
    """Whatever a test sends or edits, it has no preview of what it links to."""
    async with TelegramTwin(retry_s=(0.0, 0.0, 0.0)) as twin:
        yield twin
        texts = [one.body for one in twin.taken if one.method in {"sendMessage", "editMessageText"}]
        assert [one for one in texts if one.get("link_preview_options") != {"is_disabled": True}] == []


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def adapter(telegram: TelegramTwin, http: aiohttp.ClientSession, kept: Kept) -> Adapter:
    return connect(telegram.url, http, kept)


def connect(api_base: str, http: aiohttp.ClientSession, kept: Kept | None = None, **keys: Any) -> Adapter:
    given = {"bot_token": SecretStr(BOT_TOKEN), "secret_token": SecretStr(SECRET), "username": USERNAME, **keys}
    settings = Settings(platform="telegram", api_base=api_base, **given)
    nothing = cast("Any", None)
    return Adapter("telegram", settings, Outside(http, nothing, cast("Any", kept), nothing))


def text(markdown: str, *buttons: Button) -> Part:
    [part] = Adapter.render(cast("Adapter", None), Outbound(markdown, buttons=buttons))
    return part


def stored(outcome: Outcome) -> Sent:
    """What was sent, as another worker reads it."""
    assert outcome.kind == "ok"
    assert outcome.sent
    return Sent(**json.loads(json.dumps(asdict(outcome.sent))))


# messages


async def test_a_message_is_taken_back(telegram: TelegramTwin, adapter: Adapter) -> None:
    sent = stored(await adapter.send(ROOM, text("half"), KEY))
    telegram.next(close=True)
    assert (await adapter.delete(ROOM, sent)).kind == "transient"
    assert (await adapter.delete(ROOM, sent)).kind == "ok"
    assert telegram.messages == []
    assert (await adapter.delete(ROOM, sent)).kind == "target_gone"


async def test_a_reply_in_a_group_is_shown_as_an_answer_without_previews(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    sent = stored(await adapter.send(ROOM, text("**Hi** https://example.com"), KEY))
    [taken], [message] = telegram.taken, telegram.messages
    assert sent == Sent(str(message.id), {"chat_id": GROUP})
    assert (message.chat, message.topic, message.answers) == (GROUP, None, 77)
    assert taken.body["link_preview_options"] == {"is_disabled": True}
    assert taken.body["reply_parameters"]["allow_sending_without_reply"] is True
    assert (message.text, [one["type"] for one in message.entities]) == (
        "Hi https://example.com",
        ["bold", "text_link"],
    )


async def test_what_belongs_to_a_topic_goes_there_and_all_else_has_none(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    await adapter.typing(TOPIC, on=True)
    await adapter.typing(TOPIC, on=False)
    sent = stored(await adapter.show(TOPIC, Growing("one", markdown="one"), KEY, None))
    await adapter.send(TOPIC, text("two"), KEY)
    assert [one.method for one in telegram.taken] == ["sendChatAction", "sendMessage", "sendMessage"]
    assert {one.body["message_thread_id"] for one in telegram.taken} == {36}
    assert (await adapter.edit(TOPIC, sent, text("three"))).kind == "ok"
    general = replace(TOPIC, conversation=ConversationKey("telegram", str(FORUM)))
    await adapter.send(general, text("four"), KEY)
    assert "message_thread_id" not in telegram.taken[-1].body


async def test_no_name_in_a_text_is_told_to_anybody(telegram: TelegramTwin, adapter: Adapter) -> None:
    part = text("@everyone **@ann** [@bob](https://example.com) `@pytest.fixture` https://example.com/@cid a@b.example")
    await adapter.send(ROOM, part, KEY)
    assert part.fallback
    await adapter.send(ROOM, Part(part.fallback), KEY)
    assert [one.mentions for one in telegram.messages] == [[], []]
    assert Message(GROUP, 1, "hi @ann", []).mentions == ["@ann"]  # or this test would say nothing


async def test_every_part_of_a_long_answer_is_taken(telegram: TelegramTwin, adapter: Adapter) -> None:
    table = "| a & b | c |\n|---|---|\n" + "| x | y |\n" * 300
    marks = (
        "**bold `code` *both*** ~~old~~ [l](https://example.com) [m](mailto:a@b.example)\n> quote **b** `c`\n\n" * 120
    )
    for part in adapter.render(Outbound("\n\n".join([table, marks, "@name 🚀 " * 3_000, "```py\nx = 1\n" * 500]))):
        sent = stored(await adapter.send(DIRECT, part, KEY))
        assert part.fallback
        assert (await adapter.edit(DIRECT, sent, Part(part.fallback))).kind == "ok"
        assert (await adapter.edit(DIRECT, sent, part)).kind == "ok"
    assert len(telegram.messages) > 8


async def test_no_link_loses_its_address_however_many_there_are(telegram: TelegramTwin, adapter: Adapter) -> None:
    for part in adapter.render(Outbound("\n".join(f"- [x](https://example.com/{number})" for number in range(350)))):
        await adapter.send(DIRECT, part, KEY)
    links = [one["url"] for message in telegram.messages for one in message.entities]
    assert links == [f"https://example.com/{number}" for number in range(350)]


async def test_an_edit_replaces_the_text_and_the_same_again_is_no_fault(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    sent = stored(await adapter.send(DIRECT, text("one"), KEY))
    for _ in range(2):
        assert await adapter.edit(DIRECT, sent, text("one **two**", Button("Yes", "yes"))) == Outcome("ok", sent)
    [message] = telegram.messages
    assert (message.text, telegram.shown[0].buttons) == ("one two", ["Yes"])
    telegram.next(close=True, taken=True)
    assert (await adapter.edit(DIRECT, sent, text("three"))).kind == "transient"
    telegram.messages.clear()
    assert (await adapter.edit(DIRECT, sent, text("four"))).kind == "target_gone"


async def test_refused_marks_are_told_apart_and_the_fallback_is_the_source(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    markdown = "Set **order_item_id** to a_b - it costs $5.00! and an open ` backtick"
    part = text(markdown)
    telegram.next(status=400, description="Bad Request: can't parse entities (byte offset 33)")
    assert (await adapter.send(DIRECT, part, KEY)).kind == "bad_format"
    assert part.fallback
    await adapter.send(DIRECT, Part(part.fallback), KEY)
    [message] = telegram.messages
    assert (message.text, message.entities) == (markdown, [])


async def test_a_group_that_became_a_supergroup_is_followed_at_once(telegram: TelegramTwin, adapter: Adapter) -> None:
    telegram.moved[-55] = GROUP
    old = Address(ConversationKey("telegram", "-55"))
    sent = stored(await adapter.send(old, text("hi"), KEY))
    assert (sent.ref, telegram.messages[0].chat) == ({"chat_id": GROUP}, GROUP)
    assert (await adapter.edit(old, sent, text("ho"))).kind == "ok"
    telegram.moved |= {-55: -56, -56: -55}
    telegram.calls.clear()
    assert (await adapter.send(old, text("hi"), KEY)).kind == "target_gone"
    assert len(telegram.calls) == 2


# growing answers


async def test_in_private_a_draft_grows_and_is_gone_with_the_reply(telegram: TelegramTwin, adapter: Adapter) -> None:
    for said in ("", "so", "so **far**"):
        assert await adapter.show(DIRECT, Growing(said, markdown=said), KEY, None) == Outcome("ok")
    assert [one.body["text"] for one in telegram.taken] == ["", "so", "so far"]
    assert len({one.body["draft_id"] for one in telegram.taken}) == 1
    await adapter.show(DIRECT, Growing("x", markdown="word " * 1_500 + "end"), KEY, None)
    assert [one.text[-3:] for one in telegram.shown] == ["end"]
    assert telegram.shown[0].is_growing
    assert len(telegram.shown[0].text) <= TEXT_LIMIT
    await adapter.send(DIRECT, text("so far so good"), KEY)
    assert [(one.text, one.is_growing) for one in telegram.shown] == [("so far so good", False)]


async def test_in_a_group_one_message_grows_and_any_worker_ends_it(
    telegram: TelegramTwin, adapter: Adapter, http: aiohttp.ClientSession
) -> None:
    sent = stored(await adapter.show(ROOM, Growing("so", markdown="so"), KEY, None))
    assert (await adapter.show(ROOM, Growing("so far", markdown="so **far**"), KEY, sent)).sent == sent
    assert (await connect(telegram.url, http).edit(ROOM, sent, text("so far so good"))).kind == "ok"
    assert [one.text for one in telegram.shown] == ["so far so good"]


@pytest.mark.parametrize("to", [DIRECT, ROOM])
async def test_a_growing_answer_that_fails_raises_nothing_and_leaves_one_message(
    telegram: TelegramTwin, adapter: Adapter, to: Address
) -> None:
    for fault in ({"status": 429, "retry_after": 3}, {"close": True}, {"status": 500}, {"status": 403}):
        telegram.next(**cast("dict[str, Any]", fault))
        assert (await adapter.show(to, Growing("x", markdown="x"), KEY, None)).kind != "ok"
        telegram.next(on="sendChatAction", **cast("dict[str, Any]", fault))
        await adapter.typing(to, on=True)
    assert telegram.messages == []


# endings


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 429, "retry_after": 7}, "rate_limited"),
        ({"status": 400, "description": "Bad Request: can't parse entities: x"}, "bad_format"),
        ({"status": 400, "description": "Bad Request: Wrong message entity: Unsupported URL protocol"}, "bad_format"),
        ({"status": 400, "description": "Bad Request: message is too long"}, "too_long"),
        ({"status": 400, "description": "Bad Request: MESSAGE_TOO_LONG"}, "too_long"),
        ({"status": 413, "description": "Request Entity Too Large"}, "too_long"),
        ({"status": 401, "description": "Unauthorized"}, "auth_failed"),
        ({"status": 404, "description": "Not Found"}, "auth_failed"),
        ({"status": 404, "body": "<html>"}, "rejected"),
        ({"status": 403, "description": "Forbidden: bot was kicked from the group chat"}, "target_gone"),
        ({"status": 400, "description": "Bad Request: chat not found"}, "target_gone"),
        ({"status": 400, "description": "Bad Request: message thread not found"}, "target_gone"),
        ({"status": 400, "description": "Bad Request: TOPIC_CLOSED"}, "target_gone"),
        (
            {"status": 400, "description": "Bad Request: not enough rights to send text messages to the chat"},
            "target_gone",
        ),
        ({"status": 400, "description": "Bad Request: BUTTON_DATA_INVALID"}, "rejected"),
        ({"status": 409, "description": "Conflict"}, "rejected"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "rejected"),
        ({"status": 500, "description": "Internal Server Error"}, "ambiguous"),
        ({"status": 502, "body": "<html>"}, "ambiguous"),
        ({"status": 200, "body": "<html>sign in"}, "ambiguous"),
        ({"status": 200, "body": [1]}, "ambiguous"),
        ({"status": 200, "body": {"ok": True, "result": True}}, "ambiguous"),
        ({"close": True}, "ambiguous"),
    ],
)
async def test_each_ending_is_told_apart(
    telegram: TelegramTwin, adapter: Adapter, fault: dict[str, Any], kind: str
) -> None:
    telegram.next(**fault)
    outcome = await adapter.send(DIRECT, text("hi"), KEY)
    assert outcome.kind == kind
    assert outcome.detail.startswith("sendMessage: ")
    assert fault.get("description", "") in outcome.detail
    assert (await adapter.send(DIRECT, text("hi"), KEY)).kind == "ok"


async def test_a_room_that_is_not_there_and_a_person_who_left_are_gone(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    nowhere = Address(ConversationKey("telegram", "-5"))
    assert (await adapter.send(nowhere, text("hi"), KEY)).kind == "target_gone"
    telegram.blocked.add(USER)
    assert (await adapter.send(DIRECT, text("hi"), KEY)).kind == "target_gone"


@pytest.mark.parametrize(
    ("body", "headers", "wait_s"),
    [
        ({"parameters": {"retry_after": 5}}, {}, 5.0),
        ({"parameters": {"retry_after": 10**9}}, {}, 3_600.0),
        ({"parameters": {"retry_after": "x"}}, {"Retry-After": "4"}, 4.0),
        ("<html>", {}, 1.0),
    ],
)
async def test_the_wait_that_telegram_asks_for_is_believed_within_reason(
    telegram: TelegramTwin, adapter: Adapter, body: Any, headers: dict[str, str], wait_s: float
) -> None:
    telegram.next(status=429, body=body, headers=headers)
    outcome = await adapter.send(DIRECT, text("hi"), KEY)
    assert (outcome.kind, outcome.retry_after_s, outcome.scope) == ("rate_limited", wait_s, "channel")


async def test_an_answer_that_does_not_come_is_ambiguous_in_time(
    telegram: TelegramTwin, http: aiohttp.ClientSession
) -> None:
    telegram.next(hang=True, taken=True)
    begun = time.monotonic()
    assert (await connect(telegram.url, http, timeout_s=0.1).send(DIRECT, text("hi"), KEY)).kind == "ambiguous"
    assert time.monotonic() - begun < 1
    assert len(telegram.messages) == 1


async def test_nobody_there_is_transient_for_nothing_was_sent(
    http: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    lonely = connect(f"http://127.0.0.1:{unused_tcp_port}", http)
    assert (await lonely.send(DIRECT, text("hi"), KEY)).kind == "transient"
    with pytest.raises(ConnectionRefused, match="getMe: not reached"):
        await lonely.identity()


async def test_no_redirect_takes_the_token_elsewhere(telegram: TelegramTwin, adapter: Adapter) -> None:
    with canary() as elsewhere:
        telegram.next(status=307, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        assert (await adapter.send(DIRECT, text("hi"), KEY)).kind == "rejected"
        assert elsewhere.visits() == 0


async def test_a_cancelled_send_stays_cancelled(telegram: TelegramTwin, adapter: Adapter) -> None:
    telegram.next(hang=True)
    task = asyncio.create_task(adapter.send(DIRECT, text("hi"), KEY))
    async with asyncio.timeout(30):
        while not telegram.calls:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_log_line_and_no_ending_holds_the_token(
    telegram: TelegramTwin,
    adapter: Adapter,
    caplog: pytest.LogCaptureFixture,
    http: aiohttp.ClientSession,
    unused_tcp_port: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    file = Attachment("file", "x", "", 1, {"file_id": telegram.file("x", b"1")["file_id"]})
    for fault in ({"close": True}, {"status": 500}, {"status": 404}, {"status": 302}, {"status": 200, "body": "x"}):
        telegram.next(times=2, **cast("dict[str, Any]", fault))
        said.append((await adapter.send(DIRECT, text("hi"), KEY)).detail)
        with pytest.raises(ConnectionRefused) as refused:
            await adapter.identity()
        telegram.next(on="file", times=2, **cast("dict[str, Any]", fault))
        if fault != {"status": 200, "body": "x"}:
            with pytest.raises(NotDownloaded) as missing:
                await adapter.download(file, 100)
            said.append(str(missing.value))
        said.append(str(refused.value))
        telegram.faults.waiting.clear()
    said.append((await connect(f"http://127.0.0.1:{unused_tcp_port}", http).send(DIRECT, text("hi"), KEY)).detail)
    secret = BOT_TOKEN.partition(":")[2]
    assert secret not in caplog.text
    assert not [one for one in said if secret in one or not one]


# who we are


async def test_identity_is_who_the_token_says(
    telegram: TelegramTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    me = await adapter.identity()
    assert (me.id, me.name, me.is_self, adapter.me) == (str(BOT), USERNAME, True, me)
    with pytest.raises(ConnectionRefused, match=r"Unauthorized .*BotFather"):
        await connect(telegram.url, http, bot_token=SecretStr("987654321:wrong")).identity()
    telegram.next(status=200, body={"ok": True, "result": {"id": 5}})
    with pytest.raises(ConnectionRefused, match="api_base"):
        await adapter.identity()


async def test_registering_tells_address_secret_kinds_and_commands(telegram: TelegramTwin, adapter: Adapter) -> None:
    said = await adapter.register("https://host.example/webhooks/telegram")
    assert "https://host.example/webhooks/telegram" in said
    assert telegram.webhook == {
        "url": "https://host.example/webhooks/telegram",
        "secret_token": SECRET,
        "allowed_updates": ["message", "edited_message", "callback_query"],
    }
    menus = [one.body for one in telegram.taken if one.method == "setMyCommands"]
    assert [one.get("language_code") for one in menus] == [None, "zh"]
    assert [[one["command"] for one in menu["commands"]] for menu in menus] == [list(spoken())] * 2
    with pytest.raises(ConnectionRefused, match="HTTPS"):
        await adapter.register("http://host.example/")


# buttons


async def test_a_pressed_button_is_answered_and_goes_when_all_is_said(telegram: TelegramTwin, adapter: Adapter) -> None:
    await adapter.send(ROOM, text("Sure?", Button("Approve", "skill approve 7F3K", "primary"), Button("No", "no")), KEY)
    async with Gateway(adapter) as gateway:
        said = await telegram.press(gateway.url, telegram.shown[0], "Approve")
        other = await telegram.press(gateway.url, telegram.shown[0], "No")
    assert said.statuses == other.statuses == [200]
    first, second = gateway.events
    assert (first.kind, first.value, first.message_id) == ("action", "skill approve 7F3K", telegram.shown[0].id)
    to = replace(ROOM, extra=first.extra)
    await adapter.pressed(to, first, "Not yours 🚀" * 40, is_settled=False)
    assert telegram.shown[0].buttons == ["Approve", "No"]
    await adapter.pressed(to, second, "**Done**", is_settled=True)
    assert telegram.shown[0].buttons == []
    assert list(telegram.notices.values())[1] == "Done"
    assert 150 < len(str(next(iter(telegram.notices.values())))) <= 200
    await adapter.pressed(to, first, "Too late", is_settled=True)  # twice, and nothing is raised
    telegram.next(status=500, times=2)
    await adapter.pressed(to, first, "", is_settled=True)


async def test_a_button_of_long_ago_is_answered_as_any_other(telegram: TelegramTwin, adapter: Adapter) -> None:
    await adapter.send(ROOM, text("Sure?", Button("Approve", "skill approve 7F3K", "primary")), KEY)
    async with Gateway(adapter) as gateway:
        await telegram.press(gateway.url, telegram.shown[0], "Approve", is_old=True)
    [event] = gateway.events
    assert (event.value, event.conversation) == ("skill approve 7F3K", ROOM.conversation)
    await adapter.pressed(replace(ROOM, extra=event.extra), event, "Done", is_settled=True)
    assert (telegram.shown[0].buttons, list(telegram.notices.values())) == ([], ["Done"])


# files


def attachment(file: Mapping[str, Any], **more: Any) -> Attachment:
    """As `parse` makes it of a file that an update shows."""
    return replace(Attachment("file", "x.csv", "text/csv", file["file_size"], {"file_id": file["file_id"]}), **more)


def to_send(kept: Kept, name: str, content: bytes, mime: str) -> Part:
    kept.files[name] = content
    return Part(file=Attachment("file", name, mime, len(content), {"conversation": "c", "file": name}))


@pytest.mark.parametrize(
    ("file", "name", "methods"),
    [
        (("zahlen 好.csv", b"a;b\n", "text/csv"), "zahlen 好.csv", ["sendDocument"]),
        (("chart.png", PNG, "image/png"), "chart.png", ["sendPhoto"]),
        (("broken.png", GIF, "image/png"), "broken.png", ["sendPhoto", "sendDocument"]),
        (("moving.gif", GIF, "image/gif"), "moving.gif", ["sendDocument"]),
        (('a"b\r\nX: y/../c.txt', b"x", "text/plain\r\nX: y"), "a_b__X: y_.._c.txt", ["sendDocument"]),
    ],
)
async def test_a_file_is_sent_as_what_it_is(
    telegram: TelegramTwin, adapter: Adapter, kept: Kept, *, file: tuple[str, bytes, str], name: str, methods: list[str]
) -> None:
    sent = stored(await adapter.send(replace(TOPIC, extra={"answers": 5}), to_send(kept, *file), KEY))
    assert telegram.calls == methods
    [message] = telegram.messages
    assert (message.chat, message.topic, message.answers, str(message.id)) == (FORUM, 36, 5, sent.message_id)
    assert message.file
    assert message.file[:2] == (name, file[1])


async def test_a_file_that_is_not_there_or_fails_is_told_as_such(
    telegram: TelegramTwin, adapter: Adapter, kept: Kept
) -> None:
    part = to_send(kept, "x.png", PNG, "image/png")
    telegram.next(status=429, retry_after=2)
    assert (await adapter.send(DIRECT, part, KEY)).kind == "rate_limited"
    telegram.next(close=True)
    assert (await adapter.send(DIRECT, part, KEY)).kind == "ambiguous"
    assert telegram.calls == ["sendPhoto", "sendPhoto"]
    kept.files.clear()
    outcome = await adapter.send(DIRECT, part, KEY)
    assert (outcome.kind, outcome.detail) == ("rejected", "file not sent: it is not kept any more")


async def test_a_file_is_downloaded_by_way_of_its_path(telegram: TelegramTwin, adapter: Adapter) -> None:
    file = attachment(telegram.file("documents/file_1 好.csv", b"a;b\n1;2\n"))
    assert await adapter.download(file, 8) == b"a;b\n1;2\n"
    assert telegram.calls == ["getFile"]


@pytest.mark.parametrize("told", [9, 3])
async def test_a_file_that_is_too_long_is_refused_whatever_was_said_of_it(
    telegram: TelegramTwin, adapter: Adapter, told: int
) -> None:
    file = attachment(telegram.file("x.csv", b"123456789"), size_bytes=told)
    with pytest.raises(NotDownloaded, match=r"allowed are 8|more than 8 bytes"):
        await adapter.download(file, 8)
    assert telegram.calls == ([] if told > 8 else ["getFile"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 500}, "status 500"),
        ({"status": 404, "body": {"ok": False}}, "not there any more"),
        ({"close": True}, "no answer"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "status 302"),
        ({"status": 200, "body": {"ok": False, "error_code": 401}}, "in its place"),
        ({"status": 200, "body": "<html>", "headers": {"Content-Type": "text/html"}}, "in its place"),
    ],
)
async def test_a_file_that_does_not_come_is_told_as_such(
    telegram: TelegramTwin, adapter: Adapter, fault: dict[str, Any], reason: str
) -> None:
    telegram.next(on="file", times=2, **fault)  # a broken connection is tried once more below us
    with pytest.raises(NotDownloaded, match=reason):
        await adapter.download(attachment(telegram.file("x.csv", b"1")), 100)


async def test_a_file_has_the_time_that_it_takes(
    telegram: TelegramTwin, http: aiohttp.ClientSession, kept: Kept
) -> None:
    hurried = connect(telegram.url, http, kept, timeout_s=0.05)
    telegram.slow_s = 0.2
    assert (await hurried.send(DIRECT, to_send(kept, "a.csv", b"a;b", "text/csv"), KEY)).kind == "ok"
    assert (await hurried.send(DIRECT, text("hi"), KEY)).kind == "ambiguous"


@pytest.mark.parametrize("path", ["", "../x", "/etc/passwd", "a/../../x", "a//b", "//evil.example/x", "."])
async def test_a_path_that_leads_elsewhere_is_not_followed(telegram: TelegramTwin, adapter: Adapter, path: str) -> None:
    telegram.next(on="getFile", status=200, body={"ok": True, "result": {"file_path": path}})
    with pytest.raises(NotDownloaded, match="no path"):
        await adapter.download(attachment(telegram.file("x.csv", b"1")), 100)


@pytest.mark.parametrize("path", ["http://evil.example/x", "a?b#c", "a%2e%2e/x", "a\\b", "a@evil.example"])
async def test_whatever_the_path_it_is_asked_of_telegram(telegram: TelegramTwin, adapter: Adapter, path: str) -> None:
    telegram.next(on="getFile", status=200, body={"ok": True, "result": {"file_path": path}})
    with pytest.raises(NotDownloaded, match=r"no path|not there any more"):
        await adapter.download(attachment(telegram.file("x.csv", b"1")), 100)


async def test_what_telegram_does_not_give_is_told_with_its_words(adapter: Adapter) -> None:
    with pytest.raises(NotDownloaded, match="wrong file_id"):
        await adapter.download(Attachment("file", "x", "", 1, {"file_id": "nonsense"}), 100)
    with pytest.raises(NotDownloaded, match="gives no file"):
        await adapter.download(Attachment("sticker", "", "", 0), 100)


# updates of the stand-in, as our reader and Telegram's own see them


class Gateway:
    """Takes updates for an adapter, after refusing as often as told."""

    def __init__(self, adapter: Adapter, refusals: int = 0) -> None:
        self.events: list[Event] = []
        self.bodies: list[dict[str, Any]] = []
        self._adapter = adapter
        self._refusals = refusals

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/webhooks/telegram", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/webhooks/telegram"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        raw = RawRequest("POST", request.path, {}, CIMultiDict(request.headers), await request.read())
        self._adapter.verify(raw, time.time())
        if len(self.bodies) <= self._refusals:
            return web.Response(status=503)
        self.events += self._adapter.parse(raw, time.time())
        return web.Response()


async def test_what_people_do_arrives_as_they_did_it(telegram: TelegramTwin, adapter: Adapter) -> None:
    twin: Twin = telegram
    async with Gateway(adapter) as gateway:
        said = await twin.mention(gateway.url, "hi")
        sent = stored(await adapter.send(replace(ROOM, extra=gateway.events[0].extra), text("yes?"), KEY))
        reply = await twin.reply_to(said)
        await twin.follow_up(gateway.url, said, "and then?")
        await twin.direct(gateway.url, "hello")
        await twin.picture(gateway.url, "what is it?", PNG)
        await twin.command(gateway.url, "/help me")
        await telegram.say(gateway.url, "nobody in particular", chat=GROUP)
    assert (reply.id, reply.text) == (sent.message_id, "yes?")
    assert [(one.kind, one.text, one.addressed, one.is_direct) for one in gateway.events] == [
        ("message", "hi", True, False),
        ("message", "and then?", True, False),
        ("message", "hello", True, True),
        ("message", "what is it?", True, True),
        ("command", "me", True, True),
        ("message", "nobody in particular", False, False),
    ]
    assert telegram.messages[0].answers == int(said.id)
    [picture] = gateway.events[3].attachments
    assert await adapter.download(picture, 100) == PNG
    updates = [Update.de_json(body, None) for body in gateway.bodies]
    assert [str(one.effective_message and one.effective_message.message_id) for one in updates] == [
        one.message_id for one in gateway.events
    ]
    assert not [one.api_kwargs for one in updates if one.api_kwargs]  # nothing that Telegram's fields don't name


async def test_an_update_comes_again_until_it_is_taken_and_is_the_same(
    telegram: TelegramTwin, adapter: Adapter
) -> None:
    async with Gateway(adapter, refusals=2) as gateway:
        first, second = await asyncio.gather(telegram.direct(gateway.url, "one"), telegram.direct(gateway.url, "two"))
    assert (first.statuses, second.statuses) == ([503, 503, 200], [200])
    assert len({body["update_id"] for body in gateway.bodies}) == 2
    assert [one.text for one in gateway.events] == ["one", "two"]  # the second waits behind the first
    assert HEADERS["X-Telegram-Bot-Api-Secret-Token"] == SECRET


@pytest.fixture
async def client(telegram: TelegramTwin) -> AsyncIterator[Bot]:
    async with Bot(BOT_TOKEN, base_url=f"{telegram.url}/bot", base_file_url=f"{telegram.url}/file/bot") as bot:
        yield bot


async def test_a_client_that_others_wrote_finds_the_bot_api_in_the_stand_in(
    telegram: TelegramTwin, client: Bot
) -> None:
    assert (client.id, client.username) == (BOT, USERNAME)
    sent = await client.send_message(GROUP, "one", entities=[MessageEntity("bold", 0, 3)], reply_to_message_id=4)
    await client.edit_message_text("two", GROUP, sent.message_id)
    await client.send_message_draft(USER, 7, "so far")
    await client.send_chat_action(FORUM, "typing", message_thread_id=36)
    document = await client.send_document(USER, InputFile(b"a;b", "x.csv"))
    await client.set_webhook("https://host.example", secret_token=SECRET, allowed_updates=["message"])
    await client.set_my_commands([("help", "Show these commands")])
    got = await (await client.get_file(telegram.file("x/y.csv", b"1;2")["file_id"])).download_as_bytearray()
    assert (sent.chat_id, document.chat_id, bytes(got)) == (GROUP, USER, b"1;2")
    assert [(one.text, one.file) for one in telegram.shown] == [("two", None), ("", b"a;b")]
    assert telegram.messages[0].answers == 4
    assert telegram.webhook["allowed_updates"] == ["message"]
    telegram.taken.clear()  # what is not ours may have previews


@pytest.mark.filterwarnings("ignore:Please use:telegram.warnings.PTBUserWarning")  # of its other way to call
@pytest.mark.parametrize(
    ("method", "arguments", "description"),
    [
        ("sendMessage", {"text": " "}, "message text is empty"),
        ("sendMessage", {"text": "🚀" * 2_049}, "message is too long"),
        ("sendMessage", {"text": "x", "chat_id": 5}, "chat not found"),
        ("sendMessage", {"text": "x", "message_thread_id": 3}, "message thread not found"),
        ("sendMessage", {"text": "x", "parse_mode": "HTML"}, "can't parse entities"),
        ("sendMessage", {"text": "x", "nonsense": 1}, "has no nonsense"),
        ("sendMessage", {"text": "👋x", "entities": [{"type": "bold", "offset": 1, "length": 1}]}, "cuts a character"),
        ("sendMessage", {"text": "x", "entities": [{"type": "bold", "offset": 0, "length": 2}]}, "behind the text"),
        (
            "sendMessage",
            {"text": "xx", "entities": [{"type": "text_link", "offset": 0, "length": 1, "url": "mailto:a@b.c"}]},
            "Wrong message entity",
        ),
        (
            "sendMessage",
            {"text": "x" * 9, "entities": [{"type": one, "offset": 0, "length": 5} for one in ("code", "bold")]},
            "inside of code",
        ),
        (
            "sendMessage",
            {"text": "x", "reply_markup": {"inline_keyboard": [[{"text": "x", "callback_data": "好" * 22}]]}},
            "BUTTON_DATA_INVALID",
        ),
        ("sendMessageDraft", {"text": "x", "draft_id": 0, "chat_id": USER}, "DRAFT_ID_INVALID"),
        ("sendMessageDraft", {"text": "x", "draft_id": 1}, "PEER_INVALID"),
        ("editMessageText", {"text": "x", "message_id": 3}, "message to edit not found"),
        ("answerCallbackQuery", {"chat_id": None, "callback_query_id": "x"}, "query ID is invalid"),
        ("sendPhoto", {}, "there is no photo"),
    ],
)
async def test_the_rules_are_kept(
    telegram: TelegramTwin, client: Bot, method: str, arguments: dict[str, Any], description: str
) -> None:
    given = {"chat_id": GROUP, **arguments}
    with pytest.raises(BadRequest) as caught:
        await client.do_api_request(method, {name: value for name, value in given.items() if value is not None})
    assert description.lower() in str(caught.value).lower()  # it writes them its own way
    assert [one.method for one in telegram.taken] == ["getMe"]


@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")  # of the type of its wait
async def test_faults_and_wrong_tokens_are_what_the_client_knows(telegram: TelegramTwin, client: Bot) -> None:
    telegram.next(status=429, retry_after=3)
    with pytest.raises(RetryAfter):
        await client.send_message(USER, "one")
    telegram.blocked.add(USER)
    with pytest.raises(Forbidden):
        await client.send_message(USER, "two")
    async with HTTPXRequest() as request:
        with pytest.raises(InvalidToken):
            await Bot("987654321:wrong", base_url=f"{telegram.url}/bot", request=request).get_me()
