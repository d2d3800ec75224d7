"""`deskmate worker`."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable

import click
from setproctitle import setproctitle

from config.loading import Loaded
from config.settings import export
from gateway.bell import open_bell
from gateway.cli import Stop, pass_loaded
from gateway.conversation.mailbox import WrongPartitions
from gateway.logs import log, start_logging
from gateway.running.embedded import NoServer, redis_url
from gateway.running.serving import Unfit, heed_cancelling, on_stop_signals, run_loop
from gateway.store import Unreachable

logger = logging.getLogger(__name__)


@click.command()
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="How many conversations at once.")
@pass_loaded
def worker(loaded: Loaded, concurrency: int | None) -> None:
    """Answer messages: one process, many turns at once.

    Any worker takes any conversation's next turn; start as many as you like, on any machine that reaches the same
    Redis. The first Ctrl-C or SIGTERM lets turns end, or stop between two steps, within worker.grace_s; the second ends
    at once. Nothing is lost either way.
    """
    start_logging(loaded.settings.log, process="worker", secrets=loaded.secret_values)
    export("RQ_KEY_PREFIX", loaded.settings.rq.key_prefix)
    try:
        run_loop(_work(loaded, concurrency or loaded.settings.worker.concurrency))
    except asyncio.CancelledError:
        pass  # told to stop before there was anything to do
    except Unreachable as error:
        raise Stop(f"Redis went away: {str(error).rstrip('.')}. Start it, or correct redis.url (REDIS_URL).") from None
    except (NoServer, WrongPartitions, Unfit, LookupError, NotADirectoryError) as error:
        raise Stop(f"{error}") from None


async def _work(loaded: Loaded, concurrency: int) -> None:
    # imported here: RQ reads its key prefix when it is imported, and the model's SDK takes a second
    from workers.alone import attend_alone  # noqa: PLC0415
    from workers.opening import open_desk  # noqa: PLC0415
    from workers.registration import Registration  # noqa: PLC0415
    from workers.runner import BELL_WAIT_S, Runner  # noqa: PLC0415

    settings = loaded.settings
    url = redis_url(settings)
    rq_url = settings.rq.url.get_secret_value() if settings.rq.url else url
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    bell = open_bell(rq_url, settings.rq, wait_s=BELL_WAIT_S)
    registration = Registration(rq_url, settings.rq.queue, name)

    def show(held: int) -> None:
        setproctitle(f"deskmate worker {name}: {held} of {concurrency}")

    show(0)  # before anybody is told that it is there
    on_stop_signals(_cancel_current())
    try:
        async with open_desk(loaded, url, name, ring=bell.ring) as desk:
            runner = Runner(
                mailbox=desk.mailbox,
                bell=bell,
                registration=registration,
                attend=desk.attend,
                attend_alone=attend_alone(desk, loaded.path),
                bury=desk.bury,
                concurrency=concurrency,
                grace_s=settings.worker.grace_s,
                show=show,
            )
            on_stop_signals(runner.drain)
            heed_cancelling()
            log(logger, "worker ready", worker=name, concurrency=concurrency)
            await runner.run()
    finally:
        await registration.leave()
        await bell.close()


def _cancel_current() -> Callable[[], None]:
    """What ends the task that runs now, wherever it waits."""
    this = asyncio.current_task()

    def cancel() -> None:
        if this:
            this.cancel()

    return cancel
