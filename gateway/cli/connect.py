"""`deskmate connect`: how to connect a platform, and whether it is."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
import click

from config.addresses import web_address
from config.checks import nearest
from config.loading import Loaded
from config.problems import ConfigError, Problem
from config.settings import Connection, Section
from gateway.cli import Stop, config_option, for_example, given_config
from gateway.cli.doctor import OUTSIDE_S
from gateway.cli.outside import opened_outside
from gateway.connections import PAGE, Opened, open_connections, platform_module, platform_names
from gateway.inventory import load_checked
from gateway.logs import Mask
from gateway.platforms import ConnectionRefused, Guide, Platform

NO_HOST: Final = "https://YOUR-HOST"
"""Where nothing says what address platforms see."""
OK: Final = click.style("ok  ", fg="green")
NEXT: Final = click.style("next", fg="yellow")


@click.command(
    epilog=for_example(
        "connect                          which platforms there are, and what is connected",
        "connect telegram                 what to do; once it is set up, whether it works",
        "connect telegram --yes           and have it send to us, without asking first",
        "connect slack --name sales       the same for a connection of that name",
    )
)
@click.argument("platform", required=False)
@click.option(
    "--name", help="The connection's name in the settings.  [default: the only one there, or <platform>-main]"
)
@click.option("--url", metavar="URL", help="The address that platforms see.  [default: gateway.public_url]")
@click.option("--steps", is_flag=True, help="Say the steps, also where the connection is set up already.")
@click.option("--yes", "-y", is_flag=True, help="Have the platform send to us, where it has a call for that.")
@config_option
def connect(platform: str | None, name: str | None, url: str | None, *, steps: bool, yes: bool) -> None:
    """Say step by step how to connect a platform; once it is set up, check the credentials and register the webhook."""
    found = _found()
    if platform is None:
        click.echo("\n".join(_listed(found.loaded)))
        return
    platform, name = _meant(found, platform, name)
    host = _host(found.loaded, url)
    address = f"{host}/webhooks/{name}"
    opened = _opened(found.loaded, name, platform)
    if opened is None or steps:
        click.echo("\n".join(told(platform_module(platform), platform, name, address)) + "\n")
    if found.problems:
        wrong = "\n".join(f"  {problem}" for problem in found.problems)
        raise Stop(f"Nothing is checked, as the settings can't be used yet:\n{wrong}")
    if opened is None or found.loaded is None:
        click.echo(f"When that is done, run `deskmate connect {platform} --name {name}` again: it checks what it can.")
        return
    asyncio.run(_check(found.loaded, opened, address, yes=yes))


@dataclass(frozen=True, slots=True)
class _Found:
    """The settings; where they can't be used yet, why: that is no reason not to say how to begin."""

    loaded: Loaded | None
    problems: Sequence[Problem] = ()


def _found() -> _Found:
    try:
        return _Found(load_checked(given_config()))
    except ConfigError as error:
        return _Found(None, error.problems)


def _listed(loaded: Loaded | None) -> Iterator[str]:
    there = loaded.settings.connections if loaded else {}
    yield "Platforms, and the connections that the settings have:"
    for name in platform_names():
        mine = [connection for connection, one in there.items() if one.platform == name]
        yield f"  {name:<18} {', '.join(mine)}".rstrip()
    yield "How to connect one: deskmate connect PLATFORM"


def _meant(found: _Found, platform: str, name: str | None) -> tuple[str, str]:
    """The platform and the connection's name; a connection's name serves as both."""
    there = {one: each.platform for one, each in found.loaded.settings.connections.items()} if found.loaded else {}
    if platform == PAGE[1]:
        raise Stop("The page is built in: it is at /chat while `chat.enabled` is true. There is nothing to connect.", 2)
    if platform in there and platform not in platform_names():
        platform, name = there[platform], name or platform
    if platform not in platform_names():
        near = nearest(platform, [*platform_names(), *there])
        hint = f" Did you mean {near}?" if near else ""
        raise Stop(f"There is no platform {platform!r}.{hint} There are: {', '.join(platform_names())}.", 2)
    mine = [one for one, each in there.items() if each == platform]
    if name is None and len(mine) > 1:
        raise Stop(f"There are several: choose one with --name. {', '.join(mine)}", 2)
    return platform, name or (mine[0] if mine else f"{platform.replace('_', '-')}-main")


