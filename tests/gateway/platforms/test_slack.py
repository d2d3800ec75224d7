"""The pure half: bytes in, events or a refusal out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, urlencode

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from multidict import CIMultiDict
from pydantic import SecretStr, ValidationError
from slack_sdk.models.blocks import Block
from slack_sdk.signature import SignatureVerifier

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.platforms import Button, Malformed, Outbound, Outside, RawRequest, Unauthorized, own_ms
from gateway.platforms.slack import (
    ACTION,
    BUTTON_LIMIT,
    EVENTS,
    GUIDE,
    SCOPES,
    SECTION_LIMIT,
    TEXT_LIMIT,
    Adapter,
    Settings,
    _first,
    _fitting,
)
from gateway.text import mrkdwn
from tests.gateway.platforms.hostile import can_be_kept, spoiled
from tests.harness.cpu import cpu_within
from tests.harness.slack_twin import SIGNING_SECRET, TEAM, sign

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/slack.json").read_text(encoding="utf-8"))
NOW = 1_760_000_000.0
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
NOWHERE = cast("Outside", type("Nowhere", (), {"http": None, "feed": None, "now_ms": own_ms}))
COMMAND_FIELDS = ["team_id", "channel_id", "user_id", "user_name", "command", "text", "trigger_id", "response_url"]


def adapter(**keys: Any) -> Adapter:
    given = {"signing_secret": SecretStr(SIGNING_SECRET), "bot_token": SecretStr("xoxb-1"), **keys}
    return Adapter("slack-main", Settings(platform="slack", **given), NOWHERE)


def request(
    body: Mapping[str, Any] | bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None
) -> RawRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = sign(raw, at_s=NOW) if headers is None else headers
    return RawRequest("POST", "/webhooks/slack-main", {}, CIMultiDict({**signed, "Content-Type": content_type}), raw)


def parse(body: Mapping[str, Any] | bytes, content_type: str = JSON, **keys: Any) -> list[Event]:
    return adapter(**keys).parse(request(body, content_type), NOW)


def payload(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in VECTORS["payloads"] if one["name"] == name)
    return found


def message(**event: Any) -> dict[str, Any]:
    told = {
        "type": "message",
        "channel": "C0CHAN1",
        "ts": "1760000300.000400",
        "user": "U0USER1",
        "text": "hi",
        **event,
    }
    told = {name: value for name, value in told.items() if value is not None}
    authorized = [{"team_id": TEAM, "user_id": "U0BOT01", "is_bot": True}]
    return {"type": "event_callback", "team_id": TEAM, "event_id": "Ev1", "event": told, "authorizations": authorized}


# signature


@pytest.mark.parametrize("vector", VECTORS["signature_vectors"], ids=lambda one: str(one["name"]))
def test_signatures_are_judged_as_the_vectors_say(vector: dict[str, Any]) -> None:
    headers = {
        "X-Slack-Request-Timestamp": vector["timestamp"],
        "x-slack-signature": vector.get("signature") or vector["expected"],
    }
    slack = adapter(signing_secret=SecretStr(vector["secret"]))
    body = request(vector["body"].encode(), headers=headers)
    if vector["valid"]:
        slack.verify(body, vector["clock_now"])
    else:
        with pytest.raises(Unauthorized):
            slack.verify(body, vector["clock_now"])


@given(st.binary(max_size=200), st.integers(1, 10**10), st.integers(-400, 400), st.booleans())
@examples(max_examples=60, deadline=None)
def test_we_and_slack_s_own_verifier_agree(body: bytes, at_s: int, off_s: int, spoil: bool) -> None:
    body = body.decode("utf-8", "replace").encode()
    headers = sign(body, at_s=at_s)
    if spoil:
        headers["X-Slack-Signature"] = headers["X-Slack-Signature"][:-1] + "g"
    clock = type("Clock", (), {"now": staticmethod(lambda: at_s + off_s)})
    expected = SignatureVerifier(SIGNING_SECRET, cast("Any", clock)).is_valid_request(body, dict(headers))
    try:
        adapter().verify(request(body, headers=headers), at_s + off_s)
        accepted = True
    except Unauthorized:
        accepted = False
    assert accepted == expected


def test_a_wrong_clock_is_told_apart_from_a_wrong_secret() -> None:
    """B029."""
    body = b'{"type":"url_verification","challenge":"c-123","token":"t"}'
    signature = "v0=27107ad921aec910ac13a862a5e5bf61edce7530463110fb5656183d5985eaf8"
    given = request(body, headers={"X-Slack-Request-Timestamp": "1760000000", "X-Slack-Signature": signature})
    for clock in (1_760_000_000, 1_760_000_299):
        adapter().verify(given, clock)
        answer = adapter().handshake(given)
        assert answer
        assert json.loads(answer.body) == {"challenge": "c-123"}
    for clock in (1_760_000_360, 1_759_999_640):
        with pytest.raises(Unauthorized, match=r"360 s outside the window.*clock"):
            adapter().verify(given, clock)
    with pytest.raises(Unauthorized, match="does not match"):
        adapter(signing_secret=SecretStr("another")).verify(given, 1_760_000_000)


@pytest.mark.parametrize(
    "stamp",
    ["", "nan", "inf", "1e400", "0", "-1", "1_760_000_000", " 1760000000", "1760000000 ", "+1760000000", "1760000000.0",
     "١٧٦٠٠٠٠٠٠٠", "9" * 31, "1760000301", "1759999699", "\udcff", "1760000000\n"],
)  # fmt: skip
def test_a_timestamp_is_plain_digits_within_five_minutes(stamp: str) -> None:
    headers = sign(b"{}", at_s=NOW) | {"X-Slack-Request-Timestamp": stamp}
    with pytest.raises(Unauthorized):
        adapter().verify(request(b"{}", headers=headers), NOW)


@pytest.mark.parametrize("stamp", ["1760000301", "1759999699"])
def test_a_true_signature_outside_the_window_is_refused(stamp: str) -> None:
    with pytest.raises(Unauthorized, match="301 s outside"):
        adapter().verify(request(b"{}", headers=sign(b"{}", at_s=int(stamp))), NOW)


@pytest.mark.parametrize(
    "spoil", ["", "v0=", "v1=" + "a" * 64, "V0=" + "a" * 64, "v0=" + "é" * 64, "v0=" + "a" * 63, "v0=" + "A" * 64]
)
def test_a_signature_of_another_form_is_refused(spoil: str) -> None:
    headers = sign(b"{}", at_s=NOW) | {"X-Slack-Signature": spoil}
    with pytest.raises(Unauthorized):
        adapter().verify(request(b"{}", headers=headers), NOW)


@pytest.mark.parametrize("name", ["X-Slack-Signature", "X-Slack-Request-Timestamp"])
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


def test_the_secret_before_is_taken_as_long_as_it_is_set() -> None:
    old = request(b"{}", headers=sign(b"{}", secret="old-secret", at_s=NOW))
    adapter(previous_signing_secret=SecretStr("old-secret")).verify(old, NOW)
    with pytest.raises(Unauthorized):
        adapter().verify(old, NOW)


def test_a_connection_without_its_secret_is_refused() -> None:
    with pytest.raises(ValidationError):
        adapter(signing_secret=SecretStr(""))
    with pytest.raises(ValidationError, match="signing_secret"):
        Settings(platform="slack", bot_token=SecretStr("x"))  # type: ignore[call-arg]  # that is the test


@pytest.mark.parametrize("base", ["ftp://a.example", "https://user:pass@a.example/api", "slack.com/api", "https://"])
def test_an_api_base_that_is_no_plain_address_is_refused(base: str) -> None:
    with pytest.raises(ValidationError):
        adapter(api_base=base)


# events


@pytest.mark.parametrize(
    "vector", [one for one in VECTORS["payloads"] if "expect" in one], ids=lambda one: str(one["name"])
)
def test_payloads_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    body: Any = vector["body"].encode() if isinstance(vector["body"], str) else vector["body"]
    expect: dict[str, Any] = dict(vector["expect"])
    if "action_id" in expect:  # a button of ours would have an id of ours
        expect["action_id"] = f"{ACTION}{expect['action_id']}"
        body = body.replace(b"%22action_id%22%3A%22", b"%22action_id%22%3A%22" + ACTION.encode())
    [event] = parse(body, vector.get("content_type", JSON))
    kinds = {"message_edited": "edit"}
    if "drop" in expect:
        assert event.actor.is_bot
        assert event.actor.is_self or "user" not in body["event"], "intake drops it"
        return
    if "conversation" in expect:
        _, team, channel, ts = expect["conversation"].split(":")
        assert event.conversation == ConversationKey("slack-main", channel, f"{team}:{ts}")
    kind = expect.get("kind", "message")
    assert event.kind == kinds.get(kind, kind)
    assert event.addressed == (expect.get("mentions_bot", False) or event.is_direct or event.kind != "message")
    assert event.is_direct == expect.get("dm", False)
    assert len(event.attachments) == expect.get("attachments", 0)
    assert event.message_id == expect.get("message_id", event.message_id)
    assert event.text == expect.get("text", event.text)
    assert event.name == expect.get("action_id", expect.get("command", "").removeprefix("/"))
    assert event.value == expect.get("value", "")
    assert not event.actor.is_bot
    assert Event.load(event.dump()) == event


def test_the_vectors_without_an_expectation_are_no_events() -> None:
    silent = [one for one in VECTORS["payloads"] if "expect" not in one]
    assert {one["name"] for one in silent} == {"url_verification", "assistant_thread_started"}
    assert [event for one in silent for event in parse(one["body"])] == []


def test_the_challenge_is_answered_and_is_no_event() -> None:
    vector = payload("url_verification")
    answer = adapter().handshake(request(vector["body"]))
    assert answer
    assert (answer.status, json.loads(answer.body)) == (200, vector["response"]["json"])
    assert adapter().handshake(request(message(text="url_verification"))) is None
    assert adapter().handshake(request(b"ssl_check=1&token=x", FORM))


def test_what_we_do_not_serve_is_no_event() -> None:
    assert parse(message(type="assistant_thread_context_changed", assistant_thread={"channel_id": "D1"})) == []
    assert parse(message(type="app_context_changed")) == []
    assert parse(message(type="reaction_added")) == []
    assert parse(message(subtype="channel_join")) == []
    assert parse({"type": "app_rate_limited", "team_id": TEAM}) == []
    assert parse(b"payload=" + urlencode({"": json.dumps({"type": "shortcut"})})[1:].encode(), FORM) == []


@pytest.mark.parametrize("copies", [(0, 1, 2, 3), (1,)])
def test_a_repetition_is_the_same_event_and_is_heard_even_if_nothing_was_before(copies: tuple[int, ...]) -> None:
    """B021."""
    body = {"type": "event_callback", "team_id": "T0TEAM1", "event_id": "Ev001",
            "event": {"type": "app_mention", "user": "U0USER1", "text": "<@U0BOT01> hi", "ts": "1760000000.000100",
                      "channel": "C0CHAN1"}}  # fmt: skip
    heard = []
    for number in copies:
        given = request(body)
        if number:
            given.headers.update({"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_timeout"})
        slack = adapter()
        slack.verify(given, NOW)
        [event] = slack.parse(given, NOW)
        assert slack.acknowledge([event]).status == 200
        heard.append((event.dedupe_keys, event.text))
    assert set(heard) == {(("id:Ev001", "message:T0TEAM1:C0CHAN1:1760000000.000100"), "hi")}


def test_a_mention_and_its_message_share_a_key_and_a_conversation() -> None:
    """B033."""
    [said] = parse(payload("group_mention_as_message")["body"])
    [mentioned] = parse(payload("group_mention_as_app_mention")["body"])
    assert set(said.dedupe_keys) & set(mentioned.dedupe_keys) == {"message:T00FAKE00AA:C00FAKECHAN1:1766458026.240809"}
    assert said.conversation == mentioned.conversation


def test_a_mention_in_a_direct_message_is_the_message() -> None:
    """B033, order 4."""
    [said] = parse(message(channel="D0DM01", channel_type="im", text="<@U0BOT01> hi"))
    [mentioned] = parse(message(type="app_mention", channel="D0DM01", text="<@U0BOT01> hi"))
    assert said.conversation == mentioned.conversation == ConversationKey("slack-main", "D0DM01", TEAM)
    assert said.dedupe_keys[1] == mentioned.dedupe_keys[1]
    assert said.is_direct
    assert mentioned.is_direct
    assert said.text == mentioned.text == "hi"


def test_a_mention_is_addressed_even_if_nobody_told_us_who_we_are() -> None:
    body = message(type="app_mention", text="<@U0BOT01> hi")
    del body["authorizations"]
    [event] = parse(body)
    assert event.addressed
    assert event.text == "hi"
    [other] = parse({**body, "event": {**body["event"], "type": "message"}})
    assert not other.addressed
    [known] = parse({**body, "event": {**body["event"], "type": "message"}}, bot_user_id="U0BOT01")
    assert known.addressed


OURS = Actor("U0BOT01", is_bot=True, is_self=True)
THEIRS = Actor("U0BOT99", is_bot=True)


@pytest.mark.parametrize(
    ("event", "actor"),
    [
        ({"user": "U0BOT01", "text": "<@U0BOT01> status"}, OURS),
        ({"user": "U0BOT01", "bot_id": "B0BOT01"}, OURS),
        ({"user": "U0BOT99", "bot_id": "B0BOT99", "text": "<@U0BOT01> thanks!"}, THEIRS),
        ({"subtype": "bot_message", "bot_id": "B0BOT01", "user": None}, Actor("B0BOT01", is_bot=True)),
        ({"subtype": "bot_message", "bot_id": "B0BOT01", "user": None, "app_id": "A0APP01"},
         Actor("B0BOT01", is_bot=True, is_self=True)),
        ({"user": "U0USER1", "bot_id": "B0BOT99", "app_id": "A0APP99"}, Actor("U0USER1", is_bot=True)),
        ({"subtype": "message_changed", "message": {"user": "U0BOT01", "text": "x", "ts": "1.2", "edited": {}}}, OURS),
        ({"subtype": "message_deleted", "deleted_ts": "1.2", "previous_message": {"user": "U0BOT99", "bot_id": "B1"}},
         THEIRS),
    ],
)  # fmt: skip
def test_we_and_other_bots_are_told_apart_from_people(event: dict[str, Any], actor: Actor) -> None:
    """B035."""
    [said] = parse({**message(**event), "api_app_id": "A0APP01"})
    assert said.actor == actor


@pytest.mark.parametrize("event", [{"user": "USLACKBOT"}, {"user": "USLACK", "bot_id": "B1"}, {"user": None}])
def test_slack_itself_is_nobody(event: dict[str, Any]) -> None:
    assert parse(message(**event)) == []


def test_no_app_is_not_ours_where_the_envelope_tells_none() -> None:
    [said] = parse(message(user=None, bot_id="B0BOT99", subtype="bot_message", app_id=""))
    assert said.actor == Actor("B0BOT99", is_bot=True)


def test_a_bot_s_reply_in_our_thread_is_not_addressed_to_us() -> None:
    """B035."""
    [said] = parse(message(user="U0BOT99", bot_id="B0BOT99", thread_ts="1760000200.1", parent_user_id="U0BOT01"))
    assert not said.addressed


def test_our_own_words_are_known_by_what_identity_told() -> None:
    slack = adapter()
    slack.me = OURS
    body = message(user="U0BOT01")
    del body["authorizations"]
    [said] = slack.parse(request(body), NOW)
    assert said.actor == OURS


def test_a_person_s_own_installation_is_not_us() -> None:
    body = message(user="U0USER1")
    body["authorizations"] = [{"team_id": TEAM, "user_id": "U0USER1", "is_bot": False}]
    assert len(parse(body)) == 1


def test_an_edit_is_not_its_message_and_each_edit_is_another() -> None:
    [said] = parse(message())
    changed = {"user": "U0USER1", "ts": "1760000300.000400", "text": "ho", "edited": {"ts": "1760000301.0"}}
    edits = [
        parse(message(subtype="message_changed", message=changed, previous_message={"text": "hi"}, event_ts=at, ts=at))[
            0
        ]
        for at in ("1760000301.0001", "1760000302.0001")
    ]
    assert [one.kind for one in edits] == ["edit", "edit"]
    assert {one.message_id for one in edits} == {said.message_id}
    assert {one.conversation for one in edits} == {said.conversation}
    assert len({one.dedupe_keys[1] for one in (said, *edits)}) == 3


def test_a_preview_or_a_counted_reply_is_no_edit() -> None:
    same = {"user": "U0USER1", "ts": "1760000300.000400", "text": "hi"}
    assert parse(message(subtype="message_changed", message=same, previous_message=same)) == []
    edited = {**same, "edited": {"ts": "1.2"}}
    assert parse(message(subtype="message_changed", message=edited, previous_message=edited)) == []


@pytest.mark.parametrize(
    "event",
    [
        {"subtype": "message_deleted", "deleted_ts": "1760000300.000400", "ts": "1760000309.1"},
        {
            "subtype": "message_changed",
            "message": {"subtype": "tombstone", "ts": "1760000300.000400"},
            "ts": "1760000309.1",
        },
    ],
)
def test_a_deleted_message_is_told_with_its_conversation(event: dict[str, Any]) -> None:
    before = {"user": "U0USER1", "ts": "1760000300.000400", "text": "hi", "thread_ts": "1760000200.000100"}
    [gone] = parse(message(**event, previous_message=before))
    assert (gone.kind, gone.message_id, gone.text) == ("delete", "1760000300.000400", "")
    assert gone.conversation.thread == f"{TEAM}:1760000200.000100"


def test_the_same_channel_in_two_workspaces_is_two_conversations() -> None:
    [first], [second] = parse(message()), parse({**message(), "team_id": "T0TEAM2"})
    assert first.conversation.id != second.conversation.id
    assert first.conversation.channel == second.conversation.channel == "C0CHAN1"
    [first], [second] = (parse({**message(channel="D1", channel_type="im"), "team_id": team}) for team in ("T1", "T2"))
    assert first.conversation.id != second.conversation.id


def test_another_workspace_than_the_one_that_is_set_is_not_heard() -> None:
    """It is Slack's, so that Slack need not send it again."""
    assert parse(message(), team_id=TEAM)
    assert parse({**message(), "team_id": "T0TEAM2"}, team_id=TEAM) == []
    assert parse(b"command=%2Fx&team_id=T9&channel_id=C1&user_id=U1", FORM, team_id=TEAM) == []
    pressed = {"type": "block_actions", "team": {"id": "T9"}, "actions": [{"action_id": "deskmate:0"}]}
    assert parse(f"payload={json.dumps(pressed)}".encode(), FORM, team_id=TEAM) == []
    with pytest.raises(Malformed, match="team"):
        parse({**message(), "team_id": None}, team_id=TEAM)


