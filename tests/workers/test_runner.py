"""The runner counts whatever makes a turn not finish, and gives up what never does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.settings import RqSettings
from gateway.bell import open_bell
from gateway.conversation.claim import Behind, Claim, Claimed, Fenced, Leaving, Lost
from gateway.conversation.deaths import ALONE_AFTER, BURY_AFTER, SOLE_AFTER
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.running.serving import cancelled
from gateway.store import Refused, Script, Unreachable
from tests.harness.model_replies import says
from tests.harness.own_redis import own_redis
from tests.harness.processes import until
from tests.workers.at_desk import AtDesk, at_desk
from workers.desk import Desk
from workers.registration import Registration
from workers.runner import Attend, Runner

QUICK = {"mailbox": {"poll_s": 0.05, "lease_s": 0.4, "send_timeout_s": 0.2}}
QUICK_CALM = {"mailbox": {"poll_s": 0.05, "lease_s": 60.0, "send_timeout_s": 0.2}}
"""Where no lease may end of itself, however slow the machine is."""


@asynccontextmanager
async def running(
    world: AtDesk, redis_url: str, attend: Attend, attend_alone: Any, bury: Any, *, concurrency: int = 1
) -> AsyncIterator[Runner]:
    """A runner for the world's conversations, which ends with the block."""
    prefix = world.desk.mailbox.store.layout.prefix
    bell = open_bell(redis_url, RqSettings(key_prefix=f"{prefix}:rq"), wait_s=1.0)
    registration = Registration(redis_url, "bells", world.desk.worker)
    runner = Runner(
        mailbox=world.desk.mailbox,
        bell=bell,
        registration=registration,
        attend=attend,
        attend_alone=attend_alone,
        bury=bury,
        concurrency=concurrency,
        grace_s=5.0,
    )
    task = asyncio.create_task(runner.run())
    try:
        yield runner
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

        async def bury(claim: Claim, reason: str) -> Claimed:
            claimed = await world.desk.bury(claim, reason)
            buried.set()
            return claimed

        await world.say("hello")
        async with running(world, redis_url, attend, attend_alone, bury):
            await until(lambda: (buried.is_set() and bool(world.room.sent)) or len(tried) > BURY_AFTER)
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


@pytest.mark.parametrize(("lease_s", "left_s"), [(4.0, 4.0), (60.0, 1.0)])
async def test_that_redis_is_away_with_a_write_open_until_the_lease_has_ended_is_no_try(
    tmp_path: Path, layout: Any, lease_s: float, left_s: float
) -> None:
    """F55: also where Redis answers again right then, and has not ended the lease itself."""
    play = {"mailbox": {"poll_s": 0.05, "lease_s": lease_s, "send_timeout_s": 0.2}, "redis": {"timeout_s": 0.5}}
    async with (
        own_redis(tmp_path / "redis") as server,
        at_desk(tmp_path, server.url, layout.prefix, settings=play) as world,
    ):
        seen: list[int] = []

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            seen.append(claim.tries)
            if len(seen) > 1:
                return await world.desk.attend(claim, places)
            server.pause()
            claim.deadline_s -= lease_s - left_s
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(quietly(world.desk.mailbox.renew([claim])))
                    both.create_task(world.desk.mailbox.append(claim))
            except* Fenced as group:
                raise group.exceptions[0] from None
            finally:
                server.go_on()
            raise AssertionError("it was written")

        await world.say("hello")
        async with running(world, server.url, attend, never, never):
            await until(lambda: bool(world.room.sent))
        assert set(seen) == {0}


async def quietly(asked: Awaitable[None]) -> None:
    with suppress(Unreachable):
        await asked


