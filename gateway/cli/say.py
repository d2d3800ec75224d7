"""`deskmate say`: a message to a running gateway, and its reply on stdout as it grows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import click

from config.settings import Settings
from gateway.cli import Stop, pass_settings
from gateway.platforms.webchat import CONVERSATION
from gateway.running.address import own_address
from gateway.text.unmarked import plain
from gateway.web.client import Heard, NotReachable, Refused, Visit

NO_REPLY: Final = 1
UNREACHABLE: Final = 3
HERE: Final = "this machine"
OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

STEPS: Final = {
    ("skill", "done"): "loaded skill {}",
    ("skill", "failed"): "could not load skill {}",
    ("tool", "done"): "ran {}",
    ("tool", "failed"): "{} failed",
    **{(kind, state): f"{{}}: {state}" for kind in ("skill", "tool", "step") for state in ("refused", "stopped")},
    ("step", "done"): "step done: {}",
    ("step", "failed"): "step failed: {}",
}


@click.command()
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@click.option("--conversation", metavar="ID", help="Go on with this conversation. [default: a new one]")
@click.option(
    "--url", metavar="URL", help="The gateway's address. [default: of the `up` that runs, else as the settings say]"
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=120, show_default=True)
@pass_settings
def say(
    settings: Settings, words: tuple[str, ...], conversation: str | None, url: str | None, timeout_s: float
) -> None:
    """Send TEXT (`-`: what stdin has) to a running gateway and print the reply as it grows.

    Steps and the conversation's id go to stderr. The exit code is 0 only with a reply: 1 is a notice, a refusal or no
    reply in time, 3 a gateway that can't be reached.
    """
    if len(words) > 1:
        line = " ".join(words).replace('"', '\\"')
        raise click.UsageError(f'TEXT is one argument, so put it in quotes: deskmate say "{line}"')
    text = sys.stdin.read() if words[0] == "-" else words[0]
    if not text.strip():
        raise click.UsageError("TEXT is empty: there is nothing to say.")
    conversation = secrets.token_hex(8) if conversation is None else conversation
    if not CONVERSATION.fullmatch(conversation):
        raise click.BadParameter("1 to 64 letters, digits, - and _ are allowed", param_hint="--conversation")
    found = url or own_address(settings)
    if found is None:
        raise Stop("gateway.port is 0, and no `deskmate up` runs here that tells its port: give --url.", UNREACHABLE)
    address = found.rstrip("/")
    click.echo(f"conversation: {conversation}", err=True)
    try:
        asyncio.run(_say(settings, address, conversation, text, timeout_s))
    except NotReachable as why:
        raise Stop(
            f"The gateway at {address} can't be reached: {why}. Is `deskmate up` running?", UNREACHABLE
        ) from None
    except Refused as why:
        raise Stop(f"The gateway refused it: {why}", NO_REPLY) from None
    except TimeoutError:
        raise Stop(f"No reply within {timeout_s:g} s. It may still come: see the conversation.", NO_REPLY) from None


async def _say(settings: Settings, address: str, conversation: str, text: str, timeout_s: float) -> None:
    kept = settings.data / "say.cookie"
    async with asyncio.timeout(timeout_s), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        visit = Visit(http, address, _read_cookies(kept, _whose(address)))
        try:
            await visit.conversation(conversation)
        except Refused as why:
            if why.status != 401:
                raise
            await visit.log_in(_password(settings, address))
            await visit.conversation(conversation)
        try:
            _keep_cookies(kept, _whose(address), visit.cookies)
        except OSError as error:  # the message matters more
            lost = f"{kept} can't be written: {error.strerror}"
            click.echo(f"Warning: {lost}. This conversation can't be gone on with.", err=True)
        printed = ""
        async with contextlib.aclosing(visit.say(conversation, text)) as hearing:
            async for heard in hearing:
                printed = _print(heard, printed)


def _print(heard: Heard, printed: str) -> str:
    """Print what is new; what stands on stdout by now. Raises `Stop` for a notice."""
    if heard.kind == "step":
        click.echo(STEPS[heard.step, heard.state].format(heard.name), err=True)
    elif heard.kind == "card":
        click.echo(plain(heard.text), err=True)
    elif heard.kind == "notice":
        raise Stop(plain(heard.text), NO_REPLY)
    elif heard.kind == "text" and heard.text.startswith(printed):
        click.echo(heard.text[len(printed) :], nl=False)
        return heard.text
    elif heard.kind == "reply" and heard.text.startswith(printed):
        click.echo(heard.text[len(printed) :])
    elif heard.kind == "reply":
        click.echo(f"\n{heard.text}")
    return printed


def _password(settings: Settings, address: str) -> str:
    """The password, where it may be sent to: over https, or to this machine."""
    if settings.chat.password is None:
        raise Refused(401, "it asks for a password, and chat.password is not set in these settings")
    where = urlsplit(address)
    if where.scheme != "https" and where.hostname not in OWN_NAMES:
        raise Refused(401, "it asks for a password, which is sent to another machine over https only")
    return settings.chat.password.get_secret_value()


def _whose(address: str) -> str:
    """By what cookies are kept: on this machine we are one person, whatever the port; elsewhere one for each address."""
    return HERE if urlsplit(address).hostname in OWN_NAMES else address


def _read_cookies(file: Path, whose: str) -> dict[str, str]:
    """The cookies kept for this place; none from a file that is missing or broken."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))[whose]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _keep_cookies(file: Path, whose: str, cookies: Mapping[str, str]) -> None:
    """For the owner only: whoever has them sees the conversations."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = {}
    kept = kept if isinstance(kept, dict) else {}
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        json.dump({**kept, whose: dict(cookies)}, opened)
    new.replace(file)
