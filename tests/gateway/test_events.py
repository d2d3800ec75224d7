from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Attachment, Event, ReplyHandle, kind_of

PLAIN = Event(
    kind="message",
    conversation=ConversationKey("slack-main", "C1"),
    actor=Actor("U1"),
    dedupe_keys=("id:1",),
    at_ms=1_700_000_000_000,
)
FULL: dict[str, Any] = {
    "message_id": "m1",
    "text": "näh\u2028 你好",
    "name": "stop",
    "value": "yes",
    "addressed": False,
    "is_direct": True,
    "attachments": (Attachment("image", "a.png", "image/png", 3), Attachment("file", "", "", 0, {"url": "u"})),
    "reply_handle": ReplyHandle("response_url", {"url": "u"}, 5),
    "extra": {"in_reply_to": {"a": [1, None]}},
    "actor": Actor("U2", "Ada", is_bot=True, is_self=True, language="zh-CN"),
}


@pytest.mark.parametrize("fields", [{}, *({name: value} for name, value in FULL.items()), FULL])
def test_an_event_is_the_same_after_it_was_written_down(fields: dict[str, Any]) -> None:
    event = Event(**{**{name: getattr(PLAIN, name) for name in Event.__dataclass_fields__}, **fields})
    assert Event.load(event.dump()) == event
    assert Event.load(event.dump().encode()) == event
    assert "\n" not in event.dump()


def test_what_is_as_always_is_not_written_but_text_and_message_id_are() -> None:
    written = json.loads(PLAIN.dump())
    assert set(written) == {"v", "kind", "conversation", "actor", "dedupe_keys", "at_ms", "message_id", "text"}
    assert written["actor"] == {"id": "U1"}


def test_an_event_with_all_fields_written_out_and_one_of_a_later_version_can_be_read() -> None:
    written = {**json.loads(PLAIN.dump()), "addressed": True, "attachments": [], "reply_handle": None, "new": 1}
    assert Event.of(written) == PLAIN


@pytest.mark.parametrize(
    ("mime", "kind"),
    [
        ("image/png", "image"),
        ("Audio/ogg; codecs=opus", "audio"),
        ("video", "video"),
        ("text/html", "file"),
        ("", "file"),
    ],
)
def test_a_mime_type_says_what_kind_of_file_it_is(mime: str, kind: str) -> None:
    assert kind_of(mime) == kind
