"""The pure half: bytes in, events or a refusal out; and Markdown written as cards."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.platforms import Button, Malformed, Outbound, Outside, Part, RawRequest, Unauthorized, own_ms
from gateway.platforms.feishu import _DIALECT, CARD_MAX_BYTES, TABLES_MAX, Adapter, Settings, _decrypted
from gateway.text.dialect import write
from tests.gateway.platforms.hostile import can_be_kept, spoiled
from tests.harness.cpu import cpu_within
from tests.harness.feishu_twin import encrypted, mention_of, sign

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/feishu.json").read_text(encoding="utf-8"))
NOW = 1_760_000_000.0
APP = "cli_9f5343c580712544"
TOKEN = "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV"
KEY = "test key"
OURS = "ou_bot_0000000000000000000000"
CHAT = "oc_5ce6d572455d361153b7xx51da133945"
NOWHERE = cast("Outside", type("Nowhere", (), {"http": None, "files": None, "now_ms": own_ms}))


def adapter(key: str = "", **keys: Any) -> Adapter:
    given = {
        "app_id": APP,
        "app_secret": SecretStr("secret"),
        "verification_token": SecretStr(TOKEN),
        "encrypt_key": SecretStr(key) if key else None,
        "bot_open_id": OURS,
        **keys,
    }
    return Adapter("feishu-main", Settings(platform="feishu", **given), NOWHERE)


def request(body: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None) -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = CIMultiDict(headers or {})
    given["Content-Type"] = "application/json; charset=utf-8"
    return RawRequest("POST", "/webhooks/feishu-main", {}, given, raw)


def signed(body: bytes, key: str = KEY, **how: Any) -> RawRequest:
    return request(body, sign(body, key, at_s=how.pop("at_s", NOW), **how))


def parse(body: Mapping[str, Any], **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(body), NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in VECTORS["payloads"] if one["name"] == name)
    return found


def message(content: Any = None, kind: str = "text", sender: str = "user", **told: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(payload("dm")["body"]))
    body["event"]["sender"]["sender_type"] = sender
    body["event"]["message"] |= {
        "message_type": kind,
        "content": json.dumps({"text": "hi"} if content is None else content),
        **told,
    }
    return body


# proof


@pytest.mark.parametrize("vector", VECTORS["decrypt_vectors"], ids=lambda one: str(one["name"]))
def test_bodies_are_decrypted_as_the_vectors_say(vector: dict[str, Any]) -> None:
    sealed = base64.b64decode(vector.get("encrypt") or json.loads(vector["request_body"])["encrypt"])
    if vector["plaintext"] == "hello world":  # of the documentation: no JSON, so that it ends there
        with pytest.raises(ValueError, match="not the JSON we read"):
            _decrypted(sealed, vector["encrypt_key"].encode())
        return
    assert _decrypted(sealed, vector["encrypt_key"].encode()) == json.loads(vector["plaintext"])
    given = request(vector["request_body"].encode(), sign(vector["request_body"].encode(), KEY, at_s=NOW))
    feishu = adapter(KEY)
    feishu.verify(given, NOW)
    answer = feishu.handshake(given)
    assert (json.loads(answer.body) if answer else None) == vector.get("response")


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_signatures_are_judged_as_the_vectors_say(vector: dict[str, Any]) -> None:
    given = request(
        vector["body"].encode(),
        {
            "X-Lark-Request-Timestamp": vector["timestamp"],
            "x-lark-request-nonce": vector["nonce"],
            "X-LARK-SIGNATURE": vector.get("signature") or vector["expected"],
        },
    )
    # The callback of old cards is signed by the verification token, with SHA-1: it is true, and not served.
    if vector["valid"] and vector["name"] != "legacy_card":
        adapter(vector["encrypt_key"]).verify(given, NOW)
        return
    with pytest.raises(Unauthorized):
        adapter(KEY).verify(given, NOW)


def test_the_signature_of_old_cards_is_none_of_ours_even_without_a_key() -> None:
    vector = VECTORS["signature_vectors"][2]
    told = f"{vector['timestamp']}{vector['nonce']}{vector['verification_token']}{vector['body']}"
    assert hashlib.sha1(told.encode()).hexdigest() == vector["expected"]
    with pytest.raises(Unauthorized, match="token"):
        adapter().verify(request(vector["body"].encode()), NOW)


A = b'{"encrypt":"AAECAwQFBgcICQoLDA0OD5hk8qTs3UwDmvhN1UXUZwORLFkj4l+7MusMI7utIrqE0eoZa6b/2b6cFyC9057T3DFsbvgNrsegHrByL6mvvNySlbtyE6tNt+HLq6WoQZlz"}'
B = b'{"encrypt":"AAECAwQFBgcICQoLDA0OD5hk8qTs3UwDmvhN1UXUZwPMU8SCLqohuTe6mgOaW9Bbt+EvmUHJDva8udqfmE/DT2BruvMPzWKFGUTUIYLIPbSXfcMN0OT/o2EoH2+reHZ3"}'


def test_the_check_of_the_address_comes_without_a_signature() -> None:
    """B023."""
    feishu = adapter("feishu-test-key", verification_token=SecretStr("verif-token-1"))
    feishu.verify(request(A), NOW)
    answer = feishu.handshake(request(A))
    assert answer
    assert (answer.status, answer.content_type, json.loads(answer.body)) == (
        200,
        "application/json",
        {"challenge": "ch-42"},
    )
    with pytest.raises(Unauthorized, match="verification_token"):
        feishu.verify(request(B), NOW)
    with pytest.raises(Malformed):
        feishu.verify(request(b'{"encrypt":"AAAA"}'), NOW)
    with pytest.raises(Unauthorized, match="plain body"):
        feishu.verify(request(b'{"challenge":"x","type":"url_verification","token":"verif-token-1"}'), NOW)


def test_no_other_event_comes_without_a_signature() -> None:
    body = encrypted(json.dumps(message()).encode(), KEY)
    adapter(KEY).verify(signed(body), NOW)
    with pytest.raises(Unauthorized, match="X-Lark-Signature: missing"):
        adapter(KEY).verify(request(body), NOW)
    with pytest.raises(Unauthorized, match="plain body"):
        adapter(KEY).verify(signed(json.dumps(message()).encode()), NOW)


def test_whoever_can_not_sign_learns_nothing_of_what_is_inside() -> None:
    """A wrong padding and a wrong token are told apart from nothing else, so that nobody can decrypt by asking."""
    sealed = bytearray(base64.b64decode(json.loads(A)["encrypt"]))
    feishu = adapter("feishu-test-key", verification_token=SecretStr("another"))
    for at in range(0, len(sealed), 7):
        broken = bytes(sealed[:at]) + bytes([sealed[at] ^ 1]) + bytes(sealed[at + 1 :])
        with pytest.raises(Unauthorized):
            feishu.verify(request({"encrypt": base64.b64encode(broken).decode()}), NOW)


def test_what_is_signed_and_can_not_be_opened_is_malformed() -> None:
    body = encrypted(b"{}", "another key")
    with pytest.raises(Malformed):
        adapter(KEY).verify(signed(body), NOW)


BODY = encrypted(json.dumps(message()).encode(), KEY, vector=bytes(16))


@pytest.mark.parametrize("name", ["X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce"])
def test_a_header_that_is_missing_or_there_twice_or_strange_is_refused(name: str) -> None:
    given = signed(BODY)
    twice = CIMultiDict(given.headers)
    twice.add(name, twice[name])
    without = CIMultiDict((other, value) for other, value in given.headers.items() if other != name)
    strange = [{**given.headers, name: value} for value in ("", "é" * 64, "\udcff", "a\n")]
    for headers in (twice, without, *strange):
        with pytest.raises(Unauthorized, match=name):
            adapter(KEY).verify(request(BODY, headers), NOW)


@pytest.mark.parametrize("body", [BODY + b" ", BODY[:-3] + b'A"}', BODY.replace(b"encrypt", b"encrypT")])
def test_the_signature_is_over_the_bytes_as_they_came(body: bytes) -> None:
    with pytest.raises(Unauthorized):
        adapter(KEY).verify(request(body, sign(BODY, KEY, at_s=NOW)), NOW)


@pytest.mark.parametrize("signature", ["", "a" * 63, "A" * 64, "g" * 64, "a" * 64])
def test_another_signature_is_refused(signature: str) -> None:
    with pytest.raises(Unauthorized):
        adapter(KEY).verify(request(BODY, sign(BODY, KEY, at_s=NOW) | {"X-Lark-Signature": signature}), NOW)
    with pytest.raises(Unauthorized, match="does not match"):
        adapter("another").verify(signed(BODY), NOW)


def test_the_age_of_a_request_is_looked_at_where_a_window_is_set() -> None:
    for at_s in (1, NOW + 400):
        adapter(KEY).verify(signed(BODY, at_s=at_s), NOW)
    feishu = adapter(KEY, window_s=300)
    for at_s in (NOW - 300, NOW + 300):
        feishu.verify(signed(BODY, at_s=at_s), NOW)
    for at_s in (NOW - 360, NOW + 360):
        with pytest.raises(Unauthorized, match=r"360 s outside the window.*clock"):
            feishu.verify(signed(BODY, at_s=at_s), NOW)
    soon = sign(BODY, KEY, at_s=NOW)
    with pytest.raises(Unauthorized, match="does not match"):  # nobody looks at a clock for a wrong secret
        adapter("another", window_s=300).verify(request(BODY, soon), NOW + 999)


@pytest.mark.parametrize("token", [None, "", "x", TOKEN + "x", TOKEN[:-1], 7, "é"])
def test_without_a_key_the_token_alone_proves(token: Any) -> None:
    body = message()
    adapter().verify(request(body), NOW)
    body["header"]["token"] = token
    with pytest.raises(Unauthorized, match="verification_token"):
        adapter().verify(request(body), NOW)
    with pytest.raises(Unauthorized, match="encrypt_key is not set"):
        adapter().verify(request(BODY), NOW)


def test_a_signed_event_of_another_token_is_refused_and_one_without_is_not() -> None:
    body = message()
    body["header"]["token"] = "x"
    with pytest.raises(Unauthorized, match="verification_token"):
        adapter(KEY).verify(signed(encrypted(json.dumps(body).encode(), KEY)), NOW)
    del body["header"]["token"]
    adapter(KEY).verify(signed(encrypted(json.dumps(body).encode(), KEY)), NOW)


def test_a_connection_without_its_secrets_is_refused() -> None:
    for keys in ({"app_secret": SecretStr("")}, {"verification_token": SecretStr("")}, {"app_id": "cli/../x"}):
        with pytest.raises(ValidationError):
            adapter(**keys)
    for base in ("ftp://a.example", "https://user:pass@a.example", "open.feishu.cn"):
        with pytest.raises(ValidationError):
            adapter(api_base=base)


# events


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda one: str(one["name"]))
def test_payloads_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    given, feishu = request(vector["body"]), adapter()
    feishu.verify(given, NOW)
    answer = feishu.handshake(given)
    if vector["name"] == "url_verification":
        assert answer
        assert json.loads(answer.body) == vector["response"]["json"]
        return
    assert answer is None
    events, expect = feishu.parse(given, NOW), vector.get("expect", {})
    if vector["name"] == "button_press":  # of somebody's card, not of one of ours
        assert events == []
        return
    [event] = events
    if "conversation" in expect:
        _, app, chat, *thread = expect["conversation"].split(":")
        assert app == APP
        assert event.conversation == ConversationKey("feishu-main", chat, thread[0] if thread else None)
    assert event.kind == "message"
    assert event.is_direct == expect.get("dm", False)
    mentioned = expect.get("mentions_bot", "mentions" in vector["body"]["event"]["message"])
    assert event.addressed == (mentioned or event.is_direct)
    assert event.text == expect.get("text", event.text)
    assert "fetch" not in expect or event.attachments[0].fetch == {
        "message": "om_i1",
        "key": "img_v2_043c",
        "type": "image",
    }
    assert len(event.attachments) == expect.get("attachments", len(event.attachments))
    assert event.actor.is_bot == event.actor.is_self == (expect.get("drop") == "bot")
    assert event.dedupe_keys == (f"id:{vector['body']['header']['event_id']}", f"message:{event.message_id}")
    assert event.at_ms == 1_609_073_151_345
    assert Event.load(event.dump()) == event


def test_a_rich_text_is_read_as_people_see_it() -> None:
    [event] = parse(payload("post_rich_text")["body"])
    assert event.text == "look at this (https://example.com)"
    assert event.attachments[0].fetch == {"message": "om_p1", "key": "img_v2_1", "type": "image"}
    rows = [
        [{"tag": "text", "text": "a "}, {"tag": "a", "text": "http://x.cn", "href": "http://x.cn"}, {"tag": "hr"}],
        [{"tag": "at", "user_id": "ou_2", "user_name": "Bo"}, {"tag": "code_block", "language": "GO", "text": "x\n"}],
        "no row",
        [{"tag": "media", "file_key": "file_1"}, {"tag": "md", "text": "**m**"}, 7],
        [{"tag": "emotion", "emoji_type": "SMILE"}],
    ]
    [event] = parse(message({"zh_cn": {"title": "T", "content": rows}}, "post"))
    assert event.text == "T\na http://x.cn\n@Box\n\n\n**m**\n:SMILE:"
    assert [one.kind for one in event.attachments] == ["video"]


@pytest.mark.parametrize(
    ("text", "mentions", "expected"),
    [
        ("@_user_1 hello", [(OURS, "Agent", "@_user_1")], "hello"),
        ("👋🏽 好的 @_user_1 status?", [(OURS, "Agent", "@_user_1")], "👋🏽 好的 status?"),
        ("@_user_1", [(OURS, "Agent", "@_user_1")], ""),
        ("@_user_1\u00a0/stop", [(OURS, "Agent", "@_user_1")], "/stop"),
        ("@_user_10 @_user_1 hi", [(OURS, "A", "@_user_1"), ("ou_2", "Bo", "@_user_10")], "@Bo hi"),
        ("@_user_1 hi @_user_2", [("ou_2", "Bo", "@_user_1"), ("ou_3", "Cy", "@_user_2")], "@Bo hi @Cy"),
        ("@_user_1 and @_user_9 stay", [], "@_user_1 and @_user_9 stay"),
        ("@_all standup", [], "@all standup"),
        (
            "see [the page](https://x.cn/a?b=1) or [https://x.cn](https://x.cn)",
            [],
            "see the page (https://x.cn/a?b=1) or https://x.cn",
        ),
        ("write [a@x.cn](mailto:a@x.cn), a[1](2)", [], "write a@x.cn, a[1](2)"),
    ],
)
def test_placeholders_become_names_and_our_own_mention_goes(text: str, mentions: list[Any], expected: str) -> None:
    told = [mention_of(*one) for one in mentions]
    [event] = parse(message({"text": text}, chat_type="group", mentions=told))
    assert event.text == expected
    assert event.addressed == any(one[0] == OURS for one in mentions)


def test_a_mention_is_ours_by_what_identity_told() -> None:
    body = message({"text": "@_user_1 hi"}, chat_type="group", mentions=[mention_of("ou_me", "Agent")])
    feishu = adapter(bot_open_id=None)
    assert not feishu.parse(request(body), NOW)[0].addressed
    feishu.me = Actor("ou_me", is_bot=True, is_self=True)
    assert feishu.parse(request(body), NOW)[0].addressed


def test_we_and_other_bots_are_told_apart_from_people() -> None:
    def actor(open_id: str, sender: str) -> Actor:
        body = message(sender=sender)
        body["event"]["sender"]["sender_id"] = {"open_id": open_id}
        return parse(body)[0].actor

    assert actor(OURS, "app") == Actor(OURS, is_bot=True, is_self=True)
    assert actor(APP, "app") == Actor(APP, is_bot=True, is_self=True)
    assert actor("ou_other", "app") == Actor("ou_other", is_bot=True)
    assert actor("ou_other", "user") == Actor("ou_other")


def test_an_answer_to_a_message_names_it_unless_a_bot_gives_it() -> None:
    assert parse(message(parent_id="om_1"))[0].parent_id == "om_1"
    assert parse(message(parent_id="om_1", sender="app"))[0].parent_id == ""
    assert parse(message())[0].parent_id == ""


def test_the_same_message_under_another_event_is_known_and_another_message_is_not() -> None:
    one, two, three = message(), message(), message(message_id="om_other")
    two["header"]["event_id"] = three["header"]["event_id"] = "ev_other"
    [first], [again], [other] = parse(one), parse(two), parse(three)
    assert set(first.dedupe_keys) & set(again.dedupe_keys) == {"message:om_dm1"}
    assert not set(first.dedupe_keys) & set(other.dedupe_keys)


def test_topics_are_conversations_of_their_own() -> None:
    [one], [two], [none] = (parse(message(thread_id=thread)) for thread in ("omt_1", "omt_2", None))
    assert len({event.conversation.id for event in (one, two, none)}) == 3
    assert {event.conversation.channel for event in (one, two, none)} == {"oc_p2p1"}


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("file", {"file_key": "file_1", "file_name": "report.pdf"}, ("file", "report.pdf", "application/pdf")),
        ("audio", {"file_key": "file_1", "duration": 2000}, ("audio", "", "")),
        ("media", {"file_key": "file_1", "file_name": "a.mp4", "image_key": "img_1"}, ("video", "a.mp4", "video/mp4")),
        ("sticker", {"file_key": "file_1"}, ("sticker", "", "")),
        ("location", {"name": "x", "longitude": "1"}, ("location", "", "")),
        ("share_chat", {"chat_id": "oc_1"}, ("share_chat", "", "")),
        ("../etc", {}, ("message", "", "")),
    ],
)
def test_what_is_no_text_is_an_attachment_of_its_kind(kind: str, content: Any, expected: tuple[str, ...]) -> None:
    [event] = parse(message(content, kind))
    [one] = event.attachments
    assert (one.kind, one.name, one.mime) == expected
    assert bool(one.fetch) == (kind in {"file", "audio", "media"})
    assert not event.is_empty


def test_blanks_alone_are_an_empty_message() -> None:
    """B039."""
    assert parse(message({"text": "\u200b\u200b"}))[0].is_empty
    body = message({"text": "@_user_1"}, chat_type="group", mentions=[mention_of(OURS, "Agent")])
    assert parse(body)[0].is_empty
    assert parse(body)[0].addressed


@pytest.mark.parametrize(
    "kind", ["im.message.recalled_v1", "im.chat.member.bot.added_v1", "im.message.reaction.created_v1", None]
)
def test_what_we_do_not_serve_is_no_event(kind: Any) -> None:
    body = message()
    body["header"]["event_type"] = kind
    assert parse(body) == []
    assert parse({"uuid": "x", "token": TOKEN, "type": "event_callback", "event": {"type": "message"}}) == []
    assert adapter().acknowledge([]).body == b"{}"


# buttons


def press(value: Any, **context: Any) -> list[Event]:
    body = json.loads(json.dumps(payload("button_press")["body"]))
    body["event"]["action"]["value"] = value
    body["event"]["context"] |= context
    return parse(body)


def test_a_pressed_button_of_ours_says_its_command_and_brings_its_card() -> None:
    [event] = press({"say": "skill approve 7F3K", "text": "**Really?**", "thread": "omt_1", "direct": False, "ref": {}})
    assert (event.kind, event.value, event.name) == ("action", "skill approve 7F3K", "approve")
    assert event.actor == Actor("ou_3c14f3a59eaf2825dbe25359f15a1f0e")
    assert event.conversation == ConversationKey("feishu-main", "oc_e4d2605ca917e695f54f11aaf56db3f8", "omt_1")
    assert event.message_id == event.extra["message"] == "om_574d639e4a44e4dd646eaf628e2dcd05"
    assert event.extra["text"] == "**Really?**"
    assert event.dedupe_keys[0] == "id:f7984f25108f8137722bb63c1a1f2b3c"
    assert Event.load(event.dump()) == event
    [direct] = press({"say": "help", "direct": True})
    assert direct.is_direct
    assert direct.conversation.thread is None


@pytest.mark.parametrize("value", [None, {}, {"say": 7}, "say", ["say"], {"command": "stop"}])
def test_any_other_button_is_no_event(value: Any) -> None:
    assert press(value) == []


# bad input


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 2_000 + b"1" + b"}" * 2_000, b'{"type":NaN}', b'{"a":1,"a":2}',
     b'{"encrypt":"!"}', b'{"encrypt":"AAAA"}', b'{"encrypt":"' + b"A" * 44 + b'"}'],
)  # fmt: skip
def test_what_can_not_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        adapter(KEY).verify(signed(body), NOW)


@pytest.mark.parametrize(
    "told",
    [{"message_id": "om/../1"}, {"message_id": None}, {"chat_id": "x y"}, {"chat_id": {}}, {"thread_id": 7}, {"content": "[]"},
     {"content": "{"}, {"content": '{"text":NaN}'}],
)  # fmt: skip
def test_a_message_without_its_ids_is_malformed(told: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse(message(**told))


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=8) | st.sampled_from(["p2p", '{"text":"x"}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = [
    "message_id",
    "chat_id",
    "chat_type",
    "message_type",
    "content",
    "mentions",
    "thread_id",
    "parent_id",
    "create_time",
]


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSONS, max_size=4),
    st.sampled_from(["text", "post", "image", "media", "x"]),
    JSONS,
    st.sampled_from(["im.message.receive_v1", "card.action.trigger"]),
)
@examples(max_examples=300, deadline=None)
def test_no_shape_of_an_event_breaks_the_reader(told: dict[str, Any], kind: str, content: Any, event: str) -> None:
    body = message(content, kind)
    body["event"]["message"] |= told
    body["event"]["action"] = {"value": told}
    body["header"]["event_type"] = event
    try:
        for one in parse(body):
            assert Event.load(one.dump()) == one
    except (Malformed, Unauthorized):
        pass


PRESSED = {
    **payload("button_press")["body"],
    "event": {
        **payload("button_press")["body"]["event"],
        "action": {"tag": "button", "value": {"say": "help", "text": "a", "ref": {"card": "7355", "made_ms": 5}, "thread": "omt_1", "direct": True}},
    },
}  # fmt: skip


@given(spoiled([PRESSED, *(one["body"] for one in VECTORS["payloads"])]))
@examples(max_examples=500, deadline=None)
def test_no_value_of_an_event_breaks_the_reader(raw: bytes) -> None:
    feishu = adapter(KEY)
    given = signed(encrypted(raw, KEY))
    with suppress(Malformed, Unauthorized):
        feishu.verify(given, NOW)
        if feishu.handshake(given) is None:
            assert can_be_kept(feishu.parse(given, NOW))


@pytest.mark.parametrize("open_id", [[], {}, [OURS], None, 1])
def test_a_mention_of_no_id_is_nobodys(open_id: Any) -> None:
    [event] = parse(message(mentions=[{"key": "@_user_1", "id": {"open_id": open_id}, "name": "x"}]))
    assert event.text == "hi"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"card": "7355", "made_ms": 5}, {"card": "7355", "made_ms": 5}),
        ({"card": "7355", "made_ms": 2**70}, {"card": "7355", "made_ms": 0}),
        ({"card": "../../x", "made_ms": 5}, {}),
        ({"card": ["7355"]}, {}),
        ({"made_ms": 2**70, "more": 1}, {}),
        ([], {}),
    ],
)
def test_a_button_tells_of_its_card_what_we_have_told_it(told: Any, kept: dict[str, Any]) -> None:
    body = json.loads(json.dumps(PRESSED))
    body["event"]["action"]["value"]["ref"] = told
    [event] = parse(body)
    assert event.extra["ref"] == kept


@given(st.binary(max_size=80), st.booleans())
@examples(max_examples=200, deadline=None)
def test_no_bytes_break_the_verifier(body: bytes, is_signed: bool) -> None:
    sealed = encrypted(body, KEY) if is_signed else body
    given = signed(sealed) if is_signed else request(sealed)
    try:
        adapter(KEY).verify(given, NOW)
        adapter(KEY).handshake(given)
        adapter(KEY).parse(given, NOW)
    except (Malformed, Unauthorized):
        pass


def test_lone_surrogates_are_cleaned_out_of_the_text() -> None:
    body = json.dumps(message()).replace('\\"hi\\"', '\\"a\\\\ud800b 🚀\\"').encode()
    [event] = adapter().parse(request(body), NOW)
    assert event.text == "a\ufffdb 🚀"
    event.dump().encode()


def test_an_event_is_read_in_little_time() -> None:
    feishu, given = adapter(KEY), signed(BODY)
    with cpu_within(0.5):  # a third of a millisecond each, with room for a busy machine
        for _ in range(500):
            feishu.verify(given, NOW)
            feishu.handshake(given)
            feishu.parse(given, NOW)


# rendering

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def cards(markdown: str, *buttons: Button) -> list[Part]:
    return adapter().render(Outbound(markdown, buttons=buttons))


def tables(text: str) -> int:
    return sum(token.type == "table_open" for token in READER.parse(text))


def seen(text: str) -> str:
    """What a reader of CommonMark shows: text alone, no markup."""
    inline = [child for token in READER.parse(text) for child in token.children or ()]
    return "".join("\n" if one.type == "softbreak" else one.content for one in inline)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("**Hi** *you* ~~no~~", "**Hi** *you* ~~no~~"),
        ("请先看**截止日期**再回复", "请先看**截止日期**再回复"),
        ("备注**「加急」**的", "备注 **「加急」** 的"),
        ("5 < 6 & a_b", "5 &#60; 6 & a&#95;b"),
        ("# Head", "# Head"),
        ("- one\n  - two\n\n3. three", "- one\n    - two\n\n3. three"),
        ("> a\n> b", "> a\n> b"),
        ("a `x < y` b", "a `x < y` b"),
        ("a ``x ` y`` b", "a ``x ` y`` b"),
        ("```py\nx\n```", "```py\nx\n```"),
        ("---", "<hr>"),
        ("[docs](https://x.cn/a_(b))", "[docs](https://x.cn/a_%28b%29)"),
        ("[mail](mailto:a@x.cn)", "mail (mailto:a@x.cn)"),
        ("![graph](https://x.cn/g.png)", "[graph](https://x.cn/g.png)"),
        ("[https://bank.cn](https://evil.cn)", "https://bank.cn ([https://evil.cn](https://evil.cn))"),
        ("all :OK: at 10:30", "all &#58;OK: at 10:30"),
        (r"1\. no list, \# no head", "1&#46; no list, # no head"),
        ("&lt;at id=all&gt;", "&#38;lt;at id=all&#38;gt;"),
    ],
)
def test_markdown_is_written_as_feishu_reads_it(markdown: str, expected: str) -> None:
    assert write(markdown, _DIALECT) == expected


@given(st.text(st.sampled_from("ab_*~`<>[]()#:-+1.!|\\$&;= \n字「」\u200b"), max_size=40))
@examples(max_examples=300, deadline=None)
def test_text_is_shown_as_it_is_whatever_its_signs(text: str) -> None:
    text = "x " + " ".join(text.split())
    assert seen(_DIALECT.escape(text)) == text.strip()


@pytest.mark.parametrize(
    "call",
    ["<at id=all></at>", '<at user_id="all">all</at>', "<AT ids=ou_1,ou_2></AT>", "<person id='ou_1'></person>", "<at email=a@x.cn></at>",
     "`<at id=all></at>`", "```\n<at id=all></at>\n```", "| <at id=all></at> |\n|---|\n| `<at id=all></at>` |",
     "&lt;at id=all>", "<!channel> @everyone @here <@U0USER9>"],
)  # fmt: skip
def test_nothing_a_model_writes_calls_anybody(call: str) -> None:
    """B053; in code as well, since nobody says how Feishu reads tags there."""
    for part in cards(f"Look: {call}\n\n{call}"):
        assert "<at" not in part.payload["markdown"].lower()
        assert "<person" not in part.payload["markdown"].lower()
        assert part.fallback
        assert "<at" not in part.fallback["text"].lower()
        assert "all" not in call or "all" in part.fallback["text"]


def table(number: int) -> str:
    return f"table {number}\n\n| a | b |\n|---|---|\n| {number} | x\\|y `p|q` |\n\n"


def test_many_tables_are_split_over_cards() -> None:
    """B051."""
    code = "```\n| a | b |\n|---|---|\n| 0 | 0 |\n```\n\n"
    parts = cards(code + "".join(map(table, range(1, 8))))
    assert len(parts) > 1
    counts = [tables(part.payload["markdown"]) for part in parts]
    assert sum(counts) == 7
    assert max(counts) <= TABLES_MAX
    text = "\n".join(part.payload["markdown"] for part in parts)
    assert all(f"| {number} | x&#124;y `p\\|q` |" in text for number in range(1, 8))
    [part] = cards(code + "".join(map(table, range(1, 4))))
    assert tables(part.payload["markdown"]) == 3
    assert part.fallback
    assert "| 3 |" not in part.fallback["text"]
    assert "x|y" in part.fallback["text"]


@pytest.mark.parametrize(
    "markdown",
    ["word " * 20_000, '"' * 40_000, "\\" * 40_000, "_" * 20_000, "🚀" * 12_000, "字" * 20_000, "```\n" + "line < 3\n" * 9_000 + "```",
     "| a | b |\n|---|---|\n" + f"| {'x' * 300} | y |\n" * 200],
)  # fmt: skip
@pytest.mark.parametrize("count", [0, 5])
def test_every_card_fits_as_it_is_sent(markdown: str, count: int) -> None:
    buttons = [Button("Label " * 10, f"skill approve {number}") for number in range(count)]
    parts = cards(markdown, *buttons)
    for part in parts:
        assert part.fallback
        assert 0 < len(part.payload["markdown"].encode()) <= CARD_MAX_BYTES
    assert ["buttons" in part.payload for part in parts] == [False] * (len(parts) - 1) + [bool(count)]


@pytest.mark.parametrize("markdown", ["", "\n \n", "\u200b"])
def test_there_is_always_a_part(markdown: str) -> None:
    assert len(cards(markdown)) == 1
    assert cards(markdown)[0].payload["markdown"]


def test_a_long_answer_loses_no_word() -> None:
    words = [f"w{number}" for number in range(9_000)]
    assert " ".join(part.payload["markdown"] for part in cards(" ".join(words))).split() == words


@pytest.mark.parametrize("markdown", ["```\n```", "```\n \n```", "~~~", "- ```\n  ```"])
def test_no_card_is_empty_and_no_fallback(markdown: str) -> None:
    for part in adapter().render(Outbound(markdown)):
        assert part.fallback
        assert part.payload["markdown"].strip()
        assert part.fallback["text"].strip()


@pytest.mark.parametrize(
    ("home", "is_guest"), [("2ca1d211f64f6438", False), ("another", True), ("", False), (None, False)]
)
def test_who_is_of_another_organisation_is_from_outside(home: str | None, is_guest: bool) -> None:
    body = message()
    body["header"]["tenant_key"] = "2ca1d211f64f6438"
    body["event"]["sender"]["tenant_key"] = home
    [said] = parse(body)
    assert said.actor.is_guest is is_guest
