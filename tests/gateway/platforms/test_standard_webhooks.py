from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from config.settings import WebFetchSettings
from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event
from gateway.files import FILE_MAX_BYTES, Files
from gateway.platforms import (
    Address,
    Button,
    Growing,
    Malformed,
    NotDownloaded,
    Outbound,
    Outside,
    Part,
    RawRequest,
    Sent,
    StepLine,
    Unauthorized,
)
from gateway.platforms.standard_webhooks import Adapter, Settings
from gateway.store import Store
from tests.gateway.platforms.hostile import can_be_kept, spoiled
from tests.harness.faults import Fault
from tests.harness.web import canary, site
from tests.harness.webhook_twin import REPLY_SECRET, SECRET, WebhookTwin, sign

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/standard_webhooks.json").read_text(encoding="utf-8"))
NOW = 1_760_000_000.0
NOWHERE = Outside(cast("Any", None), cast("Any", None), cast("Any", None), cast("Any", None))
KEY = "k" * 26
ROOM = Address(ConversationKey("bridge", "room-1", "t1"), {"in_reply_to": "m1"})


def adapter(outside: Outside = NOWHERE, **keys: Any) -> Adapter:
    secrets = {"secret": SecretStr(SECRET), "reply_secret": SecretStr(REPLY_SECRET)}
    given = {**secrets, "reply_url": "https://chat.example/replies", **keys}
    return Adapter("bridge", Settings(platform="standard_webhooks", **given), outside)


def request(body: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None, **more: str) -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = sign("msg_1", raw.decode("utf-8", "replace"), at_s=NOW) if headers is None else headers
    return RawRequest("POST", "/webhooks/bridge", {}, CIMultiDict({**signed, **more}), raw)


def created(kind: str = "message.created", **data: Any) -> dict[str, Any]:
    told = {"conversation": "room-1", "thread": "t1", "user": {"id": "u1", "name": "Ann"}, "text": "hello", **data}
    return {"type": kind, "timestamp": "2026-01-01T00:00:00Z", "data": told}


def parse(body: Mapping[str, Any] | bytes, **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(body), NOW)


# signature


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_signatures_are_judged_as_the_vectors_say(vector: dict[str, Any]) -> None:
    headers = {
        "webhook-id": vector["id"],
        "Webhook-Timestamp": vector["timestamp"],
        "WEBHOOK-SIGNATURE": vector.get("signature") or vector["expected"],
    }
    webhooks = adapter(secret=SecretStr(vector["secret"]))
    body = request(vector["body"].encode(), headers)
    if vector["valid"]:
        webhooks.verify(body, vector["clock_now"])
    else:
        with pytest.raises(Unauthorized):
            webhooks.verify(body, vector["clock_now"])