def _host(loaded: Loaded | None, url: str | None) -> str:
    if url:
        try:
            return web_address(url)
        except ValueError as error:
            raise Stop(f"--url: {error}", 2) from None
    return (loaded and loaded.settings.gateway.public_url) or NO_HOST


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
    yield "\nIn deskmate.yaml, with the secrets in the environment of deskmate's processes:\n"
    yield from _snippet(module.Settings, platform, name, guide.keys)


def _snippet(settings: type[Section], platform: str, name: str, also: Sequence[str]) -> Iterator[str]:
    """The connection as it is written, with what must be set; secrets by a variable's name."""
    yield "connections:"
    yield f"  {name}:"
    yield f"    platform: {platform}"
    for key, field in settings.model_fields.items():
        if key in Connection.model_fields or not (field.is_required() or key in also):
            continue
        is_secret = "SecretStr" in str(field.annotation)
        variable = re.sub(r"\W", "_", f"{platform}_{key}").upper()
        yield f"    {key}: {f'${variable}' if is_secret else '...'}"


def _filled(text: str, name: str, url: str) -> str:
    return text.replace("{name}", name).replace("{url}", url)


def _opened(loaded: Loaded | None, name: str, platform: str) -> Opened | None:
    opened = open_connections(loaded).get(name) if loaded else None
    if opened and opened.settings.platform != platform:
        raise Stop(f"The connection {name} is on {opened.settings.platform}, not on {platform}. Use --name.", 2)
    return opened


async def _check(loaded: Loaded, opened: Opened, url: str, *, yes: bool) -> None:
    name = opened.name
    async with opened_outside(loaded.settings, None) as (_, outside):
        adapter = opened.platform.Adapter(name, opened.settings, outside)
        try:
            async with asyncio.timeout(OUTSIDE_S):
                me = await adapter.identity()
            if adapter.is_checked:
                click.echo(f"{OK}  {name}: the credentials are good: we are {me.name or me.id}")
            else:
                click.echo(f"{OK}  {name} is set up. Its credentials can't be checked: there is nobody to ask.")
            if url.startswith(NO_HOST):
                click.echo(f"{NEXT}  set gateway.public_url (or --url): the address that the platform can reach")
            elif not adapter.registers:
                click.echo(f"{NEXT}  give the platform {url}, as the steps say (--steps): it has no call for that")
            elif yes or _agreed(name, url):
                async with asyncio.timeout(OUTSIDE_S):
                    click.echo(f"{OK}  {await adapter.register(url)}")
            else:
                click.echo(f"{NEXT}  `deskmate connect {name} --yes` has it send to {url}")
        except ConnectionRefused as why:
            told = Mask(loaded.secret_values)(str(why))  # a service may repeat what it was sent
            raise Stop(f"{name}: {told}.{_where(opened, told)}") from None
        except (TimeoutError, aiohttp.ClientError):
            raise Stop(f"{name}: no answer within {OUTSIDE_S:.0f} s.{_where(opened, 'not reached')}") from None


def _where(opened: Opened, why: str) -> str:
    """Where it was looked for, if that may be what is wrong."""
    base = opened.settings.api_base
    return f" Is {base} right (api_base), and the network?" if base and re.search(r"not reached|status \d", why) else ""


def _agreed(name: str, url: str) -> bool:
    """Whoever only looks must not turn a running platform elsewhere."""
    return sys.stdin.isatty() and click.confirm(f"Have {name} send to {url} from now on?", default=False)
