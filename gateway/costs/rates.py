"""Rates: how many messages of a person, and of a channel, are taken in a minute, by all gateways together.

One script looks at both and counts in both, or in none. What is more is told once a minute, by whoever was the first.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Literal

from config.profiles import Rate
from gateway.events import Event
from gateway.store import GO_ON_WHEN_FULL, Script, Store

WINDOW_MS: Final = 60_000

TAKE: Final = Script(
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
        limits.append(("person", json.dumps([key.connection, event.actor.id]), rate.person_per_minute))
    if rate.channel_per_minute:
        limits.append(("channel", key.channel_id, rate.channel_per_minute))
    if not limits:
        return None
    flat = [text for scope, name, most in limits for text in (f"{scope}:{_hash(name)}", most)]
    message = event.group or event.dedupe_keys[-1]  # an album is one message
    place, is_first = await store.run(TAKE, store.layout.rates_root, _hash(f"{key.id} {message}"), WINDOW_MS, *flat)
    if not place:
        return None
    scope, _, most = limits[(place - 3) // 2]
    return Over(scope, most, bool(is_first))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
