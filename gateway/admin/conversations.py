"""Conversations: which there are in a channel, and what was said and done in one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gateway.admin.operations import LOOK, Act, InChannel, Result, operation
from gateway.admin.spending import Amount, amount, currency
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.conversation.rooms import conversations
from gateway.events import Event
from gateway.shelf.outcomes import Refusal
from gateway.spending import Accounts, Spent, spent
from gateway.store import reading
from skills.visible import visible

LISTED_MAX: Final = 200
SHOWN_MAX: Final = 400
SHORT: Final = 8
"""Characters of an id, as the command line shows it."""
TEXT_MAX: Final = 8_000
"""Characters of one thing that are shown."""

What = Literal["person", "reply", "notice", "call", "tool", "skill", "asked", "word", "failed"]
_WHAT: Final[dict[str, What]] = {
    "event": "person",
    "withdrawn": "person",
    "reply": "reply",
    "card": "notice",
    "answer": "call",
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
    spent: Amount
    """Since it began, or was forgotten."""


class ConversationList(Result):
    channel: str
    conversations: list[ConversationRow]
    """The latest first."""
    is_whole: bool
    """Whether these are all; there may be too many to tell."""
    currency: str
    """Empty: no price is set (`model.prices`)."""
    may_read: bool
    """Whether you may read what was said."""


@operation(LOOK)
async def list_(visit: Visit, given: InChannel) -> ConversationList:
    """The conversations of a channel: when, how long, whether one runs. Not what was said."""
    room = visit.key(given.channel)
    found, is_whole = await conversations(visit.house.store, room, LISTED_MAX)
    rows = await _rows(visit, found)
    return ConversationList(
        channel=given.channel,
        conversations=sorted(rows, key=lambda one: -one.last_ms),
        is_whole=is_whole,
        currency=currency(visit),
        may_read=visit.may_here("conversation show", await visit.now(room)),
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
    costs = await spent(store, [Accounts.at(one, None, "UTC", visit.at_ms).conversation for one in keys])
    return [
        ConversationRow(
            id=key.id,
            thread=key.thread or "",
            user=key.user or "",
            records=length,
            last_ms=max((one.at_ms for one in Record.load_all(last)), default=0),
            is_running=bool(running),
            spent=amount(visit, cost),
        )
        for key, length, last, running, cost in zip(
            keys, answers[::3], answers[1::3], answers[2::3], costs, strict=True
        )
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
    turn: str
    """Which it belongs to."""
    step: int
    """Of its turn; 0: none."""
    branch: str
    """Of its turn, as `/plan` and `/team` have them."""
    who: str
    """Of a person: name and id. Of a tool, a skill or a request: its name or code."""
    text: str
    """With all that is hidden in it named. Of a call its arguments."""
    is_error: bool
    rule: str
    """What forbade a call."""


class OneTurn(Result):
    """A turn of which something is shown."""

    id: str
    at_ms: int
    """When it began."""
    is_whole: bool
    """Whether nothing of it was before; else it cost more."""
    models: list[str]
    """Who answered."""
    spent: Amount
    replay: str
    """The command that runs it again; empty: its requests are not recorded, or not any more."""


class Conversation(Result):
    channel: str
    id: str
    said: list[Said]
    """In its order."""
    turns: list[OneTurn]
    """In their order."""
    currency: str
    """Empty: no price is set (`model.prices`)."""
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
    records = Record.load_all(lines)
    named = _turns_of(records)
    said = [
        one
        for place, (turn, record) in enumerate(zip(named, records, strict=True), first)
        for one in _said(place, turn, record)
    ]
    turns = [
        _turn(visit, given.conversation, turn, [one for name, one in zip(named, records, strict=True) if name == turn])
        for turn in dict.fromkeys(filter(None, named))
    ]
    if turns and first:
        turns[0] = turns[0].model_copy(update={"is_whole": False})
    return Conversation(
        channel=given.channel,
        id=given.conversation,
        said=said,
        turns=turns,
        currency=currency(visit),
        earlier=first,
    )


def _turns_of(records: Sequence[Record]) -> list[str]:
    """Which turn each belongs to: its own word, else that of the call of the model before it."""
    found, asks = [], ""
    for record in records:
        named = str(record.data.get("turn") or "")
        asks = named if record.type == "call" else asks
        found.append(named or asks)
    return found


def _turn(visit: Visit, conversation: str, turn: str, records: Sequence[Record]) -> OneTurn:
    cost, settings = Spent.of(records), visit.loaded.settings.recordings
    last_ms = max(one.at_ms for one in records)
    is_kept = settings.keep and bool(cost.calls) and last_ms > visit.at_ms - 1_000 * settings.retention_s
    return OneTurn(
        id=turn,
        at_ms=records[0].at_ms,
        is_whole=True,
        models=list(cost.tokens),
        spent=amount(visit, cost),
        replay=f"deskmate replay {conversation[:SHORT]} {turn[:SHORT]}" if is_kept else "",
    )


async def _tell(visit: Visit, given: OneConversation) -> None:
    acts = visit.acts(given.channel)
    here, rule = await acts.may("conversation show")
    day = time.strftime("%Y-%m-%d", time.gmtime(visit.at_ms / 1_000))
    change = replace(acts.change(here, rule), id=f"read {visit.caller.name} {given.conversation} {day}")
    await visit.house.shelf.audit(change, "conversation show", given.conversation)


def _said(place: int, turn: str, record: Record) -> Iterator[Said]:
    data = record.data
    is_ours = record.type == "card" or data.get("notice") or data.get("command")
    for who, text, is_error, rule in _calls(data) if record.type == "answer" else _told(record):
        what: What = "notice" if is_ours and record.type in {"reply", "card"} else _WHAT[record.type]
        yield Said(
            place=place,
            at_ms=record.at_ms,
            what=what,
            turn=turn,
            step=int(data.get("step") or 0),
            branch=record.branch,
            who=visible(str(who)),
            text=visible(str(text)[:TEXT_MAX]),
            is_error=is_error,
            rule=str(rule),
        )


def _calls(data: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Which tools an answer of the model calls, with what; its words are those of the reply."""
    for block in data.get("content") or ():
        if block.get("type") == "tool_use":
            yield str(block.get("name", "")), json.dumps(block.get("input"), ensure_ascii=False, indent=1), False, ""


def _told(record: Record) -> Iterator[tuple[str, str, bool, str]]:
    """Who, what, whether it is an error, and the rule that forbade it; nothing of what people don't ask for."""
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
    yield who, text, is_error, rule


def _event(data: dict[str, Any]) -> tuple[str, str]:
    """Who, and what they said."""
    try:
        event = Event.of(dict(data["event"]))
    except (KeyError, ValueError):
        return "", ""
    files = "".join(f"\n[{file.name}]" for file in event.attachments)
    words = f"/{event.name} {event.text}".strip() if event.kind == "command" else event.text or event.value
    return f"{event.actor.name} {event.actor.id}".strip(), words + files
