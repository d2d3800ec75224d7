"""How a process of ours begins and ends: its loop, the refusal of a Redis that would lose messages, the end of its tasks."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Callable, Collection, Coroutine
from importlib.util import find_spec
from typing import Any, Final

from redis.exceptions import RedisError

from config.settings import Settings
from gateway.conversation.mailbox import COLD_ADVICE, Cold, Mailbox
from gateway.logs import log
from gateway.running.checks import check_server
from gateway.store import Store, Unreachable

logger = logging.getLogger(__name__)

CANCEL_AGAIN_S = 0.2
PAUSE_S: Final = 0.5
TELL_S: Final = 10.0
"""How often the log says that Redis is still away."""


class Unfit(Exception):
    """This Redis must not be used as it is. `str()` says why, and what to do."""


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a process's main coroutine, on uvloop where it is installed."""
    if find_spec("uvloop"):
        import uvloop  # noqa: PLC0415  # an extra

        uvloop.run(main)
    else:
        asyncio.run(main)


def on_stop_signals(stop: Callable[[], None]) -> None:
    """SIGINT and SIGTERM call `stop`; the second one ends the process at once, and loses nothing either."""
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def hear(number: int) -> None:
        heard.append(number)
        if len(heard) > 1:
            os._exit(130)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear, number)


async def refuse_unfit(store: Store, settings: Settings) -> None:
    """Look at the server once, at start: warn, or refuse. Raises `Unfit`, and `Unreachable` if there is none to look at."""
    try:
        await store.redis.ping()
    except (RedisError, OSError, TimeoutError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error
    findings = await check_server(store.redis, settings)
    for finding in findings:
        if finding.level == "warn":
            log(logger, "redis", level=logging.WARNING, about=finding.about, found=finding.text, advice=finding.advice)
    failed = [finding for finding in findings if finding.level == "fail"]
    if failed:
        raise Unfit("; ".join(f"{one.about}: {one.text} ({one.advice})" for one in failed))


async def meet(store: Store, mailbox: Mailbox, settings: Settings) -> None:
    """Look at Redis and learn the epoch, as soon as it answers and has the data that this machine knows, or an operator has
    adopted what it has. Raises `Unfit`, `WrongPartitions`.
    """
    clock = asyncio.get_running_loop().time
    told_s, was_cold = -math.inf, False
    while True:
        heed_cancelling()
        try:
            await refuse_unfit(store, settings)
            if await mailbox.open():
                log(logger, "new epoch: this Redis was empty", level=logging.WARNING, epoch=mailbox.epoch)
        except Unreachable as error:
            if clock() - told_s >= TELL_S:
                told_s = clock()
                advice = "start it, or correct redis.url (REDIS_URL)"
                log(logger, "redis not reachable, waiting", logging.WARNING, reason=str(error), advice=advice)
            await asyncio.sleep(PAUSE_S)
        except Cold as why:
            if not was_cold:  # another process may just begin there: it is told at the second look
                told_s, was_cold = -math.inf, True
            elif clock() - told_s >= TELL_S:
                told_s = clock()
                log(logger, "data unknown", logging.ERROR, reason=str(why), advice=COLD_ADVICE)
            await asyncio.sleep(PAUSE_S)
        else:
            return


def heed_cancelling() -> None:
    """Raise `CancelledError` where the task that runs now was cancelled and something beneath has swallowed it, as redis-py does
    while it connects: else who is told to stop right then would wait for a Redis that ended as well.
    """
    if (task := asyncio.current_task()) and task.cancelling():
        raise asyncio.CancelledError


async def cancelled(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel until they have ended: something beneath may swallow it once, as redis-py does while it connects."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
