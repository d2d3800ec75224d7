"""`deskmate redis`: where state lies, and the operator's word after it was lost."""

from __future__ import annotations

import asyncio

import click

from config.settings import Settings
from gateway.cli import Stop, pass_settings
from gateway.conversation.mailbox import Mailbox, WrongPartitions
from gateway.running.embedded import NoServer, redis_url, socket_path
from gateway.store import Layout, Unreachable, open_store


@click.group()
def redis() -> None:
    """The Redis in use."""


@redis.command()
@pass_settings
def where(settings: Settings) -> None:
    """Print where the data lies, and the socket for valkey-cli or redis-cli."""
    if settings.redis.url:
        click.echo("elsewhere: redis.url is set")
        return
    click.echo(f"folder  {settings.data.resolve()}")
    click.echo(f"socket  {socket_path(settings.data)}")


@redis.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def adopt(settings: Settings, yes: bool) -> None:
    """Go on with the data that Redis holds now.

    After Redis was emptied, or another one was put in its place, processes refuse to work on it, those that start as well:
    what they know is gone. This is the word that it is all right. They follow by themselves; messages that were lost are
    not brought back.
    """
    if not yes:
        click.confirm("Messages and conversations that this Redis does not hold are lost. Go on with it?", abort=True)
    try:
        epoch = asyncio.run(_adopt(settings))
    except (NoServer, Unreachable, WrongPartitions) as error:
        raise Stop(f"{error}.") from None
    click.echo(f"Adopted; epoch {epoch}. Running gateways and workers follow within seconds.")


async def _adopt(settings: Settings) -> str:
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url(settings), layout, timeout_s=settings.redis.timeout_s)
    try:
        return await Mailbox(store, settings.mailbox, data=settings.data).adopt()
    finally:
        await store.close()