def test_files_are_listed_with_or_without_an_address() -> None:
    files = [
        {
            "id": "F1",
            "name": "a.png",
            "mimetype": "image/png",
            "size": 2048,
            "url_private_download": "https://f.example/a",
        },
        {"id": "F2", "title": "Plan", "mimetype": "application/pdf", "size": -1},
        {"id": "F3", "name": 7, "size": float("1e300")},
        "no file",
    ]
    [event] = parse(message(subtype="file_share", text="look", channel="D0DM01", channel_type="im", files=files))
    assert [(one.kind, one.name, one.size_bytes) for one in event.attachments] == [
        ("image", "a.png", 2048),
        ("file", "Plan", 0),
        ("file", "", 0),
    ]
    assert event.attachments[0].fetch == {"id": "F1", "url": "https://f.example/a"}
    assert event.attachments[1].fetch == {}


def test_a_mention_with_nothing_else_is_an_empty_text() -> None:
    [event] = parse(message(type="app_mention", text="<@U0BOT01>"))
    assert event.text == ""
    assert event.addressed


def test_a_message_tells_whether_it_stands_in_a_thread() -> None:
    assert [one.extra for one in parse(message(thread_ts="1760000200.000100"))] == [{"in_thread": True}]
    assert [one.extra for one in parse(message())] == [{}]