@pytest.mark.parametrize("in_answer_to", ["claim", "settle"])
async def test_what_was_granted_in_an_answer_that_never_came_is_no_try(
    tmp_path: Path, redis_url: str, layout: Any, in_answer_to: str
) -> None:
    """F55: nobody holds it, and nobody died of it."""
    play = {"mailbox": {"poll_s": 0.05, "lease_s": 12.0, "send_timeout_s": 0.2}}
    first, other = (ConversationKey("chat", "room", name) for name in ("first", "other"))
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=play) as world:
        store = world.desk.mailbox.store
        run, lost, seen = store.run, asyncio.Event(), []

        async def run_and_lose(script: Script, root: str, *arguments: Any) -> Any:
            answer = await run(script, root, *arguments)
            if script.name == in_answer_to and answer[1] and not lost.is_set():
                lost.set()
                raise Unreachable("connection lost")
            return answer

        store.run = run_and_lose  # type: ignore[method-assign]

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            seen.append(claim.tries)
            return await world.desk.attend(claim, places)

        await world.say("hello", first)
        await world.say("hello", other)
        async with running(world, redis_url, attend, never, never):
            await until(lambda: len(world.room.sent) == 2)
        assert lost.is_set()
        assert set(seen) == {0}


@pytest.mark.parametrize("ends", [False, True])
async def test_what_a_worker_has_to_give_back_while_redis_is_away_it_gives_back_later(
    tmp_path: Path, layout: Any, ends: bool
) -> None:
    """Else its lease would run out, as that of a dead one does. Also where the worker ends meanwhile."""
    play = {"mailbox": {"poll_s": 0.05, "lease_s": 60.0, "send_timeout_s": 0.2}, "redis": {"timeout_s": 0.3}}
    async with (
        own_redis(tmp_path / "redis") as server,
        at_desk(tmp_path, server.url, layout.prefix, settings=play) as world,
    ):
        seen: list[int] = []
        tried = asyncio.Event()
        mailbox = world.desk.mailbox
        run = mailbox.store.run

        async def run_and_tell(script: Script, root: str, *arguments: Any) -> Any:
            try:
                return await run(script, root, *arguments)
            except Unreachable:
                if script.name == "hand_over":
                    tried.set()
                raise

        mailbox.store.run = run_and_tell  # type: ignore[method-assign]

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            seen.append(claim.tries)
            if len(seen) > 1:
                return await world.desk.attend(claim, places)
            server.pause()
            await mailbox.load(claim.conversation)
            raise AssertionError("it answered")

        async def goes_on() -> None:
            await tried.wait()
            server.go_on()

        await world.say("hello")
        going = asyncio.create_task(goes_on())
        async with running(world, server.url, attend, never, never):
            await (tried.wait() if ends else until(lambda: bool(world.room.sent), within_s=20))
        await going
        if ends:
            await until(lambda: not mailbox.store._owed)
            [again] = (await mailbox.claim(0, "another", 1)).grants
            seen.append(again.tries)
        assert seen == [0, 0]


async def test_what_many_died_with_has_its_worker_for_itself(tmp_path: Path, redis_url: str, layout: Any) -> None:
    """What else is in hand stops at its next step, and nothing new is taken until it is over."""
    beside, much, later = (ConversationKey("chat", "room", name) for name in ("beside", "much", "later"))
    told: list[str] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK) as world:

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            told.append("beside" if claim.conversation == beside.id else "later")
            if told == ["beside"]:
                begun.set()
                await until(lambda: claim.leaving)
                told.append("left")
                raise Leaving(claim.conversation)
            return await world.desk.attend(claim, places)

        async def attend_alone(claim: Claim) -> None:
            told.append("much")
            await goes_on.wait()
            told.append("over")
            await world.desk.attend(claim, lambda: 0)

        await world.say("hello", beside)
        async with running(world, redis_url, attend, attend_alone, never, concurrency=5) as runner:
            await begun.wait()
            await world.desk.mailbox.store.redis.hset(layout.key(much.id), "tries", str(SOLE_AFTER))
            await world.say("hello", much)
            await until(lambda: "much" in told)
            await world.say("hello", later)
            assert runner.places() == 0
            goes_on.set()
            await until(lambda: len(world.room.sent) == 3)
    assert told[:4] == ["beside", "left", "much", "over"]
    assert sorted(told[4:]) == ["beside", "later"]


