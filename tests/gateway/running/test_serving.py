"""How a process begins where Redis is away."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.exceptions import ConnectionError as Away

from config.settings import Settings
from gateway.conversation.mailbox import Mailbox
from gateway.running.serving import meet
from gateway.store import Store


async def test_who_is_told_to_stop_while_it_waits_for_redis_ends_also_where_that_was_swallowed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As redis-py does while it connects. Redis stays away: it was ended as well."""
    connects = asyncio.Event()

    async def swallowing() -> None:
        if not connects.is_set():
            connects.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        raise Away("nobody there")

    monkeypatch.setattr(store.redis, "ping", swallowing)
    settings = Settings()
    begins = asyncio.create_task(meet(store, Mailbox(store, settings.mailbox), settings))
    await connects.wait()
    begins.cancel()
    await asyncio.wait([begins], timeout=5)
    assert begins.cancelled()
