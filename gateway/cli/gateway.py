"""`deskmate gateway`."""

from __future__ import annotations

import asyncio
import logging

import click
from setproctitle import setproctitle

from config.loading import Loaded
from gateway.app import Gateway, open_parts
from gateway.cli import Stop, pass_loaded
from gateway.conversation.mailbox import WrongPartitions
from gateway.logs import log, start_logging
from gateway.running.embedded import NoServer, redis_url
from gateway.running.machine import PortTaken
from gateway.running.serving import Unfit, on_stop_signals, run_loop
from gateway.server import Runner

logger = logging.getLogger(__name__)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Where to listen; 0: any free port.")
@click.option("--shared", is_flag=True, help="Others listen on the same port: the kernel spreads connections.")
@pass_loaded
def gateway(loaded: Loaded, port: int | None, shared: bool) -> None:
    """Serve webhooks and pages: one process.

    A webhook is answered 2xx when its events are in Redis, and not before. Start several with --shared on one port, or
    let `deskmate up` do it (gateway.processes).
    """
    settings = loaded.settings
    start_logging(settings.log, process="gateway", secrets=loaded.secret_values)
    setproctitle("deskmate gateway")
    try:
        run_loop(
            _serve(loaded, settings.gateway.port if port is None else port, shared or settings.gateway.processes > 1)
        )
    except PortTaken as error:
        raise Stop(f"{error}. {error.advice}.") from None
    except (NoServer, WrongPartitions, Unfit) as error:
        raise Stop(f"{error}") from None


async def _serve(loaded: Loaded, port: int, shared: bool) -> None:
    settings = loaded.settings
    url = redis_url(settings)
    rq_url = settings.rq.url.get_secret_value() if settings.rq.url else url
    parts = await open_parts(loaded, url, rq_url)
    gateway = Gateway(parts)
    runner = Runner(gateway, settings.gateway.shutdown_s)
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    try:
        try:
            address = await runner.listen(settings.gateway.host, port, shared=shared)
        except OSError as error:
            raise PortTaken(settings.gateway.host, port, error) from None
        log(logger, "gateway ready", address=address)
        await gateway.until(stop)
        log(logger, "gateway stops")
    finally:
        await runner.stop()
