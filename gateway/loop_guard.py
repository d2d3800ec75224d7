"""The loop guard: two bots that answer each other would never end, so each has a few turns a minute in a channel."""

from __future__ import annotations

import hashlib
from typing import Literal

from gateway.costs.rates import count
from gateway.events import Event
from gateway.store import Store


async def may_pass(store: Store, event: Event, per_minute: int) -> Literal["pass", "stop", "tell"]:
    """Whether this message of a bot may become a turn. `tell`: no, and it is the first in a while. The same message
    again counts once. Raises `Unreachable`.
    """
    pair = hashlib.sha256(f"{event.conversation.channel_id} {event.actor.id}".encode()).hexdigest()[:32]
    full = await count(store, store.layout.bots_root, event.dedupe_keys[-1], [(pair, per_minute)])
    if full is None:
        return "pass"
    return "tell" if full[1] else "stop"
