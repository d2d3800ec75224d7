"""Records as a conversation has them, short to write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Attachment, Event
from skills.marks import GUIDANCE

WHERE = ConversationKey("c", "room", "t")


def said(
    text: str,
    turn: str = "turn",
    name: str = "Max",
    *,
    direct: bool = False,
    files: Sequence[str] = (),
    quoted: str = "",
    forwarded: str = "",
) -> Record:
    event = Event(
        kind="message",
        conversation=WHERE,
        actor=Actor("u1", name),
        dedupe_keys=(text,),
        at_ms=0,
        text=text,
        quoted=quoted,
        forwarded=forwarded,
        is_direct=direct,
        attachments=tuple(Attachment("file", file, "text/csv", 10) for file in files),
    )
    return Record("event", 0, {"turn": turn, "event": json.loads(event.dump())})


def answer(step: int, *blocks: dict[str, Any], stop_reason: str = "end_turn", **more: Any) -> Record:
    data = {"step": step, "content": list(blocks), "stop_reason": stop_reason, "usage": {}, "model": "m", **more}
    return Record("answer", 0, data)


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(tool_id: str, name: str = "tool", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def result(step: int, tool_id: str, text: str = "fine", **more: Any) -> Record:
    return Record("tool_result", 0, {"step": step, "id": tool_id, "name": "tool", "text": text, **more})


def start(step: int, tool_id: str) -> Record:
    return Record("tool_start", 0, {"step": step, "id": tool_id, "name": "tool"})


def skill(text: str, name: str = "s", **more: Any) -> Record:
    """A text of a skill that came as a message, unless `delivery` and `call` say otherwise."""
    data: dict[str, Any] = {
        "id": name,
        "tier": "org",
        "hash": "h",
        "bundle": "b",
        "offset": 0,
        "characters": len(text),
        "bytes": len(text.encode()),
        "replaces": None,
        "delivery": "message",
        "call": "",
        "lead": f"{GUIDANCE}: skill {name}.",
        "text": text,
        "rest": "",
    }
    return Record("skill", 0, data | more)
