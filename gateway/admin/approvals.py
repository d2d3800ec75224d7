"""Approvals: what waits for a person's word in conversations, and saying it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import ALWAYS_MAX, not_for, rule_in
from gateway.admin.operations import SOMEWHERE, WORD, Code, InChannel, Nothing, Result, Told, operation
from gateway.admin.visits import Visit
from gateway.approvals.asked import (
    COMMANDS,
    TEXT_MAX,
    Asked,
    announced,
    asked_in,
    conversation_of,
    is_always,
    unclear_of,
)
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.phrases import say
from gateway.rights import access
from gateway.rights.access import Approval, Reply
from gateway.store import Unreachable, reading
from gateway.text.unmarked import plain
from skills.visible import visible

LISTED_MAX: Final = 200
RECORDS_MAX: Final = 600
"""So many of the newest records are looked at."""
ANSWER_S: Final = 3.0
"""How long is waited for the word to arrive."""
LOOK_S: Final = 0.1


class Waiting(Result):
    """Something that a person has to say a word on."""

    channel: str
    conversation: str
    code: str
    kind: Literal["approval", "question", "plan"]
    tool: str
    """Of a call."""
    text: str
    """What is asked."""
    choices: list[str]
    requester: str
    """`connection/id` of the person on whose behalf; empty: nobody's."""
    until_ms: int
    may_decide: bool
    """Whether you may say yes or no; a question is for everybody."""


class AllAsked(Result):
    waiting: list[Waiting]
    """Those that end first come first."""
    is_whole: bool
    """Whether all were looked at; there may be too many to tell."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: Nothing) -> AllAsked:
    """What waits for a person's word: calls, plans and questions, of all channels that you look after."""
    del given
    found, is_whole = await announced(visit.house.store, LISTED_MAX)
    rooms = {one.channel_id for one in await visit.mine({key.channel_id: key for key, _ in found}.values())}
    mine = [(key, code) for key, code in found if key.channel_id in rooms]
    asked = await asyncio.gather(*(_open(visit, key, code) for key, code in mine))
    waiting = await asyncio.gather(
        *(_waiting(visit, key, *one) for (key, _), one in zip(mine, asked, strict=True) if one)
    )
    return AllAsked(waiting=sorted(waiting, key=lambda one: one.until_ms), is_whole=is_whole)


class Deciding(InChannel):
    code: Code
    word: Literal["yes", "no", "answer"]
    text: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    """An answer, or a reason; `always` with a yes means what it means in the chat."""


@operation(WORD, is_safe=False)
async def decide(visit: Visit, given: Deciding) -> Told:
    """Say yes or no to a call or a plan, or answer a question, as `/approve`, `/deny` and `/answer` do in the chat.

    It is said there in your name, so you have to be a person of that connection; the conversation looks at your right once more.
    """
    actor, code = visit.speaker(given.channel), given.code.upper()
    key = await conversation_of(visit.house.store, visit.key(given.channel), code)
    found = await _open(visit, key, code) if key else None
    if key is None or found is None:
        await visit.look(given.channel)  # what else is asked there is none of others' business
        raise Refusal("no_request", code=code)
    await _check(visit, actor, given, found[0])
    await _check_word(visit, actor, given, found[0], unclear=unclear_of(await _records(visit, key), actor.id))
    await _say(visit, actor, key, given)
    decided = await _decided(visit, key, code)
    if decided is None:
        return Told(told=say("admin.approvals.sent", visit.language, code=code))
    if (decided.word, decided.by) != (given.word, actor.id):
        raise Refusal("no_request", code=code)  # its time ran out at this moment, or somebody else was quicker
    return Told(told=say(f"asked.now.{given.word}", visit.language, code=code, who=visit.caller.name))


