"""The runner counts whatever makes a turn not finish, and gives up what never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from config.settings import RqSettings
from gateway.bell import open_bell
from gateway.conversation.claim import Behind, Claim, Claimed, Fenced, Leaving, Lost
from gateway.running.serving import cancelled
from gateway.store import Refused, Unreachable
from tests.harness.processes import until
from tests.workers.at_desk import AtDesk, at_desk
from workers.registration import Registration
from workers.runner import ALONE_AFTER, BURY_AFTER, Attend, Runner

QUICK = {"mailbox": {"poll_s": 0.05, "lease_s": 0.4, "send_timeout_s": 0.2}}


@asynccontextmanager
async def running(world: AtDesk, redis_url: str, attend: Attend, attend_alone: Any, bury: Any) -> AsyncIterator[None]:
    """A runner for the world's conversations, which ends with the block."""
    bell = open_bell(redis_url, RqSettings(key_prefix=f"{world.desk.mailbox.store.layout.prefix}:rq"), wait_s=1.0)
    registration = Registration(redis_url, "bells", world.desk.worker)
    runner = Runner(
        mailbox=world.desk.mailbox,
        bell=bell,
        registration=registration,
        attend=attend,
        attend_alone=attend_alone,
        bury=bury,
        concurrency=1,
        grace_s=5.0,
    )
    task = asyncio.create_task(runner.run())
    try:
        yield
        runner.drain()
        await task
    finally:
        await cancelled([task])
        await registration.leave()
        await bell.close()


@pytest.mark.parametrize("why", [Lost, Fenced, Behind, Refused])
async def test_a_turn_that_never_finishes_goes_on_alone_and_is_given_up(
    tmp_path: Path, redis_url: str, layout: Any, why: type[Exception]
) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK) as world:
        tried: list[str] = []
        buried = asyncio.Event()

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            if buried.is_set():
                return await world.desk.attend(claim, places)
            tried.append("here")
            raise why(claim.conversation)

        async def attend_alone(claim: Claim) -> None:
            tried.append("alone")
            raise why(claim.conversation)

        async def bury(claim: Claim, reason: str) -> None:
            await world.desk.bury(claim, reason)
            buried.set()

        await world.say("hello")
        async with running(world, redis_url, attend, attend_alone, bury):
            await until(lambda: buried.is_set() and bool(world.room.sent))
        assert tried == ["here"] * ALONE_AFTER + ["alone"] * (BURY_AFTER - ALONE_AFTER)
        assert "several attempts" in world.room.sent[-1]


@pytest.mark.parametrize("why", [Leaving, Unreachable])
async def test_that_a_worker_ends_or_redis_is_away_is_no_try(
    tmp_path: Path, redis_url: str, layout: Any, monkeypatch: pytest.MonkeyPatch, why: type[Exception]
) -> None:
    monkeypatch.setattr("workers.runner.WATCH_S", 0.05)
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK) as world:
        seen: list[int] = []

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            seen.append(claim.tries)
            if len(seen) > BURY_AFTER:
                return await world.desk.attend(claim, places)
            raise why(claim.conversation)

        async def never(*_: object) -> None:
            raise AssertionError("it was counted")

        await world.say("hello")
        async with running(world, redis_url, attend, never, never):
            await until(lambda: len(seen) > BURY_AFTER)
        assert set(seen) == {0}