@given(st.text(max_size=100), st.integers(-320, 320), st.sampled_from(["", "v1,AAAA ", "v1a,x ", "spoil"]))
@examples(max_examples=80, deadline=None)
def test_we_and_the_reference_library_agree(body: str, off_s: int, before: str) -> None:
    body = body.encode("utf-8", "replace").decode()
    now_s = time.time()
    if 298 <= abs(off_s) <= 302:
        off_s = 0  # the library looks at its own clock
    headers = sign("msg_1", body, at_s=now_s + off_s)
    signature = headers["webhook-signature"]
    headers["webhook-signature"] = signature[:-3] + "AA=" if before == "spoil" else before + signature
    try:
        Webhook(SECRET).verify(body, headers, json_parse=False)
        expected = True
    except WebhookVerificationError:
        expected = False
    try:
        adapter().verify(request(body.encode(), headers), now_s)
        accepted = True
    except Unauthorized:
        accepted = False
    assert accepted == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("webhook-timestamp", value)
            for value in ("", "nan", "-1", "0", "1_760_000_000", " 1760000000", "1e9", "١٧٦")
        ],
        *[("webhook-signature", value) for value in ("", "v1,", "v1", "é", "v2,AAAA", "v1,A " * 30)],
        *[("webhook-id", value) for value in ("", "msg_2", "é", "m\x00", "m" * 300)],
    ],
)
def test_a_spoilt_header_is_refused(name: str, value: str) -> None:
    with pytest.raises(Unauthorized):
        adapter().verify(request(created(), None, **{name: value}), NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_or_there_twice_is_refused(name: str) -> None:
    missing, twice = request(created()), request(created())
    del missing.headers[name]
    twice.headers.add(name, twice.headers[name])
    for spoilt in (missing, twice):
        with pytest.raises(Unauthorized, match=name):
            adapter().verify(spoilt, NOW)


def test_a_wrong_clock_is_told_apart_from_a_wrong_secret() -> None:
    with pytest.raises(Unauthorized, match=r"360 s outside the window.*clock"):
        adapter().verify(request(created()), NOW + 360)
    with pytest.raises(Unauthorized, match="none matches"):
        adapter(secret=SecretStr(REPLY_SECRET)).verify(request(created()), NOW + 360)


def test_the_secret_before_is_taken_as_long_as_it_is_set() -> None:
    adapter(secret=SecretStr(REPLY_SECRET), previous_secret=SecretStr(SECRET)).verify(request(created()), NOW)


# settings


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_not base64 at all!", "password"])
def test_a_secret_that_proves_nothing_is_refused(secret: str) -> None:
    with pytest.raises(ValidationError, match="whsec_"):
        adapter(secret=SecretStr(secret))


def test_a_connection_without_its_secret_is_refused() -> None:
    with pytest.raises(ValidationError, match="secret"):
        Settings(platform="standard_webhooks", reply_url="https://a.example")  # type: ignore[call-arg]  # that is the test


@pytest.mark.parametrize(
    "keys",
    [
        {"reply_url": "/replies"},
        {"reply_url": "ftp://a.example"},
        {"reply_url": "https://user:pass@a.example"},
        {"reply_origins": ["a.example"]},
    ],
)
def test_replies_need_an_address(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        adapter(**keys)


# events


def test_a_message_is_read_whole() -> None:
    body = created(
        text=" hello\x00 ",
        message_id="m1",
        language="zh-CN",
        direct=True,
        attachments=[{"name": "a.png", "mime": "image/png", "size_bytes": 5, "url": "https://f.example/a"}, 7],
    )
    [event] = parse(body)
    assert event.kind == "message"
    assert event.conversation == ConversationKey("bridge", "room-1", "t1")
    assert event.actor == Actor("u1", "Ann", language="zh-CN")
    assert event.dedupe_keys == ("id:msg_1", "message:m1")
    assert event.at_ms == 1_767_225_600_000
    assert (event.text, event.message_id, event.addressed, event.is_direct) == ("hello", "m1", True, True)
    assert [one.kind for one in event.attachments] == ["image"]
    assert Event.load(event.dump()) == event


def test_the_documented_message_is_read() -> None:
    [event] = parse(VECTORS["payloads"][0]["body"])
    assert (event.conversation, event.text) == (ConversationKey("bridge", "room-1"), "hello")
    assert event.message_id == "msg_1"


def test_edits_deletions_and_buttons_are_told() -> None:
    [edit] = parse(created("message.updated", message_id="m1", text="ho"))
    [gone] = parse(created("message.deleted", message_id="m1"))
    [pressed] = parse(created("action.pressed", message_id="m1", action="approve", value="7F3K"))
    assert (edit.kind, edit.text, edit.dedupe_keys) == ("edit", "ho", ("id:msg_1",))
    assert gone.kind == "delete"
    assert (pressed.kind, pressed.name, pressed.value) == ("action", "approve", "7F3K")


def test_other_types_are_taken_and_mean_nothing() -> None:
    assert parse({"type": "ping"}) == []
    assert parse({"data": {}}) == []
    assert json.loads(adapter().acknowledge([]).body) == {"accepted": 0}
    assert adapter().handshake(request(created())) is None


def test_without_a_conversation_each_person_has_their_own() -> None:
    [first], [second] = parse(created(conversation="")), parse(created(conversation=None, user={"id": "u2"}))
    assert first.conversation == ConversationKey("bridge", "", "t1", "u1")
    assert second.conversation.id != first.conversation.id


def test_names_that_hold_colons_do_not_meet() -> None:
    [first], [second] = parse(created(conversation="x:1", thread="2")), parse(created(conversation="x", thread="1:2"))
    assert first.conversation.id != second.conversation.id


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("https://other.example/in?x=1", True),
        ("https://other.example:443/in", True),
        ("https://other.example:8443/in", False),
        ("http://other.example/in", False),
        ("https://other.example.evil.example/", False),
        ("https://other.example@evil.example/", False),
        ("https://a:b@other.example/", False),
        (7, False),
    ],
)
def test_a_message_may_ask_for_its_reply_only_where_the_operator_allows(asked: Any, *, kept: bool) -> None:
    [event] = parse(created(reply_url=asked), reply_origins=["https://other.example"])
    assert ("reply_url" in event.extra) == kept
    [event] = parse(created(reply_url=asked))
    assert "reply_url" not in event.extra


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"type":"a","type":"b"}',
        b'{"n":' + b"9" * 5_000 + b"}",
        b'{"type":NaN}',
        b"\xff",
        json.dumps(created(user=None)).encode(),
        json.dumps(created(user={"id": 7})).encode(),
        json.dumps(created(conversation="a\nb")).encode(),
        json.dumps(created(conversation="x" * 2_000)).encode(),
        json.dumps(created(thread=["t"])).encode(),
        json.dumps(created("action.pressed")).encode(),
    ],
)
def test_what_can_not_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        adapter().parse(request(body, sign("msg_1", "", at_s=NOW)), NOW)


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_read(content_type: str) -> None:
    with pytest.raises(Malformed, match="Content-Type"):
        adapter().parse(request(created(), None, **{"Content-Type": content_type}), NOW)


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["conversation", "thread", "user", "text", "message_id", "attachments", "reply_url", "language", "action"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSONS, max_size=4), st.sampled_from(["message.created", "action.pressed"])
)
@examples(max_examples=200, deadline=None)
def test_no_shape_of_a_message_breaks_the_reader(data: dict[str, Any], kind: str) -> None:
    raw = json.dumps(created(kind, **data)).encode()
    try:
        for one in adapter().parse(request(raw, sign("msg_1", "", at_s=NOW)), NOW):
            one.dump().encode()
    except Malformed:
        pass