async def test_who_lost_its_turn_to_have_nothing_beside_it_waits_for_it_again(
    tmp_path: Path, redis_url: str, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis has lost that it had it, and gave it to another one."""
    monkeypatch.setattr("workers.runner.SOLE_AGAIN_MS", 20)
    first, other = (ConversationKey("chat", "room", name) for name in ("first", "other"))
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK_CALM) as world:
        mailbox, store = world.desk.mailbox, world.desk.mailbox.store
        sole, begun = mailbox.sole, asyncio.Event()
        refused: list[bool] = []
        """When it was to begin, and when it asked again."""
        await world.say("hello", other)
        [its] = (await mailbox.claim(0, "another", 1)).grants

        async def sole_but_lost(claim: Claim, *, begins: bool) -> bool:
            if begins and not refused:
                await store.redis.set(f"{its.root}:sole", f"{its.conversation} {its.token}")
            may = await sole(claim, begins=begins)
            if not may:
                refused.append(begins)
            return may

        monkeypatch.setattr(Mailbox, "sole", lambda _, claim, *, begins: sole_but_lost(claim, begins=begins))

        async def attend_alone(claim: Claim) -> None:
            assert claim.conversation == first.id
            begun.set()
            await world.desk.attend(claim, lambda: 0)

        await world.say("hello", first)
        await store.redis.hset(layout.key(first.id), "tries", str(SOLE_AFTER))
        async with running(world, redis_url, world.desk.attend, attend_alone, never):
            await until(lambda: len(refused) > 1 or begun.is_set())
            assert not begun.is_set(), "another one has nothing beside it"
            await mailbox.hand_over(its)
            await until(lambda: len(world.room.sent) == 2)
        assert begun.is_set()


async def test_a_burial_has_its_worker_for_itself_and_who_dies_of_it_is_counted(
    tmp_path: Path, redis_url: str, layout: Any
) -> None:
    """What killed its holders may kill whoever only looks at it."""
    beside, much = (ConversationKey("chat", "room", name) for name in ("beside", "much"))
    told: list[str] = []
    begun = asyncio.Event()
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK_CALM) as world:
        store = world.desk.mailbox.store

        async def attend(claim: Claim, places: Callable[[], int]) -> Claimed:
            if not begun.is_set():
                begun.set()
                await until(lambda: claim.leaving)
                told.append("left")
                raise Leaving(claim.conversation)
            return await world.desk.attend(claim, places)

        async def bury(claim: Claim, reason: str) -> Claimed:
            told.append(f"buried, {await store.redis.hexists(layout.key(much.id), 'waits')}: {reason}")
            return await world.desk.bury(claim, reason)

        await world.say("hello", beside)
        async with running(world, redis_url, attend, never, bury, concurrency=5):
            await begun.wait()
            await store.redis.hset(layout.key(much.id), "tries", str(BURY_AFTER))
            await world.say("hello", much)
            await until(lambda: len(world.room.sent) == 2)
    assert told == ["left", f"buried, False: {BURY_AFTER} holders died"]


async def test_f30_of_eight_workers_seven_end_while_all_are_busy_and_each_message_is_answered_once_in_order(
    tmp_path: Path, redis_url: str, layout: Any
) -> None:
    """F30."""
    rooms, messages = 8, 3
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK) as world, AsyncExitStack() as stack:
        begun = asyncio.Event()
        world.model.answer_with(lambda asked: says(f"re: {asked.text.split()[-1]}", before_s=0.05))
        runners = []
        for number in range(8):
            desk = replace(world.desk, worker=f"{layout.prefix}-{number}")  # RQ knows all tests of one Redis

            async def attend(claim: Claim, places: Callable[[], int], desk: Desk = desk) -> Claimed:
                begun.set()
                return await desk.attend(claim, places)

            runners.append(
                await stack.enter_async_context(running(replace(world, desk=desk), redis_url, attend, never, never))
            )
        for at in range(messages):
            for room in range(rooms):
                where = ConversationKey("chat", "room", f"t{room}")
                assert await world.say(f"{room}.{at}", where) == "new"
        await begun.wait()
        for runner in runners[1:]:
            runner.drain()
        await until(lambda: len(world.room.sent) == rooms * messages)
        for room in range(rooms):
            told = [one for one in world.room.sent if one.startswith(f"re: {room}.")]
            assert told == [f"re: {room}.{at}" for at in range(messages)]


async def never(*_: object) -> None:
    raise AssertionError("it was counted")


async def test_that_redis_lost_its_last_writes_is_said(
    tmp_path: Path, redis_url: str, layout: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F50, F61: it holds an older word of this worker than the last one."""
    monkeypatch.setattr("workers.runner.WATCH_S", 0.05)
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=QUICK) as world:
        store = world.desk.mailbox.store
        workers = f"{store.layout.root(0)}:workers"

        def is_said() -> bool:
            return any(one.getMessage() == "redis lost its last writes" for one in caplog.records)

        async with running(world, redis_url, world.desk.attend, never, never):
            async with asyncio.timeout(10):
                while (said := await store.redis.zscore(workers, world.desk.worker)) is None:
                    await asyncio.sleep(0.01)
            assert not is_said()
            await store.redis.zadd(workers, {world.desk.worker: said - 5_000})
            await until(is_said)