@pytest.mark.parametrize(
    ("where", "event", "expected"),
    [
        ("never", {"channel": "D0DM01", "thread_ts": "1.2"}, False),
        ("direct", {"channel": "D0DM01", "thread_ts": "1.2"}, True),
        ("direct", {"channel": "D0DM01"}, False),
        ("direct", {"thread_ts": "1.2"}, False),
        ("threads", {"channel": "D0DM01"}, False),
        ("threads", {"channel": "D0DM01", "thread_ts": "1.2"}, True),
        ("threads", {}, True),  # the answer begins the thread
    ],
)
def test_a_message_tells_to_whom_a_stream_may_answer(where: str, event: dict[str, Any], *, expected: bool) -> None:
    [said] = parse(message(**event, user_team="T0GUEST"), native_streaming=where)
    recipient = {"team": "T0GUEST", "user": "U0USER1", "us": ["U0BOT01"]}
    assert said.extra.get("recipient") == (recipient if expected else None)


def test_there_is_no_stream_where_we_could_not_find_ours_again() -> None:
    body = message(channel="D0DM01", thread_ts="1.2")
    del body["authorizations"]
    assert "recipient" not in parse(body)[0].extra


def test_the_time_is_the_message_s_own() -> None:
    assert parse(message(ts="1760000300.1"))[0].at_ms == 1_760_000_300_100
    assert parse(message(ts="1760000300.000400"))[0].at_ms == 1_760_000_300_000


