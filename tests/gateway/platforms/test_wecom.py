"""The pure half: bytes in, events or a refusal out."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError
from wechatpy.enterprise import parse_message
from wechatpy.enterprise.crypto import PrpCrypto, WeChatCrypto
from wechatpy.exceptions import InvalidSignatureException

from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.events import Attachment, Event
from gateway.platforms import Button, HttpReply, Malformed, Outbound, Outside, RawRequest, Unauthorized, parsed
from gateway.platforms.wecom import APP_TEXT_LIMIT, TEXT_LIMIT, Adapter, Crypt, Settings
from gateway.text.dialect import PLAIN, write
from gateway.text.markdown import utf8
from tests.gateway.platforms.hostile import can_be_kept, spoiled

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/wecom.json").read_text(encoding="utf-8"))
TOKEN = "QDG6eK"
AES_KEY = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
KEY_BYTES = base64.b64decode(f"{AES_KEY}=")
NOW = 1_760_000_000
NONCE = "1372623149"
NOWHERE = cast("Outside", type("Nowhere", (), {"http": None, "boards": None}))
CRYPT = Crypt(TOKEN, AES_KEY)


def adapter(**keys: Any) -> Adapter:
    told = {"token": SecretStr(TOKEN), "encoding_aes_key": SecretStr(AES_KEY), "bot_name": "RobotA", **keys}
    return Adapter("wecom-main", Settings(platform="wecom", **told), NOWHERE)


def app(**keys: Any) -> Adapter:
    return adapter(receive_id="ww1", agent_id=7, corp_secret=SecretStr("s"), **keys)


def request(
    message: Mapping[str, Any] | str, *, receive_id: str = "", at_s: int = NOW, query: Mapping[str, str] | None = None
) -> RawRequest:
    """A callback as WeCom makes it; `query` takes the place of its parameters."""
    plain = message if isinstance(message, str) else json.dumps(message)
    encrypted = CRYPT.sealed(plain.encode(), receive_id)
    signed = {
        "msg_signature": CRYPT.sign(str(at_s), NONCE, encrypted),
        "timestamp": str(at_s),
        "nonce": NONCE,
        **(query or {}),
    }
    body = json.dumps({"encrypt": encrypted}).encode()
    return RawRequest("POST", "/webhooks/wecom-main", signed, CIMultiDict(), body)


def parse(message: Mapping[str, Any] | str, **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(message), NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in VECTORS["payloads"] if one["name"] == name)
    return found


def said(**changed: Any) -> dict[str, Any]:
    return {**payload("aibot_dm")["body"], **changed}


def opened(reply: HttpReply) -> dict[str, Any]:
    """What an answer says to WeCom, read by other hands."""
    envelope = json.loads(reply.body)
    assert set(envelope) == {"encrypt", "msgsignature", "timestamp", "nonce"}
    assert envelope["nonce"] == NONCE
    xml = f"<xml><Encrypt><![CDATA[{envelope['encrypt']}]]></Encrypt></xml>"
    crypto = WeChatCrypto(TOKEN, AES_KEY, "")
    message: dict[str, Any] = json.loads(
        crypto.decrypt_message(xml, envelope["msgsignature"], str(envelope["timestamp"]), envelope["nonce"])
    )
    return message


# signature and encryption


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_signatures_and_encryption_are_as_the_vectors_say(vector: dict[str, Any]) -> None:
    crypt = Crypt(vector["token"], vector["encoding_aes_key"])
    if "response_json" in vector:
        wanted = vector["response_json"]
        encrypted = crypt.sealed(vector["plaintext"].encode(), vector["receiveid"], vector["random"].encode())
        assert encrypted == wanted["encrypt"]
        assert crypt.sign(str(wanted["timestamp"]), wanted["nonce"], encrypted) == wanted["msgsignature"]
        return
    wecom = adapter(
        token=SecretStr(vector["token"]),
        encoding_aes_key=SecretStr(vector["encoding_aes_key"]),
        receive_id=vector["receiveid"],
    )
    query = {name: vector[name] for name in ("timestamp", "nonce", "msg_signature")}
    if vector["method"] == "GET":
        query["echostr"] = vector["encrypt"]
    asked = RawRequest(vector["method"], "/", query, CIMultiDict(), vector.get("body", "").encode())
    if not vector["valid"]:
        with pytest.raises(Unauthorized, match="does not match"):
            wecom.verify(asked, int(vector["timestamp"]))
        return
    wecom.verify(asked, int(vector["timestamp"]))
    assert crypt.opened(base64.b64decode(vector["encrypt"]))[0].decode() == vector["plaintext"]
    if vector["method"] == "GET":
        assert wecom.handshake(asked) == HttpReply(body=vector["plaintext"].encode(), content_type="text/plain")
    else:
        assert wecom.handshake(asked) is None
        assert [event.kind for event in wecom.parse(asked, 0)] == ["message"]


@given(st.text(max_size=80), st.sampled_from(["", "ww1234567890abcdef"]), st.booleans())
@examples(max_examples=60, deadline=None)
def test_we_and_wechatpy_agree(text: str, receive_id: str, spoil: bool) -> None:
    other = WeChatCrypto(TOKEN, AES_KEY, receive_id)
    theirs = PrpCrypto(KEY_BYTES).encrypt(text, receive_id).decode()
    assert CRYPT.opened(base64.b64decode(theirs)) == (text.encode(), receive_id.encode())
    ours = CRYPT.sealed(text.encode(), receive_id)
    signature = CRYPT.sign(str(NOW), NONCE, ours)
    if spoil:
        with pytest.raises(InvalidSignatureException):
            other.check_signature(signature[:-1] + "g", str(NOW), NONCE, ours)
    else:
        assert other.check_signature(signature, str(NOW), NONCE, ours) == text


ECHO_APP = "IG+0eOkLdhYW9kHtuT3HY29E+V9/fLKY9RNNkrfsT3QTN5AQORadtl1Ej60Own20764baU8Z3yvKhzamSvTevQ=="
ECHO_BOT = "IG+0eOkLdhYW9kHtuT3HYxnKVCTAYFtm64y6oAccFDU="


def echo(signature: str, echostr: str) -> RawRequest:
    query = {"msg_signature": signature, "timestamp": "1760000000", "nonce": "nonce9", "echostr": echostr}
    return RawRequest("GET", "/", query, CIMultiDict(), b"")


@pytest.mark.parametrize(
    ("receive_id", "signature", "echostr"),
    [
        ("ww1234567890abcdef", "601b5b75f3f650161be1315634c517eb3ed0beff", ECHO_APP),
        ("", "279d985e310d19e3494a7dba98e78f2c9c94f2af", ECHO_BOT),
    ],
)
def test_the_address_check_passes_for_both_kinds_of_account(receive_id: str, signature: str, echostr: str) -> None:
    keys = {
        "token": SecretStr("wecomtoken"),
        "encoding_aes_key": SecretStr("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"),
    }
    asked = echo(signature, echostr)
    wecom = adapter(**keys, receive_id=receive_id)
    wecom.verify(asked, NOW)
    assert wecom.handshake(asked) == HttpReply(body=b"7788990011", content_type="text/plain")
    with pytest.raises(Unauthorized, match=r"the setting receive_id says 'ww9'"):
        adapter(**keys, receive_id="ww9").verify(asked, NOW)
    with pytest.raises(Malformed, match=r"echostr not valid base64.*\+ in an address"):
        wecom.verify(echo(signature, echostr.replace("+", " ")), NOW)


def test_a_wrong_clock_is_told_apart_from_a_wrong_token() -> None:
    asked = request("{}")
    for clock in (NOW - 7_200, NOW, NOW + 7_200):
        adapter().verify(asked, clock)
    for clock in (NOW - 7_201, NOW + 7_201):
        with pytest.raises(Unauthorized, match=r"7201 s outside the window.*clock"):
            adapter().verify(asked, clock)
    with pytest.raises(Unauthorized, match=r"does not match \(is token"):
        adapter(token=SecretStr("another")).verify(asked, NOW)


def test_a_wrong_key_is_told_apart_from_a_wrong_token() -> None:
    with pytest.raises(Unauthorized, match=r"can't be decrypted.*encoding_aes_key"):
        adapter(encoding_aes_key=SecretStr("k" * 43)).verify(request("{}"), NOW)


@pytest.mark.parametrize("name", ["msg_signature", "timestamp", "nonce"])
@pytest.mark.parametrize("value", ["", "é", "\udcff", "a\nb", "٣" * 10, "9" * 300])
def test_a_parameter_is_there_in_printable_ascii(name: str, value: str) -> None:
    with pytest.raises(Unauthorized):
        adapter().verify(request("{}", query={name: value}), NOW)


@pytest.mark.parametrize(
    "stamp", ["nan", "-1", "1_760_000_000", " 1760000000", "+1760000000", "1760000000.0", "9" * 31]
)
def test_a_timestamp_is_plain_digits(stamp: str) -> None:
    with pytest.raises(Unauthorized, match="timestamp"):
        adapter().verify(request("{}", query={"timestamp": stamp}), NOW)


@pytest.mark.parametrize("spoil", ["a" * 39, "A" * 40, "g" * 40, "a" * 40])
def test_a_signature_of_another_form_or_value_is_refused(spoil: str) -> None:
    with pytest.raises(Unauthorized, match="msg_signature"):
        adapter().verify(request("{}", query={"msg_signature": spoil}), NOW)


def test_the_signature_is_over_what_was_encrypted() -> None:
    good, other = request("{}"), request('{"a":1}')
    with pytest.raises(Unauthorized, match="does not match"):
        adapter().verify(RawRequest("POST", "/", good.query, CIMultiDict(), other.body), NOW)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b'{"encrypt":1}', b'{"encrypt":""}', b'{"encrypt":"*"}', b"\xff", b"<xml", b"<xml></xml>",
     b"<xml><Encrypt>&#xD800;</Encrypt></xml>", b"[" * 5000, b'{"encrypt":"QQ==","encrypt":"QQ=="}',
     b"<xml><Encrypt>\xff</Encrypt></xml>"],
)  # fmt: skip
def test_a_body_that_holds_nothing_encrypted_is_refused(body: bytes) -> None:
    with pytest.raises((Malformed, Unauthorized)):
        adapter().verify(RawRequest("POST", "/", request("{}").query, CIMultiDict(), body), NOW)


def test_xml_that_defines_something_is_refused_unread() -> None:
    body = b'<!DOCTYPE a [<!ENTITY b "QQ==">]><xml><Encrypt>&b;</Encrypt></xml>'
    with pytest.raises(Malformed, match="document type"):
        adapter().verify(RawRequest("POST", "/", request("{}").query, CIMultiDict(), body), NOW)


@given(st.binary(max_size=200))
@examples(max_examples=60, deadline=None)
def test_whatever_is_encrypted_ends_in_an_event_or_a_refusal(encrypted: bytes) -> None:
    sent = base64.b64encode(encrypted).decode()
    query = {"msg_signature": CRYPT.sign(str(NOW), NONCE, sent), "timestamp": str(NOW), "nonce": NONCE}
    asked = RawRequest("POST", "/", query, CIMultiDict(), json.dumps({"encrypt": sent}).encode())
    with pytest.raises((Malformed, Unauthorized)):
        adapter().verify(asked, NOW)


@given(st.binary(max_size=32))
@examples(max_examples=40, deadline=None)
def test_a_ciphertext_of_the_wrong_shape_is_told(tail: bytes) -> None:
    """A length that leads past the end, a padding that is none."""
    raw = b"r" * 16 + (2**32 - 1).to_bytes(4, "big") + tail
    with pytest.raises(ValueError, match="shorter"):
        CRYPT.opened(PrpCrypto(KEY_BYTES).cipher.encrypt(_padded(raw)))
    with pytest.raises(ValueError, match="padded"):
        CRYPT.decrypt(PrpCrypto(KEY_BYTES).cipher.encrypt(_padded(raw)[:-2] + b"\x01\x02"))


@given(spoiled([one["body"] for one in VECTORS["payloads"] if isinstance(one["body"], dict)]))
@examples(max_examples=500, deadline=None)
def test_no_value_of_a_bots_callback_breaks_the_reader(raw: bytes) -> None:
    wecom, given = adapter(), request(raw.decode())
    with suppress(Malformed, Unauthorized):
        wecom.verify(given, NOW)
    with suppress(Malformed):
        assert wecom.handshake(given) is None
        assert can_be_kept(wecom.parse(given, NOW))


@given(
    st.dictionaries(st.sampled_from(["CreateTime", "MsgType", "Content", "MsgId", "FromUserName"]), st.text(max_size=9))
)
@examples(max_examples=150, deadline=None)
def test_no_value_of_an_apps_callback_breaks_the_reader(spoil: dict[str, str]) -> None:
    told = {"FromUserName": "a", "CreateTime": str(NOW), "MsgType": "text", "Content": "b", "MsgId": "1", **spoil}
    fields = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in told.items())
    wecom, given = app(), request(f"<xml>{fields}</xml>", receive_id="ww1")
    with suppress(Malformed, Unauthorized):
        wecom.verify(given, NOW)
    with suppress(Malformed):
        assert can_be_kept(wecom.parse(given, NOW))


def swapped(message: Mapping[str, Any] | str, **how: Any) -> RawRequest:
    """A callback of long ago whose nonce, by chance, reads as the time now."""
    old = str(NOW - 90 * 86_400)
    whole = request(message, **how)
    sealed = json.loads(whole.body)["encrypt"]
    query = {"msg_signature": CRYPT.sign(old, str(NOW), sealed), "timestamp": str(NOW), "nonce": old}
    return RawRequest("POST", whole.path, query, whole.headers, whole.body)


def test_what_tells_its_time_inside_is_not_taken_with_time_and_nonce_swapped() -> None:
    """The signature is over its parts in the order of the alphabet, so that it holds for both readings."""
    xml = "<xml><FromUserName>a</FromUserName><CreateTime>{}</CreateTime><MsgType>text</MsgType></xml>"
    pressed = payload("aibot_button_press")["body"]
    for at_s, match in ((NOW - 90 * 86_400, "create_time: 7776000 s outside"), (NOW - 60, "")):
        told = swapped(xml.format(at_s), receive_id="ww1"), swapped({**pressed, "create_time": at_s})
        for wecom, callback in zip((app(), adapter()), told, strict=True):
            if match:
                with pytest.raises(Unauthorized, match=match):
                    wecom.verify(callback, NOW)
            else:
                wecom.verify(callback, NOW)


def _padded(raw: bytes) -> bytes:
    padding = 32 - len(raw) % 32
    return raw + bytes([padding]) * padding


@pytest.mark.parametrize(
    "keys",
    [
        {"token": SecretStr("")},
        {"encoding_aes_key": SecretStr("k" * 42)},
        {"encoding_aes_key": SecretStr("!" * 43)},
        {"api_base": "ftp://a.example"},
        {"api_base": "https://user:pass@a.example"},
        {"agent_id": 7},
        {"agent_id": 7, "receive_id": "ww1"},
        {"stream_s": 361},
    ],
)
def test_settings_that_can_t_work_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        adapter(**keys)
    assert "kkk" not in str(refused.value)


# events


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda one: str(one["name"]))
def test_payloads_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    [event] = parse(vector["body"])
    expect = vector.get("expect", {})
    if "conversation" in expect:
        channel = expect["conversation"].removeprefix("wecom:AIBOTID:")
        assert event.conversation == ConversationKey("wecom-main", channel)
    assert event.kind == expect.get("kind", "pull" if vector["name"] == "aibot_stream_refresh" else "message")
    assert event.text == expect.get("text", event.text)
    assert event.is_direct == expect.get("dm", event.is_direct)
    assert event.addressed
    assert event.dedupe_keys == (f"id:{expect.get('event_id', event.message_id)}",)
    assert len(event.attachments) == expect.get("attachments", 0)
    assert not event.actor.is_bot


def test_wechatpy_reads_the_same_of_an_app_s_message() -> None:
    body = payload("app_text_xml")["body"]
    [event] = app().parse(request(body, receive_id="ww1"), NOW)
    theirs = parse_message(body)
    assert (event.text, event.actor.id, event.message_id) == (theirs.content, theirs.source, str(theirs.id))
    assert event.conversation == ConversationKey("wecom-main", "user:mycreate")


def test_the_text_that_a_message_answers_is_handed_on() -> None:
    [event] = parse(payload("aibot_quote")["body"])
    assert (event.text, event.quoted) == ("explain", "earlier text")
    quote = {"msgtype": "mixed", "mixed": {"msg_item": [{"msgtype": "text", "text": {"content": "a"}}, image("u")]}}
    [event] = parse(said(quote=quote))
    assert event.quoted == "a"
    assert [one.fetch for one in event.attachments] == [{"url": "u"}]


def image(url: str) -> dict[str, Any]:
    return {"msgtype": "image", "image": {"url": url}}


@pytest.mark.parametrize(
    ("text", "left", "name"),
    [
        ("@RobotA hello robot", "hello robot", "RobotA"),
        ("@RobotA\u2005你好", "你好", "RobotA"),
        ("👋🏽 好的 @RobotA", "👋🏽 好的", "RobotA"),
        ("@RobotAlpha hi @RobotA", "@RobotAlpha hi", "RobotA"),
        ("ask @RobotA about it", "ask @RobotA about it", "RobotA"),
        ("@Robot (A) /help", "/help", "Robot (A)"),
        ("@RobotA /help", "/help", None),
        ("@RobotA", "", "RobotA"),
        ("@RobotA", "", None),
        ("no mention", "no mention", None),
    ],
)
def test_our_mention_is_left_out_of_a_group_s_text(text: str, left: str, name: str | None) -> None:
    body = {**payload("aibot_group_mention")["body"], "text": {"content": text}}
    [event] = parse(body, bot_name=name)
    assert event.text == left
    assert (command_of(event) is not None) == left.startswith("/")
    assert event.is_empty == (not left)


def test_a_person_s_text_stays_as_it_is() -> None:
    [event] = parse(said(text={"content": "@RobotA is your name"}))
    assert event.text == "@RobotA is your name"


@pytest.mark.parametrize(
    ("body", "text", "attachments"),
    [
        ({"msgtype": "voice", "voice": {"content": "你好"}}, "你好", ()),
        ({"msgtype": "voice", "voice": {}}, "", (Attachment("voice", "", "", 0),)),
        ({"msgtype": "file", "file": {"url": "https://a/b "}}, "", (Attachment("file", "", "", 0, {"url": "https://a/b"}),)),
        ({"msgtype": "video", "video": {"url": "u"}}, "", (Attachment("video", "", "", 0, {"url": "u"}),)),
        ({"msgtype": "location", "location": {"x": 1}}, "", (Attachment("location", "", "", 0),)),
        ({"msgtype": "text", "text": {"content": "\u200b\u200b"}}, "\u200b\u200b", ()),
        (
            {"msgtype": "mixed", "mixed": {"msg_item": [image("u"), {"msgtype": "text", "text": {"content": "see"}}]}},
            "see",
            (Attachment("image", "", "", 0, {"url": "u"}),),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_message_is_read(body: dict[str, Any], text: str, attachments: tuple[Attachment, ...]) -> None:
    [event] = parse(said(**body))
    assert (event.kind, event.text, event.attachments) == ("message", text, attachments)
    assert event.is_empty == (not attachments and not text.strip("\u200b"))


@pytest.mark.parametrize("spelling", ["event_key", "eventkey"])
def test_a_pressed_button_says_its_command(spelling: str) -> None:
    card = {"card_type": "button_interaction", spelling: "skill approve 7F3K", "task_id": "t"}
    body = payload("aibot_button_press")["body"]
    [event] = parse({**body, "event": {"eventtype": "template_card_event", "template_card_event": card}})
    assert (event.kind, event.value, event.actor.id, event.reply_handle) == (
        "action",
        "skill approve 7F3K",
        "USERID",
        None,
    )
    assert event.extra["response_url"] == body["response_url"]
    assert opened(adapter().acknowledge([event])) == {
        "response_type": "update_template_card",
        "userids": ["USERID"],
        "template_card": {
            "card_type": "text_notice",
            "main_title": {"title": "/skill approve 7F3K"},
            "card_action": {"type": 1, "url": "https://work.weixin.qq.com"},
            "task_id": "t",
        },
    }


@pytest.mark.parametrize(
    "event",
    [
        {"eventtype": "enter_chat"},
        {"eventtype": "feedback_event", "feedback_event": {"id": "f", "type": 2}},
        {"eventtype": "template_card_event", "template_card_event": {"event_key": "k" * 65}},
        {"eventtype": "template_card_event"},
        None,
    ],
)
def test_other_events_are_answered_and_have_no_effect(event: Any) -> None:
    body = {
        "msgid": "M9",
        "create_time": 1,
        "aibotid": "A",
        "msgtype": "event",
        "from": {"userid": "U"},
        "event": event,
    }
    assert parse(body) == []
    assert adapter().acknowledge([]) == HttpReply()
    assert app().parse(request("<xml><MsgType>event</MsgType></xml>", receive_id="ww1"), NOW) == []


@pytest.mark.parametrize(
    "spoil",
    [{"msgid": None}, {"msgid": ""}, {"msgid": "m" * 257}, {"from": None}, {"from": {"userid": 7}},
     {"from": {"userid": "a\x00"}}, {"chattype": "group"}, {"msgtype": "stream", "stream": {}}],
)  # fmt: skip
def test_a_message_without_its_ids_is_refused(spoil: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse(said(**spoil))


@pytest.mark.parametrize(
    "message", ["", "[]", "{", "<xml><MsgType>text</MsgType></xml>", "<xml>", '{"msgtype":"text"}', "\x00"]
)
def test_a_message_that_can_t_be_read_is_refused(message: str) -> None:
    with pytest.raises(Malformed):
        parse(message)


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        ("https://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=RC", True),
        ("https://qyapi.weixin.qq.com.evil.example/cgi-bin/aibot/response", False),
        ("http://qyapi.weixin.qq.com/cgi-bin/aibot/response", False),
        ("https://qyapi.weixin.qq.com:8443/cgi-bin/aibot/response", False),
        ("https://user@qyapi.weixin.qq.com/", False),
        ("http://169.254.169.254/", False),
        ("http://127.0.0.1:9100/cgi-bin/aibot/response", False),
        ("file:///etc/passwd", False),
        ("no address", False),
        ("https://qyapi.weixin.qq.com/a b", False),
        ("https://qyapi.weixin.qq.com/a\r\nHost: b", False),
        ("https://qyapi.weixin.qq.com/长", False),
    ],
)
def test_a_response_url_leads_to_wecom(url: str, is_kept: bool) -> None:
    [event] = parse(said(response_url=url))
    assert event.extra.get("response_url") == (url if is_kept else None)


def test_a_response_url_of_ours_is_where_the_api_is() -> None:
    [event] = parse(said(response_url="http://127.0.0.1:9100/x"), api_base="http://127.0.0.1:9100")
    assert "response_url" in event.extra


# answers to callbacks


def test_a_message_begins_a_stream_that_a_repetition_begins_again() -> None:
    wecom = adapter(waiting_text="wait")
    answers = []
    for at_s in (NOW, NOW + 5):
        again = request(payload("aibot_group_mention")["body"], at_s=at_s)
        wecom.verify(again, at_s)
        [event] = wecom.parse(again, at_s)
        answers.append(opened(wecom.acknowledge([event])))
        assert event.reply_handle
        assert event.extra["stream"] == answers[-1]["stream"]["id"]
        assert event.reply_handle.expires_at_ms == (at_s + 360) * 1000
    assert answers[0] == answers[1]
    assert answers[0] == {
        "msgtype": "stream",
        "stream": {"id": answers[0]["stream"]["id"], "finish": False, "content": "wait"},
    }
    [other] = wecom.parse(request(payload("aibot_dm")["body"]), NOW)
    assert other.extra["stream"] != answers[0]["stream"]["id"]


def test_an_app_s_message_is_answered_empty() -> None:
    events = app().parse(request(payload("app_text_xml")["body"], receive_id="ww1"), NOW)
    assert app().acknowledge(events) == HttpReply()


# what is said


def written(markdown: str) -> str:
    [part] = adapter().render(Outbound(markdown))
    assert part.payload.keys() == {"content"}
    return str(part.payload["content"])


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Title\n\n**bold** *italic* ~~gone~~ `code`", "# Title\n\n**bold** *italic* ~~gone~~ `code`"),
        ("snake_case and 5 * 3", "snake_case and 5 * 3"),
        (r"\*not italic\* and \_neither\_", r"\*not italic\* and \_neither\_"),
        (r"\# no title", r"\# no title"),
        ("1986\\. a year", "1986\\. a year"),
        ("version 2. Then", "version 2. Then"),
        ("- a\n  - b\n\n3. c", "- a\n    - b\n\n3. c"),
        ("> quoted\n> more", "> quoted\n> more"),
        ("a\n\n---\n\nb", "a\n\n---\n\nb"),
        ("| 功能 | B |\n|---|---|\n| **速度** | `x|y` |\n| a \\| b | |",
         "| 功能 | B |\n| --- | --- |\n| **速度** | `x\\|y` |\n| a \\| b |  |"),
        ("请先看**截止日期**再回复", "请先看**截止日期**再回复"),
        ("备注**「加急」**的", "备注 **「加急」** 的"),
        ("```py\na < b\n```", "```py\na < b\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("[the page](https://a.example/x_(y))", "[the page](https://a.example/x_%28y%29)"),
        ("![chart](https://a.example/q.png)", "[chart](https://a.example/q.png)"),
        ("[https://bank.example](https://evil.example)",
         "https://bank.example ([https://evil.example](https://evil.example))"),
        ("<think>plan</think> List<String>", "<\u200bthink>plan<\u200b/think> List<\u200bString>"),
        ("`<think>` and `<b>`", "`<\u200bthink>` and `<b>`"),
        ("<@zhangsan> <@all> `<@all>`", "<\u200b@zhangsan> <\u200b@all> `<\u200b@all>`"),
        ("```\n<@all>\n```", "```\n<\u200b@all>\n```"),
        ("&lt;@all&gt; <!channel> @everyone", "&lt;@all&gt; <\u200b!channel> @everyone"),
        ("", "…"),
        ("  \n ", "…"),
    ],
)  # fmt: skip
def test_markdown_is_written_as_wecom_reads_it(markdown: str, text: str) -> None:
    assert written(markdown) == text


@given(st.text("ab1 \n\\`*_[]()#>-+=.~|!<", min_size=1, max_size=24))
@examples(max_examples=200, deadline=None)
def test_text_without_marks_has_none_for_wecom_either(text: str) -> None:
    """As far as WeCom reads Markdown as everybody does."""
    markdown = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
    again = write(written(markdown).replace("<\u200b", "<"), PLAIN)
    assert again == (write(markdown, PLAIN) or "…")


@pytest.mark.parametrize(
    "text", ["🚀" * 12_000, "长" * 30_000, "word " * 9_000, "| a | b |\n|---|---|\n" + "| x | y |\n" * 2_000]
)
def test_a_part_holds_as_many_bytes_as_wecom_takes(text: str) -> None:
    for wecom, limit in ((adapter(), TEXT_LIMIT), (app(), APP_TEXT_LIMIT)):
        parts = [str(part.payload["content"]) for part in wecom.render(Outbound(text))]
        assert max(map(utf8, parts)) <= limit
        assert len(parts) > 1
        assert all(part.encode() for part in parts)
    assert len(adapter().render(Outbound("长" * (TEXT_LIMIT // 3)))) == 1


def test_an_app_says_plain_text() -> None:
    [part] = app().render(Outbound("**Hi** [x](https://a.example) <@all>", buttons=(Button("Yes", "yes"),)))
    assert part.payload == {"content": "Hi x (https://a.example) <@all>"}


def test_buttons_are_on_a_card() -> None:
    buttons = (Button("Approve", "skill approve 7F3K", "primary"), Button("Refuse", "skill refuse 7F3K", "danger"))
    [part] = adapter().render(Outbound("**Somebody** wants to save the skill *deploy* for all", buttons=buttons))
    assert part.payload["card"] == {
        "card_type": "button_interaction",
        "main_title": {"title": "Somebody wants to save th…"},
        "button_list": [
            {"text": "Approve", "style": 1, "key": "skill approve 7F3K"},
            {"text": "Refuse", "style": 2, "key": "skill refuse 7F3K"},
        ],
    }
    assert [("card" in part.payload) for part in adapter().render(Outbound("长" * 9_000, buttons=buttons))] == [
        True,
        False,
    ]


@pytest.mark.parametrize("markdown", ["```\n```", "```\n \n```", "~~~", "- ```\n  ```"])
def test_no_message_is_empty(markdown: str) -> None:
    for wecom in (adapter(), app()):
        assert all(part.payload["content"].strip() for part in wecom.render(Outbound(markdown)))


@pytest.mark.parametrize("odd", ["zhang ", "\u202ezhang", "zhang\n"])
@pytest.mark.parametrize("field", ["from", "chatid"])
def test_who_looks_like_another_is_malformed(odd: str, field: str) -> None:
    message = {**payload("aibot_group_mention")["body"], field: {"userid": odd} if field == "from" else odd}
    with pytest.raises(Malformed):
        parsed(adapter(), request(message), NOW)
