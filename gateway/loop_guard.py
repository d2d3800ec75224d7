"""The loop guard: two bots that answer each other would never end, so each has a few turns a minute in a channel."""

from __future__ import annotations

import hashlib

from gateway.costs.rates import count
from gateway.events import Event
from gateway.once import Once
from gateway.store import Store


async def too_many(store: Store, event: Event, per_minute: int) -> Once | None:
    """None: this message of a bot may become a turn; else when the operator is told that it may not. The same message again
    counts once. Raises `Unreachable`.
    """
    pair = hashlib.sha256(f"{event.conversation.channel_id} {event.actor.id}".encode()).hexdigest()[:32]
    full = await count(store, store.layout.bots_root, event.dedupe_keys[-1], [(pair, per_minute)])
    return full[1] if full else None
