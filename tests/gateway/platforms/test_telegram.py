"""The pure half: bytes in, events or a refusal out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError
from telegram import Update
from telegram.constants import FileSizeLimit, FloodLimit, InlineKeyboardButtonLimit, MessageLimit

from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.platforms import (
    BUTTON_MAX_BYTES,
    Address,
    Button,
    Malformed,
    Outbound,
    Outside,
    Part,
    RawRequest,
    Stream,
    Unauthorized,
)
from gateway.platforms.telegram import ENTITIES_MAX, GUIDE, TEXT_LIMIT, Adapter, Settings
from gateway.text.markdown import utf16
from tests.gateway.platforms.hostile import can_be_kept, spoiled
from tests.harness.cpu import cpu_within
from tests.harness.telegram_twin import BOT, BOT_TOKEN, GROUP, SECRET, USER

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/telegram.json").read_text(encoding="utf-8"))
NOW = 1_760_000_000.0
JSON = "application/json"
HEADER = "X-Telegram-Bot-Api-Secret-Token"
NOWHERE = Outside(*[cast("Any", None)] * 4)


def adapter(**keys: Any) -> Adapter:
    secrets = {"bot_token": SecretStr(BOT_TOKEN), "secret_token": SecretStr(SECRET)}
    return Adapter(
        "telegram", Settings(**{"platform": "telegram", "username": "agent_bot", **secrets, **keys}), NOWHERE
    )


def request(body: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None, kind: str = JSON) -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    proof = {HEADER: SECRET} if headers is None else headers
    return RawRequest("POST", "/webhooks/telegram", {}, CIMultiDict({**proof, "Content-Type": kind}), raw)


def parse(body: Mapping[str, Any] | bytes, **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(body), NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in VECTORS["payloads"] if one["name"] == name)
    return found


def update(room: int = GROUP, /, **message: Any) -> dict[str, Any]:
    kind = "private" if room > 0 else "supergroup"
    told = {
        "message_id": 11,
        "date": 1_760_000_000,
        "chat": {"id": room, "type": kind},
        "from": {"id": USER, "is_bot": False, "first_name": "A"},
        **message,
    }
    return {"update_id": 900_010, "message": told}


def entity(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


# proof


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_the_secret_is_judged_as_the_vectors_say(vector: dict[str, Any]) -> None:
    telegram = adapter(secret_token=SecretStr(vector["secret"]))
    for name in (HEADER, HEADER.lower()):
        given = request(b"{}", {} if vector["header"] is None else {name: vector["header"]})
        if vector["valid"]:
            telegram.verify(given, NOW)
        else:
            with pytest.raises(Unauthorized, match=HEADER):
                telegram.verify(given, NOW)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        " ",
        SECRET[:-1],
        SECRET + "x",
        SECRET.swapcase(),
        f" {SECRET}",
        f"{SECRET} ",
        "é" * 13,
        "\udcff",
        SECRET + "\0",
    ],
)
def test_another_secret_is_refused_whole(secret: str) -> None:
    with pytest.raises(Unauthorized):
        adapter().verify(request(b"{}", {HEADER: secret}), NOW)


def test_a_secret_that_is_there_twice_is_refused() -> None:
    twice = request(b"{}")
    twice.headers.add(HEADER, SECRET)
    with pytest.raises(Unauthorized, match="more than one"):
        adapter().verify(twice, NOW)


def test_the_body_is_not_what_is_proven() -> None:
    for body in (b"", b"{", b"\xff"):
        adapter().verify(request(body), NOW)
        assert adapter().handshake(request(body)) is None


@pytest.mark.parametrize(
    "keys",
    [
        {"secret_token": SecretStr("")},
        {"secret_token": SecretStr("a b" * 9)},
        {"secret_token": SecretStr("x" * 11)},
        {"secret_token": SecretStr("x" * 257)},
        {"bot_token": SecretStr("no token")},
        {"bot_token": SecretStr("12/../3:abc")},
        {"api_base": "ftp://a.example"},
        {"api_base": "https://user:pass@a.example"},
        {"username": "a b"},
    ],
)
def test_keys_that_can_not_be_right_are_refused_and_not_told(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        adapter(**keys)
    assert "12/../3" not in str(caught.value)


# events


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda one: str(one["name"]))
def test_payloads_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    [event] = parse(vector["body"])
    expect = vector["expect"]
    if "conversation" in expect:
        _, bot, chat, topic = expect["conversation"].split(":")
        assert bot == BOT_TOKEN.partition(":")[0]
        assert event.conversation == ConversationKey("telegram", chat, None if topic == "0" else topic)
    if "drop" in expect:
        assert event.actor.is_bot
        assert not event.addressed
        return
    kinds = {"message_edited": "edit"}
    assert event.kind == kinds.get(expect.get("kind"), expect.get("kind", "message"))
    assert event.addressed == (expect.get("mentions_bot", False) or event.is_direct or event.kind == "action")
    assert event.is_direct == expect.get("dm", event.conversation.channel == str(USER))
    assert event.name == expect.get("command", "").removeprefix("/")
    assert event.text == expect.get("text", event.text)
    assert event.value == expect.get("value", "")
    assert len(event.attachments) == expect.get("attachments", 0)
    assert event.dedupe_keys == (f"update:{BOT}:{vector['body']['update_id']}",)
    assert Event.load(event.dump()) == event


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda one: str(one["name"]))
def test_telegram_s_own_reader_sees_the_same(vector: dict[str, Any]) -> None:
    [event] = parse(vector["body"])
    seen = Update.de_json(vector["body"], None)
    message, person, chat = seen.effective_message, seen.effective_user, seen.effective_chat
    assert message
    assert person
    assert chat
    assert (event.message_id, event.actor.id) == (str(message.message_id), str(person.id))
    assert (event.actor.is_bot, event.conversation.channel) == (person.is_bot, str(chat.id))
    if event.kind in {"message", "command"}:
        assert event.at_ms == message.date.timestamp() * 1_000
    for found, said in message.parse_entities(["mention"]).items():
        assert said == "@agent_bot", found
        assert said not in event.text


THUMB = "👋🏽 好的 @acme_bot status?"


@pytest.mark.parametrize(
    ("text", "entities", "addressed", "expected"),
    [
        (THUMB, [entity("mention", 8, 9)], True, "👋🏽 好的 status?"),
        (THUMB, [entity("mention", 500, 9)], False, THUMB),
        (THUMB, None, False, THUMB),
        (THUMB, [entity("text_mention", 8, 9, user={"id": BOT})], True, "👋🏽 好的 status?"),
        (THUMB, [entity("text_mention", 8, 9, user={"id": 7})], False, THUMB),
        (THUMB, [entity("text_mention", 500, 9, user={"id": BOT})], False, THUMB),
        (THUMB, [entity("text_mention", 18, 9, user={"id": BOT})], False, THUMB),
        (THUMB, [entity("mention", 4, 9)], False, THUMB),  # as if characters were counted
        (THUMB, [entity("mention", -1, 9)], False, THUMB),
        (THUMB, [entity("mention", 8, 10**30)], False, THUMB),
        (THUMB, [{"type": "mention", "offset": "8", "length": 9}], False, THUMB),
        ("@acme_bot", [entity("mention", 0, 9)], True, ""),
        ("@ACME_BOT, hi @acme_bot", [entity("mention", 0, 9), entity("mention", 14, 9)], True, ", hi"),
        ("one\n@acme_bot two", [entity("mention", 4, 9)], True, "one\ntwo"),
        ("one @acme_bot\ntwo", [entity("mention", 4, 9)], True, "one\ntwo"),
        ("hi @acme_bot, so", [entity("mention", 3, 9)], True, "hi, so"),
        ("hi @acme_bot2 so", [entity("mention", 3, 10)], False, "hi @acme_bot2 so"),
        ("@all hi", [entity("mention", 0, 4)], False, "@all hi"),
        ("mail a@acme_bot", [entity("email", 5, 10)], False, "mail a@acme_bot"),
    ],
)
def test_a_mention_is_found_by_utf16_offsets_whatever_stands_before_it(
    text: str, entities: Any, *, addressed: bool, expected: str
) -> None:
    [event] = parse(update(-100200, text=text, entities=entities), username="@Acme_Bot")
    assert (event.addressed, event.text) == (addressed, expected)


def test_our_name_is_known_by_what_get_me_told() -> None:
    telegram = adapter(username=None)
    assert not telegram.is_ready, "mentions in groups and /stop@agent_bot would be dropped"
    assert adapter().is_ready
    said = request(update(text="@agent_bot hi", entities=[entity("mention", 0, 10)]))
    assert not telegram.parse(said, NOW)[0].addressed
    telegram.me = Actor(str(BOT), "Agent_Bot", is_bot=True, is_self=True)
    assert telegram.is_ready
    assert telegram.parse(said, NOW)[0].addressed


def test_a_mention_in_a_caption_counts() -> None:
    entities = [entity("mention", 0, 10)]
    [event] = parse(update(caption="@agent_bot what is it?", caption_entities=entities, photo=[{"file_id": "x"}]))
    assert (event.addressed, event.text, event.attachments[0].kind) == (True, "what is it?", "image")


OURS = {"message_id": 9, "from": {"id": BOT, "is_bot": True}, "text": "first answer"}
THEIRS = {"message_id": 8, "from": {"id": 7}, "text": "The deploy failed with code 7"}


def test_an_answer_to_us_is_for_us_and_an_answer_to_others_is_not() -> None:
    [ours], [theirs] = (
        parse(update(text="and?", reply_to_message=OURS)),
        parse(update(text="and?", reply_to_message=THEIRS)),
    )
    assert (ours.addressed, theirs.addressed) == (True, False)
    assert (ours.quoted, theirs.quoted) == ("first answer", "The deploy failed with code 7")
    assert (ours.parent_id, theirs.parent_id) == ("9", ""), "ours may be a question"


def test_an_answer_from_a_bot_is_not_for_us() -> None:
    body = update(text="thanks", reply_to_message=OURS)
    body["message"]["from"]["is_bot"] = True
    [event] = parse(body)
    assert (event.addressed, event.actor.is_bot) == (False, True)


def test_a_topic_that_we_opened_makes_nobody_s_message_an_answer_to_us() -> None:
    root = {"message_id": 36, "from": {"id": BOT, "is_bot": True}, "forum_topic_created": {"name": "x"}}
    [event] = parse(update(text="hi all", message_thread_id=36, is_topic_message=True, reply_to_message=root))
    assert not event.addressed


def test_a_mention_alone_asks_about_what_it_answers() -> None:
    [event] = parse(update(text="@agent_bot", entities=[entity("mention", 0, 10)], reply_to_message=THEIRS))
    assert (event.text, event.quoted, event.is_empty) == ("", "The deploy failed with code 7", False)
    [chosen] = parse(update(text="hm", reply_to_message=THEIRS, quote={"text": "code 7", "position": 23}))
    assert chosen.quoted == "code 7"
    [bare] = parse(update(text="@agent_bot", entities=[entity("mention", 0, 10)]))
    assert bare.is_empty
    [unseen] = parse(update(USER, text="\u200b\u200b"))
    assert unseen.is_empty


@pytest.mark.parametrize("kind", ["sticker", "voice", "video_note", "location", "contact", "poll", "dice"])
def test_kinds_that_nobody_reads_are_told_by_their_name(kind: str) -> None:
    [event] = parse(update(USER, **{kind: {"file_id": "x"}}))
    assert [(one.kind, one.fetch) for one in event.attachments] == [(kind, {})]
    assert not event.is_empty


def test_a_place_with_a_name_is_one_attachment() -> None:
    [event] = parse(update(USER, location={"latitude": 1}, venue={"title": "x"}))
    assert [one.kind for one in event.attachments] == ["venue"]


def test_files_are_listed_with_what_fetches_them() -> None:
    [photo] = parse(payload("photo")["body"])
    [one] = photo.attachments
    assert (one.kind, one.mime, one.size_bytes, one.fetch) == (
        *("image", "image/jpeg", 173_215),
        {"file_id": "AgACAgUAAxkBAAMRaH8qXw-y"},
    )
    assert photo.text == "what is this?"
    [document] = parse(payload("document")["body"])
    [one] = document.attachments
    assert (one.kind, one.name, one.mime, one.size_bytes) == ("file", "report.pdf", "application/pdf", 12_345)
    moving = {"file_id": "m", "mime_type": "video/mp4"}
    [event] = parse(update(animation=moving, document=moving))
    assert [one.kind for one in event.attachments] == ["video"]
    [event] = parse(update(document={"file_name": 7, "file_size": -1, "mime_type": None}))
    assert [(one.kind, one.name, one.size_bytes, one.fetch) for one in event.attachments] == [("file", "", 0, {})]


def test_pictures_of_an_album_share_a_group() -> None:
    events = [parse(update(photo=[{"file_id": "x"}], media_group_id="g1"))[0] for _ in range(2)]
    assert [one.group for one in events] == ["g1", "g1"]


# topics


def test_topics_are_conversations_and_chains_of_answers_are_not() -> None:
    topics = [
        parse(update(-100300, text="x", message_thread_id=topic, is_topic_message=True))[0] for topic in (36, 854)
    ]
    [general] = parse(update(-100300, text="x", message_thread_id=777, reply_to_message=OURS))
    [chain] = parse(update(-100200, text="x", message_thread_id=777))
    [plain] = parse(update(-100200, text="x"))
    assert [one.conversation.thread for one in topics] == ["36", "854"]
    assert general.conversation == ConversationKey("telegram", "-100300")
    assert chain.conversation == plain.conversation
    assert general.addressed


def test_two_bots_in_one_group_are_two_conversations_and_know_their_updates_apart() -> None:
    [first] = parse(update(text="x"))
    other = Adapter(
        "telegram-2",
        Settings(platform="telegram", bot_token=SecretStr("42:abc"), secret_token=SecretStr("s" * 12)),
        NOWHERE,
    )
    [second] = other.parse(request(update(text="x")), NOW)
    assert first.conversation.id != second.conversation.id
    assert first.dedupe_keys == (f"update:{BOT}:900010",)
    assert second.dedupe_keys == ("update:42:900010",)


# who


def test_a_person_is_told_with_name_and_language() -> None:
    person = {
        "id": 42,
        "is_bot": False,
        "first_name": "Li",
        "last_name": "Wei",
        "username": "lw",
        "language_code": "zh-hans",
    }
    [event] = parse(update(text="x", **{"from": person}))
    assert event.actor == Actor("42", "Li Wei", language="zh-hans")


def test_we_ourselves_are_known_by_the_token_s_digits() -> None:
    [event] = parse(update(text="@agent_bot status", **{"from": {"id": BOT, "is_bot": True}}))
    assert event.actor.is_self


@pytest.mark.parametrize(
    "message",
    [
        {"text": "x", "sender_chat": {"id": -1, "type": "channel"}},
        {"text": "x", "from": None},
        {"text": "x", "chat": {"id": -1, "type": "channel"}},
        {"text": "x", "chat": None},
        {"new_chat_members": [{"id": 1}]},
        {"migrate_to_chat_id": -1001},
        {"pinned_message": {"text": "x"}},
    ],
)
def test_what_nobody_says_is_no_event(message: dict[str, Any]) -> None:
    assert parse(update(**message)) == []


def test_kinds_of_updates_that_we_do_not_serve_are_no_event() -> None:
    assert parse({"update_id": 1, "my_chat_member": {"chat": {"id": 1}}}) == []
    assert parse({"update_id": 1, "channel_post": {"text": "x"}}) == []
    assert parse({"update_id": 1}) == []
    assert adapter().acknowledge([]).body == b""  # a body would be a call


def test_an_edit_is_told_with_its_time() -> None:
    [event] = parse(payload("edit")["body"])
    assert (event.kind, event.message_id, event.text, event.at_ms) == ("edit", "5", "hello (fixed)", 1_700_000_060_000)


# commands and buttons


@pytest.mark.parametrize(
    ("text", "chat", "kind", "name", "rest", "addressed"),
    [
        ("/stop", USER, "command", "stop", "", True),
        ("/Skill show x\ny", USER, "command", "skill", "show x\ny", True),
        ("/skill\nshow", USER, "command", "skill", "show", True),
        ("/hello-world@agent_bot x", GROUP, "command", "hello-world", "x", True),
        ("/stop@Agent_Bot", GROUP, "command", "stop", "", True),
        ("/stop", GROUP, "command", "stop", "", False),
        ("/start", USER, "message", "", "", True),
        ("/start abc", USER, "message", "", "", True),
    ],
)
def test_commands_are_ours_where_they_say_so(
    text: str, chat: int, kind: str, name: str, rest: str, *, addressed: bool
) -> None:
    length = len(re.split(r"[\s-]", text, maxsplit=1)[0])  # to Telegram a dash ends it
    [event] = parse(update(chat, text=text, entities=[entity("bot_command", 0, length)]))
    assert (event.kind, event.name, event.text, event.addressed) == (kind, name, rest, addressed)


@pytest.mark.parametrize("room", [GROUP, USER])
def test_a_command_for_another_bot_is_no_event_even_below_our_message(room: int) -> None:
    """As a message it would be our own command, wherever we need no mention."""
    entities = [entity("bot_command", 0, 15)]
    assert parse(update(room, text="/stop@other_bot", entities=entities, reply_to_message=OURS)) == []
    [ours] = parse(update(room, text="/ask x", entities=[entity("bot_command", 0, 4)], reply_to_message=OURS))
    assert ours.addressed


def test_a_path_is_talk() -> None:
    [event] = parse(update(USER, text="see /etc/hosts", entities=[entity("bot_command", 4, 4)]))
    assert (event.kind, event.text) == ("message", "see /etc/hosts")


def test_a_pressed_button_of_ours_carries_its_command() -> None:
    [event] = parse(payload("button_press")["body"])
    assert (event.value, event.message_id, event.actor.id) == ("a:req_1:y", "1370", "100000001")
    assert (event.extra, event.at_ms, event.is_direct) == ({"callback": "4382bfdwdsb323b2d9"}, NOW * 1_000, False)


def test_a_button_under_a_message_of_long_ago_is_ours() -> None:
    """Of such a message Telegram tells no sender: the press came to us, so that it is."""
    query = payload("button_press")["body"]["callback_query"]
    chat = {"id": GROUP, "type": "supergroup"}
    old = {**query, "message": {"chat": chat, "message_id": 1370, "date": 0}}
    [event] = parse({"update_id": 1, "callback_query": old})
    assert (event.kind, event.value, event.message_id) == ("action", "a:req_1:y", "1370")
    assert event.conversation == ConversationKey("telegram", str(GROUP))


@pytest.mark.parametrize(
    "spoil",
    [{"message": None}, {"message": {"chat": {"id": 1, "type": "private"}, "message_id": 1, "date": 5}}, {"data": None},
     {"message": {"chat": {"id": 1, "type": "private"}, "message_id": 1, "date": 0, "from": {"id": 1}}}, {"id": 7}, {"from": None}, {"inline_message_id": "x", "message": None}],
)  # fmt: skip
def test_buttons_that_are_not_ours_are_no_event(spoil: dict[str, Any]) -> None:
    query = {**payload("button_press")["body"]["callback_query"], **spoil}
    assert parse({"update_id": 1, "callback_query": query}) == []


# bad input


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"update_id":NaN}', b'{"update_id":1,"update_id":2}', b"{}",
        b'{"update_id":true}', b'{"update_id":"1"}', b'{"update_id":1e3}', b'{"update_id":' + b"9" * 400 + b"}",
        json.dumps(update(text="x", message_id=None)).encode(),
        json.dumps(update(text="x", **{"from": {"id": "1"}})).encode(),
        json.dumps(update(text="x", is_topic_message=True)).encode(),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        adapter().parse(request(body), NOW)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_an_update_is_json(kind: str) -> None:
    with pytest.raises(Malformed):
        adapter().parse(request(update(text="x"), kind=kind), NOW)


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from([BOT, "private", 36]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["message_id", "from", "chat", "date", "text", "entities", "caption", "photo", "document", "reply_to_message",
        "quote", "message_thread_id", "is_topic_message", "media_group_id", "sticker", "edit_date"]  # fmt: skip
ENTITIES = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["mention", "text_mention", "bot_command"]), "offset": JSONS, "length": JSONS},
        optional={"user": JSONS},
    ),
    max_size=3,
)


@given(
    st.dictionaries(st.sampled_from(KEYS), JSONS, max_size=5), ENTITIES, st.sampled_from(["message", "edited_message"])
)
@examples(max_examples=150, deadline=None)
def test_no_shape_of_a_message_breaks_the_reader(message: dict[str, Any], entities: list[Any], kind: str) -> None:
    whole = {"text": "/a @agent_bot 👋", "entities": entities, **message}
    with suppress(Malformed):
        for one in parse(json.dumps({"update_id": 1, kind: update(**whole)["message"]}).encode()):
            assert Event.load(one.dump()) == one


@given(st.binary(max_size=80), st.dictionaries(st.sampled_from(["id", "from", "message", "data"]), JSONS))
@examples(max_examples=100, deadline=None)
def test_no_bytes_and_no_button_break_the_reader(body: bytes, query: dict[str, Any]) -> None:
    whole = {**payload("button_press")["body"]["callback_query"], **query}
    for raw in (body, json.dumps({"update_id": 1, "callback_query": whole}).encode()):
        with suppress(Malformed):
            adapter().parse(request(raw), NOW)


@given(spoiled([one["body"] for one in VECTORS["payloads"]]))
@examples(max_examples=500, deadline=None)
def test_no_value_of_an_update_breaks_the_reader(raw: bytes) -> None:
    telegram, given = adapter(), request(raw)
    telegram.verify(given, NOW)
    assert telegram.handshake(given) is None
    with suppress(Malformed):
        assert can_be_kept(telegram.parse(given, NOW))


@pytest.mark.parametrize("kind", [[], {}, ["private"], None, 1])
def test_a_chat_of_no_kind_is_no_chat(kind: Any) -> None:
    assert parse(update(chat={"id": USER, "type": kind})) == []


# rendering


def parts(markdown: str, **more: Any) -> list[Part]:
    return adapter().render(Outbound(markdown, **more))


def spans(part: Part) -> list[tuple[str, str]]:
    """Each entity with the text that it is over."""
    raw = part.payload["text"].encode("utf-16-le")
    return [
        (one["type"], raw[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le"))
        for one in part.payload.get("entities", [])
    ]


def test_text_and_entities_go_apart_with_the_source_as_fallback() -> None:
    markdown = (
        "Set **order_item_id** to a_b - it costs $5.00!\n*   **Overview**: *nested **bold** inside*\n"
        "![sales graph](http://example.com/q3_sales.png) and an open ` backtick, plus [link](http://example.com/x_(y))"
    )
    [part] = parts(markdown)
    assert "parse_mode" not in part.payload
    assert part.payload["text"].startswith("Set order_item_id to a_b - it costs $5.00!")
    assert "\\" not in part.payload["text"]
    assert ("bold", "order_item_id") in spans(part)
    assert ("text_link", "link") in spans(part)
    assert part.fallback == {"text": markdown}


@pytest.mark.parametrize(
    ("markdown", "text", "expected"),
    [
        ("👋 **bold** ~~old~~ `x`", "👋 bold old x", [("bold", "bold"), ("strikethrough", "old"), ("code", "x")]),
        ("```python\nx = 1\n```", "x = 1", [("pre", "x = 1")]),
        ("> said", "said", [("blockquote", "said")]),
        ("# Title", "Title", [("bold", "Title")]),
        ("[write us](mailto:a@b.example)", "write us (a@b.example)", []),
        ("[a@b.example](mailto:a@b.example)", "a@b.example", []),
        ("[ordinary](https://example.com/)", "ordinary", [("text_link", "ordinary")]),
    ],
)
def test_marks_become_entities(markdown: str, text: str, expected: list[tuple[str, str]]) -> None:
    [part] = parts(markdown)
    assert (part.payload["text"], spans(part)) == (text, expected)


def test_a_block_names_its_language_and_a_link_its_address() -> None:
    [part] = parts("```python\nx\n```\n[y](https://example.com/y)")
    block, link = part.payload["entities"]
    assert (block["language"], link["url"]) == ("python", "https://example.com/y")


def test_nothing_that_a_model_writes_calls_anybody() -> None:
    line = "<!channel> <!here> <@U0USER9> @everyone @here <@&777> <https://evil.example|https://bank.example> **@ann** a@b.example"
    [part] = parts(f"{line}\n\n[@bob](https://example.com/@bob) https://example.com/@cid `@pytest.fixture`")
    for text in (part.payload["text"], str(part.fallback and part.fallback["text"])):
        for name in ("everyone", "here", "ann", "bob"):
            assert f"@\u200b{name}" in text
            assert f" @{name}" not in text
        assert "a@b.example" in text
    assert "https://example.com/@cid" in part.payload["text"]  # within an address nobody is called
    assert ("code", "@pytest.fixture") in spans(part)
    assert ("bold", "@\u200bann") in spans(part)
    [lure] = parts("[https://bank.example](https://evil.example)")
    assert lure.payload["text"] == "https://bank.example (https://evil.example)"
    assert spans(lure) == [("text_link", "https://evil.example")]


def test_a_table_is_aligned_in_a_block() -> None:
    [part] = parts("| 功能 | Before |\n|---|---|\n| **速度** | 10 ms |")
    assert spans(part) == [("pre", "功能 | Before\n-----+-------\n速度 | 10 ms")]


@pytest.mark.parametrize(
    "markdown",
    ["🚀" * 2_100, "word " * 700 + "🎩" * 600 + "\n" + "👨‍👩‍👧‍👦" * 300, "@a " * 3_000, "**@b** `x` " * 1_000,
     "| a | b |\n|---|---|\n" + f"| {'x' * 300} | y |\n| y | z |\n" * 40, "```\n" + "line < 3\n" * 2_000 + "```",
     "| a | b |\n|---|---|\n" + f"| {'🚀' * 30} | y |\n| y | {'x' * 40} |\n" * 60,
     "[x](mailto:somebody@example.com) " * 400],
)  # fmt: skip
def test_no_part_and_no_fallback_is_over_the_limit_in_utf16_units(markdown: str) -> None:
    made = parts(markdown)
    for part in made:
        assert part.fallback
        for text in (part.payload["text"], part.fallback["text"]):
            assert 0 < utf16(text) <= TEXT_LIMIT
            text.encode()
            assert not text.startswith("\u200d")
    if "|" not in markdown and "`" not in markdown and "[" not in markdown:
        plain = "".join(part.payload["text"] for part in made).replace("\u200b", "")
        assert plain.replace(" ", "").replace("\n", "") == markdown.replace(" ", "").replace("\n", "")


@given(st.text(alphabet="@ab_ *`[]()~\n👋好", max_size=60))
@examples(max_examples=200, deadline=None)
def test_entities_always_lie_within_their_text(markdown: str) -> None:
    [part] = parts(markdown)
    size = utf16(part.payload["text"])
    for one in part.payload.get("entities", []):
        assert 0 <= one["offset"] < one["offset"] + one["length"] <= size
    spans(part)


@pytest.mark.parametrize("markdown", ["", "\n \n"])
def test_there_is_always_a_part(markdown: str) -> None:
    assert [part.payload["text"] for part in parts(markdown)] == ["…"]


def test_buttons_stand_under_the_last_part_and_its_fallback() -> None:
    buttons = (Button("Approve", "skill approve 7F3K", "primary"), Button("Why?", "why"))
    made = parts("word " * 2_000, buttons=buttons)
    keyboard = [
        [{"text": "Approve", "callback_data": "skill approve 7F3K", "style": "primary"}],
        [{"text": "Why?", "callback_data": "why"}],
    ]
    for content in (made[-1].payload, made[-1].fallback):
        assert content
        assert content["reply_markup"] == {"inline_keyboard": keyboard}
    assert all("reply_markup" not in part.payload for part in made[:-1])


def test_a_growing_answer_is_a_draft_in_private_and_a_message_in_groups() -> None:
    private, group = (Address(ConversationKey("telegram", str(chat))) for chat in (USER, GROUP))
    assert adapter().stream(private).kind == "passing"
    assert adapter().stream(group) == Stream("message", interval_s=3.0)


def test_our_limits_are_those_that_telegram_s_clients_know() -> None:
    can = Adapter.capabilities
    assert (TEXT_LIMIT, ENTITIES_MAX) == (MessageLimit.MAX_TEXT_LENGTH, MessageLimit.MESSAGE_ENTITIES)
    assert can.file_max_bytes <= FileSizeLimit.FILESIZE_UPLOAD
    assert BUTTON_MAX_BYTES <= InlineKeyboardButtonLimit.MAX_CALLBACK_DATA
    assert [one.count for one in can.pace] == [FloodLimit.MESSAGES_PER_SECOND_PER_CHAT, FloodLimit.MESSAGES_PER_SECOND]


def test_the_guide_fills_in_what_is_named() -> None:
    whole = "\n".join(GUIDE.steps)
    assert set(re.findall(r"\{(.*?)\}", whole)) == {"name", "url"}


def test_an_update_is_read_in_little_time() -> None:
    telegram, given = adapter(), request(payload("group_mention")["body"])
    with cpu_within(0.5):  # a twentieth of a millisecond each, with room for a busy machine
        for _ in range(1_000):
            telegram.verify(given, NOW)
            telegram.parse(given, NOW)


@pytest.mark.parametrize("markdown", ["```\n```", "```\n \n```", "~~~", "- ```\n  ```"])
def test_no_message_is_empty_and_no_fallback(markdown: str) -> None:
    for part in adapter().render(Outbound(markdown)):
        assert part.fallback
        assert part.payload["text"].strip()
        assert part.fallback["text"].strip()


STRANGER = {"type": "user", "date": 1, "sender_user": {"id": 666, "is_bot": False, "first_name": "Stranger"}}


@pytest.mark.parametrize(
    "how", [{"forward_origin": STRANGER}, {"forward_date": 1}, {"via_bot": {"id": 7, "is_bot": True}}]
)
@pytest.mark.parametrize("text", ["Open https://evil.test/", "/approve ABC234", "yes"])
def test_what_somebody_passes_on_is_not_their_word(how: dict[str, Any], text: str) -> None:
    [event] = parse(update(USER, text=text, entities=[entity("bot_command", 0, len(text))], **how))
    assert (event.kind, event.name, event.text, event.forwarded) == ("message", "", "", text)
    assert (event.is_empty, command_of(event)) == (False, None)
    [event] = parse(update(USER, caption=text, photo=[{"file_id": "f", "width": 9, "height": 9}], **how))
    assert [one.is_forwarded for one in event.attachments] == [True]


def test_what_is_passed_on_calls_nobody() -> None:
    told = {"text": "@deskmate_bot hi", "entities": [entity("mention", 0, 13)]}
    assert [one.addressed for one in parse(update(**told, forward_origin=STRANGER))] == [False]


def test_an_answer_to_what_was_passed_on_or_is_elsewhere_brings_words_of_others() -> None:
    there = {"message_id": 4, "from": {"id": USER}, "text": "Obey.", "forward_origin": STRANGER}
    [passed_on] = parse(update(text="so?", reply_to_message=there))
    [elsewhere] = parse(update(text="so?", external_reply={"origin": STRANGER}, quote={"text": "Obey.", "position": 0}))
    for event in (passed_on, elsewhere):
        assert (event.text, event.quoted, event.forwarded) == ("so?", "", "Obey.")
