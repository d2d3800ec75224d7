"""Conversations: which there are in a channel, and what was said and done in one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from gateway.acts.outcomes import Refusal
from gateway.admin.operations import LOOK, Act, InChannel, Result, operation
from gateway.admin.spending import Amount, amount, currency
from gateway.admin.transcript import OneTurn, TranscriptLine, said_in, turn_of
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record, turns_of
from gateway.conversation.rooms import conversations
from gateway.costs.spending import Accounts, spent
from gateway.store import reading

LISTED_MAX: Final = 200
SHOWN_MAX: Final = 400


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


class Conversation(Result):
    channel: str
    id: str
    said: list[TranscriptLine]
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
    await tell_read(visit, given.channel, given.conversation)
    end = min(given.before or length, length)
    first = max(0, end - SHOWN_MAX)
    with reading():
        lines: Any = await store.redis.lrange(f"{name}:history", first, end - 1) if end else []
    records = Record.load_all(lines)
    named = turns_of(records)
    said = [
        one
        for place, (turn, record) in enumerate(zip(named, records, strict=True), first)
        for one in said_in(place, turn, record, visit.language)
    ]
    turns = [
        turn_of(
            visit, given.conversation, turn, [one for name, one in zip(named, records, strict=True) if name == turn]
        )
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


async def tell_read(visit: Visit, channel: str, conversation: str) -> None:
    """Whoever reads what was said stands in the audit log, once a day for each conversation. Raises `Refusal`."""
    acts = visit.acts(channel)
    here, rule = await acts.may("conversation show")
    day = time.strftime("%Y-%m-%d", time.gmtime(visit.at_ms / 1_000))
    change = replace(acts.change(here, rule), id=f"read {visit.caller.name} {conversation} {day}")
    await visit.house.shelf.note(change, "conversation show", conversation)
