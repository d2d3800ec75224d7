"""Guests: who is from outside, where what they do does not say it and what they wrote or the platform does.

Slack says it with each message, and with no slash command and no button. Whom nobody can tell of is taken for a guest.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from gateway.conversation.key import person_hash
from gateway.events import Event
from gateway.platforms import Adapter
from gateway.store import GO_ON_WHEN_FULL, Script, Store

TOLD_S: Final = 30 * 86_400
"""How long it counts what came with somebody's last message, where the platform can't be asked."""
ASKED_S: Final = 3_600
"""How long it counts what the platform answered."""
NOTED_S: Final = 3_600
"""How long a process doesn't note again that somebody is a member; a guest is noted with each message."""
MEMBERS_MAX: Final = 10_000
"""Of whom a process knows that."""

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


class Guests:
    """One a gateway process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._members: OrderedDict[str, float] = OrderedDict()
        """Whom this process has noted as members, and when: what they write next says nothing new for a while."""

    async def recognized(self, adapter: Adapter, events: Sequence[Event]) -> Sequence[Event]:
        """The events with what is known of who did them. Raises `Unreachable`."""
        if all(event.actor.is_guest is not None for event in events):
            return events
        return [await self._recognized(adapter, event) for event in events]

    async def remember(self, adapter: Adapter, events: Sequence[Event]) -> None:
        """What came with messages, for what else their people do. Raises `Unreachable`."""
        if adapter.capabilities.tells_guests != "messages":
            return
        for event in events:
            actor = event.actor
            if event.kind == "message" and actor.id and not actor.is_bot and actor.is_guest is not None:
                await self._remember(person_hash(event.conversation.connection, actor.id), is_guest=actor.is_guest)

    async def _remember(self, person: str, *, is_guest: bool) -> None:
        noted_s, now_s = self._members.pop(person, None), time.monotonic()
        if is_guest or noted_s is None or now_s - noted_s > NOTED_S:
            await self._note("told", person, is_guest, TOLD_S)
            noted_s = now_s
        if not is_guest:
            self._members[person] = noted_s
            if len(self._members) > MEMBERS_MAX:
                self._members.popitem(last=False)

    async def _recognized(self, adapter: Adapter, event: Event) -> Event:
        actor, person = event.actor, person_hash(event.conversation.connection, event.actor.id)
        if actor.is_guest is not None:
            return event
        asked, told = await self._store.run(_KNOWN, self._store.layout.guests_root, person)
        if asked is None:
            is_guest = await adapter.is_guest(event)
            if is_guest is not None:
                asked = b"%d" % is_guest
                await self._note("asked", person, is_guest, ASKED_S)
        known = asked or told
        return replace(event, actor=replace(actor, is_guest=known != b"0")) if known else event

    async def _note(self, how: Literal["told", "asked"], person: str, is_guest: bool, keep_s: int) -> None:
        await self._store.run(_REMEMBER, self._store.layout.guests_root, how, person, int(is_guest), keep_s)