# commands and buttons


def command(**fields: str) -> Event:
    given = {
        "command": "/deskmate",
        "text": "",
        "team_id": TEAM,
        "channel_id": "C0CHAN1",
        "user_id": "U0USER1",
        "user_name": "ann",
        "trigger_id": "1.2.x",
        "response_url": "https://hooks.slack.com/commands/T1/1/x",
        **fields,
    }
    [event] = parse(urlencode(given).encode(), FORM)
    return event


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("/deskmate", "stop", ("stop", "")),
        ("/deskmate", "/Stop now please", ("stop", "now please")),
        ("/deskmate", " ", ("help", "")),
        ("/hello-world", "a &lt; b", ("hello-world", "a < b")),
    ],
)
def test_a_slash_command_is_a_command_of_ours(name: str, text: str, expected: tuple[str, str]) -> None:
    event = command(command=name, text=text)
    assert (event.kind, (event.name, event.text)) == ("command", expected)
    assert event.actor == Actor("U0USER1", "ann", is_guest=None)
    assert event.dedupe_keys == ("command:1.2.x",)
    assert event.conversation == ConversationKey("slack-main", "C0CHAN1", TEAM)


def test_a_late_answer_s_address_is_kept_only_if_slack_would_give_it() -> None:
    handle = command().reply_handle
    assert handle
    assert handle.expires_at_ms == round((NOW + 1800) * 1000)
    for url in ("https://evil.example/x", "http://hooks.slack.com/x", "https://hooks.slack.com.evil.example", "x", ""):
        assert command(response_url=url).reply_handle is None


