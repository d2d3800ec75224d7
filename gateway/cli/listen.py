"""`deskmate listen`."""

from __future__ import annotations

import asyncio
import logging

import click
from setproctitle import setproctitle

from config.loading import Loaded
from gateway.app import open_parts
from gateway.cli import Stop, for_example, pass_loaded
from gateway.connections import that_listen
from gateway.conversation.mailbox import WrongPartitions
from gateway.listening import listen as hold
from gateway.logs import log, start_logging
from gateway.running.embedded import NoServer, redis_url
from gateway.running.serving import Unfit, on_stop_signals, run_loop

logger = logging.getLogger(__name__)


@click.command(
    epilog=for_example("listen                 all connections that need it", "listen discord-main    only this one")
)
@click.argument("connections", nargs=-1)
@pass_loaded
def listen(loaded: Loaded, connections: tuple[str, ...]) -> None:
    """Hold the connections over which messages come that no webhook brings (Discord's gateway).

    One process is enough, and `deskmate up` starts it. Further ones stand by: when it dies, one of them goes on where it was.
    """
    able = that_listen(loaded)
    if wrong := [name for name in connections if name not in able]:
        there = f"there are: {', '.join(able)}" if able else "no connection of the settings does"
        raise Stop(f"{', '.join(wrong)}: nothing to listen to; {there}.")
    names = connections or able
    if not names:
        raise Stop("No connection of the settings listens: webhooks bring all messages.")
    start_logging(loaded.settings.log, process="listen", secrets=loaded.secret_values)
    setproctitle("deskmate listen")
    try:
        run_loop(_hold(loaded, names))
    except (NoServer, WrongPartitions, Unfit) as error:
        raise Stop(f"{error}") from None


async def _hold(loaded: Loaded, names: tuple[str, ...]) -> None:
    settings = loaded.settings
    url = redis_url(settings)
    parts = await open_parts(loaded, url, settings.rq.url.get_secret_value() if settings.rq.url else url)
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    try:
        log(logger, "listening", connections=", ".join(names))
        await hold(parts, names, stop)
    finally:
        await parts.close()
