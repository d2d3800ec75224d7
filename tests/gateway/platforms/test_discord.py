"""The pure half: bytes in, events or a refusal out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.platforms import Button, Malformed, Outbound, Outside, RawRequest, Unauthorized, own_ms
from gateway.platforms.discord import GUIDE, TEXT_LIMIT, Adapter, Settings, _first
from gateway.text.markdown import utf16
from gateway.wire import object_of, read_json, text_of
from tests.gateway.platforms.hostile import can_be_kept, spoiled
from tests.harness.cpu import cpu_within
from tests.harness.discord_twin import BOT, CHANNEL, DIRECT, GUILD, PUBLIC_KEY, USER, sign

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/discord.json").read_text(encoding="utf-8"))
NOW = 1_760_000_000.0
JSON = "application/json"
NOWHERE = cast("Outside", type("Nowhere", (), {"http": None, "files": None, "now_ms": own_ms}))
AGENT = "775799577604522054"
"""Our own id in the vectors."""


def adapter(us: str = BOT, **keys: Any) -> Adapter:
    given = {"public_key": PUBLIC_KEY, "bot_token": SecretStr("token"), **keys}
    made = Adapter("discord-main", Settings(platform="discord", **given), NOWHERE)
    made.me = Actor(us, is_bot=True, is_self=True)
    return made


def request(
    body: Mapping[str, Any] | bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None
) -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = sign(raw, at_s=NOW) if headers is None else headers
    return RawRequest("POST", "/webhooks/discord-main", {}, CIMultiDict({**signed, "Content-Type": content_type}), raw)


def parse(body: Mapping[str, Any] | bytes, **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(body), NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in VECTORS["payloads"] if one["name"] == name)["body"]
    return found


def heard(kind: str = "MESSAGE_CREATE", us: str = BOT, **data: Any) -> list[Event]:
    told = {
        "id": "1100000000000000001",
        "channel_id": CHANNEL,
        "guild_id": GUILD,
        "author": {"id": USER, "username": "mason", "global_name": "Mason"},
        "content": "hi",
        "mentions": [],
        "timestamp": "2026-01-01T00:00:00.500000+00:00",
        "edited_timestamp": None,
        "attachments": [],
        "type": 0,
        **data,
    }
    return adapter(us).heard(kind, {name: value for name, value in told.items() if value != "absent"}, NOW)


OURS = {
    "id": "1",
    "channel_id": CHANNEL,
    "author": {"id": BOT, "bot": True},
    "content": "The deploy failed with code 7",
}
CALLED = [{"id": BOT, "username": "deskmate", "bot": True}]


# signature


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_signatures_are_judged_as_the_vectors_say(vector: dict[str, Any]) -> None:
    headers = {"X-Signature-Timestamp": vector["timestamp"], "x-signature-ed25519": vector["signature"]}
    discord = adapter(public_key=vector["public_key"])
    given = request(vector["body"].encode(), headers=headers)
    if vector["valid"]:
        discord.verify(given, int(vector["timestamp"]))
    else:
        with pytest.raises(Unauthorized):
            discord.verify(given, int(vector["timestamp"]))


@pytest.mark.parametrize("clock", [NOW, NOW + 299, NOW - 299])
def test_a_true_request_is_taken_within_the_window(clock: float) -> None:
    adapter().verify(request(b"{}"), clock)


@pytest.mark.parametrize("clock", [NOW + 360, NOW - 360])
def test_a_wrong_clock_is_told_apart_from_a_wrong_key(clock: float) -> None:
    with pytest.raises(Unauthorized, match=r"360 s outside the window of 300 s.*clock"):
        adapter().verify(request(b"{}"), clock)
    adapter(window_s=400).verify(request(b"{}"), clock)
    with pytest.raises(Unauthorized, match="does not match"):
        adapter(public_key="11" * 32).verify(request(b"{}"), NOW)


def test_a_signature_of_another_key_is_refused() -> None:
    with pytest.raises(Unauthorized, match="does not match"):
        adapter().verify(request(b"{}", headers=sign(b"{}", key=Ed25519PrivateKey.generate(), at_s=NOW)), NOW)


@pytest.mark.parametrize(
    "stamp",
    ["", "nan", "-1", "1_760_000_000", " 1760000000", "1760000000 ", "+1760000000", "1760000000.0", "١٧٦٠٠٠٠٠٠٠",
     "9" * 31, "1760000301", "\udcff", "1760000000\n"],
)  # fmt: skip
def test_a_timestamp_is_plain_digits_and_signed(stamp: str) -> None:
    headers = sign(b"{}", at_s=NOW) | {"X-Signature-Timestamp": stamp}
    with pytest.raises(Unauthorized):
        adapter().verify(request(b"{}", headers=headers), NOW)


@pytest.mark.parametrize("spoil", ["", "zz", "a" * 127, "a" * 129, "é" * 128, "g" * 128, "0" * 128, " " + "a" * 128])
def test_a_signature_of_another_form_is_refused(spoil: str) -> None:
    headers = sign(b"{}", at_s=NOW) | {"X-Signature-Ed25519": spoil}
    with pytest.raises(Unauthorized):
        adapter().verify(request(b"{}", headers=headers), NOW)


@pytest.mark.parametrize("name", ["X-Signature-Ed25519", "X-Signature-Timestamp"])
def test_a_header_that_is_missing_or_there_twice_is_refused(name: str) -> None:
    without = {other: value for other, value in sign(b"{}", at_s=NOW).items() if other != name}
    with pytest.raises(Unauthorized, match=f"{name}: missing"):
        adapter().verify(request(b"{}", headers=without), NOW)
    twice = request(b"{}")
    twice.headers.add(name, twice.headers[name])
    with pytest.raises(Unauthorized, match=f"{name}: more than one"):
        adapter().verify(twice, NOW)


@pytest.mark.parametrize("body", [b'{"a": 1}', b'{"a":1} ', b"", b'{"a":2}'])
def test_the_signature_is_over_the_bytes_as_they_came(body: bytes) -> None:
    with pytest.raises(Unauthorized, match="does not match"):
        adapter().verify(request(body, headers=sign(b'{"a":1}', at_s=NOW)), NOW)


@given(st.binary(max_size=60), st.text(max_size=140), st.text(max_size=12))
@examples(max_examples=150, deadline=None)
def test_no_headers_break_the_verifier(body: bytes, signature: str, stamp: str) -> None:
    headers = {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": stamp}
    with pytest.raises(Unauthorized):
        adapter().verify(request(body, headers=headers), NOW)


@pytest.mark.parametrize(
    "keys", [{"public_key": ""}, {"public_key": "zz" * 32}, {"public_key": "ab" * 31}, {"bot_token": SecretStr("")},
             {"window_s": 0}, {"api_base": "ftp://a.example"}, {"api_base": "https://user:pass@a.example/api"}]
)  # fmt: skip
def test_a_connection_with_a_key_that_can_not_be_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        adapter(**keys)


# interactions


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda one: str(one["name"]))
def test_payloads_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    body, expect = vector["body"], vector.get("expect")
    if not expect:
        answer = adapter().handshake(request(body))
        assert answer
        assert (answer.status, json.loads(answer.body)) == (200, VECTORS["signing"]["ping_reply"]["json"])
        assert parse(body) == []
        return
    [event] = adapter(AGENT).heard(body["t"], body["d"], NOW) if "t" in body else parse(body)
    assert event.kind == expect.get("kind", event.kind)
    assert event.name == expect.get("command", event.name)
    assert event.value == expect.get("value", "")
    assert event.text == expect.get("text", event.text)
    assert event.is_direct == expect.get("dm", False)
    assert event.addressed == (expect.get("mentions_bot", False) or event.kind != "message")
    assert event.actor == Actor(USER, "Mason", language="en-US" if event.kind == "command" else None)
    assert event.conversation == ConversationKey("discord-main", body.get("d", body)["channel_id"])
    assert Event.load(event.dump()) == event


def command(value: str | None = None, name: str = "deskmate", **fields: Any) -> Event:
    options = [] if value is None else [{"type": 3, "name": "line", "value": value}]
    body = payload("slash_command") | {"data": {"id": "1", "type": 1, "name": name, "options": options}} | fields
    [event] = parse(body)
    return event


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("deskmate", "stop", ("stop", "")),
        ("deskmate", "/Stop now please", ("stop", "now please")),
        ("deskmate", " ", ("help", "")),
        ("deskmate", None, ("help", "")),
        ("hello-world", "a < b", ("hello-world", "a < b")),
    ],
)
def test_a_slash_command_is_a_command_of_ours(name: str, value: str | None, expected: tuple[str, str]) -> None:
    event = command(value, name)
    assert (event.kind, event.name, event.text) == ("command", *expected)
    assert event.dedupe_keys == ("interaction:786008729715212338",)
    assert event.at_ms == NOW * 1000


def test_the_fields_of_a_command_are_its_line() -> None:
    options = [
        {
            "type": 1,
            "name": "approve",
            "options": [{"type": 3, "name": "id", "value": "7F3K"}, {"type": 4, "name": "n", "value": 2}],
        },
        {"type": 1, "name": "now"},
    ]
    [event] = parse(payload("slash_command") | {"data": {"type": 1, "name": "deskmate", "options": options}})
    assert (event.name, event.text) == ("approve", "7F3K 2 now")


def test_a_commands_answer_is_waited_for_and_a_button_is_left_as_it_is() -> None:
    handle = command("stop").reply_handle
    assert handle
    assert (handle.kind, handle.data) == ("interaction", {"application": AGENT, "token": "A_UNIQUE_TOKEN"})
    assert NOW * 1000 < handle.expires_at_ms <= (NOW + 900) * 1000
    [pressed] = parse(payload("button_press"))
    # A filled answer would stand in the place of the message with the buttons.
    assert pressed.reply_handle is None
    assert pressed.message_id == "846460000000000000"
    replies = [adapter().acknowledge([one]) for one in (command("stop"), pressed)]
    assert [json.loads(one.body)["type"] for one in replies] == [5, 6]
    assert {(one.status, one.content_type) for one in replies} == {(200, JSON)}


@pytest.mark.parametrize(
    "body",
    [
        {"type": 4, "data": {"type": 1, "name": "deskmate"}},  # a field is being typed
        {"type": 5, "data": {"custom_id": "form"}},
        {"type": 2, "data": {"type": 3, "name": "Explain this message"}},
        {"type": 3, "data": {"custom_id": "x", "component_type": 3, "values": ["a"]}},
        {"type": 99},
        {},
    ],
)
def test_what_we_do_not_serve_is_no_event(body: dict[str, Any]) -> None:
    assert parse(payload("slash_command") | {"data": {}} | body if body else {}) == []


def test_who_used_it_is_named_as_in_their_server() -> None:
    user = {"id": USER, "username": "mason", "global_name": "Mason"}
    assert command("x", member={"user": user, "nick": "Mase"}).actor.name == "Mase"
    assert command("x", member={"user": {**user, "global_name": None}}).actor.name == "mason"


# messages


@pytest.mark.parametrize(
    ("said", "addressed"),
    [
        ({}, False),
        ({"content": f"<@{BOT}> hi", "mentions": CALLED}, True),
        ({"content": f"hi <@!{BOT}>"}, True),
        ({"content": "@everyone <@&777> hi", "mention_everyone": True, "mention_roles": ["777"]}, False),
        ({"content": "", "mentions": CALLED}, True),  # what they wrote is not for us to see, and it called us
        ({"type": 19, "referenced_message": OURS}, True),
        ({"type": 19, "referenced_message": {**OURS, "author": {"id": USER}}}, False),
        ({"type": 19, "referenced_message": None}, False),
        ({"guild_id": "absent", "channel_id": DIRECT}, True),
        ({"content": f"`{BOT}` <#{BOT}>"}, False),
    ],
)
def test_who_is_addressed_follows_from_the_message_alone(said: dict[str, Any], addressed: bool) -> None:
    [event] = heard(**said)
    assert (event.kind, event.addressed) == ("message", addressed)
    assert event.parent_id == ("1" if said.get("referenced_message") == OURS else "")
    assert event.is_direct == (said.get("guild_id") == "absent")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f"<@{BOT}> hello", "hello"),
        (f"hello <@!{BOT}>", "hello"),
        (f"👋🏽 好的 <@{BOT}> status?", "👋🏽 好的 status?"),
        (f"<@{BOT}>\nline one\nline two", "line one\nline two"),
        (f"<@{BOT}>", ""),
        (
            "ask <@53908232506183681> and <@1> <a:wave:123> <:ok:9> <#5> & &lt;",
            "ask @Ann and @1 :wave: :ok: <#5> & &lt;",
        ),
        ("a\0b\ud800", "ab\ufffd"),
    ],
)
def test_text_is_as_a_person_reads_it_without_our_name(content: str, text: str) -> None:
    clean = content.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # as the wire's reader does
    [event] = heard(
        content=clean, mentions=[*CALLED, {"id": "53908232506183681", "username": "ann", "global_name": "Ann"}]
    )
    assert event.text == text
    event.dump().encode()


def test_what_is_answered_is_quoted_and_what_is_forwarded_is_nobodys_word_here() -> None:
    [event] = heard(content=f"<@{BOT}>", type=19, referenced_message=OURS)
    assert (event.text, event.quoted, event.is_empty) == ("", "The deploy failed with code 7", False)
    [event] = heard(content="", mentions=CALLED, message_snapshots=[{"message": {"content": "from elsewhere"}}])
    assert (event.text, event.quoted, event.forwarded, event.is_empty) == ("", "", "from elsewhere", False)
    [event] = heard(content=f"<@{BOT}>")
    assert event.is_empty
    [event] = heard(content="\u200b\u200b")
    assert event.is_empty


@pytest.mark.parametrize(
    ("said", "is_self"),
    [
        ({"author": {"id": BOT, "username": "deskmate"}}, True),
        ({"author": {"id": BOT, "bot": True}, "content": f"<@{BOT}> status"}, True),
        ({"author": {"id": "99", "bot": True}, "content": f"<@{BOT}> thanks!"}, False),
        ({"author": {"id": "99", "system": True}}, False),
        ({"author": {"id": "99", "username": "hook"}, "webhook_id": "99"}, False),
    ],
)
def test_we_and_other_bots_are_flagged(said: dict[str, Any], is_self: bool) -> None:
    [event] = heard(**said)
    assert (event.actor.is_bot, event.actor.is_self) == (True, is_self)


def test_a_text_that_is_not_for_us_to_see_is_not_heard() -> None:
    """Neither as an empty message, nor as our own words that it answers."""
    assert heard(content="", attachments=[]) == []
    assert heard(content="", type=19, referenced_message=OURS) == []
    assert heard("MESSAGE_UPDATE", content="", edited_timestamp="2026-01-01T00:01:00+00:00") == []
    assert len(heard(content="", guild_id="absent")) == 1


def test_a_bot_that_answers_us_does_not_address_us() -> None:
    bot = {"id": "99", "bot": True}
    [event] = heard(author=bot, type=19, referenced_message=OURS, mentions=CALLED)
    assert not event.addressed
    [event] = heard(author=bot, content=f"<@{BOT}> thanks!", mentions=CALLED)
    assert event.addressed


@pytest.mark.parametrize("kind", [1, 3, 6, 7, 8, 18, 20, 21, 23, 46, "0", None])
def test_notes_of_discord_s_own_are_no_message(kind: Any) -> None:
    assert heard(type=kind) == []


def test_edits_are_their_own_event_and_previews_are_none() -> None:
    [said] = heard()
    assert heard("MESSAGE_UPDATE") == []
    edits = [heard("MESSAGE_UPDATE", edited_timestamp=f"2026-01-01T00:0{at}:00+00:00")[0] for at in (1, 2, 2)]
    assert {one.kind for one in edits} == {"edit"}
    assert {one.message_id for one in edits} == {said.message_id}
    assert said.dedupe_keys == ("message:1100000000000000001",)
    assert edits[1].dedupe_keys == edits[2].dedupe_keys
    assert len({one.dedupe_keys for one in (said, *edits)}) == 3
    assert [one.at_ms - said.at_ms for one in edits] == [59_500, 119_500, 119_500]


def test_a_deleted_message_is_told_with_its_conversation() -> None:
    [gone] = adapter().heard("MESSAGE_DELETE", {"id": "5", "channel_id": CHANNEL, "guild_id": GUILD}, NOW)
    assert (gone.kind, gone.message_id, gone.conversation.channel) == ("delete", "5", CHANNEL)
    assert gone.dedupe_keys == ("delete:5",)


@pytest.mark.parametrize("kind", ["TYPING_START", "MESSAGE_REACTION_ADD", "GUILD_CREATE", "RESUMED", ""])
def test_other_dispatches_are_no_event(kind: str) -> None:
    assert heard(kind) == []


def test_the_time_is_the_message_s_own() -> None:
    assert heard()[0].at_ms == 1_767_225_600_500
    assert heard(timestamp="nonsense", id="175928847299117063")[0].at_ms == 1_462_015_105_796  # Discord's own example


def test_a_channel_is_a_conversation_for_commands_and_messages_alike() -> None:
    [said] = heard()
    [pressed] = parse(payload("button_press") | {"channel_id": CHANNEL})
    assert said.conversation == pressed.conversation == command("x", channel_id=CHANNEL).conversation
    assert said.conversation == ConversationKey("discord-main", CHANNEL)
    # No thread: else intake would take everything in a channel for an answer to us, once we have said something there.
    assert said.conversation.thread is None
    assert heard(channel_id="7")[0].conversation.id != said.conversation.id


def test_files_stickers_voice_and_polls_are_attachments() -> None:
    url = "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1&is=2&hm=3"
    files = [
        {"id": "1", "filename": "a.png", "content_type": "image/png", "size": 2048, "url": url},
        {"id": "2", "filename": "a.csv", "content_type": "text/csv; charset=utf-8", "size": -1, "url": url},
        {"id": "3", "filename": 7, "size": float("1e300")},
        "no file",
    ]
    [event] = heard(attachments=files)
    assert [(one.kind, one.name, one.mime, one.size_bytes) for one in event.attachments] == [
        ("image", "a.png", "image/png", 2048),
        ("file", "a.csv", "text/csv", 0),
        ("file", "", "", 0),
    ]
    assert [one.fetch for one in event.attachments] == [{"url": url}, {"url": url}, {}]
    [event] = heard(
        content="",
        mentions=CALLED,
        sticker_items=[{"id": "1", "name": "Wave", "format_type": 1}],
        poll={"question": {}},
    )
    assert [(one.kind, one.fetch) for one in event.attachments] == [("sticker", {}), ("poll", {})]
    [event] = heard(
        content="",
        mentions=CALLED,
        flags=1 << 13,
        attachments=[{"filename": "v.ogg", "content_type": "audio/ogg", "url": url}],
    )
    assert [(one.kind, one.fetch) for one in event.attachments] == [("voice", {})]
    assert not event.is_empty


# bad input


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", json.dumps(payload("slash_command")).encode()),
        ("", b"{}"),
        ("application/x-www-form-urlencoded", b"a=1"),
        (JSON, b""),
        (JSON, b"[]"),
        (JSON, b"\xff\xfe"),
        (JSON, b"[" * 100_000),
        (JSON, b'{"type":NaN}'),
        (JSON, b'{"type":1,"type":2}'),
        *((JSON, json.dumps(payload("slash_command") | change).encode()) for change in (
            {"id": 7}, {"id": None}, {"id": "1\n"}, {"channel_id": None}, {"channel_id": "../1"}, {"member": None},
            {"member": {"user": {"id": "U" * 30}}}, {"token": None}, {"token": "a/b"}, {"token": "a?b"},
            {"application_id": "@me"},
        )),
        (JSON, json.dumps(payload("button_press") | {"message": None}).encode()),
        (JSON, json.dumps(payload("button_press") | {"message": {"id": "1/2"}}).encode()),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_malformed(content_type: str, body: bytes) -> None:
    discord, given = adapter(), request(body, content_type)

    def read() -> None:
        if discord.handshake(given) is None:
            discord.parse(given, NOW)

    with pytest.raises(Malformed):
        read()


@pytest.mark.parametrize("said", [{"id": None}, {"channel_id": "x"}, {"author": None}, {"author": {"id": 5}}])
def test_a_message_without_its_ids_is_malformed(said: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        heard(**said)


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | st.sampled_from(["1", USER]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["id", "type", "content", "author", "mentions", "attachments", "referenced_message", "flags", "poll", "timestamp",
        "edited_timestamp", "guild_id", "message_snapshots", "sticker_items", "member", "webhook_id"]  # fmt: skip


@given(
    st.sampled_from(["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "INTERACTION_CREATE"]),
    st.dictionaries(st.sampled_from(KEYS), JSONS, max_size=5),
)
@examples(max_examples=200, deadline=None)
def test_no_shape_of_a_dispatch_breaks_the_reader(kind: str, data: dict[str, Any]) -> None:
    try:
        for one in heard(kind, **data):
            assert one.kind in {"message", "edit", "delete"}
    except Malformed:
        pass


INTERACTION_KEYS = ["id", "type", "token", "data", "member", "user", "message", "guild_id", "locale", "application_id"]


@given(
    st.sampled_from(["slash_command", "button_press"]),
    st.dictionaries(st.sampled_from(INTERACTION_KEYS), JSONS, max_size=4),
    st.dictionaries(st.sampled_from(["type", "name", "options", "custom_id", "component_type"]), JSONS, max_size=3),
)
@examples(max_examples=200, deadline=None)
def test_no_shape_of_an_interaction_breaks_the_reader(name: str, change: dict[str, Any], data: dict[str, Any]) -> None:
    body = payload(name) | {"data": payload(name)["data"] | data} | change
    try:
        for one in parse(json.dumps(body).encode()):
            assert Event.load(one.dump()) == one
    except Malformed:
        pass


@given(spoiled([one["body"] for one in VECTORS["payloads"]]))
@examples(max_examples=500, deadline=None)
def test_no_value_of_a_payload_breaks_the_reader(raw: bytes) -> None:
    discord, given = adapter(AGENT), request(raw)
    discord.verify(given, NOW)
    with suppress(Malformed):
        if discord.handshake(given) is None:
            assert can_be_kept(discord.parse(given, NOW))
        told = read_json(raw)
        assert can_be_kept(discord.heard(text_of(told.get("t")), object_of(told.get("d")), NOW))


# rendering


def texts(markdown: str) -> list[str]:
    return [part.payload["content"] for part in adapter().render(Outbound(markdown))]


@pytest.mark.parametrize(
    "markdown", ["```\n```", "```py\n\n```", "~~~", "```\n \n```", "- ```\n  ```", "[]()", "<!-- -->"]
)
def test_no_message_is_empty_and_no_fallback(markdown: str) -> None:
    for part in adapter().render(Outbound(markdown)):
        assert part.fallback
        assert part.payload["content"].strip()
        assert part.fallback["content"].strip()


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *it* ~~no~~ `a*b`", "**bold** *it* ~~no~~ `a*b`"),
        ("***both*** **a***b*", "***both*** **a**\u200b*b*"),
        ("order_item_id * 2 | x ~ \\` [x] <b>", "order\\_item\\_id \\* 2 \\| x \\~ \\` \\[x\\] \\<b>"),
        ("# Title\n\n#### Small", "# Title\n\n**Small**"),
        ("- a\n  - b\n\n2. c", "- a\n  - b\n\n2. c"),
        ("\\# no title\n\\- no item\n\\> no quote\n7\\. no", "\\# no title\n\\- no item\n\\> no quote\n7\\. no"),
        ("> quote\n> more", "> quote\n> more"),
        ("see [the page](https://example.com/x_(y))", "see [the page](<https://example.com/x_(y)>)"),
        ("https://example.com/a_b_c", "<https://example.com/a_b_c>"),
        ("[write](mailto:a_b@example.com)", "write (a\\_b@example.com)"),
        ("```py\nx = `1`\n```", "```py\nx = `1`\n```"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\n```"),
        ("`` a`b ``", "``a`b``"),
        ("请先看**截止日期**再回复", "请先看**截止日期**再回复"),
    ],
)
def test_markdown_becomes_discord_s(markdown: str, shown: str) -> None:
    assert texts(markdown) == [shown]


def test_a_table_is_aligned_in_a_block() -> None:
    [shown] = texts("| 功能 | Before |\n|---|---|\n| **速度** | 10 ms |\n| a \\| b | `x|y` |")
    assert shown.startswith("```\n功能")
    assert "a | b | x|y" in shown
    assert "**" not in shown


def test_nobody_is_called_and_no_link_hides_where_it_leads() -> None:
    line = "<!channel> <!here> <@U0USER9> @everyone @here <@&777> <@42> <https://evil.example|https://bank.example> &lt;@42&gt;"
    for part in adapter().render(Outbound(line)):
        assert part.fallback
        shown = part.payload["content"]
        assert not re.search(r"@(everyone|here)", shown)
        assert not re.search(r"@(everyone|here)", part.fallback["content"])
        assert not re.search(r"(?<!\\)<[@!#]", shown)
        assert "&lt;@42&gt;" in shown
    [shown] = texts("[https://bank.example](https://evil.example)")
    assert "<https://evil.example>" in shown
    assert "](" not in shown


@pytest.mark.parametrize(
    "markdown",
    ["word " * 1_500, "*" * 4_500, "| a | b |\n|---|---|\n" + f"| {'x' * 300} | y |\n| y | z |\n" * 20, "🚀" * 2_100,
     "word " * 700 + "🎩" * 600 + "\n" + "👨‍👩‍👧‍👦" * 300, "```\n" + "line < 3\n" * 600 + "```", "&_<" * 1_500],
)  # fmt: skip
def test_every_part_and_fallback_fits_however_discord_counts(markdown: str) -> None:
    parts = adapter().render(Outbound(markdown))
    assert len(parts) > 1
    for part in parts:
        assert part.fallback
        assert 0 < utf16(part.payload["content"]) <= TEXT_LIMIT
        assert 0 < utf16(part.fallback["content"]) <= TEXT_LIMIT
        part.payload["content"].encode()


def test_families_are_not_cut_and_nothing_is_lost() -> None:
    markdown = "🎩" * 600 + "\n" + "👨‍👩‍👧‍👦" * 300
    shown = texts(markdown)
    assert "".join(shown).replace("\n", "") == markdown.replace("\n", "")
    assert all(not one.startswith("\u200d") and not one.endswith("\u200d") for one in shown)
    words = [f"w{number}" for number in range(2_000)]
    assert " ".join(texts(" ".join(words))).split() == words


@pytest.mark.parametrize("markdown", ["", "\n \n"])
def test_there_is_always_a_part(markdown: str) -> None:
    assert texts(markdown) == ["…"]


def test_buttons_stand_in_rows_under_the_last_part() -> None:
    buttons = tuple(Button(f"Choice {number}", f"skill approve {number}", "danger") for number in range(6))
    parts = adapter().render(Outbound("word " * 600, buttons=buttons))
    assert ["components" in part.payload for part in parts] == [False, True]
    rows = parts[-1].payload["components"]
    assert [len(row["components"]) for row in rows] == [5, 1]
    assert rows[1]["components"] == [{"type": 2, "style": 4, "label": "Choice 5", "custom_id": "skill approve 5"}]
    assert "components" not in (parts[-1].fallback or {})


def test_the_guide_names_what_has_to_be_filled_in() -> None:
    text = "\n".join(GUIDE.steps)
    assert "{url}" in text
    assert "{name}" in text
    assert "bot_token" in text
    assert "public_key" in text


def test_a_command_is_read_in_little_time() -> None:
    discord, given = adapter(), request(payload("slash_command"))
    with cpu_within(0.8):  # the signature takes most of it
        for _ in range(500):
            discord.verify(given, NOW)
            discord.handshake(given)
            discord.parse(given, NOW)


@given(
    st.lists(
        st.sampled_from(["word ", "\n", "\n\n", "| a | b |\n| --- | --- |\n", "```\n", "**b** _c_", "- x\n", "🚀"])
    )
)
@examples(max_examples=60, deadline=None)
def test_what_grows_is_the_first_part_of_the_whole(pieces: list[str]) -> None:
    markdown = "".join(pieces) * 30
    assert _first(markdown) == adapter().render(Outbound(markdown))[0]