def test_a_command_s_answer_goes_to_who_gave_it() -> None:
    handle = command().reply_handle
    assert handle
    assert handle.data == {"url": "https://hooks.slack.com/commands/T1/1/x", "user": "U0USER1"}


def pressed(**changes: Any) -> list[Event]:
    told = json.loads(parse_qs(payload("button_press")["body"])["payload"][0])
    told["actions"][0] |= {"action_id": f"{ACTION}0", "value": "skill approve 7F3K"}
    told["message"]["text"] = "*Approve* it?"
    for name, change in changes.items():
        told[name] = {**told[name], **change} if isinstance(change, dict) else change
    return parse(urlencode({"payload": json.dumps(told)}).encode(), FORM)


def test_a_pressed_button_carries_its_command_its_thread_and_what_stays_of_its_message() -> None:
    [event] = pressed()
    assert (event.kind, event.name, event.value) == ("action", f"{ACTION}0", "skill approve 7F3K")
    assert event.conversation == ConversationKey("slack-main", "C111", "T111:111.000")
    assert event.message_id == "111.222"
    assert event.actor == Actor("W111", "primary-owner", is_guest=None)
    assert event.extra == {"in_thread": True, "text": "*Approve* it?"}
    assert event.reply_handle
    assert [one.dedupe_keys for one in pressed()] == [event.dedupe_keys]
    assert pressed(user={"id": "W222"})[0].dedupe_keys != event.dedupe_keys


def test_a_button_under_a_message_that_one_person_saw_belongs_to_the_channel() -> None:
    [event] = pressed(container={"is_ephemeral": True, "thread_ts": None}, message={"thread_ts": None})
    assert event.conversation == ConversationKey("slack-main", "C111", "T111")
    assert event.extra == {"is_ephemeral": True}


@pytest.mark.parametrize(
    "action",
    [
        {"action_id": "approve", "value": "skill approve 7F3K"},
        {"action_id": f"x{ACTION}0", "value": "stop"},
        {"action_id": f"{ACTION}0"},
        {"action_id": f"{ACTION}0", "value": ""},
        {"action_id": f"{ACTION}0", "value": 7},
        {"action_id": None, "value": "stop"},
        {},
    ],
)
def test_only_a_button_of_ours_can_be_pressed(action: dict[str, Any]) -> None:
    assert pressed(actions=[action]) == []


