"""Guests: who is from outside, where what they do does not say it and what they wrote or the platform does.

Slack says it with each message, and with no slash command and no button. Whom nobody can tell of is taken for a guest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gateway.events import Event
from gateway.platforms import Adapter
from gateway.store import GO_ON_WHEN_FULL, Script, Store

TOLD_S: Final = 30 * 86_400
"""How long it counts what came with somebody's last message, where the platform can't be asked."""
ASKED_S: Final = 3_600
"""How long it counts what the platform answered."""

_REMEMBER: Final = Script(
    "guests remember",
    GO_ON_WHEN_FULL
    + """
    redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':' .. ARGV[2], ARGV[3], 'EX', ARGV[4])
    if ARGV[1] == 'told' and ARGV[3] == '1' then
        redis.call('DEL', KEYS[1] .. ':asked:' .. ARGV[2]) -- who was a member an hour ago may be none now
    end
    return 1
    """,
)
_KNOWN: Final = Script(
    "guests known",
    "return {redis.call('GET', KEYS[1] .. ':asked:' .. ARGV[1]), redis.call('GET', KEYS[1] .. ':told:' .. ARGV[1])}",
)


async def recognized(store: Store, adapter: Adapter, events: Sequence[Event]) -> Sequence[Event]:
    """The events with what is known of who did them. Raises `Unreachable`."""
    if all(event.actor.is_guest is not None for event in events):
        return events
    return [await _recognized(store, adapter, event) for event in events]


async def remember(store: Store, adapter: Adapter, events: Sequence[Event]) -> None:
    """What came with messages, for what else their people do. Raises `Unreachable`."""
    if adapter.capabilities.tells_guests != "messages":
        return
    for event in events:
        actor = event.actor
        if event.kind == "message" and actor.id and not actor.is_bot and actor.is_guest is not None:
            await store.run(_REMEMBER, store.layout.guests_root, "told", _person(event), int(actor.is_guest), TOLD_S)


async def _recognized(store: Store, adapter: Adapter, event: Event) -> Event:
    actor, root, person = event.actor, store.layout.guests_root, _person(event)
    if actor.is_guest is not None:
        return event
    asked, told = await store.run(_KNOWN, root, person)
    if asked is None:
        is_guest = await adapter.is_guest(event)
        if is_guest is not None:
            asked = b"%d" % is_guest
            await store.run(_REMEMBER, root, "asked", person, int(is_guest), ASKED_S)
    known = asked or told
    return replace(event, actor=replace(actor, is_guest=known != b"0")) if known else event


def _person(event: Event) -> str:
    named = json.dumps([event.conversation.connection, event.actor.id])
    return hashlib.sha256(named.encode()).hexdigest()[:32]
