"""`deskmate mcp`: look at the tools of MCP servers, and say which of them may be offered."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import click

from config.checks import nearest
from config.loading import Loaded
from gateway.cli import Stop, for_example, no_redis, pass_readable
from gateway.cli.acts import user
from gateway.inventory import installing
from gateway.logs import Mask
from gateway.rights.pins import Definition, Pins
from gateway.running.embedded import NoServer, redis_url
from gateway.store import Layout, Unreachable, open_store
from skills.visible import one_line, visible
from workers.mcp.looking import Seen, allowed, differences, look, profiles_with

T = TypeVar("T")

ABOUT_CHARACTERS = 80


@click.group(epilog=for_example("mcp list", "mcp show chrome__navigate_page", "mcp approve chrome__navigate_page"))
def mcp() -> None:
    """See and approve the tools of MCP servers.

    A tool is offered to the model where a profile lists it and somebody has approved its description and its arguments,
    word for word. When its server describes it otherwise, it is taken away until that is approved. Each command asks the
    servers themselves, from this machine.
    """


@mcp.command("list")
@click.argument("server", required=False)
@pass_readable
def list_(loaded: Loaded, server: str | None) -> None:
    """List what servers offer, and what became of it.

    A line: how it stands, the tool, the profiles that list it, and how it is described. `approved` may be called where a
    profile lists it; `not approved` was never looked at; `changed` is described otherwise than it was approved; `gone`
    is listed or was approved, and is not there; `not usable` could be no tool here, and the line says why.
    """
    servers = [_server(loaded, server)] if server else list(loaded.settings.mcp.servers)
    if not servers:
        click.echo("No server is configured: mcp.servers of the settings.")
    wanted = allowed(loaded)
    found = _do(loaded, lambda pins: look(loaded.settings, pins, servers, wanted))
    mask = Mask(loaded.secret_values)  # a server that ends may print what it was started with
    for seen in found:
        click.echo(f"{seen.server}: {mask(seen.why_not) or f'{len(seen.listed.definitions)} tools'}")
        for name in seen.names(wanted) if not seen.why_not else ():
            now = seen.listed.definitions.get(name)
            about = one_line(now.description)[:ABOUT_CHARACTERS] if now else seen.listed.faults.get(name, "")
            profiles = ", ".join(profiles_with(loaded, name))
            listed = f"listed in {profiles}" if profiles else "in no profile"
            click.echo(f"  {seen.state(name):<12}  {one_line(name)}  ({listed})  {about}".rstrip())
    if servers and all(seen.why_not for seen in found):
        raise Stop("None of these servers could be asked.")


@mcp.command()
@click.argument("tool", metavar="SERVER__TOOL")
@pass_readable
def show(loaded: Loaded, tool: str) -> None:
    """Show a tool as its server describes it now.

    Hidden characters are named. What is otherwise than it was approved stands at the end.
    """
    seen = _seen(loaded, tool)
    now, pin = seen.listed.definitions.get(tool), seen.pins.get(tool)
    fault = seen.listed.faults.get(tool)
    click.echo(f"{one_line(tool)}: {seen.state(tool)}{f': {fault}' if fault else ''}")
    if pin:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(pin.at_ms / 1_000))
        click.echo(f"approved by {one_line(pin.by)}, {when}")
    if now:
        click.echo(f"\n{visible(now.text())}")
    if now and pin and (lines := list(differences(pin.definition, now))):
        click.echo("Otherwise than it was approved:\n\n" + "\n".join(lines))


@mcp.command()
@click.argument("names", metavar="SERVER[__TOOL]...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_readable
def approve(loaded: Loaded, names: tuple[str, ...], yes: bool) -> None:
    """Let tools be offered as their servers describe them now.

    Of a SERVER, each tool that is not approved is asked for. What is approved is exactly what is shown before.
    """
    asked = {server: _seen(loaded, server) for server in dict.fromkeys(name.partition("__")[0] for name in names)}
    found: dict[str, Definition] = {}
    for name in names:
        seen = asked[name.partition("__")[0]]
        ours = [name] if "__" in name else seen.names()
        waiting = [one for one in ours if seen.state(one) in {"not approved", "changed"}]
        if not waiting:
            one = f"{name} is {seen.state(name)}" if "__" in name else f"all that can be used of {name} is approved"
            raise Stop(f"Nothing to approve: {seen.listed.faults.get(name) or one}.")
        found |= {one: seen.listed.definitions[one] for one in waiting}
    for tool in found.values():
        click.echo(f"{tool.name}\n\n{visible(tool.text())}")
        if yes or _confirmed(tool.name):
            _do(loaded, partial(_approve, tool=tool))
            profiles = ", ".join(profiles_with(loaded, tool.name))
            click.echo(
                f"{tool.name} is approved; {f'listed in {profiles}' if profiles else 'no profile lists it yet'}."
            )


@mcp.command()
@click.argument("tool", metavar="SERVER__TOOL")
@pass_readable
def revoke(loaded: Loaded, tool: str) -> None:
    """Take a yes back.

    It counts from the next call on. The server is not asked.
    """
    was_there = _do(loaded, lambda pins: pins.revoke(tool, f"operator {user()}"))
    click.echo(f"{one_line(tool)} {'is not approved any more' if was_there else 'was not approved'}.")


def _confirmed(name: str) -> bool:
    try:
        return click.confirm(f"May the model be shown {name} like this?", default=False)
    except click.Abort:
        if sys.stdin.isatty():  # somebody broke it off
            raise
        raise Stop(
            f"\nNobody is there to answer, so {name} is not approved. `--yes` says it without a question."
        ) from None


async def _approve(pins: Pins, tool: Definition) -> None:
    await pins.approve(tool, f"operator {user()}", await pins.store.now_ms())


def _seen(loaded: Loaded, name: str) -> Seen:
    """The server that is called so, or whose tool is, as it is now."""
    server = _server(loaded, name.partition("__")[0])
    wanted = [name] if "__" in name else []
    [seen] = _do(loaded, lambda pins: look(loaded.settings, pins, [server], wanted))
    if seen.why_not:
        raise Stop(f"The server {server} {Mask(loaded.secret_values)(seen.why_not)}.")
    return seen


def _server(loaded: Loaded, name: str) -> str:
    servers = loaded.settings.mcp.servers
    if name not in servers:
        close = nearest(name, servers)
        hint = f"did you mean {close}?" if close else f"mcp.servers has: {', '.join(servers) or 'none'}."
        raise Stop(f"There is no MCP server {name!r}; {hint}")
    return name


def _do(loaded: Loaded, work: Callable[[Pins], Awaitable[T]]) -> T:
    settings = loaded.settings

    async def run() -> T:
        layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
        store = open_store(redis_url(settings), layout, timeout_s=settings.redis.timeout_s)
        try:
            return await work(Pins(store))
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except ModuleNotFoundError as error:
        raise Stop(f"{error.name} is not installed: {installing('mcp')}.") from None
    except NoServer as error:
        raise Stop(f"{error}.") from None
    except Unreachable as error:
        raise no_redis(error) from None