# bad input


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data; boundary=x", b"--x"),
        ("text/plain", json.dumps(message()).encode()),
        ("", json.dumps(message()).encode()),
        (FORM, json.dumps(message()).encode()),
        (JSON, b"payload=%7B%7D"),
        (JSON, b""),
        (JSON, b"[]"),
        (JSON, b"\xff\xfe"),
        (JSON, b"[" * 100_000),
        (JSON, b'{"a":' * 2_000 + b"1" + b"}" * 2_000),
        (JSON, b'{"type":NaN}'),
        (JSON, b'{"user":"a","user":"admin"}'),
        (JSON, b'{"n":' + b"9" * 5_000 + b"}"),
        (FORM, b"payload=" + b"%5B" * 3_000),
        (FORM, b"command=/x&command=/y"),
        (FORM, b"a&" * 1_000),
        (FORM, b"command=/x&team_id=T1&channel_id=C1"),
        (JSON, json.dumps(message(ts="nan")).encode()),
        (JSON, json.dumps(message(channel="C1\n")).encode()),
        (JSON, json.dumps(message(channel={})).encode()),
        (JSON, json.dumps(message(user="U" * 100)).encode()),
        (JSON, json.dumps(message(thread_ts=7)).encode()),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_malformed(content_type: str, body: bytes) -> None:
    slack, given = adapter(), request(body, content_type)

    def read() -> None:
        if slack.handshake(given) is None:
            slack.parse(given, NOW)

    with pytest.raises(Malformed):
        read()


def test_a_content_type_that_is_there_twice_is_malformed() -> None:
    given = request(message())
    given.headers.add("Content-Type", FORM)
    with pytest.raises(Malformed, match="Content-Type"):
        adapter().parse(given, NOW)


def test_lone_surrogates_and_nul_are_cleaned_out_of_the_text() -> None:
    [event] = parse(json.dumps(message(text="a\ud800b\x00 🚀")).encode())
    assert event.text == "a\ufffdb 🚀"
    event.dump().encode()


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["1.2", "U1", "im"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["type", "subtype", "user", "text", "ts", "channel", "thread_ts", "files", "message", "previous_message", "bot_id",
        "deleted_ts", "channel_type", "event_ts"]  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(KEYS), JSONS, max_size=5),
    st.dictionaries(st.sampled_from(["team_id", "event_id", "authorizations", "event"]), JSONS, max_size=2),
)
@examples(max_examples=300, deadline=None)
def test_no_shape_of_an_event_breaks_the_reader(event: dict[str, Any], around: dict[str, Any]) -> None:
    body = {**message(**event), **around}
    try:
        for one in parse(json.dumps(body).encode()):
            assert Event.load(one.dump()) == one
    except (Malformed, Unauthorized):
        pass


PRESS = json.loads(dict(parse_qsl(payload("button_press")["body"]))["payload"])


@given(spoiled([PRESS, *(one["body"] for one in VECTORS["payloads"] if isinstance(one["body"], dict))]), st.booleans())
@examples(max_examples=500, deadline=None)
def test_no_value_of_a_payload_breaks_the_reader(raw: bytes, is_form: bool) -> None:
    slack = adapter()
    given = request(urlencode({"payload": raw}).encode(), FORM) if is_form else request(raw)
    slack.verify(given, NOW)
    with suppress(Malformed):
        if slack.handshake(given) is None:
            assert can_be_kept(slack.parse(given, NOW))


@given(st.dictionaries(st.sampled_from(COMMAND_FIELDS), st.text(max_size=9) | st.just("x" * 3_000), max_size=3))
@examples(max_examples=100, deadline=None)
def test_no_field_of_a_command_breaks_the_reader(spoil: dict[str, str]) -> None:
    fields = {**dict(parse_qsl(payload("slash_command")["body"])), **spoil}
    slack, given = adapter(), request(urlencode(fields, errors="replace").encode(), FORM)
    slack.verify(given, NOW)
    with suppress(Malformed):
        assert can_be_kept(slack.parse(given, NOW))


@given(st.sampled_from([JSON, FORM, "text/plain"]), st.binary(max_size=80))
@examples(max_examples=200, deadline=None)
def test_no_bytes_break_the_reader(content_type: str, body: bytes) -> None:
    given = request(body, content_type)
    try:
        adapter().handshake(given)
        adapter().parse(given, NOW)
    except (Malformed, Unauthorized):
        pass


# rendering


def texts(markdown: str) -> list[str]:
    return [part.payload["text"] for part in adapter().render(Outbound(markdown))]


def test_parts_are_slack_s_dialect_with_a_plain_fallback() -> None:
    [part] = adapter().render(Outbound("**Hi** <!channel>"))
    assert part.payload == {"text": "*Hi* &lt;!channel&gt;", "mrkdwn": True}
    assert part.fallback == {"text": "**Hi** &lt;!channel&gt;", "mrkdwn": False}


@pytest.mark.parametrize(
    "markdown",
    ["word " * 3_000, "&" * 9_000, "| a | b |\n|---|---|\n" + f"| {'x' * 300} | y |\n| y | z |\n" * 40, "🚀" * 9_000,
     "```\n" + "line < 3\n" * 2_000 + "```", "\\*" * 5_000, "\\&" * 700],
)  # fmt: skip
def test_every_part_and_fallback_fits_post_and_update(markdown: str) -> None:
    for part in adapter().render(Outbound(markdown)):
        assert part.fallback
        assert 0 < len(part.payload["text"]) <= TEXT_LIMIT
        assert 0 < len(part.fallback["text"]) <= TEXT_LIMIT


BUTTONS = (Button("Approve", "skill approve 7F3K", "primary"), Button("L" * 99, "help"), Button("No", "stop", "danger"))


