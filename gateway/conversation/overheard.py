"""Overheard: what people say in a channel and not to us, kept for the next question there where the profile wants that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.key import ConversationKey
from gateway.events import Event
from gateway.store import Script, Store, reading

KEEP_MS: Final = 86_400_000
TEXT_MAX: Final = 2_000
"""Characters of one message."""

HEAR = Script(
    "overhear",
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local heard = KEYS[1] .. ':ch:' .. ARGV[1]
    local last = redis.call('ZRANGE', heard, -1, -1, 'WITHSCORES')[2]
    local at = math.max(now, tonumber(last or 0) + 1) -- no two at one time: whoever has read up to one has not missed one
    redis.call('ZADD', heard, 'NX', string.format('%.0f', at), ARGV[2])
    redis.call('ZREMRANGEBYSCORE', heard, '-inf', string.format('%.0f', now - ARGV[4]))
    redis.call('ZREMRANGEBYRANK', heard, 0, -1 - tonumber(ARGV[3]))
    redis.call('PEXPIRE', heard, ARGV[4])
    return 1
    """,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """One message that was not meant for us."""

    id: str
    at_ms: int
    """When it came to us, by the server's clock: a platform's may be wrong, or count in seconds."""
    who: str
    text: str


async def hear(store: Store, event: Event, most: int) -> None:
    """Keep it among the last `most` of its channel; a repetition is kept once. Raises `Unreachable`."""
    said = [event.message_id, event.actor.name or event.actor.id, event.text[:TEXT_MAX]]
    member = json.dumps(said, ensure_ascii=False)
    channel = event.conversation.channel_id
    await store.run(HEAR, store.layout.heard_root, channel, member, most, KEEP_MS)


async def heard_since(store: Store, key: ConversationKey, after_ms: int, most: int, now_ms: int) -> list[Heard]:
    """The last ones of the conversation's channel that are younger, oldest first. Raises `Unreachable`."""
    name = f"{store.layout.heard_root}:ch:{key.channel_id}"
    after_ms = max(after_ms, now_ms - KEEP_MS)
    with reading():
        found: Any = await store.redis.zrange(name, f"({after_ms}", "+inf", byscore=True, withscores=True)
    return [Heard(message, int(at), who, text) for raw, at in found[-most:] for message, who, text in [json.loads(raw)]]
