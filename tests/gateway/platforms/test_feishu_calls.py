"""The half that talks: against a strict stand-in for Feishu."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

import aiohttp
import pytest
from multidict import CIMultiDict
from pydantic import SecretStr

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
from gateway.platforms.feishu import AHEAD_MS, KEY_KNOWN_S, Adapter, Settings
from tests.harness.faults import Fault
from tests.harness.feishu_twin import (
    APP_ID,
    APP_SECRET,
    BOT,
    DIRECT,
    ENCRYPT_KEY,
    GROUP,
    VERIFICATION_TOKEN,
    FeishuTwin,
    Message,
    encrypted,
    sign,
)
from tests.harness.web import canary

KEY = "k" * 26
DM = Address(ConversationKey("feishu-main", DIRECT))
PNG = b"\x89PNG\r\n\x1a\n"


class Files:
    """Files that are to be sent, by name."""

    def __init__(self) -> None:
        self.kept = {"a.png": PNG, "a.csv": b"a;b\n", "empty": b""}

    async def read(self, fetch: Mapping[str, Any], max_bytes: int) -> bytes:
        if fetch["file"] not in self.kept:
            raise NotDownloaded("it is not kept any more")
        return self.kept[fetch["file"]][:max_bytes]


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuTwin]:
    async with FeishuTwin() as twin:
        yield twin


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def adapter(feishu: FeishuTwin, http: aiohttp.ClientSession) -> Adapter:
    return connect(feishu.url, http)


def connect(api_base: str, http: aiohttp.ClientSession, **keys: Any) -> Adapter:
    given = {
        "app_id": APP_ID,
        "app_secret": SecretStr(APP_SECRET),
        "verification_token": SecretStr(VERIFICATION_TOKEN),
        "encrypt_key": SecretStr(ENCRYPT_KEY),
        **keys,
    }
    outside = Outside(http, cast("Any", None), cast("Any", Files()), cast("Any", None))
    return Adapter("feishu-main", Settings(platform="feishu", api_base=api_base, **given), outside)


def text(markdown: str, *buttons: Button) -> Part:
    [part] = Adapter.render(cast("Adapter", None), Outbound(markdown, buttons=buttons))
    return part


def growing(markdown: str) -> Growing:
    return Growing(markdown, markdown=markdown)


def said(feishu: FeishuTwin, thread: str | None = None, room: str = GROUP) -> Address:
    """A place to answer: somebody has said something there."""
    message = feishu._add(Message(f"om_said{len(feishu.messages)}", room, "ou_user1", "text", {"text": "hi"}, thread))
    return Address(ConversationKey("feishu-main", room, thread), {"message": message.id})


def age(feishu: FeishuTwin) -> None:
    """What is there was made a while ago."""
    for one in feishu.messages:
        one.made_ms -= 60_000


# messages


async def test_an_answer_is_a_card_in_its_chat(feishu: FeishuTwin, adapter: Adapter) -> None:
    outcome = await adapter.send(said(feishu), text("**Hi** <at id=all></at>"), KEY)
    [shown] = feishu.shown
    assert outcome.sent == Sent(shown.id, {})
    assert (shown.room, shown.thread, shown.text) == (GROUP, None, "**Hi** <at id=all></at>")
    assert feishu.pings == []
    assert feishu.taken[-1].body["uuid"] == KEY


async def test_an_answer_in_a_topic_stays_there(feishu: FeishuTwin, adapter: Adapter) -> None:
    await adapter.send(said(feishu, "omt_1"), text("hi"), KEY)
    await adapter.show(said(feishu, "omt_2"), growing("hi"), f"{KEY}2", None)
    assert [(one.room, one.thread) for one in feishu.shown] == [(GROUP, "omt_1"), (GROUP, "omt_2")]
    assert feishu.calls.count("POST reply") == 2


async def test_the_same_key_twice_is_one_message(feishu: FeishuTwin, adapter: Adapter) -> None:
    first = await adapter.send(DM, text("hi"), KEY)
    again = await adapter.send(DM, text("hi"), KEY)
    assert first.sent == again.sent
    assert len(feishu.shown) == 1
    for key in ("k" * 70, "k" * 71):  # longer than Feishu takes, and still two
        assert (await adapter.send(DM, text("hi"), key)).kind == "ok"
    assert len(feishu.shown) == 3


async def test_the_fallback_is_a_text_and_stays_one(feishu: FeishuTwin, adapter: Adapter) -> None:
    fallback = text("**Hi** <at id=all></at> [x](https://x.cn)").fallback
    assert fallback
    outcome = await adapter.send(DM, Part(fallback), KEY)
    assert outcome.sent
    assert feishu.messages[-1].kind == "text"
    assert feishu.pings == []
    assert feishu.shown[0].text == "Hi <\u200bat id=all><\u200b/at> x (https://x.cn)"
    assert (await adapter.edit(DM, outcome.sent, text("**Ho**"))).kind == "ok"
    assert feishu.shown[0].text == "Ho"


async def test_a_card_is_changed_and_one_that_was_refused_becomes_plain(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(DM, text("one"), KEY)).sent
    assert sent
    assert (await adapter.edit(DM, sent, text("**two**"))).sent == sent
    assert feishu.shown[0].text == "**two**"
    assert (await adapter.edit(DM, sent, Part({"text": "**two**"}))).kind == "ok"
    assert feishu.messages[-1].content["body"]["elements"][0]["tag"] == "div"


async def test_a_refused_card_is_told_with_its_code(adapter: Adapter) -> None:
    """B051: whatever the reason, its text is sent once."""
    table = "| a |\n| --- |\n| 1 |\n\n"
    outcome = await adapter.send(DM, Part({"markdown": table * 6}, {"text": "6"}), KEY)
    assert outcome.kind == "bad_format"
    assert "230099" in outcome.detail
    assert "11310" in outcome.detail
    assert (await adapter.send(DM, Part({"text": "6"}), KEY)).kind == "ok"
    parts = adapter.render(Outbound(table * 7))
    outcomes = [await adapter.send(DM, part, f"{KEY}{at}") for at, part in enumerate(parts)]
    assert [one.kind for one in outcomes] == ["ok"] * len(parts)


async def test_every_part_of_a_long_answer_is_taken(feishu: FeishuTwin, adapter: Adapter) -> None:
    buttons = tuple(Button(f"Label {number}", f"skill approve {number}") for number in range(5))
    markdown = "\n\n".join(['"quoted\\" ' * 2_500, "| a & b | c |\n|---|---|\n" + "| x | y |\n" * 400, "🚀" * 4_000])
    to = replace(said(feishu, "omt_1"), extra={"message": feishu.messages[-1].id, "direct": True})
    for number, part in enumerate(adapter.render(Outbound(markdown, buttons=buttons))):
        outcome = await adapter.send(to, part, f"{KEY}{number}")
        assert outcome.sent
        assert (await adapter.edit(to, outcome.sent, part)).kind == "ok"
    assert len(feishu.shown) > 3
    assert feishu.shown[-1].buttons == [button.label for button in buttons]


# growing answers


async def test_an_answer_grows_in_one_streaming_card_and_ends_whole(feishu: FeishuTwin, adapter: Adapter) -> None:
    to = said(feishu)
    sent = (await adapter.show(to, growing("One"), KEY, None)).sent
    assert sent
    assert feishu.shown[0].is_growing
    assert (await adapter.show(to, growing("One **two**"), KEY, sent)).sent == sent
    assert [one.text for one in feishu.shown] == ["One **two**"]
    assert (await adapter.edit(to, sent, text("One **two** three", Button("OK", "help")))).kind == "ok"
    [shown] = feishu.shown
    assert (shown.text, shown.is_growing, shown.buttons) == ("One **two** three", False, ["OK"])
    kinds = [one.kind for one in feishu.taken]
    assert kinds == ["POST card", "POST message", "PUT card_content", "PATCH card_settings", "PUT card"]


async def test_another_worker_ends_what_one_has_begun(
    feishu: FeishuTwin, adapter: Adapter, http: aiohttp.ClientSession
) -> None:
    first = (await adapter.show(DM, growing("One"), KEY, None)).sent
    assert first
    for number in range(3):
        await adapter.show(DM, growing(f"One {number}"), KEY, first)
    other = connect(feishu.url, http)
    assert (await other.edit(DM, first, text("Whole"))).kind == "ok"
    assert (await other.edit(DM, first, text("Whole"))).kind == "ok"  # as after a lost answer
    assert [(one.text, one.is_growing) for one in feishu.shown] == [("Whole", False)]


async def test_a_worker_whose_clock_is_behind_ends_it_all_the_same(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(DM, growing("One"), KEY, None)).sent
    assert sent
    behind = Sent(sent.message_id, {**sent.ref, "made_ms": sent.ref["made_ms"] + AHEAD_MS // 2})
    ahead = Sent(sent.message_id, {**sent.ref, "made_ms": sent.ref["made_ms"] - AHEAD_MS // 4})
    assert (await adapter.show(DM, growing("Two"), KEY, ahead)).kind == "ok"
    assert (await adapter.show(DM, growing("Three"), KEY, behind)).kind == "ok"
    assert (await adapter.edit(DM, behind, text("Whole"))).kind == "ok"
    assert feishu.shown[0].text == "Whole"


async def test_without_the_scope_an_answer_grows_in_a_card_as_any_other(feishu: FeishuTwin, adapter: Adapter) -> None:
    feishu.may_stream = False
    sent = (await adapter.show(DM, growing("One"), KEY, None)).sent
    assert sent == Sent(feishu.shown[0].id, {})
    assert (await adapter.show(DM, growing("One two"), KEY, sent)).kind == "ok"
    assert (await adapter.edit(DM, sent, text("Whole"))).kind == "ok"
    assert [one.text for one in feishu.shown] == ["Whole"]
    assert feishu.calls.count("POST card") == 1


async def test_streaming_may_be_switched_off(feishu: FeishuTwin, http: aiohttp.ClientSession) -> None:
    await connect(feishu.url, http, streaming=False).show(DM, growing("One"), KEY, None)
    assert feishu.calls == ["POST token", "POST message"]


async def test_a_stream_that_feishu_has_ended_goes_on_as_a_card(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(DM, growing("One"), KEY, None)).sent
    feishu.end_streams()
    assert (await adapter.show(DM, growing("One two"), KEY, sent)).kind == "ok"
    assert feishu.shown[0].text == "One two"


@pytest.mark.parametrize("may_stream", [True, False])
async def test_a_growing_card_whose_sending_nobody_saw_is_made_whole(
    feishu: FeishuTwin, adapter: Adapter, *, may_stream: bool
) -> None:
    """The same key gives back the message as it was first sent."""
    feishu.may_stream = may_stream
    feishu.next(on="POST message", close=True, taken=True)
    assert (await adapter.show(DM, growing("One"), KEY, None)).kind == "ambiguous"
    age(feishu)
    outcome = await adapter.send(DM, text("Whole", Button("OK", "help")), KEY)
    assert outcome.kind == "ok"
    assert [(one.text, one.is_growing, one.buttons) for one in feishu.shown] == [("Whole", False, ["OK"])]
    assert outcome.sent
    assert (await adapter.edit(DM, outcome.sent, text("Whole again"))).kind == "ok"
    assert [one.text for one in feishu.shown] == ["Whole again"]


def test_a_key_is_known_for_less_than_the_hour_that_feishu_names(adapter: Adapter) -> None:
    assert adapter.capabilities.idempotent_send
    assert adapter.capabilities.key_known_s == KEY_KNOWN_S < 3_600


async def test_a_growing_card_that_was_taken_away_gives_way_to_another(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(DM, growing("One"), KEY, None)).sent
    assert sent
    feishu.messages[-1].is_recalled = True
    age(feishu)
    assert (await adapter.edit(DM, sent, text("Whole"))).kind == "target_gone"
    for _ in range(2):
        assert (await adapter.send(DM, text("Whole"), KEY)).kind == "ok"
    assert [one.text for one in feishu.shown] == ["Whole"]


async def test_who_can_not_look_what_a_message_is_tries_again(feishu: FeishuTwin, adapter: Adapter) -> None:
    await adapter.show(DM, growing("One"), KEY, None)
    age(feishu)
    feishu.next(on="POST card_id", status=500)
    assert (await adapter.send(DM, text("Whole"), KEY)).kind == "transient"
    assert (await adapter.send(DM, text("Whole"), KEY)).kind == "ok"
    assert [(one.text, one.is_growing) for one in feishu.shown] == [("Whole", False)]


async def test_a_growing_card_becomes_the_fallback_where_markup_is_refused(
    feishu: FeishuTwin, adapter: Adapter
) -> None:
    feishu.next(on="POST message", close=True, taken=True)
    await adapter.show(DM, growing("One"), KEY, None)
    age(feishu)
    assert (await adapter.send(DM, Part({"text": "**Whole**"}), KEY)).kind == "ok"
    assert [one.text for one in feishu.shown] == ["**Whole**"]


async def test_a_failed_show_raises_nothing_and_makes_no_second_copy(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(DM, growing("One"), KEY, None)).sent
    for fault in ({"status": 429, "retry_after": 3}, {"status": 500}, {"close": True}, {"code": 230_020}):
        feishu.next(on="PUT card_content", times=2, **fault)  # a broken connection is tried once more below us
        outcome = await adapter.show(DM, growing("Two"), KEY, sent)
        assert outcome.kind in {"rate_limited", "transient"}
        feishu.faults.waiting.clear()
    assert len(feishu.shown) == 1


# buttons


def pressed(feishu: FeishuTwin, adapter: Adapter, label: str) -> tuple[Address, Event]:
    """A button of the last message is pressed: what the gateway reads of it."""
    raw = encrypted(json.dumps(feishu.press_event(feishu.shown[-1], label)).encode())
    [event] = adapter.parse(RawRequest("POST", "/", {}, CIMultiDict(sign(raw)), raw), time.time())
    return Address(event.conversation, event.extra), event


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_settled_button_goes_and_the_text_stays(
    feishu: FeishuTwin, adapter: Adapter, *, streamed: bool
) -> None:
    to = said(feishu, "omt_1")
    part = text("**Really** <b>?", Button("Yes", "skill approve 7F3K", "primary"), Button("No", "skill refuse 7F3K"))
    if streamed:
        sent = (await adapter.show(to, growing("..."), KEY, None)).sent
        assert sent
        await adapter.edit(to, sent, part)
    else:
        await adapter.send(to, part, KEY)
    where, event = pressed(feishu, adapter, "Yes")
    assert (event.value, event.conversation) == ("skill approve 7F3K", to.conversation)
    await adapter.pressed(where, event, "not yet", is_settled=False)
    assert feishu.shown[-1].buttons == ["Yes", "No"]
    await adapter.pressed(where, event, "approved <by> Ann", is_settled=True)
    assert (feishu.shown[-1].text, feishu.shown[-1].buttons) == ("**Really** <b>?", [])
    await adapter.send(where, text("done"), f"{KEY}2")
    assert feishu.shown[-1].thread == "omt_1"


# files


@pytest.mark.parametrize(("name", "mime", "kind"), [("a.png", "image/png", "image"), ("a.csv", "text/csv", "file")])
async def test_a_file_is_uploaded_and_posted(
    feishu: FeishuTwin, adapter: Adapter, name: str, mime: str, kind: str
) -> None:
    part = Part(file=Attachment(kind, name, mime, 4, {"file": name}))
    for _ in range(2):
        assert (await adapter.send(said(feishu, "omt_1"), part, KEY)).kind == "ok"
    [shown] = feishu.shown
    assert shown.file == Files().kept[name]
    assert shown.thread == "omt_1"
    assert feishu.messages[-2].kind == kind or feishu.messages[-1].kind == kind


@pytest.mark.parametrize(("name", "reason"), [("gone", "not kept any more"), ("empty", "234010")])
async def test_a_file_that_can_not_be_sent_is_told_as_such(
    feishu: FeishuTwin, adapter: Adapter, name: str, reason: str
) -> None:
    outcome = await adapter.send(DM, Part(file=Attachment("file", name, "", 4, {"file": name})), KEY)
    assert outcome.kind == "rejected"
    assert reason in outcome.detail
    assert feishu.shown == []


async def test_an_upload_that_was_lost_is_made_again(feishu: FeishuTwin, adapter: Adapter) -> None:
    feishu.next(on="POST file", status=500, taken=True)
    part = Part(file=Attachment("file", "a.csv", "text/csv", 4, {"file": "a.csv"}))
    assert (await adapter.send(DM, part, KEY)).kind == "transient"


def attached(feishu: FeishuTwin, content: bytes, mime: str = "text/csv") -> Attachment:
    """As `parse` makes it of a message with a file."""
    key = feishu.attach(content, mime)
    message = feishu._add(Message("om_file", DIRECT, "ou_user1", "file", {"file_key": key}))
    feishu.resources[key] = (message.id, content, mime)
    return Attachment("file", "x", "", 0, {"message": message.id, "key": key, "type": "file"})


@pytest.mark.parametrize("mime", ["text/csv", "application/json", "text/html"])
async def test_a_file_is_downloaded_whatever_it_is(feishu: FeishuTwin, adapter: Adapter, mime: str) -> None:
    assert await adapter.download(attached(feishu, b'{"code": 1}', mime), 11) == b'{"code": 1}'


async def test_a_file_that_is_too_long_is_refused(feishu: FeishuTwin, adapter: Adapter) -> None:
    with pytest.raises(NotDownloaded, match="more than 8 bytes"):
        await adapter.download(attached(feishu, b"123456789"), 8)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"code": 234_003}, "234003"),
        ({"status": 404, "body": "gone"}, "404"),
        ({"status": 200, "body": {"code": 234_038, "msg": "restricted mode"}}, "234038 restricted mode"),
        ({"status": 200, "body": "<!doctype html>", "headers": {"Content-Type": "text/html"}}, "status 200"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "302"),
        ({"close": True}, "no answer"),
    ],
)
async def test_a_file_that_does_not_come_is_told_as_such(
    feishu: FeishuTwin, adapter: Adapter, fault: dict[str, Any], reason: str
) -> None:
    feishu.next(on="GET resource", times=2, **fault)  # a broken connection is tried once more below us
    with pytest.raises(NotDownloaded, match=reason):
        await adapter.download(attached(feishu, b"1"), 100)


@pytest.mark.parametrize(
    "fetch",
    [{}, {"message": "om_1", "key": "../../auth"}, {"message": "om_1/x?", "key": "f"}, {"message": 7, "key": "f"}],
)
async def test_only_what_looks_like_a_file_is_asked_for(
    feishu: FeishuTwin, adapter: Adapter, fetch: dict[str, Any]
) -> None:
    with pytest.raises(NotDownloaded, match="gives no sticker"):
        await adapter.download(Attachment("sticker", "", "", 0, fetch), 100)
    assert feishu.calls == []


async def test_no_redirect_takes_the_token_elsewhere(feishu: FeishuTwin, adapter: Adapter) -> None:
    with canary() as elsewhere:
        feishu.next(on="GET resource", status=302, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        feishu.next(on="POST message", status=307, headers={"Location": f"http://127.0.0.1:{elsewhere.port}/"})
        with pytest.raises(NotDownloaded):
            await adapter.download(attached(feishu, b"1"), 100)
        assert (await adapter.send(DM, text("hi"), KEY)).kind == "rejected"
        assert elsewhere.visits() == 0


# endings


@pytest.mark.parametrize(
    ("fault", "kind", "scope"),
    [
        ({"status": 429, "retry_after": 7}, "rate_limited", "connection"),
        ({"status": 429, "code": 230_020}, "rate_limited", "channel"),
        ({"code": 230_020}, "rate_limited", "channel"),
        ({"code": 99_991_400}, "rate_limited", "connection"),
        ({"code": 230_049}, "transient", None),
        ({"code": 230_099}, "bad_format", None),
        ({"code": 230_001}, "bad_format", None),
        ({"code": 230_025}, "too_long", None),
        ({"code": 99_991_672}, "auth_failed", None),
        ({"code": 230_027}, "auth_failed", None),
        ({"code": 230_002}, "target_gone", None),
        ({"code": 232_009}, "target_gone", None),
        ({"code": 230_053}, "target_gone", None),
        ({"code": 230_022}, "rejected", None),
        ({"code": 1, "status": 200}, "rejected", None),
        ({"code": 1, "status": 500}, "ambiguous", None),
        ({"status": 401}, "auth_failed", None),
        ({"status": 404, "body": "<html>"}, "rejected", None),
        ({"status": 413}, "too_long", None),
        ({"status": 502, "body": "<html>"}, "ambiguous", None),
        ({"status": 503}, "transient", None),
        ({"status": 200, "body": "<html>sign in"}, "ambiguous", None),
        ({"status": 200, "body": [1]}, "ambiguous", None),
        ({"status": 200, "body": {"code": 0}}, "ambiguous", None),
        ({"status": 200, "body": {"code": [0]}}, "ambiguous", None),
        ({"close": True}, "ambiguous", None),
    ],
)
async def test_each_ending_is_told_apart(
    feishu: FeishuTwin, adapter: Adapter, fault: dict[str, Any], kind: str, scope: str | None
) -> None:
    feishu.next(on="POST message", **fault)
    outcome = await adapter.send(DM, text("hi"), KEY)
    assert outcome.kind == kind
    assert scope is None or outcome.scope == scope
    assert "im/v1/messages" in outcome.detail
    assert str(fault.get("code", "")) in outcome.detail
    assert not any(secret in outcome.detail for secret in (APP_SECRET, *feishu.tokens))
    assert (await adapter.send(DM, text("hi"), KEY)).kind == "ok"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"X-Ogw-Ratelimit-Reset": "7"}, 7.0),
        ({"Retry-After": "3", "X-Ogw-Ratelimit-Reset": "7"}, 3.0),
        ({"X-Ogw-Ratelimit-Reset": "99999999"}, 3600.0),
        ({"X-Ogw-Ratelimit-Reset": "-1"}, 1.0),
        ({}, 1.0),
    ],
)
async def test_the_wait_that_feishu_asks_for_is_believed_within_reason(
    feishu: FeishuTwin, adapter: Adapter, headers: dict[str, str], wait_s: float
) -> None:
    feishu.faults.order(Fault(on="POST message", status=429, body={"code": 99_991_400}, headers=headers))
    assert (await adapter.send(DM, text("hi"), KEY)).retry_after_s == wait_s


async def test_an_edit_that_was_lost_may_be_made_again(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(DM, text("one"), KEY)).sent
    assert sent
    feishu.next(on="PATCH message", close=True, taken=True)
    assert (await adapter.edit(DM, sent, text("two"))).kind == "transient"


async def test_a_message_that_is_gone_is_told_as_such(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.send(DM, text("one"), KEY)).sent
    assert sent
    feishu.messages[-1].is_recalled = True
    assert (await adapter.edit(DM, sent, text("two"))).kind == "target_gone"
    assert (
        await adapter.send(Address(ConversationKey("feishu-main", "oc_gone")), text("x"), "k2")
    ).kind == "target_gone"


async def test_an_answer_that_does_not_come_is_ambiguous_in_time(
    feishu: FeishuTwin, http: aiohttp.ClientSession
) -> None:
    feishu.next(on="POST message", hang=True, taken=True)
    begun = time.monotonic()
    assert (await connect(feishu.url, http, timeout_s=0.2).send(DM, text("hi"), KEY)).kind == "ambiguous"
    assert time.monotonic() - begun < 2
    assert len(feishu.shown) == 1


async def test_nobody_there_is_transient_for_nothing_was_sent(
    http: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    lonely = connect(f"http://127.0.0.1:{unused_tcp_port}", http)
    assert (await lonely.send(DM, text("hi"), KEY)).kind == "transient"
    await lonely.typing(replace(DM, extra={"message": "om_1"}), on=True)
    with pytest.raises(ConnectionRefused, match="tenant_access_token/internal: not reached"):
        await lonely.identity()


async def test_a_cancelled_send_stays_cancelled(feishu: FeishuTwin, adapter: Adapter) -> None:
    feishu.next(on="POST message", hang=True)
    task = asyncio.create_task(adapter.send(DM, text("hi"), KEY))
    async with asyncio.timeout(30):
        while "POST message" not in feishu.calls:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await adapter.send(DM, text("hi"), KEY)).kind == "ok"


async def test_a_message_is_taken_back(feishu: FeishuTwin, adapter: Adapter) -> None:
    sent = (await adapter.show(DM, growing("half"), KEY, None)).sent
    assert sent
    feishu.next(on="DELETE message", close=True, times=2)  # a broken connection is tried once more below us
    assert (await adapter.delete(DM, sent)).kind == "transient"
    assert (await adapter.delete(DM, sent)).kind == "ok"
    assert [one.is_recalled for one in feishu.messages] == [True]
    assert (await adapter.delete(DM, sent)).kind == "target_gone"


async def test_a_file_has_the_time_that_it_takes(feishu: FeishuTwin, http: aiohttp.ClientSession) -> None:
    hurried = connect(feishu.url, http, timeout_s=0.2)
    assert (await hurried.send(DM, text("hi"), KEY)).kind == "ok"
    feishu.slow_s = 0.3
    attachment = Attachment("file", "a.csv", "text/csv", 4, {"file": "a.csv"})
    assert not isinstance(await hurried._upload(attachment), Outcome)
    assert (await hurried.send(DM, text("hi"), "k2")).kind == "ambiguous"


# tokens


async def test_one_token_is_fetched_for_all_who_wait(feishu: FeishuTwin, adapter: Adapter) -> None:
    outcomes = await asyncio.gather(*(adapter.send(DM, text("hi"), f"{KEY}{number}") for number in range(5)))
    assert {one.kind for one in outcomes} == {"ok"}
    assert feishu.calls.count("POST token") == 1


async def test_a_refused_token_is_renewed_once(feishu: FeishuTwin, adapter: Adapter) -> None:
    await adapter.send(DM, text("hi"), KEY)
    feishu.tokens.clear()
    outcomes = await asyncio.gather(*(adapter.send(DM, text("hi"), f"{KEY}{number}") for number in range(3)))
    assert {one.kind for one in outcomes} == {"ok"}
    assert feishu.calls.count("POST token") == 2
    feishu.next(on="POST message", code=99_991_663, times=2)
    assert (await adapter.send(DM, text("hi"), "k9")).kind == "auth_failed"
    feishu.tokens.clear()
    assert await adapter.download(attached(feishu, b"1"), 1) == b"1"


async def test_a_token_is_renewed_before_its_end(feishu: FeishuTwin, adapter: Adapter) -> None:
    await adapter.send(DM, text("hi"), KEY)
    assert 6_800 < adapter._token._until_s - time.monotonic() <= 6_900
    adapter._token._until_s = time.monotonic()
    await adapter.send(DM, text("hi"), "k2")
    assert feishu.calls.count("POST token") == 2


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 500}, "transient"),
        ({"close": True}, "transient"),
        ({"status": 429, "retry_after": 9}, "rate_limited"),
    ],
)
async def test_without_a_token_nothing_has_left(
    feishu: FeishuTwin, adapter: Adapter, fault: dict[str, Any], kind: str
) -> None:
    feishu.next(on="POST token", times=2, **fault)
    assert (await adapter.send(DM, text("hi"), KEY)).kind == kind
    assert "POST message" not in feishu.calls


async def test_it_is_ready_once_it_knows_mentions_of_itself(
    feishu: FeishuTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    assert not adapter.is_ready
    await adapter.identity()
    assert adapter.is_ready
    assert connect(feishu.url, http, bot_open_id=BOT).is_ready


async def test_identity_is_the_app_s_bot(feishu: FeishuTwin, http: aiohttp.ClientSession, adapter: Adapter) -> None:
    me = await adapter.identity()
    assert (me.id, me.name, me.is_self, adapter.me) == (BOT, "deskmate", True, me)
    with pytest.raises(ConnectionRefused, match="bot_open_id says ou_other"):
        await connect(feishu.url, http, bot_open_id="ou_other").identity()
    with pytest.raises(ConnectionRefused, match=r"10014 app secret invalid \(are app_id and app_secret"):
        await connect(feishu.url, http, app_secret=SecretStr("wrong")).identity()
    feishu.next(on="GET bot", status=200, body={"code": 0, "bot": {}})
    with pytest.raises(ConnectionRefused, match="bot capability"):
        await adapter.identity()
    assert await adapter.register("https://x.example") == ""


# typing


async def test_a_reaction_says_that_we_are_at_it(feishu: FeishuTwin, adapter: Adapter) -> None:
    to = said(feishu)
    for _ in range(2):
        await adapter.typing(to, on=True)
    assert list(feishu.reactions.values()) == [(to.extra["message"], "Typing")]
    await adapter.typing(to, on=False)
    assert feishu.reactions == {}
    assert feishu.refused == []  # those of other people stay
    await adapter.typing(DM, on=True)
    feishu.next(status=500, times=3)
    await adapter.typing(to, on=True)
    await adapter.typing(to, on=False)


async def test_who_has_made_a_reaction_takes_it_back_by_one_call(
    feishu: FeishuTwin, http: aiohttp.ClientSession, adapter: Adapter
) -> None:
    to = said(feishu)
    await adapter.typing(to, on=True)
    feishu.calls.clear()
    await adapter.typing(to, on=False)
    assert (feishu.calls, feishu.reactions) == (["DELETE reaction"], {})
    await adapter.typing(to, on=True)
    await connect(feishu.url, http).typing(to, on=False)  # another worker
    assert (feishu.calls[-2:], feishu.reactions) == (["GET reaction", "DELETE reaction"], {})


async def test_no_emoji_is_no_reaction(feishu: FeishuTwin, http: aiohttp.ClientSession, adapter: Adapter) -> None:
    silent = connect(feishu.url, http, typing_emoji="")
    await silent.typing(said(feishu), on=True)
    assert (silent.capabilities.typing_s, adapter.capabilities.typing_s) == (None, 30.0)
    assert feishu.calls == []