def test_buttons_stand_below_the_text_of_the_last_part() -> None:
    first, last = adapter().render(Outbound("word " * 900, buttons=BUTTONS))
    assert "blocks" not in first.payload
    *sections, actions = last.payload["blocks"]
    assert [one["text"]["text"] for one in sections] == [last.payload["text"]]
    assert all(one["text"]["verbatim"] for one in sections), "Slack would look for names in it"
    assert actions == {
        "type": "actions",
        "elements": [
            {"type": "button", "action_id": "deskmate:0", "text": {"type": "plain_text", "text": "Approve"},
             "value": "skill approve 7F3K", "style": "primary"},
            {"type": "button", "action_id": "deskmate:1", "text": {"type": "plain_text", "text": "L" * BUTTON_LIMIT},
             "value": "help"},
            {"type": "button", "action_id": "deskmate:2", "text": {"type": "plain_text", "text": "No"},
             "value": "stop", "style": "danger"},
        ],
    }  # fmt: skip
    assert last.fallback
    assert "blocks" not in last.fallback


def test_there_are_no_more_buttons_than_slack_takes() -> None:
    buttons = tuple(Button(f"b{number}", f"skill approve {number}") for number in range(30))
    [part] = Adapter.render(cast("Adapter", None), Outbound("Which?", buttons=buttons))
    assert len(part.payload["blocks"][-1]["elements"]) == Adapter.capabilities.buttons == 25


@given(
    st.lists(
        st.sampled_from(["word ", "\n", "\n\n", "| a | b |\n| --- | --- |\n", "```\n", "**b** & <", "- x\n", "好"])
    )
)
@examples(max_examples=60, deadline=None)
def test_what_grows_is_the_first_part_of_the_whole(pieces: list[str]) -> None:
    markdown = "".join(pieces) * 200
    assert next(iter(_fitting(markdown, TEXT_LIMIT)), None) == _first(markdown)


def test_slack_s_own_models_take_our_blocks() -> None:
    for markdown in ("Approve **it**?", "word & " * 300):
        [part] = adapter().render(Outbound(markdown, buttons=BUTTONS * 8))
        blocks = Block.parse_all(part.payload["blocks"])
        for block in blocks:
            block.validate_json()
        assert [one.to_dict() for one in blocks] == part.payload["blocks"]


def test_a_long_text_above_buttons_is_several_blocks_and_loses_nothing() -> None:
    markdown = "```\n" + "line < 3\n" * 300 + "```"
    [part] = adapter().render(Outbound(markdown, buttons=BUTTONS))
    *sections, _ = part.payload["blocks"]
    shown = [one["text"]["text"] for one in sections]
    assert len(shown) > 1
    assert all(len(one) <= SECTION_LIMIT for one in shown)
    assert all(one.count("```") == 2 for one in shown)
    assert sum(one.count("line &lt; 3") for one in shown) == 300


@pytest.mark.parametrize("markdown", ["", "\n \n"])
def test_there_is_always_a_part(markdown: str) -> None:
    assert texts(markdown) == ["…"]


def test_a_long_answer_loses_no_word() -> None:
    words = [f"w{number}" for number in range(4_000)]
    assert " ".join(texts(" ".join(words))).split() == words


def test_an_event_is_read_in_little_time() -> None:
    slack, given = adapter(), request(payload("group_mention_as_app_mention")["body"])
    with cpu_within(0.5):  # a twentieth of a millisecond each, with room for a busy machine
        for _ in range(1_000):
            slack.verify(given, NOW)
            slack.handshake(given)
            slack.parse(given, NOW)


# files, text and emoji, both ways


def test_a_file_comes_with_its_message() -> None:
    """B037."""
    file = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 2048}
    where = "https://files.slack.com/files-pri/T0TEAM1-F1/download/a.png"
    for url, fetch in (({"url_private_download": where}, {"id": "F1", "url": where}), ({}, {})):
        [event] = parse(message(subtype="file_share", channel="D0DM01", channel_type="im", ts="1760000600.1",
                                text="what is on this picture?", files=[{**file, **url}]))  # fmt: skip
        assert event.text == "what is on this picture?"
        assert event.attachments[0].fetch == fetch


def test_text_is_read_once_and_written_back_the_same() -> None:
    """B043."""
    typed = (
        "alert when load &gt; 5 &amp;&amp; disk &lt; 10, see <https://example.com/?a=1&amp;b=2|the page> "
        "<#C0CHAN1|ops> cc <@U0USER2> &amp;lt;b&amp;gt; &copy;"
    )
    read = "alert when load > 5 && disk < 10, see the page (https://example.com/?a=1&b=2) #ops cc @U0USER2 &lt;b&gt; &copy;"
    [event] = parse(message(text=typed))
    assert event.text == read
    [shown] = texts(read)
    assert "&amp;lt;b&amp;gt;" in shown, "on screen it is &lt;b&gt;, as it was typed"
    assert "<@" not in shown
    assert parse(message(text=shown))[0].text == read


@pytest.mark.parametrize(
    "text", ["🚀" * 2_100, "word " * 700 + "🎩" * 600 + "\n" + "👨‍👩‍👧‍👦" * 300, "👨‍👩‍👧‍👦" * 1_200]
)
def test_emoji_are_counted_as_characters_and_families_stay_whole(text: str) -> None:
    """B047."""
    parts = texts(text)
    assert all(len(part) <= TEXT_LIMIT for part in parts)
    assert [part.encode() for part in parts]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert not any(part.startswith("\u200d") or part.endswith("\u200d") for part in parts)


