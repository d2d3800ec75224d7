"""Once in a while: what is told of messages that nobody reads. Whoever writes on and on is told it once, then again after a time.

Whoever tells it says so before, for a moment, and that it is told only when that is stored. Between the two nobody else
tells it, nor takes it for told: whoever was about to may have died, or found no room.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from gateway.events import Event
from gateway.store import GO_ON_WHEN_FULL, Script, Store

TELLING_MS: Final = 5_000
"""How long somebody may be about to tell it: more than a gateway waits for Redis."""

_BEGIN: Final = Script(
    "once begin",
    """
    local mark = KEYS[1] .. ':' .. ARGV[1]
    local by = redis.call('GET', mark)
    if by == '1' then return 'TOLD' end
    if by and by ~= ARGV[2] then return 'WAIT' end
    redis.call('SET', mark, ARGV[2], 'PX', ARGV[3])
    return 'TELL'
    """,
)
_TOLD: Final = Script(
    "once told",
    GO_ON_WHEN_FULL + "return redis.call('SET', KEYS[1] .. ':' .. ARGV[1], '1', 'PX', ARGV[2])",
)
_LEAVE: Final = Script(
    "once leave",
    """
    local mark = KEYS[1] .. ':' .. ARGV[1]
    if redis.call('GET', mark) == ARGV[2] then redis.call('DEL', mark) end
    return 1
    """,
)


@dataclass(frozen=True, slots=True)
class Once:
    """Something that is told once in `every_ms`; `name` is that of its mark, below `root`. All methods raise `Unreachable`."""

    root: str
    name: str
    every_ms: int

    async def begin(self, store: Store, event: Event) -> Literal["tell", "told", "wait"]:
        """Whether it is to be told now, of this event. `wait`: another one is about to, and nobody knows yet whether it could.
        The same event again is told `tell` again.
        """
        said = await store.run(_BEGIN, self.root, self.name, _named(event), TELLING_MS)
        verdict: Literal["tell", "told", "wait"] = said.decode().lower()
        return verdict

    async def told(self, store: Store) -> None:
        """What tells it is stored."""
        await store.run(_TOLD, self.root, self.name, self.every_ms)

    async def leave(self, store: Store, event: Event) -> None:
        """It is not told of this event: the next one may."""
        await store.run(_LEAVE, self.root, self.name, _named(event))


def _named(event: Event) -> str:
    """Not as long as ids may be; the same for all deliveries of a message."""
    return hashlib.sha256(event.dedupe_keys[-1].encode()).hexdigest()[:32]
