"""`deskmate up`: everything on this machine, kept running until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import click

from config.loading import Loaded
from config.settings import Settings
from gateway.cli import Stop, pass_loaded
from gateway.connections import that_listen
from gateway.logs import start_logging
from gateway.running.address import address_noted
from gateway.running.embedded import AlreadyRunning, NoServer
from gateway.running.machine import Failed, Machine, PortTaken, machine


def _folder(ctx: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """An empty one, as `--data "$UNSET"` gives, is not taken for the working folder."""
    if given is None:
        return None
    if not given.strip():
        raise click.BadParameter("the path is empty", ctx, parameter)
    return Path(given)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Where the gateway listens; 0: any free port.")
@click.option("--data", metavar="FOLDER", callback=_folder, help="The data folder.")
@click.option("--workers", type=click.IntRange(1, 64), help="How many worker processes.")
@pass_loaded
def up(loaded: Loaded, port: int | None, data: Path | None, workers: int | None) -> None:
    """Run everything on this machine: storage (if REDIS_URL names none), gateway, workers, and who listens where a platform needs it. Ctrl-C stops it all."""
    settings = loaded.settings
    settings = settings.model_copy(
        update={
            "data": data or settings.data,
            "gateway": _changed(settings.gateway, port=port),
            "worker": _changed(settings.worker, processes=workers),
        }
    )
    start_logging(settings.log, process="up", secrets=loaded.secret_values)
    try:
        asyncio.run(_up(loaded, settings))
    except PortTaken as error:
        raise Stop(f"{error}. {error.advice}.") from None
    except (AlreadyRunning, NoServer, Failed) as error:
        raise Stop(f"{error}.") from None
    except asyncio.CancelledError:
        raise Stop("Stopped at once. Other workers, or the next start, take over what was left.", 130) from None


async def _up(loaded: Loaded, settings: Settings) -> None:
    started = time.monotonic()
    asked_to_stop = asyncio.Event()
    stop_on_signals(asked_to_stop)
    async with machine(settings, loaded.path, listens=bool(that_listen(loaded))) as running:
        with address_noted(settings.data, running.address):
            await _announced(loaded, settings, running, started, asked_to_stop)
        click.echo("Stopping: what runs is finished or handed over.")


async def _announced(
    loaded: Loaded, settings: Settings, running: Machine, started: float, asked_to_stop: asyncio.Event
) -> None:
    """Say when all is ready, and wait until asked to stop."""
    ready = asyncio.create_task(running.until_ready())
    asked = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait([ready, asked], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            click.echo(announcement(loaded, settings, running))
            click.echo(f"Ready after {time.monotonic() - started:.1f} s. Ctrl-C stops it.")
        await asked
    finally:
        ready.cancel()
        asked.cancel()


def stop_on_signals(asked_to_stop: asyncio.Event) -> None:
    """The first Ctrl-C or SIGTERM asks to stop; the second is for the impatient and ends us at once."""
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()

    def asked() -> None:
        if asked_to_stop.is_set() and this:
            this.cancel()
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)


def announcement(loaded: Loaded, settings: Settings, running: Machine) -> str:
    """Where everything is, for whoever started it."""
    outside = (settings.gateway.public_url or running.address).rstrip("/")
    lines = [("page", f"{running.address}/chat")] if settings.chat.enabled else []
    lines += [
        (name, f"{outside}/webhooks/{name}")
        for name, connection in loaded.settings.connections.items()
        if connection.platform != "webchat"
    ]
    model = settings.model
    rehearsal = "rehearsal: offline and scripted, no model at all"
    lines.append(("model", rehearsal if model.provider == "rehearsal" else f"{model.name} ({model.provider})"))
    lines.append(("data", "a Redis elsewhere" if settings.redis.url else str(settings.data.resolve())))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines)


def _changed(section: Any, **given: Any) -> Any:
    return section.model_copy(update={name: value for name, value in given.items() if value is not None})