def test_bold_beside_chinese_is_bold_and_a_table_is_aligned() -> None:
    """B049."""
    [shown] = texts(
        "请先看**截止日期**再回复，备注「**加急**」。오늘**마감**입니다\n\n"
        "| 功能 | Before | After |\n|---|---|---|\n| **速度** | 10 ms | 7 ms |\n| a \\| b | `x|y` | |"
    )
    said, table = shown.split("\n\n")
    assert said == ("请先看\u200b*截止日期*\u200b再回复，备注「\u200b*加急*\u200b」。오늘\u200b*마감*\u200b입니다")
    assert table.split("\n") == [
        "```",
        "功能  | Before | After",
        "------+--------+------",
        "速度  | 10 ms  | 7 ms",
        "a | b | x|y    |",
        "```",
    ]


PING = "<!channel> <!here> <@U0USER9> @everyone @here <@&777> <https://evil.example|https://bank.example> &lt;!here&gt;"


def test_nobody_is_called_and_no_address_hides_behind_another() -> None:
    """B053."""
    [part] = adapter().render(Outbound(f"{PING} [https://bank.example](https://evil.example)", buttons=BUTTONS))
    assert part.fallback
    shown = [part.payload["text"], part.fallback["text"], part.payload["blocks"][0]["text"]["text"]]
    for text in shown:
        assert not any(live in text for live in ("<!", "<@", "@everyone", "@here", "|https://bank.example>"))
        assert "&amp;lt;!here&amp;gt;" in text
        assert "https://evil.example" in text
    assert "<https://example.com|ours>" in texts("[ours](https://example.com)")[0], "an ordinary link works"


# how to connect


def test_the_manifest_asks_for_what_is_needed_and_names_our_address() -> None:
    url = "https://deskmate.example/webhooks/slack-main"
    manifest = yaml.safe_load(GUIDE.manifest.replace("{url}", url))
    assert tuple(manifest["oauth_config"]["scopes"]["bot"]) == GUIDE.scopes == SCOPES
    settings, features = manifest["settings"], manifest["features"]
    assert tuple(settings["event_subscriptions"]["bot_events"]) == EVENTS
    assert {
        settings["event_subscriptions"]["request_url"],
        settings["interactivity"]["request_url"],
        features["slash_commands"][0]["url"],
    } == {url}
    assert features["slash_commands"][0]["command"] == f"/{adapter()._settings.command}"
    assert features["slash_commands"][0]["should_escape"] is False


def test_the_docs_hold_the_same_manifest() -> None:
    docs = (Path(__file__).parents[3] / "docs/platforms/slack.md").read_text(encoding="utf-8")
    shown = docs.partition("```yaml\n")[2].partition("```")[0]
    url = "https://YOUR-HOST/webhooks/slack-main"
    assert yaml.safe_load(shown) == yaml.safe_load(GUIDE.manifest.replace("{url}", url))


@pytest.mark.parametrize("markdown", ["```\n```", "```\n \n```", "~~~", "- ```\n  ```"])
def test_no_message_is_empty_and_no_fallback(markdown: str) -> None:
    for part in adapter().render(Outbound(markdown)):
        assert part.fallback
        assert part.payload["text"].strip()
        assert part.fallback["text"].strip()


def test_a_shared_message_is_not_the_word_of_whoever_shares_it() -> None:
    shared = {
        "is_share": True,
        "is_msg_unfurl": True,
        "author_id": "U666",
        "text": "/approve ABC234 &amp; <https://a.test|a>",
    }
    preview = {"text": "of a page", "title": "a page"}
    [event] = parse(message(text="so?", attachments=[shared, preview]))
    assert event.text == "so?"
    assert event.forwarded == mrkdwn.read(str(shared["text"]), set())
    assert "of a page" not in event.dump()
    [event] = parse(message(text="", attachments=[shared]))
    assert not event.is_empty


@pytest.mark.parametrize(
    ("event", "body", "is_guest"),
    [
        ({}, {}, False),
        ({"user_profile": {"is_restricted": True}}, {}, True),
        ({"user_profile": {"is_ultra_restricted": True}}, {}, True),
        ({"user_profile": {"is_stranger": True}}, {}, True),
        ({"user_profile": {"is_restricted": "yes"}}, {}, False),
        ({"user_team": "T0OTHER"}, {"is_ext_shared_channel": True}, True),
        ({"user_team": "T0OTHER"}, {}, False),  # another workspace of the same organisation
        ({"user_team": TEAM}, {"is_ext_shared_channel": True}, False),
    ],
)
def test_who_is_from_outside(event: dict[str, Any], body: dict[str, Any], is_guest: bool) -> None:
    [said] = parse({**message(**event), **body})
    assert said.actor.is_guest is is_guest
    assert Event.load(said.dump()).actor.is_guest is is_guest


@pytest.mark.parametrize("sender", ["", None, 0, 7, [], ["U0USER1"], {}, {"id": "U0USER1"}, True])
def test_a_sender_that_is_no_id_is_nobody(sender: object) -> None:
    """S-I4: nothing that anybody could be taken for."""
    body = message()
    body["event"]["user"] = sender
    try:
        said = parse(body)
    except Malformed:
        return
    assert [one for one in said if one.actor.id] == []