def seconds() -> float:
    return asyncio.get_running_loop().time()


def compute(for_s: float) -> None:
    time.sleep(for_s)


async def hog(for_s: float) -> None:
    """Keeps the loop busy, so that it lags."""
    ends_s = seconds() + for_s
    while seconds() < ends_s:
        compute(0.2)
        await asyncio.sleep(0)


@pytest.mark.parametrize("busy_s", [0.0, 1.5])
async def test_what_waits_for_a_time_is_taken_then_and_not_with_the_next_poll(
    tmp_path: Path, redis_url: str, layout: Any, busy_s: float
) -> None:
    """Also where the loop lags just then: who is busy takes nothing new, and looks again soon."""
    poll_s = 30.0
    slow = {"mailbox": {"poll_s": poll_s, "lease_s": 4 * poll_s, "send_timeout_s": 5}}
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=slow) as world:
        await world.say("hello")
        mailbox = world.desk.mailbox
        [claim] = (await mailbox.claim(0, "another", 1)).grants
        stored = await mailbox.load(claim.conversation)
        await mailbox.park(claim, 500, stored.seq, "another", 0)
        await mailbox.store.redis.delete(f"{layout.prefix}:rq:queue:bells")  # a bell would have it looked for as well
        begun_s = seconds()
        async with running(world, redis_url, world.desk.attend, never, never):
            await hog(busy_s)
            await until(lambda: bool(world.room.sent))
        assert seconds() - begun_s < poll_s / 2


async def test_what_a_dead_worker_held_is_taken_however_long_a_poll_may_take(
    tmp_path: Path, redis_url: str, layout: Any
) -> None:
    """A longer silence than half a lease is taken for a sleep of the server, after which leases last on."""
    poll_s = 30.0
    slow = {"mailbox": {"poll_s": poll_s, "lease_s": 1.0, "send_timeout_s": 0.5}}
    async with at_desk(tmp_path, redis_url, layout.prefix, settings=slow) as world:
        await world.say("hello")
        assert (await world.desk.mailbox.claim(0, "dead", 1)).grants
        begun_s = seconds()
        async with running(world, redis_url, world.desk.attend, never, never):
            await until(lambda: bool(world.room.sent))
        assert seconds() - begun_s < poll_s / 2