WHOLE = created(
    message_id="m1",
    user={"id": "u1", "name": "Ann", "is_bot": False},
    action="x",
    value="help",
    language="zh-CN",
    direct=True,
    addressed=True,
    reply_url="https://chat.example/r",
    attachments=[{"name": "a", "mime": "image/png", "content": "AAAA", "size_bytes": 3, "url": "https://x.example"}],
)
SAMPLES = [*(one["body"] for one in VECTORS["payloads"]), WHOLE, {**WHOLE, "type": "action.pressed"}]


@given(spoiled(SAMPLES))
@examples(max_examples=500, deadline=None)
def test_no_value_of_an_event_breaks_the_reader(raw: bytes) -> None:
    bridge, given = adapter(), request(raw)
    bridge.verify(given, NOW)
    assert bridge.handshake(given) is None
    with suppress(Malformed):
        assert can_be_kept(bridge.parse(given, NOW))


# replies


@pytest.fixture
async def chat() -> AsyncIterator[WebhookTwin]:
    async with WebhookTwin() as twin:
        yield twin


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    async with aiohttp.ClientSession() as session:
        yield Outside(session, cast("Any", None), cast("Any", None), cast("Any", None))


@pytest.fixture
def bridge(chat: WebhookTwin, outside: Outside) -> Adapter:
    return adapter(outside, reply_url=chat.url)


def text(markdown: str) -> Part:
    [part] = adapter().render(Outbound(markdown, is_notice=True))
    return part


