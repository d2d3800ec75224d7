from __future__ import annotations

import asyncio

import pytest

from gateway.running.patience import Patience


async def waits(patience: Patience) -> str:
    try:
        with patience:
            await asyncio.Event().wait()
    except TimeoutError:
        return "timeout"
    return "done"


async def test_who_waits_too_long_gets_a_timeout_and_goes_on() -> None:
    patience = Patience(0.01)
    assert await asyncio.gather(*(waits(patience) for _ in range(3))) == ["timeout"] * 3
    assert await waits(patience) == "timeout"


async def test_each_waits_its_own_time() -> None:
    patience, loop = Patience(0.05), asyncio.get_running_loop()
    began_s = loop.time()
    first = asyncio.create_task(waits(patience))
    await asyncio.sleep(0.03)
    assert await waits(patience) == "timeout"
    assert loop.time() - began_s >= 0.08
    assert await first == "timeout"


async def test_who_is_in_time_hears_nothing() -> None:
    patience = Patience(0.01)
    with patience:
        await asyncio.sleep(0)
    assert await waits(patience) == "timeout"  # the timer that the first one began has run since
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0


async def test_errors_and_cancellation_from_outside_stay_what_they_are() -> None:
    patience = Patience(0.01)
    with pytest.raises(LookupError), patience:
        raise LookupError
    waiting = asyncio.create_task(waits(patience))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
