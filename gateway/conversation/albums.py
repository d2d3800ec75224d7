"""Albums: a message of several pictures comes as a message each, and only one of them says that it is for us."""

from __future__ import annotations

from typing import Any, Final

from gateway.events import Event
from gateway.store import Script, Store

KEEP_MS: Final = 60_000
MEMBERS_MAX: Final = 20

# Whichever comes first waits for the one that says whom the album is for, or finds its mark.
JOIN = Script(
    "album join",
    """
    local album = KEYS[1] .. ':album:' .. ARGV[1]
    local mark, waiting = album .. ':ours', album .. ':waiting'
    if ARGV[2] == 'ours' then
        redis.call('SET', mark, '1', 'PX', ARGV[4])
        return {1, redis.call('LRANGE', waiting, 0, -1)} -- they stay: who stores them may die first, and asks again
    end
    if redis.call('EXISTS', mark) == 1 then return {1, {}} end
    redis.call('RPUSH', waiting, ARGV[3])
    redis.call('LTRIM', waiting, 0, tonumber(ARGV[5]) - 1)
    redis.call('PEXPIRE', waiting, ARGV[4])
    return {0, {}}
    """,
)


async def join(store: Store, event: Event, *, is_ours: bool) -> tuple[bool, list[Event]]:
    """Whether the event's album is for us, and its parts that came before anybody knew. Raises `Unreachable`."""
    album = f"{event.conversation.channel_id}:{event.group}"
    arguments = (album, "ours" if is_ours else "", event.dump(), KEEP_MS, MEMBERS_MAX)
    found: Any = await store.run(JOIN, store.layout.heard_root, *arguments)
    return bool(found[0]), [Event.load(raw) for raw in found[1]]