async def test_a_reply_is_signed_and_says_what_it_answers(chat: WebhookTwin, bridge: Adapter) -> None:
    outcome = await bridge.send(ROOM, text("**你好**"), KEY)
    [taken] = chat.taken
    assert (outcome.kind, taken.webhook_id, taken.type) == ("ok", KEY, "reply.completed")
    assert taken.data == {
        "conversation": "room-1",
        "thread": "t1",
        "user": None,
        "in_reply_to": "m1",
        "text": "**你好**",
        "part": 1,
        "parts": 1,
        "notice": True,
    }
    assert chat.refused == []


async def test_the_same_key_again_is_the_same_message(chat: WebhookTwin, bridge: Adapter) -> None:
    chat.next(close=True, taken=True)
    assert (await bridge.send(ROOM, text("hi"), KEY)).kind == "ambiguous"
    assert (await bridge.send(ROOM, text("hi"), KEY)).kind == "ok"
    assert len(chat.taken) == 1
    assert chat.repeated == [KEY]
    assert bridge.capabilities.idempotent_send


async def test_buttons_stand_under_the_last_part_and_say_a_command(bridge: Adapter) -> None:
    buttons = (Button("Approve", "skill approve 7F3K", "primary"),)
    *first, last = bridge.render(Outbound("word " * 12_000, buttons=buttons))
    assert first
    assert not any("buttons" in one.payload for one in first)
    assert last.payload["buttons"] == [{"label": "Approve", "command": "skill approve 7F3K", "style": "primary"}]
    [pressed] = parse(created("action.pressed", action="button", value=last.payload["buttons"][0]["command"]))
    assert command_of(pressed) == ("skill", "approve 7F3K")


async def test_buttons_have_nothing_to_decide_once_that_is_settled(chat: WebhookTwin, bridge: Adapter) -> None:
    [pressed] = parse(created("action.pressed", message_id=KEY, action="button", value="skill approve 7F3K"))
    await bridge.pressed(ROOM, pressed, "not yours to decide", is_settled=False)
    assert chat.settled == []
    await bridge.pressed(ROOM, pressed, "approved", is_settled=True)
    assert (chat.settled, chat.refused) == ([KEY], [])
    chat.next(status=500)
    await bridge.pressed(ROOM, pressed, "approved", is_settled=True)


async def test_a_file_goes_out_in_a_reply_of_its_own(chat: WebhookTwin, store: Store) -> None:
    async with aiohttp.ClientSession() as session:
        files = Files(store)
        bridge = adapter(
            Outside(session, cast("Any", None), files, cast("Any", None)), reply_url=chat.url, timeout_s=0.3
        )
        kept = await files.put(ROOM.conversation.id, Attachment("file", "a.csv", "text/csv", 3, content=b"1;2"))
        chat.upload_s = 0.6
        assert (await bridge.send(ROOM, Part(file=kept), KEY)).kind == "ok"
        [file] = chat.taken[0].data["attachments"]
        assert (file["name"], file["mime"], base64.b64decode(file["content"])) == ("a.csv", "text/csv", b"1;2")
        gone = replace(kept, fetch={"conversation": ROOM.conversation.id, "file": "f" * 32})
        assert (await bridge.send(ROOM, Part(file=gone), KEY)).kind == "rejected"


async def test_a_growing_answer_is_shown_whole_with_its_steps(chat: WebhookTwin, bridge: Adapter) -> None:
    await bridge.show(ROOM, Growing("Hel", (StepLine("skill", "web-access", "done"),)), KEY, None)
    await bridge.show(ROOM, Growing("Hello", (StepLine("tool", "web_fetch", "running"),)), KEY, None)
    assert [one.text for one in chat.updates] == ["Hel", "Hello"]
    assert chat.updates[0].data["steps"] == [{"kind": "skill", "name": "web-access", "state": "done"}]
    chat.next(status=500)
    await bridge.show(ROOM, Growing("Hello!"), KEY, None)
    assert (len(chat.updates), chat.refused) == (2, [])


async def test_an_edit_that_was_lost_may_be_made_again(chat: WebhookTwin, bridge: Adapter) -> None:
    chat.next(close=True)
    assert (await bridge.edit(ROOM, Sent(KEY), text("two"))).kind == "transient"


