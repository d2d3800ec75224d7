"""Guests: who is from outside, where what they do does not say it and what they did before or the platform does.

Slack says it with each message, and with no slash command and no button; of somebody of whom only the id is at hand (on the
pages, or whom others ask about) no platform says anything. Whom nobody can tell of is taken for a guest.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from config.settings import Settings
from gateway.connections import tells_guests
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


async def is_guest_by_id(store: Store, settings: Settings, person: str) -> bool | None:
    """Whether `connection/id` is from outside, as far as the platform has told. None: it tells of others and not of them.

    Raises `Unreachable`.
    """
    connection, _, id_ = person.partition("/")
    if tells_guests(settings, connection) == "nothing":
        return False
    return _is_guest(*await _known(store, person_hash(connection, id_)))


async def _known(store: Store, person: str) -> tuple[bytes | None, bytes | None]:
    asked, told = await store.run(_KNOWN, store.layout.guests_root, person)
    return asked, told


def _is_guest(asked: bytes | None, told: bytes | None) -> bool | None:
    """What the platform answered counts for more than what came with a message."""
    known = asked or told
    return None if known is None else known != b"0"


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

    async def remember(self, settings: Settings, events: Sequence[Event]) -> None:
        """What the platform said of people, for where it says nothing. Raises `Unreachable`."""
        for event in events:
            actor, tells = event.actor, tells_guests(settings, event.conversation.connection)
            is_told = tells == "events" or (tells == "messages" and event.kind == "message")
            if is_told and actor.id and not actor.is_bot and actor.is_guest is not None:
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
        asked, told = await _known(self._store, person)
        if asked is None:
            is_guest = await adapter.is_guest(event)
            if is_guest is not None:
                asked = b"%d" % is_guest
                await self._note("asked", person, is_guest, ASKED_S)
        is_guest = _is_guest(asked, told)
        return event if is_guest is None else replace(event, actor=replace(actor, is_guest=is_guest))

    async def _note(self, how: Literal["told", "asked"], person: str, is_guest: bool, keep_s: int) -> None:
        await self._store.run(_REMEMBER, self._store.layout.guests_root, how, person, int(is_guest), keep_s)
