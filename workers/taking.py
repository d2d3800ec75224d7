"""Taking: what of what waits in a conversation the next turn takes, and what was said around it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from config.limits import holds_persons
from config.profiles import Profile
from gateway.commands import command_of
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import event_of
from gateway.conversation.overheard import heard_since
from gateway.conversation.records import Record, latest
from gateway.events import Actor, Event
from workers.turn import Turn


def chosen(inbox: Sequence[bytes], profile: Profile) -> list[bytes]:
    """The members of the inbox that the next turn takes: a command alone, else talk by the profile's queue mode."""
    talk, queue = talk_of(inbox), profile.queue
    if not talk:
        return list(inbox[:1])
    if holds_persons(profile.budget):
        talk = of_one(talk, Event.load(event_of(talk[0])).actor.id)
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


def joining(inbox: Sequence[bytes], turn: Turn) -> list[bytes]:
    """The members that may join a turn which runs. Where persons have budgets, a turn is one person's: nobody pays for others,
    and nobody's turn ends because another's budget is used up.
    """
    talk = talk_of(inbox)
    if talk and turn.payer and holds_persons(turn.profile.budget):
        return of_one(talk, turn.payer.id)
    return talk


def of_one(members: Sequence[bytes], person: str) -> list[bytes]:
    """Those that this person wrote."""
    return [one for one in members if Event.load(event_of(one)).actor.id == person]


def readable(raw: bytes, key: ConversationKey) -> Event:
    """The event; where it is none, something in its place that a notice can answer."""
    try:
        return Event.load(raw)
    except ValueError:
        return Event(kind="message", conversation=key, actor=Actor.by_id(""), dedupe_keys=(repr(raw),), at_ms=0)


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
