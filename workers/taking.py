"""Taking: what of what waits in a conversation the next turn takes, and what was said around it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from config.profiles import Queue
from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import event_of
from gateway.conversation.overheard import heard_since
from gateway.conversation.records import Record, latest
from gateway.events import Actor, Event
from workers.turn import Turn


def chosen(inbox: Sequence[bytes], queue: Queue) -> list[bytes]:
    """The members of the inbox that the next turn takes: a command alone, else talk by the profile's queue mode."""
    talk = talk_of(inbox)
    if not talk:
        return list(inbox[:1])
    if queue.mode != "followup":
        return talk
    together = talk[:1]
    before = Event.load(event_of(talk[0]))
    for member in talk[1:]:
        event = Event.load(event_of(member))
        is_near = queue.gather_ms > 0 and event.at_ms - before.at_ms <= queue.gather_ms
        is_of_group = bool(event.group) and event.group == before.group
        if event.actor.id != before.actor.id or not (is_near or is_of_group):
            break
        together.append(member)
        before = event
    return together


def is_talk(raw: bytes) -> bool:
    try:
        return not command_of(Event.load(raw))
    except ValueError:
        return False


def talk_of(inbox: Sequence[bytes]) -> list[bytes]:
    """The members that are talk and no command, up to the first command: commands keep their place in line."""
    members = []
    for member in inbox:
        if not is_talk(event_of(member)):
            break
        members.append(member)
    return members


def readable(raw: bytes, key: ConversationKey) -> Event:
    """The event; where it is none, something in its place that a notice can answer."""
    try:
        return Event.load(raw)
    except ValueError:
        return Event(kind="message", conversation=key, actor=Actor(""), dedupe_keys=(repr(raw),), at_ms=0)


async def overheard(turn: Turn) -> list[Record]:
    """What was said in the channel, not to us, since this conversation heard of it last."""
    most = turn.profile.overhear
    if not most:
        return []
    before = latest(turn.stored.history, "overheard") or 0
    said = await heard_since(turn.mailbox.store, turn.stored.key, before, most, turn.now_ms())
    if not said:
        return []
    data = {
        "turn": turn.id,
        "until_ms": said[-1].at_ms,
        "said": [[one.who, one.text] for one in said],
        "mark": secrets.token_hex(4),
    }
    return [Record("overheard", turn.now_ms(), data)]
