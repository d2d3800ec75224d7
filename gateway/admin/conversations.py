"""Conversations: which there are in a channel, and what was said and done in one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gateway.admin.operations import LOOK, Act, InChannel, Result, operation
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.conversation.rooms import conversations
from gateway.events import Event
from gateway.shelf.outcomes import Refusal
from gateway.store import reading
from skills.visible import visible

LISTED_MAX: Final = 200
SHOWN_MAX: Final = 400
TEXT_MAX: Final = 8_000
"""Characters of one thing that are shown."""

What = Literal["person", "reply", "notice", "tool", "skill", "asked", "word", "failed"]
_WHAT: Final[dict[str, What]] = {
    "event": "person",
    "withdrawn": "person",
    "reply": "reply",
    "card": "notice",
    "tool_result": "tool",
    "skill": "skill",
    "asked": "asked",
    "decided": "word",
    "failed": "failed",
}
"""By type of record."""


class ConversationRow(Result):
    id: str
    thread: str
    user: str
    """Whose own it is; empty: of all in the channel."""
    records: int
    last_ms: int
    """When something was written to it last; 0: nothing was."""
    is_running: bool
    """Whether a turn is open, at work or waiting."""


class ConversationList(Result):
    channel: str
    conversations: list[ConversationRow]
    """The latest first."""
    is_whole: bool
    """Whether these are all; there may be too many to tell."""


@operation(LOOK)
async def list_(visit: Visit, given: InChannel) -> ConversationList:
    """The conversations of a channel: when, how long, whether one runs. Not what was said."""
    room = visit.key(given.channel)
    found, is_whole = await conversations(visit.house.store, room, LISTED_MAX)
    rows = await _rows(visit, found)
    return ConversationList(
        channel=given.channel, conversations=sorted(rows, key=lambda one: -one.last_ms), is_whole=is_whole
    )


async def _rows(visit: Visit, keys: list[ConversationKey]) -> list[ConversationRow]:
    store = visit.house.store
    with reading():
        async with store.redis.pipeline(transaction=False) as pipeline:
            for one in keys:
                pipeline.llen(store.layout.key(one.id, "history"))
                pipeline.lrange(store.layout.key(one.id, "history"), -1, -1)
                pipeline.hexists(store.layout.key(one.id), "turn")
            answers: list[Any] = await pipeline.execute()
    return [
        ConversationRow(
            id=key.id,
            thread=key.thread or "",
            user=key.user or "",
            records=length,
            last_ms=max((one.at_ms for one in Record.load_all(last)), default=0),
            is_running=bool(running),
        )
        for key, length, last, running in zip(keys, answers[::3], answers[1::3], answers[2::3], strict=True)
    ]


class OneConversation(InChannel):
    conversation: Annotated[str, Field(pattern=r"^[a-z2-7]{26}$")]
    before: Annotated[int, Field(ge=0)] = 0
    """Records before this place; 0: the latest."""


class Said(Result):
    """Something that was said or done."""

    place: int
    at_ms: int
    what: What
    who: str
    """Of a person: name and id. Of a tool, a skill or a request: its name or code."""
    text: str
    """With all that is hidden in it named."""
    is_error: bool
    rule: str
    """What forbade a call."""


class Conversation(Result):
    channel: str
    id: str
    said: list[Said]
    """In its order."""
    earlier: int
    """What to say as `before` for what was before; 0: nothing was."""


@operation(Act("conversation show", "conversation"))
async def show(visit: Visit, given: OneConversation) -> Conversation:
    """What was said and done in one conversation. Who reads it stands in the audit log, once a day for each."""
    store, key = visit.house.store, visit.key(given.channel)
    name = store.layout.key(given.conversation)
    with reading():
        redis: Any = store.redis
        channel, length = await redis.hget(name, "channel"), await redis.llen(f"{name}:history")
    if channel != key.channel_id.encode():
        raise Refusal("no_conversation", id=given.conversation)
    await _tell(visit, given)
    end = min(given.before or length, length)
    first = max(0, end - SHOWN_MAX)
    with reading():
        lines: Any = await store.redis.lrange(f"{name}:history", first, end - 1) if end else []
    said = [one for place, record in enumerate(Record.load_all(lines), first) for one in _said(place, record)]
    return Conversation(channel=given.channel, id=given.conversation, said=said, earlier=first)


async def _tell(visit: Visit, given: OneConversation) -> None:
    acts = visit.acts(given.channel)
    here, rule = await acts.may("conversation show")
    day = time.strftime("%Y-%m-%d", time.gmtime(visit.at_ms / 1_000))
    change = replace(acts.change(here, rule), id=f"read {visit.caller.name} {given.conversation} {day}")
    await visit.house.shelf.audit(change, "conversation show", given.conversation)


def _said(place: int, record: Record) -> Iterator[Said]:
    data = record.data
    who, text, is_error, rule = "", "", False, ""
    match record.type:
        case "event" | "withdrawn":
            who, text = _event(data)
        case "reply" | "card":
            text = data.get("text", "")
        case "tool_result":
            who, text = data.get("name", ""), data.get("text", "")
            is_error, rule = bool(data.get("error")), data.get("rule") or ""
        case "skill":
            who = data.get("id", "")
        case "asked":
            who, text = data.get("code", ""), data.get("text", "")
        case "decided":
            words = (data.get(name, "") for name in ("word", "name", "by", "text"))
            who, text = data.get("code", ""), " ".join(filter(None, words))
        case "failed":
            text, is_error = data.get("reason", ""), True
        case _:
            return
    is_ours = record.type == "card" or data.get("notice") or data.get("command")
    what: What = "notice" if is_ours and record.type in {"reply", "card"} else _WHAT[record.type]
    yield Said(
        place=place,
        at_ms=record.at_ms,
        what=what,
        who=visible(str(who)),
        text=visible(str(text)[:TEXT_MAX]),
        is_error=is_error,
        rule=str(rule),
    )


def _event(data: dict[str, Any]) -> tuple[str, str]:
    """Who, and what they said."""
    try:
        event = Event.of(dict(data["event"]))
    except (KeyError, ValueError):
        return "", ""
    files = "".join(f"\n[{file.name}]" for file in event.attachments)
    words = f"/{event.name} {event.text}".strip() if event.kind == "command" else event.text or event.value
    return f"{event.actor.name} {event.actor.id}".strip(), words + files
