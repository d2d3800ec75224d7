"""Rates: how many messages of a person, of a channel, or of a bot are taken in a minute, by all gateways together.

One script looks at all that are concerned and counts in all, or in none. What is more is told once a minute, by whoever was
the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from config.profiles import Rate
from gateway.conversation.key import person_hash
from gateway.events import Event
from gateway.store import GO_ON_WHEN_FULL, Script, Store

WINDOW_MS: Final = 60_000

_TAKE: Final = Script(
    "rate",
    GO_ON_WHEN_FULL
    + """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local message, window = ARGV[1], tonumber(ARGV[2])
    for at = 3, #ARGV, 2 do
        local account = KEYS[1] .. ':' .. ARGV[at]
        redis.call('ZREMRANGEBYSCORE', account, '-inf', now - window)
        if redis.call('ZSCORE', account, message) then return {0, 0} end -- sent again: it was taken
    end
    for at = 3, #ARGV, 2 do
        local account = KEYS[1] .. ':' .. ARGV[at]
        if redis.call('ZCARD', account) >= tonumber(ARGV[at + 1]) then
            return {at, redis.call('SET', account .. ':told', '1', 'NX', 'PX', window) and 1 or 0}
        end
    end
    for at = 3, #ARGV, 2 do
        local account = KEYS[1] .. ':' .. ARGV[at]
        redis.call('ZADD', account, now, message)
        redis.call('PEXPIRE', account, window)
    end
    return {0, 0}
    """,
)


@dataclass(frozen=True, slots=True)
class Over:
    """A message too many."""

    scope: Literal["person", "channel"]
    limit: int
    is_first: bool
    """In a minute: this one is to be told."""

    @property
    def key(self) -> str:
        """Of the profile."""
        return f"rate.{self.scope}_per_minute"


async def take(store: Store, event: Event, rate: Rate) -> Over | None:
    """None: it is taken, and counted; the same message again counts once. Raises `Unreachable`."""
    key = event.conversation
    limits: list[tuple[Literal["person", "channel"], str, int]] = []
    if rate.person_per_minute and event.actor.id:
        limits.append(("person", person_hash(key.connection, event.actor.id), rate.person_per_minute))
    if rate.channel_per_minute:
        limits.append(("channel", key.channel_id, rate.channel_per_minute))
    if not limits:
        return None
    message = event.group or event.dedupe_keys[-1]  # an album is one message
    named = hashlib.sha256(f"{key.id} {message}".encode()).hexdigest()[:32]
    counted = [(f"{scope}:{name}", most) for scope, name, most in limits]
    full = await count(store, store.layout.rates_root, named, counted)
    if full is None:
        return None
    scope, _, most = limits[full[0]]
    return Over(scope, most, full[1])


async def count(store: Store, root: str, message: str, limits: Sequence[tuple[str, int]]) -> tuple[int, bool] | None:
    """Count a message in accounts that may have so many in a minute, each once. None: it is counted in all of them; else which
    one is full, and whether nobody was told in this minute. Raises `Unreachable`.
    """
    flat = [text for one in limits for text in one]
    place, is_first = await store.run(_TAKE, root, message, WINDOW_MS, *flat)
    return ((place - 3) // 2, bool(is_first)) if place else None