async def test_an_edit_names_the_message(chat: WebhookTwin, bridge: Adapter) -> None:
    sent = (await bridge.send(ROOM, text("one"), KEY)).sent
    assert sent
    assert (await bridge.edit(ROOM, sent, text("two"))).kind == "ok"
    assert (chat.taken[1].data["message_id"], chat.taken[1].text) == (KEY, "two")


async def test_without_a_secret_of_their_own_replies_are_signed_with_the_first(
    chat: WebhookTwin, outside: Outside
) -> None:
    one = adapter(outside, reply_url=chat.url, secret=SecretStr(REPLY_SECRET), reply_secret=None)
    assert (await one.send(ROOM, text("hi"), KEY)).kind == "ok"
    other = adapter(outside, reply_url=chat.url, reply_secret=None)
    assert (await other.send(ROOM, text("hi"), KEY)).kind == "auth_failed"


async def test_a_path_is_a_path_behind_api_base(chat: WebhookTwin, outside: Outside) -> None:
    bridge = adapter(outside, api_base=f"{chat.origin}/", reply_url="/replies")
    assert (await bridge.send(ROOM, text("hi"), KEY)).kind == "ok"


async def test_a_reply_goes_where_the_message_asked_only_if_that_is_still_allowed(
    chat: WebhookTwin, outside: Outside
) -> None:
    to = Address(ROOM.conversation, {**ROOM.extra, "reply_url": f"{chat.origin}/replies/mine"})
    nowhere = "http://127.0.0.1:9/replies"
    allowed = adapter(outside, reply_url=nowhere, reply_origins=[chat.origin])
    assert (await allowed.send(to, text("hi"), KEY)).kind == "ok"
    assert (await adapter(outside, reply_url=nowhere).send(to, text("hi"), KEY)).kind == "transient"


@pytest.mark.parametrize(
    ("fault", "kind", "wait_s"),
    [
        ({"status": 429, "headers": {"retry-after": "9"}}, "rate_limited", 9.0),
        ({"status": 429}, "rate_limited", 1.0),
        ({"status": 503, "headers": {"retry-after": "2"}}, "rate_limited", 2.0),
        ({"status": 503}, "transient", None),
        ({"status": 502}, "transient", None),
        ({"status": 404}, "transient", None),
        ({"status": 410}, "target_gone", None),
        ({"status": 401}, "auth_failed", None),
        ({"status": 400}, "rejected", None),
        ({"status": 413}, "too_long", None),
        ({"status": 307, "headers": {"Location": "/replies/elsewhere"}}, "rejected", None),
        ({"close": True}, "ambiguous", None),
        ({"status": 204}, "ok", None),
    ],
)
async def test_each_ending_is_told_apart(
    chat: WebhookTwin, bridge: Adapter, fault: dict[str, Any], kind: str, wait_s: float | None
) -> None:
    chat.faults.order(Fault(**fault))
    outcome = await bridge.send(ROOM, text("hi"), KEY)
    assert (outcome.kind, outcome.retry_after_s) == (kind, wait_s)
    assert chat.taken == []


