"""`deskmate tools`: which tools there are in a channel, switched off and on as `/tool` does it in the chat."""

from __future__ import annotations

import click

from config.loading import Loaded
from gateway.acts.tool_acts import ToolActs
from gateway.cli import ENGLISH, for_example, needed_channel_option, pass_readable
from gateway.cli.acts import Open, acted, look
from gateway.cli.words import typed
from gateway.commands import tool as command
from gateway.rights.pins import Pins
from gateway.shelf.decisions import Switch


@click.group(
    epilog=for_example("tools list --channel slack-main/C0123", "tools off web_fetch --channel slack-main/C0123")
)
def tools() -> None:
    """List the tools of a channel, switch them off and on there.

    What is switched is kept in Redis: all workers go by it at their next call. What a profile does not list can't be
    switched on. A channel is named CONNECTION/CHANNEL, as the last lines of `/skill list` in it say.
    """


@tools.command("list", epilog=for_example("tools list --channel slack-main/C0123"))
@needed_channel_option
@pass_readable
def list_(loaded: Loaded, channel: str) -> None:
    """List which tools may be called, which wait for a yes, which are off, and why."""

    async def work(there: Open) -> str:
        here, rows = await ToolActs(there.acts, Pins(there.store).of).list()
        return command.listed(here, rows, ENGLISH)

    click.echo(typed(look(loaded, channel, work), channel))


@tools.command(epilog=for_example("tools on web_fetch --channel slack-main/C0123"))
@click.argument("name")
@needed_channel_option
@pass_readable
def on(loaded: Loaded, name: str, channel: str) -> None:
    """Leave a tool to the profile again."""
    _switch(loaded, channel, name, "on")


@tools.command(epilog=for_example("tools off web_fetch --channel slack-main/C0123"))
@click.argument("name")
@needed_channel_option
@pass_readable
def off(loaded: Loaded, name: str, channel: str) -> None:
    """Switch a tool off. A turn that runs can't call it any more.

    NAME is the one that models call, or the id of a skill that runs.
    """
    _switch(loaded, channel, name, "off")


def _switch(loaded: Loaded, channel: str, name: str, to: Switch) -> None:
    async def work(there: Open) -> str:
        here, one = await ToolActs(there.acts, Pins(there.store).of).switch(name, to)
        return command.switched(here, one, ENGLISH)

    click.echo(typed(acted(loaded, channel, work), channel))
