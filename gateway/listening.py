"""Listening: events of platforms that don't send all of them to a webhook, but over a connection that we hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gateway.app import Parts, introduce
from gateway.events import Event
from gateway.logs import log
from gateway.platforms import Adapter, ConnectionRefused
from gateway.serving import cancelled, refuse_unfit
from gateway.store import Unreachable

logger = logging.getLogger(__name__)

PAUSE_S: Final = (0.5, 5.0)
"""Between two tries to store what can't be stored now: at first, and at most."""
REFUSED_PAUSE_S: Final = 60.0
"""Until credentials that were refused are tried again: somebody may have put them right at the platform."""


async def listen(parts: Parts, names: Sequence[str], stop: asyncio.Event) -> None:
    """Hold these connections until told to stop. Raises `Unfit` or `WrongPartitions`."""
    await _meet(parts)
    tasks = [asyncio.create_task(parts.watched.follow(), name="watch")]
    for name in names:
        adapter = parts.adapters[name]
        tasks.append(asyncio.create_task(introduce(name, adapter), name=f"identity {name}"))
        tasks.append(asyncio.create_task(_hold(parts, name, adapter), name=f"listen {name}"))
    try:
        await stop.wait()
    finally:
        await cancelled(tasks)


async def _meet(parts: Parts) -> None:
    """Look at Redis, and learn the epoch, as soon as it answers."""
    while True:
        try:
            await refuse_unfit(parts.store, parts.settings)
            await parts.mailbox.open()
        except Unreachable as error:
            log(logger, "redis not reachable", level=logging.WARNING, reason=str(error))
            await asyncio.sleep(PAUSE_S[0])
        else:
            return


async def _hold(parts: Parts, name: str, adapter: Adapter) -> None:
    async def receive(events: Sequence[Event]) -> None:
        await store(parts, name, events)

    while True:
        try:
            await adapter.listen(receive)
        except ConnectionRefused as why:
            log(logger, "connection refused", level=logging.ERROR, connection=name, reason=str(why))
        except Exception as error:  # noqa: BLE001  # a fault in one connection must not end the others
            log(logger, "listening broke", level=logging.ERROR, error=error, connection=name)
        await asyncio.sleep(REFUSED_PAUSE_S)


async def store(parts: Parts, name: str, events: Sequence[Event]) -> None:
    """Until all of them are in Redis: nobody sends them again. What waits behind them waits, too."""
    pause_s, told = PAUSE_S[0], False
    while True:
        state = "away"
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(parts.settings.gateway.accept_timeout_s):
                received = await parts.intake.receive(events)
            state = next((one.state for one in received if one.state in {"full", "cold"}), "")
        if not state:
            return
        if not told:
            log(logger, "not stored yet, held back", level=logging.ERROR, connection=name, reason=state)
            told = True
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_S[1])