async def _check(visit: Visit, actor: Actor, given: Deciding, asked: Asked) -> None:
    """As the conversation does once more. Raises `Refusal`."""
    is_answer = given.word == "answer"
    thing = Reply(asked.requester) if is_answer else Approval(asked.requester)
    here = await visit.here(given.channel)()
    verdict = access.may(actor, here, thing)
    if not verdict.allowed:
        raise not_for(here, actor, COMMANDS[given.word], verdict, "approver")
    if is_answer and actor.id != asked.requester:
        await visit.look(given.channel)  # whoever is in the channel may answer there; that they are, nobody knows here


async def _check_word(visit: Visit, actor: Actor, given: Deciding, asked: Asked, *, unclear: Sequence[Record]) -> None:
    """Whether this word fits what is asked: the conversation would take no other, and tell so there alone. Raises `Refusal`."""
    if given.word == "answer" and asked.kind == "approval":
        raise Refusal("asked.is_approval", code=asked.code)
    if given.word != "answer" and asked.kind == "question":
        raise Refusal("asked.is_question", code=asked.code)
    if given.word == "answer" and not given.text.strip() and not unclear:
        raise Refusal("asked.no_answer", code=asked.code)
    if given.word == "yes" and is_always(given.text, visit.language):
        if not asked.form:
            raise Refusal("asked.not_always", code=asked.code)
        here = await visit.here(given.channel)()
        rule_in(here, actor, "approve always")
        if len(here.own.always) >= ALWAYS_MAX and asked.bound not in here.own.always:
            raise Refusal("too_many_always", most=ALWAYS_MAX)


async def _say(visit: Visit, actor: Actor, key: ConversationKey, given: Deciding) -> None:
    """As if the command came from the chat."""
    event = Event(
        kind="command",
        conversation=key,
        actor=replace(actor, connection=""),  # of the room's own
        dedupe_keys=(f"admin:{visit.id}",),
        at_ms=visit.at_ms,
        name=COMMANDS[given.word],
        text=f"{given.code.upper()} {given.text}".strip(),
    )
    [received] = await visit.house.receive([event])
    if received.state == "full":
        raise Refusal("inbox_full")
    if received.state not in {"new", "known"}:
        raise Unreachable(received.reason or received.state)


async def _decided(visit: Visit, key: ConversationKey, code: str) -> Asked | None:
    """It with the word on it, as soon as the conversation has taken one; None: not yet."""
    for _ in range(round(ANSWER_S / LOOK_S)):
        for one in asked_in(await _records(visit, key)):
            if one.code == code and one.word:
                return one
        await asyncio.sleep(LOOK_S)
    return None


async def _open(visit: Visit, key: ConversationKey, code: str) -> tuple[Asked, Record] | None:
    """What is asked under that code, if it still waits."""
    store = visit.house.store
    with reading():
        stored = await store.redis.hget(store.layout.key(key.id), "turn")
    turn = json.loads(stored)["id"] if stored else None
    records = await _records(visit, key)
    asked = {record.data["code"]: record for record in records if record.type == "asked"}
    for one in asked_in(records):
        record = asked[one.code]
        is_open = one.word is None and one.until_ms > visit.at_ms and record.data.get("turn") == turn
        if one.code == code and is_open:
            return one, record
    return None


async def _records(visit: Visit, key: ConversationKey) -> list[Record]:
    store = visit.house.store
    with reading():
        lines: Any = await store.redis.lrange(store.layout.key(key.id, "history"), -RECORDS_MAX, -1)
    return Record.load_all(lines)


async def _waiting(visit: Visit, key: ConversationKey, asked: Asked, record: Record) -> Waiting:
    return Waiting(
        channel=f"{key.connection}/{key.channel}",
        conversation=key.id,
        code=asked.code,
        kind=asked.kind,
        tool=str(record.data.get("tool", "")),
        text=visible(plain(str(record.data.get("text", "")))),
        choices=[visible(one) for one in asked.choices],
        requester=f"{key.connection}/{asked.requester}" if asked.requester else "",
        until_ms=asked.until_ms,
        may_decide=await visit.may_say_yes(key, asked.requester),
    )
