"""`deskmate connect`: how to connect a platform, and whether it is."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from typing import Final

import aiohttp
import click

from config.loading import Loaded
from config.problems import ConfigError, Problem
from config.settings import Connection, Section
from gateway.cli import Stop, config_option, for_example, given_config
from gateway.cli.doctor import OUTSIDE_S
from gateway.cli.outside import opened_outside
from gateway.connections import Opened, open_connections, platform_module, platform_names
from gateway.inventory import load_checked
from gateway.platforms import ConnectionRefused, Guide, Platform

NO_HOST: Final = "https://YOUR-HOST"
"""Where nothing says what address platforms see."""


@click.command(
    epilog=for_example(
        "connect                     which platforms there are",
        "connect telegram            what to do; then, set up, whether it works",
        "connect slack --name sales  the same for a connection of that name",
    )
)
@click.argument("platform", required=False)
@click.option(
    "--name", help="The connection's name in the settings.  [default: <platform>-main, or the only one there]"
)
@click.option("--url", metavar="URL", help="The address that platforms see.  [default: gateway.public_url]")
@click.option("--check/--no-check", default=True, help="Ask the platform who we are, and have it send to us.")
@click.option("--yes", "-y", is_flag=True, help="Have it send to us without asking first.")
@config_option
def connect(platform: str | None, name: str | None, url: str | None, *, check: bool, yes: bool) -> None:
    """Say step by step how to connect a platform; check the credentials and register the webhook once they are set."""
    names = platform_names()
    if platform is None:
        click.echo("Platforms: " + ", ".join(names) + "\nHow to connect one: deskmate connect PLATFORM")
        return
    if platform not in names:
        raise Stop(f"There is no platform {platform!r}. There are: {', '.join(names)}.", 2)
    loaded, problems = _loaded()
    name = name or _name(loaded, platform)
    host = (url or (loaded and loaded.settings.gateway.public_url) or NO_HOST).rstrip("/")
    address = f"{host}/webhooks/{name}"
    module = platform_module(platform)
    click.echo("\n".join(told(module, platform, name, address)))
    opened = _opened(loaded, name, platform)
    if opened is None:
        ours = [problem for problem in problems if f"connections.{name}" in str(problem)]
        click.echo("\n" + _not_yet(platform, name, ours))
        return
    if check and loaded:
        click.echo("")
        registers = check and host != NO_HOST and (yes or not sys.stdin.isatty() or _asked(platform, address))
        asyncio.run(_check(loaded, opened, address, registers=registers))


def told(module: Platform, platform: str, name: str, url: str) -> Iterator[str]:
    """The guide, line by line."""
    guide: Guide = module.GUIDE
    yield click.style(f"Connect {platform} as {name}", bold=True)
    yield f"Webhook address: {url}"
    if guide.scopes:
        yield f"Rights it needs: {', '.join(guide.scopes)}"
    yield ""
    for number, step in enumerate(guide.steps, 1):
        yield f"{number}. {_filled(step, name, url)}"
    if guide.manifest:
        yield f"\n{guide.manifest_name or 'The manifest'}:\n"
        yield _filled(guide.manifest, name, url).strip("\n")
    yield "\nIn deskmate.yaml:\n"
    yield from _snippet(module.Settings, platform, name)


def _snippet(settings: type[Section], platform: str, name: str) -> Iterator[str]:
    """The connection as it is written, with what must be set; secrets by a variable's name."""
    yield "connections:"
    yield f"  {name}:"
    yield f"    platform: {platform}"
    for key, field in settings.model_fields.items():
        if key in Connection.model_fields or not field.is_required():
            continue
        is_secret = "SecretStr" in str(field.annotation)
        variable = re.sub(r"\W", "_", f"{platform}_{key}").upper()
        yield f"    {key}: {f'${variable}' if is_secret else '...'}"


def _filled(text: str, name: str, url: str) -> str:
    return text.replace("{name}", name).replace("{url}", url)


def _loaded() -> tuple[Loaded | None, list[Problem]]:
    """The settings; where they are not whole yet, what is missing: that is no reason not to say how to begin."""
    try:
        return load_checked(given_config()), []
    except ConfigError as error:
        return None, list(error.problems)


def _name(loaded: Loaded | None, platform: str) -> str:
    there = [name for name, one in loaded.settings.connections.items() if one.platform == platform] if loaded else []
    return there[0] if len(there) == 1 else f"{platform.replace('_', '-')}-main"


def _opened(loaded: Loaded | None, name: str, platform: str) -> Opened | None:
    opened = open_connections(loaded).get(name) if loaded else None
    if opened and opened.settings.platform != platform:
        raise Stop(f"The connection {name} is on {opened.settings.platform}, not on {platform}. Use --name.", 2)
    return opened


def _not_yet(platform: str, name: str, problems: list[Problem]) -> str:
    if problems:
        wrong = "\n".join(f"  {problem}" for problem in problems)
        return f"The connection {name} is not whole yet:\n{wrong}"
    return f"When that is done, run `deskmate connect {platform}` again: it checks the credentials and registers the webhook."


def _asked(platform: str, url: str) -> bool:
    """Whoever only reads the steps must not turn a running platform elsewhere."""
    return click.confirm(f"Have {platform} send to {url} from now on, where it has a call for that?", default=False)


async def _check(loaded: Loaded, opened: Opened, url: str, *, registers: bool) -> None:
    async with opened_outside(loaded.settings, None) as (_, outside):
        adapter = opened.platform.Adapter(opened.name, opened.settings, outside)
        try:
            async with asyncio.timeout(OUTSIDE_S):
                me = await adapter.identity()
                click.echo(f"{click.style('ok', fg='green')}    the credentials are good: we are {me.name or me.id}")
                done = await adapter.register(url) if registers else ""
        except ConnectionRefused as why:
            raise Stop(f"The platform refuses: {why}") from None
        except (TimeoutError, aiohttp.ClientError):
            raise Stop(
                f"The platform did not answer within {OUTSIDE_S:.0f} s: check api_base and the network."
            ) from None
    if done:
        click.echo(f"{click.style('ok', fg='green')}    {done}")
    elif not registers and not url.startswith(NO_HOST):
        click.echo("next  run it again and say yes, when the platform is to send here")
    elif url.startswith(NO_HOST):
        click.echo("next  set gateway.public_url (or --url): the address that the platform can reach")
    else:
        click.echo(f"next  the platform has no call for the webhook: give it {url} as the steps say")
