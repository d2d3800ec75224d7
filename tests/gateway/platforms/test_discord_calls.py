"""The half that talks: against a strict stand-in for Discord."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self, cast

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from pydantic import SecretStr

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event, ReplyHandle
from gateway.files import FILE_MAX_BYTES
from gateway.platforms import (
    Address,
    Button,
    ConnectionRefused,
    Growing,
    NotDownloaded,
    Outbound,
    Outside,
    Part,
    RawRequest,
    Sent,
    Unauthorized,
)
from gateway.platforms.discord import KEY_KNOWN_S, Adapter, Settings
from tests.harness.discord_twin import (
    APPLICATION,
    BOT,
    BOT_TOKEN,
    CHANNEL,
    DIRECT,
    NONCE_S,
    PUBLIC_KEY,
    TOKEN_S,
    USER,
    DiscordTwin,
    Interaction,
    Message,
)
from tests.harness.faults import Fault
from tests.harness.web import canary, site

KEY = "k" * 24
DM = Address(ConversationKey("discord-main", DIRECT))
ROOM = Address(ConversationKey("discord-main", CHANNEL))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)


class Kept:
    """Attached files, as `Outside.files` reads them."""

    async def read(self, fetch: dict[str, Any], max_bytes: int) -> bytes:
        if fetch.get("file") != "there" or len(PNG) > max_bytes:
            raise NotDownloaded("it is not kept any more")
        return PNG


@pytest.fixture
async def discord() -> AsyncIterator[DiscordTwin]:
    """Whatever a test sends or edits, it has no preview of what it links to."""
    async with DiscordTwin(heartbeat_ms=200) as twin:
        yield twin
        texts = [one.body for one in twin.taken if "content" in one.body]
        assert [one for one in texts if one.get("flags") != 4] == []


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def adapter(discord: DiscordTwin, http: aiohttp.ClientSession) -> Adapter:
    return connect(discord.url, http)


def connect(api_base: str, http: aiohttp.ClientSession, **keys: Any) -> Adapter:
    given = {"public_key": PUBLIC_KEY, "bot_token": SecretStr(BOT_TOKEN), "timeout_s": 2.0, **keys}
    settings = Settings(platform="discord", api_base=api_base, **given)
    return Adapter("discord-main", settings, Outside(http, cast("Any", None), cast("Any", Kept()), cast("Any", None)))


def text(markdown: str, *buttons: Button) -> Part:
    [part] = Adapter.render(cast("Adapter", None), Outbound(markdown, buttons=buttons))
    return part


def waiting(discord: DiscordTwin, *, acknowledged: bool = True, age_s: float = 0.0) -> Address:
    """Where the answer to a command goes."""
    made = Interaction(discord._next_id(), "a-token", DIRECT, time.time() - age_s)
    discord.interactions[made.token] = made
    if acknowledged:
        discord._acknowledge(made, {"type": 5}, 2)
    data = {"application": APPLICATION, "token": made.token}
    return replace(DM, handle=ReplyHandle("interaction", data, round((time.time() - age_s + 890) * 1000)))


# sending


async def test_a_message_goes_to_its_channel_and_calls_nobody(discord: DiscordTwin, adapter: Adapter) -> None:
    outcome = await adapter.send(ROOM, text("**Hi** <@53908232506183680> @everyone"), KEY)
    [taken] = discord.taken
    assert outcome.kind == "ok"
    assert outcome.sent == Sent(taken.id, {"channel": CHANNEL})
    assert discord.shown[0].text == "**Hi** \\<@53908232506183680> @\u200beveryone"
    assert taken.body["allowed_mentions"] == {"parse": []}
    assert taken.body["flags"] == 4
    assert (taken.body["nonce"], taken.body["enforce_nonce"]) == (KEY, True)


async def test_the_same_key_twice_is_one_message(discord: DiscordTwin, adapter: Adapter) -> None:
    discord.next(close=True, taken=True)
    assert (await adapter.send(ROOM, text("hi"), KEY)).kind == "ambiguous"
    again = await adapter.send(ROOM, text("hi"), KEY)
    assert again.sent
    assert [(one.id, one.text) for one in discord.shown] == [(again.sent.message_id, "hi")]
    assert (await adapter.send(ROOM, text("hi"), KEY + "-notice")).kind == "ok"
    assert len(discord.shown) == 2


async def test_a_repeated_send_ends_with_the_whole_text(discord: DiscordTwin, adapter: Adapter) -> None:
    """The message that a dead worker began to show is made whole, buttons and all."""
    await adapter.show(ROOM, Growing("It", markdown="It"), KEY, None)
    whole = text("It is done.", Button("Again", "again"))
    outcome = await adapter.send(ROOM, whole, KEY)
    assert outcome.kind == "ok"
    assert [(one.text, one.buttons) for one in discord.shown] == [("It is done.", ["Again"])]
    assert (await adapter.send(ROOM, whole, KEY)).kind == "ok"
    assert [(one.text, one.buttons) for one in discord.shown] == [("It is done.", ["Again"])]


@pytest.mark.parametrize("so_far", [["It"], ["It", "It is done."]])
async def test_a_growing_message_that_was_taken_away_gives_way_to_another(
    discord: DiscordTwin, adapter: Adapter, so_far: list[str]
) -> None:
    """Its nonce gives it back as if it were there, even whole."""
    sent = None
    for markdown in so_far:
        sent = (await adapter.show(ROOM, Growing(markdown, markdown=markdown), KEY, sent)).sent
    assert sent
    discord.messages.clear()
    assert (await adapter.edit(ROOM, sent, text("It is done."))).kind == "target_gone"
    for _ in range(2):
        outcome = await adapter.send(ROOM, text("It is done."), KEY)
        assert outcome.kind == "ok"
        assert [one.text for one in discord.shown] == ["It is done."]
        assert outcome.sent
        assert outcome.sent.message_id == discord.shown[0].id
    discord.messages.clear()
    assert (await adapter.send(ROOM, text("It is done now."), KEY)).kind == "target_gone"  # twice is enough


async def test_an_edit_for_a_repeated_send_that_fails_is_told(discord: DiscordTwin, adapter: Adapter) -> None:
    await adapter.send(ROOM, text("one"), KEY)
    discord.next(on="edit message", close=True)
    assert (await adapter.send(ROOM, text("one two"), KEY)).kind == "transient"


def test_a_nonce_is_known_for_less_than_discord_forgets_it_in(adapter: Adapter) -> None:
    assert adapter.capabilities.idempotent_send
    assert adapter.capabilities.key_known_s == KEY_KNOWN_S < NONCE_S


async def test_a_nonce_that_is_forgotten_is_a_new_message(discord: DiscordTwin, adapter: Adapter) -> None:
    await adapter.send(ROOM, text("hi"), KEY)
    made_s, message = discord._nonces[KEY]
    discord._nonces[KEY] = (made_s - NONCE_S, message)
    await adapter.send(ROOM, text("hi"), KEY)
    assert len(discord.shown) == 2


async def test_an_edit_replaces_the_text(discord: DiscordTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(ROOM, text("one"), KEY)).sent
    assert sent
    assert (await adapter.edit(ROOM, sent, text("one **two** @here"))).kind == "ok"
    assert [one.text for one in discord.shown] == ["one **two** @\u200bhere"]
    assert discord.taken[1].body["allowed_mentions"] == {"parse": []}


async def test_a_growing_message_can_be_taken_back(discord: DiscordTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(ROOM, Growing("It", markdown="It"), KEY, None)).sent
    assert sent
    assert (await adapter.delete(ROOM, sent)).kind == "ok"
    assert discord.shown == []
    assert (await adapter.delete(ROOM, sent)).kind == "target_gone"
    discord.next(on="delete message", times=2, close=True)  # a broken connection is tried once more below us
    assert (await adapter.delete(ROOM, sent)).kind == "transient"


async def test_bytes_may_take_longer_than_words(discord: DiscordTwin, http: aiohttp.ClientSession) -> None:
    discord.upload_s = 0.6
    part = Part(file=Attachment("image", "a.png", "image/png", len(PNG), {"file": "there"}))
    assert (await connect(discord.url, http, timeout_s=0.3).send(ROOM, part, KEY)).kind == "ok"


async def test_an_edit_that_was_lost_may_be_made_again(discord: DiscordTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(ROOM, text("one"), KEY)).sent
    assert sent
    discord.next(close=True, taken=True)
    assert (await adapter.edit(ROOM, sent, text("two"))).kind == "transient"
    assert (await adapter.edit(ROOM, replace(sent, message_id="7"), text("two"))).kind == "target_gone"


async def test_the_fallback_is_plain_and_has_no_buttons(discord: DiscordTwin, adapter: Adapter) -> None:
    part = text("**Hi** @everyone", Button("Twice", "same"), Button("Twice", "same"))
    assert (await adapter.send(ROOM, part, KEY)).kind == "bad_format"  # one id for two buttons
    assert part.fallback
    assert (await adapter.send(ROOM, Part(part.fallback), KEY)).kind == "ok"
    assert [(one.text, one.buttons) for one in discord.shown] == [("Hi @\u200beveryone", [])]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"retry_after": 64.57}, "rate_limited"),
        ({"status": 400, "body": {"code": 50035, "errors": {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH"}]}}}},
         "too_long"),
        ({"status": 400, "body": {"code": 50035, "errors": {"components": {"_errors": []}}}}, "bad_format"),
        ({"status": 400, "body": {"code": 50006, "message": "Cannot send an empty message"}}, "rejected"),
        ({"status": 401, "body": {"code": 0, "message": "401: Unauthorized"}}, "auth_failed"),
        ({"status": 403, "body": {"code": 50001}}, "target_gone"),
        ({"status": 403, "body": {"code": 50013}}, "target_gone"),
        ({"status": 403, "body": {"code": 50007}}, "target_gone"),
        ({"status": 400, "body": {"code": 50083}}, "target_gone"),
        ({"status": 404, "body": {"code": 10003}}, "target_gone"),
        ({"status": 404, "body": "<html>"}, "target_gone"),
        ({"status": 413, "body": {"code": 40005}}, "too_long"),
        ({"status": 400, "body": "<html>"}, "rejected"),
        ({"status": 400, "body": {"code": "x", "errors": 7}}, "rejected"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "rejected"),
        ({"status": 500}, "ambiguous"),
        ({"status": 502, "body": "<html>"}, "ambiguous"),
        ({"status": 503}, "transient"),
        ({"status": 200, "body": "<html>sign in"}, "ambiguous"),
        ({"status": 200, "body": [1]}, "ambiguous"),
        ({"status": 200, "body": {"id": "../x"}}, "ambiguous"),
        ({"close": True}, "ambiguous"),
    ],
)  # fmt: skip
async def test_each_ending_is_told_apart(
    discord: DiscordTwin, adapter: Adapter, fault: dict[str, Any], kind: str
) -> None:
    discord.next(**fault)
    outcome = await adapter.send(ROOM, text("hi"), KEY)
    assert outcome.kind == kind
    assert outcome.detail.startswith("create message: ")
    assert BOT_TOKEN not in outcome.detail
    assert (await adapter.send(ROOM, text("hi"), KEY)).kind == "ok"


async def test_a_room_that_is_gone_or_shut_is_told(discord: DiscordTwin, adapter: Adapter) -> None:
    assert (await adapter.send(Address(ConversationKey("discord-main", "1")), text("hi"), KEY)).kind == "target_gone"
    discord.forbidden.add(CHANNEL)
    outcome = await adapter.send(ROOM, text("hi"), KEY)
    assert (outcome.kind, outcome.detail) == ("target_gone", "create message: Missing Access (50001)")


@pytest.mark.parametrize(
    ("fault", "wait_s", "scope"),
    [
        ({"retry_after": 64.57}, 64.57, "channel"),
        ({"retry_after": 0.3, "is_global": True}, 0.3, "connection"),
        ({"retry_after": 99_999_999}, 3600.0, "channel"),
        ({"status": 429, "body": {"code": 0}, "headers": {"Retry-After": "65"}}, 65.0, "channel"),
        ({"status": 429, "body": {"retry_after": "x"}}, 1.0, "channel"),
        ({"status": 429, "body": {"retry_after": -1}}, 1.0, "channel"),
        ({"status": 429, "body": "<html>banned", "headers": {"Retry-After": "600"}}, 600.0, "connection"),
        ({"status": 429, "body": {"code": 0}, "headers": {"X-RateLimit-Global": "true"}}, 1.0, "connection"),
    ],
)
async def test_the_wait_that_discord_asks_for_is_believed_within_reason(
    discord: DiscordTwin, adapter: Adapter, fault: dict[str, Any], wait_s: float, scope: str
) -> None:
    discord.next(**fault)
    outcome = await adapter.send(ROOM, text("hi"), KEY)
    assert (outcome.kind, outcome.retry_after_s, outcome.scope) == ("rate_limited", wait_s, scope)


async def test_an_answer_that_does_not_come_is_ambiguous_in_time(
    discord: DiscordTwin, http: aiohttp.ClientSession
) -> None:
    discord.next(hang=True, taken=True)
    begun = time.monotonic()
    assert (await connect(discord.url, http, timeout_s=0.1).send(ROOM, text("hi"), KEY)).kind == "ambiguous"
    assert time.monotonic() - begun < 1
    assert len(discord.taken) == 1


async def test_nobody_there_is_transient_for_nothing_was_sent(
    http: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    lonely = connect(f"http://127.0.0.1:{unused_tcp_port}/api/v10", http)
    assert (await lonely.send(ROOM, text("hi"), KEY)).kind == "transient"
    with pytest.raises(ConnectionRefused, match=r"users/@me: not reached"):
        await lonely.identity()


async def test_no_redirect_takes_the_token_elsewhere(discord: DiscordTwin, adapter: Adapter) -> None:
    with canary() as elsewhere:
        discord.next(status=307, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        assert (await adapter.send(ROOM, text("hi"), KEY)).kind == "rejected"
        assert elsewhere.visits() == 0


async def test_a_cancelled_send_stays_cancelled(discord: DiscordTwin, adapter: Adapter) -> None:
    discord.next(hang=True)
    task = asyncio.create_task(adapter.send(ROOM, text("hi"), KEY))
    async with asyncio.timeout(30):
        while not discord.calls:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_every_part_of_a_long_answer_is_taken(discord: DiscordTwin, adapter: Adapter) -> None:
    markdown = "\n\n".join(["| a & b | c |\n|---|---|\n" + "| x | y |\n" * 60, "word & <more> " * 300, "🚀" * 2_100])
    for number, part in enumerate(adapter.render(Outbound(markdown))):
        outcome = await adapter.send(ROOM, part, f"{KEY[:-2]}{number:02}")
        assert outcome.sent
        assert (await adapter.edit(ROOM, outcome.sent, part)).kind == "ok"
    assert len(discord.shown) > 4


# a command's answer


async def test_a_command_s_answer_takes_the_place_of_thinking(discord: DiscordTwin, adapter: Adapter) -> None:
    to = waiting(discord)
    assert discord.shown == []
    outcome = await adapter.send(to, text("**Done**"), KEY)
    [shown] = discord.shown
    assert shown.text == "**Done**"
    assert outcome.sent == Sent(shown.id, {"channel": DIRECT, "original": True})
    assert discord.calls == ["edit response"]
    discord.next(close=True, taken=True)
    assert (await adapter.send(to, text("again"), KEY)).kind == "transient"
    await adapter.send(to, text("again"), KEY)
    assert [one.text for one in discord.shown] == ["again"]


async def test_past_its_end_the_answer_is_a_message(discord: DiscordTwin, adapter: Adapter) -> None:
    assert (await adapter.send(waiting(discord, age_s=891), text("late"), KEY)).kind == "ok"
    assert discord.calls == ["create message"]
    assert [one.text for one in discord.shown] == ["late"]


@pytest.mark.parametrize("fault", [{"status": 401, "body": {"code": 50027}}, {"status": 404, "body": {"code": 10015}}])
async def test_refused_the_answer_is_a_message(discord: DiscordTwin, adapter: Adapter, fault: dict[str, Any]) -> None:
    discord.next(on="edit response", **fault)
    outcome = await adapter.send(waiting(discord, age_s=60), text("hi"), KEY)
    assert (outcome.kind, discord.calls) == ("ok", ["edit response", "create message"])


async def test_an_answer_that_is_quicker_than_the_acknowledgement_waits_for_it(
    discord: DiscordTwin, adapter: Adapter
) -> None:
    """Else people would see "thinking" for ever."""
    to = waiting(discord, acknowledged=False)
    assert (await adapter.send(to, text("quick"), KEY)).kind == "transient"
    discord._acknowledge(discord.interactions["a-token"], {"type": 5}, 2)
    assert (await adapter.send(to, text("quick"), KEY)).kind == "ok"
    assert discord.calls == ["edit response", "edit response"]


async def test_a_place_that_is_full_or_too_small_is_no_reason_for_another(
    discord: DiscordTwin, adapter: Adapter
) -> None:
    to = waiting(discord)
    assert (await adapter.send(to, Part({"content": "x" * 2_001}), KEY)).kind == "too_long"
    discord.next(on="edit response", retry_after=2.0)
    assert (await adapter.send(to, text("hi"), KEY)).kind == "rate_limited"
    assert discord.calls == ["edit response", "edit response"]


async def test_neither_token_is_told(discord: DiscordTwin, adapter: Adapter) -> None:
    to = waiting(discord)
    for fault in ({"status": 400}, {"status": 500}, {"close": True}, {"retry_after": 1.0}):
        discord.next(on="edit response", **fault)
        outcome = await adapter.send(to, text("hi"), KEY)
        assert outcome.kind not in {"ok", "target_gone"} or fault == {"status": 400}
        assert "a-token" not in outcome.detail
        assert BOT_TOKEN not in outcome.detail


async def test_a_growing_answer_to_a_command_is_edited_where_it_stands(discord: DiscordTwin, adapter: Adapter) -> None:
    to = waiting(discord)
    shown = await adapter.show(to, Growing("a", markdown="a"), KEY, None)
    assert shown.sent
    await adapter.show(to, Growing("a b", markdown="a b"), KEY, shown.sent)
    assert discord.calls == ["edit response", "edit response"]
    # The token is over when the answer is whole.
    late = replace(to, handle=replace(to.handle, expires_at_ms=0) if to.handle else None)
    assert (await adapter.edit(late, shown.sent, text("a b c"))).kind == "ok"
    discord.interactions["a-token"].made_s -= TOKEN_S
    assert (await adapter.edit(to, shown.sent, text("a b c d"))).kind == "ok"
    assert discord.calls[2:] == ["edit message", "edit response", "edit message"]
    assert [one.text for one in discord.shown] == ["a b c d"]


# growing


async def test_a_growing_answer_is_one_message(
    discord: DiscordTwin, adapter: Adapter, http: aiohttp.ClientSession
) -> None:
    assert adapter.stream(ROOM).kind == "message"
    first = await adapter.show(ROOM, Growing("It", markdown="It"), KEY, None)
    assert first.sent
    await adapter.show(ROOM, Growing("It is", markdown="It **is"), KEY, first.sent)
    # Another process has what was stored of the first show, and no more.
    other = connect(discord.url, http)
    assert (await other.edit(ROOM, first.sent, text("It **is** so"))).kind == "ok"
    assert [one.text for one in discord.shown] == ["It **is** so"]


async def test_a_show_that_fails_makes_no_second_copy(discord: DiscordTwin, adapter: Adapter) -> None:
    first = await adapter.show(ROOM, Growing("It", markdown="It"), KEY, None)
    for fault in ({"close": True}, {"status": 500}, {"retry_after": 1.0}, {"status": 403}):
        discord.next(**fault)
        assert (await adapter.show(ROOM, Growing("It is", markdown="It is"), KEY, first.sent)).kind != "ok"
    await adapter.show(ROOM, Growing("x" * 5_000, markdown="x" * 5_000), KEY, first.sent)
    assert len(discord.shown) == 1
    assert len(discord.shown[0].text) == 2_000


async def test_typing_is_said_and_never_fails(discord: DiscordTwin, adapter: Adapter) -> None:
    await adapter.typing(ROOM, on=True)
    await adapter.typing(ROOM, on=False)
    for fault in ({"status": 500}, {"close": True}, {"retry_after": 3.0}):
        discord.next(on="typing", **fault)
        await adapter.typing(ROOM, on=True)
    assert set(discord.calls) == {"typing"}
    assert discord.calls.count("typing") == 4


# buttons


async def test_a_button_is_pressed_and_taken_away(discord: DiscordTwin, adapter: Adapter) -> None:
    part = text("Shall I?", Button("Yes", "skill approve 7F3K", "primary"), Button("No", "skill reject 7F3K", "danger"))
    sent = (await adapter.send(ROOM, part, KEY)).sent
    assert sent
    [shown] = discord.shown
    async with hook(adapter) as (url, got):
        said = await discord.press(url, shown, "No")
    [event] = got
    assert said.statuses == [200]
    assert (event.kind, event.value, event.message_id) == ("action", "skill reject 7F3K", sent.message_id)
    assert event.conversation == ROOM.conversation
    to = Address(event.conversation, event.extra, event.reply_handle)
    await adapter.pressed(to, event, "not yours to decide", is_settled=False)
    assert discord.shown[0].buttons == ["Yes", "No"]
    await adapter.pressed(to, event, "done", is_settled=True)
    assert [(one.text, one.buttons) for one in discord.shown] == [("Shall I?", [])]
    # What is answered does not stand in its place.
    assert (await adapter.send(to, text("Rejected."), KEY[1:])).kind == "ok"
    assert [one.text for one in discord.shown] == ["Shall I?", "Rejected."]


async def test_buttons_that_can_not_be_taken_away_are_no_failure(discord: DiscordTwin, adapter: Adapter) -> None:
    event = Event(
        kind="action", conversation=ROOM.conversation, actor=Actor(USER), dedupe_keys=("x",), at_ms=0, message_id="5"
    )
    await adapter.pressed(ROOM, event, "done", is_settled=True)
    discord.next(close=True)
    await adapter.pressed(ROOM, event, "done", is_settled=True)


# files out


async def test_a_file_is_uploaded_with_its_name_and_once(discord: DiscordTwin, adapter: Adapter) -> None:
    name = 'Überblick "1"\n.png'
    part = Part(file=Attachment("image", name, "image/png", len(PNG), {"file": "there"}))
    discord.next(close=True, taken=True)
    assert (await adapter.send(ROOM, part, KEY)).kind == "ambiguous"
    assert (await adapter.send(ROOM, part, KEY)).kind == "ok"
    [message] = discord.messages
    [(shown, content)] = message.files
    assert content == PNG
    assert shown == "Überblick _1__.png"
    assert discord.taken[0].body["nonce"] == KEY


async def test_a_file_can_be_a_command_s_answer(discord: DiscordTwin, adapter: Adapter) -> None:
    part = Part({"content": "Here"}, file=Attachment("image", "a.png", "", len(PNG), {"file": "there"}))
    assert (await adapter.send(waiting(discord), part, KEY)).kind == "ok"
    assert [(one.text, one.file) for one in discord.shown] == [("Here", PNG)]


@pytest.mark.parametrize("mime", ["", "image/png\r\nX-A: b", "multipart/mixed", "é/ü", "text/csv; charset=utf-8"])
async def test_a_type_that_is_none_spoils_no_upload(discord: DiscordTwin, adapter: Adapter, mime: str) -> None:
    part = Part(file=Attachment("file", "", mime, len(PNG), {"file": "there"}))
    assert (await adapter.send(ROOM, part, KEY)).kind == "ok"
    assert [one.file for one in discord.shown] == [PNG]


async def test_a_file_that_is_gone_or_too_long_is_a_final_no(discord: DiscordTwin, http: aiohttp.ClientSession) -> None:
    gone = Part(file=Attachment("file", "a", "", 1, {"file": "gone"}))
    outcome = await connect(discord.url, http).send(ROOM, gone, KEY)
    assert (outcome.kind, outcome.detail) == ("rejected", "create message: it is not kept any more")
    there = Part(file=Attachment("file", "a", "", 1, {"file": "there"}))
    small = connect(discord.url, http, file_max_bytes=8)
    assert small.capabilities.file_max_bytes == 8
    assert connect(discord.url, http).capabilities.file_max_bytes == FILE_MAX_BYTES  # more is never kept
    assert (await small.send(ROOM, there, KEY)).kind == "rejected"
    assert discord.calls == []


# files in


def attached(file: dict[str, Any]) -> Attachment:
    """As `parse` makes it of a file that a message shows."""
    return Attachment("file", file["filename"], file["content_type"], file["size"], {"url": file["url"]})


async def test_a_file_is_downloaded_without_any_token(discord: DiscordTwin, adapter: Adapter) -> None:
    assert await adapter.download(attached(discord.file("a.csv", b"a;b\n1;2\n", "text/csv")), 9) == b"a;b\n1;2\n"
    page = attached(discord.file("a.html", b"<html>Report", "text/html"))
    assert await adapter.download(page, 100) == b"<html>Report"


@pytest.mark.parametrize("told", [9, 3])
async def test_a_file_that_is_too_long_is_refused_whatever_was_said_of_it(
    discord: DiscordTwin, adapter: Adapter, told: int
) -> None:
    file = replace(attached(discord.file("a.csv", b"123456789", "text/csv")), size_bytes=told)
    with pytest.raises(NotDownloaded, match=r"allowed are 8|more than 8 bytes"):
        await adapter.download(file, 8)


@pytest.mark.parametrize(
    "where",
    [
        "http://cdn.discordapp.com/attachments/1/2/x",  # unencrypted
        "https://cdn.discordapp.com:8443/x",
        "https://cdn.discordapp.com.evil.example/x",
        "https://evil-cdn.discordapp.com/x",
        "https://user@cdn.discordapp.com/x",
        "https://evil.example/cdn.discordapp.com",
        "http://127.0.0.1:1/x",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "",
    ],
)
async def test_files_come_from_discord_only(adapter: Adapter, where: str) -> None:
    with pytest.raises(NotDownloaded, match=r"not Discord's|no address"):
        await adapter.download(Attachment("file", "x", "", 1, {"url": where}), 100)


async def test_no_redirect_is_followed_to_a_file(discord: DiscordTwin, adapter: Adapter) -> None:
    with canary() as elsewhere:
        discord.next(on="file", status=302, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        with pytest.raises(NotDownloaded, match="status 302"):
            await adapter.download(attached(discord.file("x", b"1", "text/csv")), 100)
        assert elsewhere.visits() == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 404}, "not there any more"),
        ({"status": 403}, "good for a day"),
        ({"status": 500}, "status 500"),
        ({"status": 200, "body": {"message": "oops"}}, "a page of application/json in its place"),
        ({"close": True}, "no answer"),
    ],
)
async def test_a_file_that_does_not_come_is_told_as_such(
    discord: DiscordTwin, adapter: Adapter, fault: dict[str, Any], reason: str
) -> None:
    discord.next(on="file", times=2, **fault)  # a broken connection is tried once more below us
    with pytest.raises(NotDownloaded, match=reason):
        await adapter.download(attached(discord.file("x", b"1", "text/csv")), 100)


# connecting


async def test_identity_is_who_the_token_says_and_the_key_has_to_fit(
    discord: DiscordTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    me = await adapter.identity()
    assert (me.id, me.is_self, adapter.me) == (BOT, True, me)
    with pytest.raises(ConnectionRefused, match="public_key is not the one of 'deskmate'"):
        await connect(discord.url, http, public_key="11" * 32).identity()
    with pytest.raises(ConnectionRefused, match=r"401: Unauthorized.*bot_token is refused") as refused:
        await connect(discord.url, http, bot_token=SecretStr("wrong-token")).identity()
    assert "wrong-token" not in str(refused.value)
    discord.next(on="identity", status=200, body={})
    with pytest.raises(ConnectionRefused, match="who the bot is"):
        await connect(discord.url, http).identity()


@asynccontextmanager
async def hook(adapter: Adapter, verify: bool = True) -> AsyncIterator[tuple[str, list[Event]]]:
    """A gateway that does what ours does with a request."""
    got: list[Event] = []

    async def take(request: web.Request) -> web.StreamResponse:
        raw = RawRequest(request.method, request.path, {}, CIMultiDict(request.headers), await request.read())
        try:
            if verify:
                adapter.verify(raw, time.time())
        except Unauthorized:
            return web.Response(status=401)
        reply = adapter.handshake(raw)
        if reply is None:
            events = adapter.parse(raw, time.time())
            got.extend(events)
            reply = adapter.acknowledge(events)
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)

    app = web.Application()
    app.router.add_post("/webhooks/discord-main", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/webhooks/discord-main", got
    finally:
        await runner.cleanup()


async def test_register_makes_the_command_and_sets_the_address(discord: DiscordTwin, adapter: Adapter) -> None:
    async with hook(adapter) as (url, _):
        said = await adapter.register(url)
    assert discord.endpoint == url
    assert [one["name"] for one in discord.commands] == ["deskmate"]
    assert "/deskmate" in said
    assert url in said


async def test_an_address_that_takes_forged_requests_or_none_is_refused(discord: DiscordTwin, adapter: Adapter) -> None:
    async with hook(adapter, verify=False) as (url, _):
        with pytest.raises(ConnectionRefused, match=r"could not be verified.*has to be running there"):
            await adapter.register(url)
    async with site({}) as port:
        with pytest.raises(ConnectionRefused, match="could not be verified"):
            await adapter.register(f"http://127.0.0.1:{port}/webhooks/discord-main")
    assert discord.endpoint == ""


async def test_a_command_from_its_use_to_its_answer(discord: DiscordTwin, adapter: Adapter) -> None:
    async with hook(adapter) as (url, got):
        said = await discord.command(url, "/skill list")
    [event] = got
    assert (event.kind, event.name, event.text) == ("command", "skill", "list")
    to = Address(event.conversation, event.extra, event.reply_handle)
    assert (await adapter.send(to, text("One skill."), KEY)).kind == "ok"
    assert (await discord.reply_to(said)).text == "One skill."


# the Gateway


class Listener:
    """Somebody who listens, and stores what comes, or does not for a while."""

    def __init__(self, adapter: Adapter, remembered: dict[str, Any] | None = None) -> None:
        self.got: list[Event] = []
        self.remembered: dict[str, Any] = remembered or {}
        self.ready = asyncio.Event()
        self.ready.set()
        self._adapter = adapter

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._adapter.listen(self))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def receive(self, events: Sequence[Event]) -> None:
        await self.ready.wait()
        self.got.extend(events)

    async def recall(self) -> dict[str, Any]:
        return self.remembered

    async def remember(self, words: dict[str, Any]) -> None:
        self.remembered = words

    async def until(self, count: int) -> list[str]:
        """The texts, once there are so many."""
        async with asyncio.timeout(10):
            while len(self.got) < count:
                assert not self.task.done(), self.task.exception()
                await asyncio.sleep(0.005)
        return [event.text for event in self.got]


async def test_messages_are_heard_in_order(discord: DiscordTwin, adapter: Adapter) -> None:
    assert adapter._settings.listens
    async with Listener(adapter) as listener:
        said = await discord.mention("", "one")
        await discord.direct("", "two")
        await adapter.send(ROOM, text("ours"), KEY)
        await discord.follow_up("", said, "three")
        await discord.picture("", "look", PNG)
        assert await listener.until(5) == ["one", "two", "ours", "three", "look"]
    assert [event.addressed for event in listener.got] == [True, True, False, True, True]
    assert [event.actor.is_self for event in listener.got] == [False, False, True, False, False]
    assert listener.got[0].message_id == said.id
    assert listener.got[3].quoted == "ours"
    assert await adapter.download(listener.got[4].attachments[0], 100) == PNG


@pytest.mark.parametrize(("granted", "heard"), [(False, ["for you"]), (True, ["nothing for you", "for you"])])
async def test_other_texts_are_heard_only_where_that_was_granted(
    http: aiohttp.ClientSession, granted: bool, heard: list[str]
) -> None:
    async with (
        DiscordTwin(granted=granted) as discord,
        Listener(connect(discord.url, http, message_content=granted)) as listener,
    ):
        await discord.say("nothing for you")
        await discord.mention("", "for you")
        assert await listener.until(len(heard)) == heard
        assert [event.addressed for event in listener.got] == [False, True][-len(heard) :]


async def test_after_a_break_what_was_missed_comes(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        await discord.drop()
        message = Message(discord._next_id(), DIRECT, USER, "two")
        await discord.dispatch("MESSAGE_CREATE", discord.wire(message))
        assert await listener.until(2) == ["one", "two"]
    assert (discord.identified, discord.resumed) == (1, [2])


async def test_only_what_is_stored_counts_as_seen(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        listener.ready.clear()
        await discord.mention("", "two")
        await discord.mention("", "three")
        beats = len(discord.heartbeats)
        await discord.until(lambda: len(discord.heartbeats) > beats + 1)
        assert discord.heartbeats[-1] == 2  # the greeting, and "one"
        await discord.drop()
        listener.ready.set()
        assert await listener.until(3) == ["one", "two", "three"]
        await discord.mention("", "four")
        assert await listener.until(4) == ["one", "two", "three", "four"]
    assert (discord.identified, discord.resumed) == (1, [4])


async def test_a_slow_store_is_no_dead_connection(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        listener.ready.clear()
        await discord.mention("", "one")
        beats = len(discord.heartbeats)
        await discord.until(lambda: len(discord.heartbeats) > beats + 2)
        listener.ready.set()
        assert await listener.until(1) == ["one"]
        beats = len(discord.heartbeats)
        await discord.until(lambda: len(discord.heartbeats) > beats + 1)
    assert (discord.identified, discord.resumed) == (1, [])


async def test_heartbeats_tell_what_was_stored_and_are_sent_when_asked_for(
    discord: DiscordTwin, adapter: Adapter
) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        await discord.until(lambda: discord.heartbeats[-1:] == [2])
    async with DiscordTwin(heartbeat_ms=100_000) as slow, Listener(connect(slow.url, adapter._http)):
        await slow.until(lambda: slow.sessions)
        await slow.order(1)
        await slow.until(lambda: slow.heartbeats)


async def test_a_connection_whose_heartbeats_are_not_answered_is_left(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        discord.is_deaf = True
        await discord.until(lambda: discord.resumed)
        discord.is_deaf = False
        await discord.mention("", "two")
        assert (await listener.until(2))[-1] == "two"
    assert discord.identified == 1


@pytest.mark.parametrize(("op", "data", "new"), [(7, None, False), (9, True, False), (9, False, True)])
async def test_another_connection_is_made_when_asked_for(
    discord: DiscordTwin, adapter: Adapter, op: int, data: Any, new: bool
) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        await discord.order(op, data)
        await discord.until(lambda: discord.identified == 2 if new else discord.resumed)
        await discord.mention("", "two")
        assert (await listener.until(2))[-1] == "two"
    assert discord.identified == (2 if new else 1)


@pytest.mark.parametrize("code", [4007, 4009])
async def test_a_session_that_is_over_is_followed_by_a_new_one(
    discord: DiscordTwin, adapter: Adapter, code: int
) -> None:
    async with Listener(adapter):
        await discord.until(lambda: discord.identified == 1)
        await discord.drop(code, over=True)
        await discord.until(lambda: discord.identified == 2)
    assert discord.resumed == []


async def test_a_session_that_nobody_knows_any_more_is_given_up(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter):
        await discord.until(lambda: discord.identified == 1)
        await discord.drop(4000, over=True)
        await discord.until(lambda: discord.identified == 2)
    assert len(discord.resumed) == 1


async def test_who_listens_next_goes_on_with_what_was_not_stored(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        while not listener.remembered.get("sequence"):
            await asyncio.sleep(0.005)
    await discord.say("two", channel=DIRECT, waits=False)
    async with Listener(adapter, listener.remembered) as later:
        assert await later.until(1) == ["two"]
        assert (discord.identified, len(discord.resumed)) == (1, 1)


@pytest.mark.parametrize("told", [True, False])
async def test_a_new_process_that_resumes_knows_who_is_meant(
    discord: DiscordTwin, http: aiohttp.ClientSession, *, told: bool
) -> None:
    """A resumed session does not say who we are. What is not known to be for us would be dropped, and count as seen."""
    async with Listener(connect(discord.url, http)) as listener:
        await discord.mention("", "one")
        await listener.until(1)
        while not listener.remembered.get("sequence"):
            await asyncio.sleep(0.005)
    remembered = {name: value for name, value in listener.remembered.items() if told or name != "us"}
    await discord.say(f"<@{BOT}> two", mentions=[BOT], waits=False)
    if not told:
        discord.next(on="identity", status=500)
    discord.calls.clear()
    async with Listener(connect(discord.url, http), remembered) as later:
        assert await later.until(1) == ["two"]
    assert later.got[0].addressed
    assert discord.calls.count("identity") == (0 if told else 2)
    assert (discord.identified, len(discord.resumed)) == (1, 1)


async def test_who_asks_for_other_intents_begins_a_new_session(http: aiohttp.ClientSession) -> None:
    async with DiscordTwin(granted=True) as discord:
        async with Listener(connect(discord.url, http, message_content=False)) as listener:
            await discord.mention("", "one")
            await listener.until(1)
            while not listener.remembered.get("sequence"):
                await asyncio.sleep(0.005)
        async with Listener(connect(discord.url, http, message_content=True), listener.remembered) as later:
            await discord.until(lambda: discord.identified == 2)
            await discord.say("without a mention")
            assert await later.until(1) == ["without a mention"]
        assert (discord.identified, discord.resumed) == (2, [])


async def test_what_was_remembered_and_is_none_begins_anew(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter, {"id": 7, "url": None, "sequence": "x"}) as listener:
        await discord.mention("", "one")
        assert await listener.until(1) == ["one"]
        assert discord.identified == 1


@pytest.mark.parametrize("code", [4004, 4010, 4011, 4012, 4013, 4014])
async def test_a_no_for_good_ends_the_listening(discord: DiscordTwin, adapter: Adapter, code: int) -> None:
    async with Listener(adapter) as listener:
        await discord.until(lambda: discord.identified == 1)
        await discord.drop(code)
        with pytest.raises(ConnectionRefused, match=rf"\({code}\)"):
            await asyncio.wait_for(listener.task, 5)


class Nobody:
    """Somebody who hears nothing."""

    async def receive(self, events: Sequence[Event]) -> None:
        raise AssertionError(events)

    async def recall(self) -> dict[str, Any]:
        return {}

    async def remember(self, words: dict[str, Any]) -> None:
        del words


NOBODY = Nobody()


async def test_texts_that_are_not_granted_and_a_wrong_token_are_said_to_be_so(
    discord: DiscordTwin, http: aiohttp.ClientSession
) -> None:
    with pytest.raises(ConnectionRefused, match="Message Content Intent"):
        await asyncio.wait_for(connect(discord.url, http, message_content=True).listen(NOBODY), 5)
    with pytest.raises(ConnectionRefused, match="bot_token is refused"):
        await asyncio.wait_for(connect(discord.url, http, bot_token=SecretStr("x")).listen(NOBODY), 5)
    with pytest.raises(ConnectionRefused, match="listen is off"):
        await connect(discord.url, http, listen=False).listen(NOBODY)
    assert not connect(discord.url, http, listen=False)._settings.listens


async def test_faults_that_pass_are_waited_out(discord: DiscordTwin, adapter: Adapter) -> None:
    discord.next(on="find the Gateway", status=500)
    discord.next(on="find the Gateway", status=200, body={"url": "ws://127.0.0.1:1/gateway"})
    async with Listener(adapter) as listener:
        await discord.mention("", "one")
        assert await listener.until(1) == ["one"]


async def test_a_day_s_sessions_are_not_used_up(discord: DiscordTwin, adapter: Adapter) -> None:
    discord.sessions_left = 3
    async with Listener(adapter):
        await discord.until(lambda: "find the Gateway" in discord.calls)
        begun = time.monotonic()
        await discord.until(lambda: discord.identified == 1)
    assert time.monotonic() - begun > 0.15  # Discord said 0.2


async def test_what_can_not_be_read_holds_nobody_up(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.until(lambda: discord.sessions)
        await discord.dispatch("MESSAGE_CREATE", {"id": 7, "author": {"id": USER}})
        await discord.mention("", "two")
        assert await listener.until(1) == ["two"]


async def test_commands_come_over_the_gateway_where_no_address_is_set(discord: DiscordTwin, adapter: Adapter) -> None:
    async with Listener(adapter) as listener:
        await discord.until(lambda: discord.sessions)
        made = Interaction(discord._next_id(), "a-token", DIRECT, time.time())
        discord.interactions[made.token] = made
        data = {"type": 1, "name": "deskmate", "options": [{"type": 3, "name": "line", "value": "stop"}]}
        ids = {"id": made.id, "token": made.token, "application_id": APPLICATION, "channel_id": DIRECT}
        await discord.dispatch("INTERACTION_CREATE", {**ids, "type": 2, "data": data, "user": {"id": USER}})
        await discord.until(lambda: made.original)
        [event] = listener.got
    to = Address(event.conversation, event.extra, event.reply_handle)
    assert (await adapter.send(to, text("Stopped."), KEY)).kind == "ok"
    assert [one.text for one in discord.shown] == ["Stopped."]


async def test_hung_calls_do_not_outlive_their_time(discord: DiscordTwin, http: aiohttp.ClientSession) -> None:
    discord.faults.order(Fault(hang=True, on="typing"))
    begun = time.monotonic()
    await connect(discord.url, http, timeout_s=0.1).typing(ROOM, on=True)
    assert time.monotonic() - begun < 1
