"""Rates: how many messages of a person, of a channel, or of a bot are taken in a minute, by all gateways together.

One script looks at all that are concerned and counts in all, or in none. What is more is told once a minute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from config.profiles import Rate
from gateway.conversation.key import person_hash
from gateway.events import Event
from gateway.once import Once
from gateway.store import Script, Store

WINDOW_MS: Final = 60_000

_TAKE: Final = Script(
    "rate",
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local message, window = ARGV[1], tonumber(ARGV[2])
    local function text(number) return string.format('%.0f', number) end
    for at = 3, #ARGV, 2 do
        local counted = redis.call('ZSCORE', KEYS[1] .. ':' .. ARGV[at], message)
        if counted and tonumber(counted) > now - window then return 0 end -- sent again: it was taken
    end
    for at = 3, #ARGV, 2 do
        -- Up to now: what was counted before the clock was put back is not of this window.
        local taken = redis.call('ZCOUNT', KEYS[1] .. ':' .. ARGV[at], '(' .. text(now - window), text(now))
        if taken >= tonumber(ARGV[at + 1]) then return at end
    end
    for at = 3, #ARGV, 2 do
        local account = KEYS[1] .. ':' .. ARGV[at]
        redis.call('ZADD', account, now, message)
        redis.call('ZREMRANGEBYSCORE', account, '-inf', now - window)
        redis.call('PEXPIRE', account, window)
    end
    return 0
    """,
)


@dataclass(frozen=True, slots=True)
class Over:
    """A message too many."""

    scope: Literal["person", "channel"]
    limit: int
    once: Once
    """When it is told."""

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
    at, once = full
    scope, _, most = limits[at]
    return Over(scope, most, once)


async def count(store: Store, root: str, message: str, limits: Sequence[tuple[str, int]]) -> tuple[int, Once] | None:
    """Count a message in accounts that may have so many in a minute, each once. None: it is counted in all of them; else which
    one is full, and when that is told. Raises `Unreachable`.
    """
    flat = [text for one in limits for text in one]
    place = await store.run(_TAKE, root, message, WINDOW_MS, *flat)
    if not place:
        return None
    at = (place - 3) // 2
    return at, Once(root, f"{limits[at][0]}:told", WINDOW_MS)
