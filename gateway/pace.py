"""Pace: what a platform asks of senders, kept by all workers together.

Each limit is one time in Redis, from which it follows whether a message may leave now (the generic cell rate algorithm,
ITU-T I.371): a message moves it on by its share, and a 429 of the platform moves it to where the platform says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.conversation.key import ConversationKey
from gateway.platforms import Outcome, Pace
from gateway.store import GO_ON_WHEN_FULL, Script, Store

TAKE = Script(
    "pace take",
    GO_ON_WHEN_FULL
    + """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local wait, moved = 0, {}
    for at = 1, #ARGV, 3 do
        local key, share, burst = KEYS[1] .. ':' .. ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
        local full, held = string.match(redis.call('GET', key) or '', '^(%d+) ?(%d*)$')
        -- No time is further ahead than it was when it was written, also where the clock was put back since.
        full = math.max(math.min(tonumber(full or 0), now + (tonumber(held or '') or burst)), now)
        wait = math.max(wait, full + share - now - burst)
        if share > 0 then moved[key] = full + share end
    end
    if wait > 0 then return math.ceil(wait) end
    for key, full in pairs(moved) do
        redis.call('SET', key, string.format('%.0f', full), 'PX', math.max(1, math.ceil(full - now)))
    end
    return 0
    """,
)
HOLD = Script(
    "pace hold",
    GO_ON_WHEN_FULL
    + """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local key, wait = KEYS[1] .. ':' .. ARGV[1], math.max(1, math.ceil(tonumber(ARGV[2])))
    local full, held = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
    if math.min(tonumber(full or 0), now + tonumber(held or 0)) < now + wait then
        redis.call('SET', key, string.format('%.0f %.0f', now + wait, wait), 'PX', wait)
    end
    return 1
    """,
)
_HELD: Final = "held"


async def take(store: Store, to: ConversationKey, rules: Sequence[Pace]) -> float:
    """A place for one message now: 0, or the seconds until there may be one, and none was taken. Raises `Unreachable`."""
    arguments: list[str | float] = []
    for scope in ("channel", "connection"):
        arguments += [_place(to, scope, _HELD), 0, 0]
    for rule in rules:
        share = rule.per_s * 1000 / rule.count
        arguments += [_place(to, rule.scope, f"{rule.count}:{rule.per_s:g}"), share, rule.per_s * 1000]
    return float(await store.run(TAKE, store.layout.pace_root, *arguments)) / 1000


async def hold(store: Store, to: ConversationKey, outcome: Outcome, wait_s: float) -> None:
    """The platform said no, for so long: nobody sends there until then. Raises `Unreachable`."""
    await store.run(HOLD, store.layout.pace_root, _place(to, outcome.scope, _HELD), wait_s * 1000)


def _place(to: ConversationKey, scope: str, limit: str) -> str:
    return f"{to.connection}:{to.channel_id if scope == 'channel' else ''}:{limit}"
