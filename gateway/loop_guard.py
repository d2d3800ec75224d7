"""The loop guard: two bots that answer each other would never end, so each has a few turns a minute in a channel."""

from __future__ import annotations

import hashlib
from typing import Literal

from gateway.events import Event
from gateway.store import Script, Store

WINDOW_MS = 60_000

PASS = Script(
    "loop guard",
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local bot, told = KEYS[1] .. ':' .. ARGV[1], KEYS[1] .. ':' .. ARGV[1] .. ':told'
    redis.call('ZREMRANGEBYSCORE', bot, '-inf', now - tonumber(ARGV[4]))
    if redis.call('ZSCORE', bot, ARGV[2]) then return 'pass' end
    if redis.call('ZCARD', bot) >= tonumber(ARGV[3]) then
        return redis.call('SET', told, '1', 'NX', 'PX', ARGV[4]) and 'tell' or 'stop'
    end
    redis.call('ZADD', bot, now, ARGV[2])
    redis.call('PEXPIRE', bot, ARGV[4])
    return 'pass'
    """,
)


async def may_pass(store: Store, event: Event, per_minute: int) -> Literal["pass", "stop", "tell"]:
    """Whether this message of a bot may become a turn. `tell`: no, and it is the first in a while. The same message
    again counts once. Raises `Unreachable`.
    """
    pair = hashlib.sha256(f"{event.conversation.channel_id} {event.actor.id}".encode()).hexdigest()[:32]
    verdict = await store.run(PASS, store.layout.bots_root, pair, event.dedupe_keys[-1], per_minute, WINDOW_MS)
    said: Literal["pass", "stop", "tell"] = verdict.decode()
    return said