async def test_a_wait_may_be_given_as_a_date(chat: WebhookTwin, bridge: Adapter) -> None:
    at = datetime.fromtimestamp(time.time() + 30, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    chat.faults.order(Fault(status=429, headers={"retry-after": at}))
    wait_s = (await bridge.send(ROOM, text("hi"), KEY)).retry_after_s
    assert wait_s is not None
    assert 25 < wait_s <= 30


async def test_a_receiver_that_does_not_answer_costs_no_more_than_the_timeout(
    chat: WebhookTwin, outside: Outside
) -> None:
    chat.next(hang=True)
    begun = time.monotonic()
    outcome = await adapter(outside, reply_url=chat.url, timeout_s=0.1).send(ROOM, text("hi"), KEY)
    assert outcome.kind == "ambiguous"
    assert time.monotonic() - begun < 1


async def test_a_long_answer_comes_in_numbered_parts(chat: WebhookTwin, bridge: Adapter) -> None:
    parts = adapter(text_limit=100).render(Outbound("word " * 60))
    for number, part in enumerate(parts):
        await bridge.send(ROOM, part, f"{KEY}{number}")
    assert "".join(one.text for one in chat.taken) == "word " * 60
    assert [one.data["part"] for one in chat.taken] == list(range(1, len(parts) + 1))
    assert {one.data["parts"] for one in chat.taken} == {len(parts)}


async def test_what_the_stand_in_says_is_what_we_read(chat: WebhookTwin) -> None:
    raw = json.dumps(created(text="你好"))
    adapter().verify(request(raw.encode(), sign("msg_1", raw, at_s=NOW)), NOW)
    with pytest.raises(TimeoutError):
        await chat.until(lambda: chat.taken, timeout_s=0.01)
    assert (await adapter().identity()).is_self
    assert (await adapter().find(ROOM, KEY, 0)).kind == "rejected"


# files


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_a_file_inside_an_event_is_downloaded_from_where_it_was_put_away(store: Store) -> None:
    file = {"name": "zahlen.csv", "mime": "text/csv", "content": in_base64(b"a;b\n")}
    [event] = parse(created(attachments=[file]))
    assert [(one.name, one.size_bytes, one.content) for one in event.attachments] == [("zahlen.csv", 4, b"a;b\n")]
    files = Files(store)
    [kept] = (await files.put_away(event)).attachments
    bridge = adapter(Outside(cast("Any", None), cast("Any", None), files, cast("Any", None)))
    assert await bridge.download(kept, 4) == b"a;b\n"
    with pytest.raises(NotDownloaded, match="4 bytes, allowed are 3"):
        await bridge.download(kept, 3)


@pytest.mark.parametrize("content", ["no base64!", 7, ["YQ=="], "YQ", in_base64(bytes(FILE_MAX_BYTES + 1))])
def test_a_content_that_is_none_is_malformed(content: Any) -> None:
    with pytest.raises(Malformed, match=r"data\.attachments\.content"):
        parse(created(attachments=[{"name": "x", "content": content}]))


async def test_a_file_at_an_address_is_fetched_under_the_rules_for_addresses_from_outside() -> None:
    async with site({"/x.csv": web.Response(body=b"1;2")}) as port:
        [file] = parse(created(attachments=[{"name": "x.csv", "url": f"http://127.0.0.1:{port}/x.csv"}]))[0].attachments
        rules = WebFetchSettings(allow_private=[f"127.0.0.1:{port}"])
        allowed = adapter(Outside(cast("Any", None), cast("Any", None), cast("Any", None), cast("Any", None), rules))
        assert await allowed.download(file, 3) == b"1;2"
        with pytest.raises(NotDownloaded, match="more than 2 bytes"):
            await allowed.download(file, 2)
        [gone] = parse(created(attachments=[{"url": f"http://127.0.0.1:{port}/y"}]))[0].attachments
        with pytest.raises(NotDownloaded, match="status 404"):
            await allowed.download(gone, 3)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_file_at_an_address_of_our_own_networks_is_not_fetched(host: str) -> None:
    with canary() as inside:
        rules = WebFetchSettings(ports=[inside.port])
        bridge = adapter(Outside(cast("Any", None), cast("Any", None), cast("Any", None), cast("Any", None), rules))
        [file] = parse(created(attachments=[{"url": f"http://{host}:{inside.port}/x"}]))[0].attachments
        with pytest.raises(NotDownloaded, match="not fetched"):
            await bridge.download(file, 3)
        assert inside.visits() == 0


async def test_a_file_without_content_and_address_is_told_as_such() -> None:
    [file] = parse(created(attachments=[{"name": "x"}]))[0].attachments
    with pytest.raises(NotDownloaded, match="without content and without url"):
        await adapter().download(file, 3)


@pytest.mark.parametrize(("given", "is_guest"), [(True, True), (False, False), ("true", False), (None, False)])
def test_the_sender_says_who_is_from_outside(given: object, is_guest: bool) -> None:
    [said] = parse(created(user={"id": "u1", "is_guest": given}))
    assert said.actor.is_guest is is_guest
