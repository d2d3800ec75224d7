"""`deskmate admin`: who may come to the admin pages and their API. Nobody gets in but by what is made here."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from config.loading import Loaded
from gateway.admin.keys import Full, Keys
from gateway.admin.visits import Caller
from gateway.audit.log import Change
from gateway.cli import Stop, for_example, pass_readable
from gateway.cli.acts import Open, do, user
from gateway.connections import connection_names
from gateway.rights.access import Operator, named_as
from gateway.rights.roles import COMMAND_LINE, typed_person
from gateway.running.address import own_address

T = TypeVar("T")

EVERYBODY: Final = "*"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")

as_option = click.option(
    "--as", "person", metavar="CONNECTION/ID", help="A person, by the platform's own id. [default: you, the operator]"
)


@click.group(
    epilog=for_example(
        "admin link",
        "admin link --as slack-main/U024BE7LH",
        "admin token --as slack-main/U024BE7LH --name ci --days 30",
    )
)
def admin() -> None:
    """Let people in to the admin pages, and programs to their API.

    Without a link or a token nobody gets in. Whoever comes in as a person has the roles that the profiles give that
    person, channel by channel, asked for afresh each time; the operator may do everything.
    """


@admin.command(epilog=for_example("admin link", "admin link --as slack-main/U024BE7LH"))
@as_option
@pass_readable
def link(loaded: Loaded, person: str | None) -> None:
    """Print a login link. It can be used once, and not for long (admin.link_s)."""
    caller, settings = _caller(loaded, person), loaded.settings
    if not settings.admin.enabled:
        raise Stop("The admin pages are off (admin.enabled).")
    root = settings.gateway.public_url or own_address(settings)
    if root is None:
        raise Stop("gateway.port is 0, and no `deskmate up` runs here that tells its port.")
    try:
        secret = _with(loaded, lambda keys: keys.make_link(caller, settings.admin.link_s), "admin link", caller.name)
    except Full as error:
        raise Stop(f"{error}: see `deskmate admin logout`.") from None
    click.echo(f"{root}/admin/login?link={secret}")
    click.echo(f"For {caller.name}; it can be used once, within {settings.admin.link_s // 60} minutes.", err=True)


@admin.command(epilog=for_example("admin token --as slack-main/U024BE7LH --name ci --days 30"))
@as_option
@click.option("--name", required=True, help="What it is for, as lists tell it.")
@click.option("--days", type=click.IntRange(1, 3_650), default=90, show_default=True, help="How long it opens.")
@pass_readable
def token(loaded: Loaded, person: str | None, name: str, days: int) -> None:
    """Print a token for the API. It is shown this once: only its hash is kept."""
    caller = _caller(loaded, person)
    if not _NAME.fullmatch(name):
        raise Stop("--name: up to 64 letters, digits, blanks, `.`, `_` and `-`.")
    try:
        made, secret = _with(
            loaded,
            lambda keys: keys.make_token(caller, name, days),
            "admin token",
            f"{name} for {caller.name}",
        )
    except Full as error:
        raise Stop(f"{error}: revoke some.") from None
    click.echo(secret)
    click.echo(f"{made.id}, for {caller.name}, until {_day(made.ends_ms)}. It is not shown again.", err=True)


@admin.command(epilog=for_example("admin tokens"))
@pass_readable
def tokens(loaded: Loaded) -> None:
    """List the tokens that open."""
    found = _with(loaded, lambda keys: keys.tokens())
    for one in found:
        if one.is_readable:
            click.echo(f"{one.id}  {one.name}  {one.caller.name}  until {_day(one.ends_ms)}")
        else:
            click.echo(f"{one.id}  can't be read, and opens nothing: deskmate admin revoke {one.id}")
    if not found:
        click.echo("There are no tokens.")


@admin.command(epilog=for_example("admin revoke 3fa91c0b2d"))
@click.argument("id_", metavar="ID")
@pass_readable
def revoke(loaded: Loaded, id_: str) -> None:
    """End a token at once. ID is what begins its line in `deskmate admin tokens`."""
    meant = next((one for one in _with(loaded, lambda keys: keys.tokens()) if one.id == id_), None)
    if meant is None:
        raise Stop(f"There is no token {id_}: see `deskmate admin tokens`.")
    whose = f"{meant.name} of {meant.caller.name}" if meant.is_readable else f"{id_}, which nobody could read,"
    about = f"{meant.name} for {meant.caller.name}" if meant.is_readable else f"{id_}, unreadable"
    _with(loaded, lambda keys: keys.revoke(id_), "admin revoke", about)
    click.echo(f"The token {whose} opens nothing any more.")


@admin.command(epilog=for_example("admin logout", "admin logout --as slack-main/U024BE7LH"))
@as_option
@pass_readable
def logout(loaded: Loaded, person: str | None) -> None:
    """End all sessions and unused links at once, with --as only those of a person. Tokens stay: see `revoke`."""
    who = _caller(loaded, person).person if person else EVERYBODY
    ended = _with(loaded, lambda keys: keys.end_all(who), "admin logout", person or "everybody")
    click.echo(f"{ended} ended.")


def _caller(loaded: Loaded, person: str | None) -> Caller:
    if person is None:
        return Caller(operator=user())
    meant, there = typed_person(person), connection_names(loaded.settings)
    if meant is None or meant.partition("/")[0] not in there:
        raise Stop(f"--as: wanted is CONNECTION/ID, such as {there[0]}/U024BE7LH; there are: {', '.join(there)}.")
    return Caller(meant)


def _with(loaded: Loaded, work: Callable[[Keys], Awaitable[T]], *told: str) -> T:
    """Do something with the keys. What is `told`, an act and what it is about, stands in the audit log before."""

    async def run(there: Open) -> T:
        if told:
            change = Change("", named_as(Operator(user()), ""), "", "", COMMAND_LINE)
            await there.acts.shelf.note(change, *told)
        return await work(Keys(there.store))

    return do(loaded, None, run, changes=bool(told))


def _day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at_ms / 1_000))
