"""`deskmate roles` and `deskmate pair`: who may what in a channel, and who may write to us directly."""

from __future__ import annotations

import json
import time

import click

from config.loading import Loaded
from gateway.acts import answers
from gateway.acts.pair_acts import PairActs
from gateway.cli import ENGLISH, Stop, for_example, needed_channel_option, pass_readable
from gateway.cli.acts import Open, acted, do, look
from gateway.connections import connection_names
from gateway.phrases import say
from gateway.rights.access import Here
from gateway.rights.pairing import LetIn, Waits
from gateway.rights.roles import Role, named, typed_person
from gateway.text.unmarked import plain
from skills.visible import exact, one_line


@click.group(
    epilog=for_example(
        "roles list --channel slack-main/C0123", "roles grant slack-main/U024BE7LH --channel slack-main/C0123"
    )
)
def roles() -> None:
    """Who may what in a channel, and which line says so.

    Files name owners (people.owners of the settings), admins, approvers and guests (roles of a profile). Admins of one
    channel alone can also be named here, or with /role in that channel.
    """


@roles.command("list")
@needed_channel_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_readable
def list_(loaded: Loaded, channel: str, as_json: bool) -> None:
    """Show whom files and admins name, by role. Who is named nowhere is a member."""

    async def work(there: Open) -> Here:
        return await there.acts.by.here()

    found = named(look(loaded, channel, work))
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for role, people in found.items():
        for one, rule in people.items():
            click.echo(f"{_name_of(role):<22}  {exact(one)}  ({one_line(rule)})")
    if not any(found.values()):
        click.echo(f"Nobody is named in {channel}: all are members.")


@roles.command()
@click.argument("who", metavar="PERSON")
@needed_channel_option
@pass_readable
def grant(loaded: Loaded, who: str, channel: str) -> None:
    """Make somebody an admin of one channel.

    PERSON is the platform's own id, such as slack-main/U024BE7LH; /role tells each person their own.
    """
    _name_admin(loaded, who, channel, is_one=True)


@roles.command()
@click.argument("who", metavar="PERSON")
@needed_channel_option
@pass_readable
def revoke(loaded: Loaded, who: str, channel: str) -> None:
    """Take back what `grant`, or /role grant, gave. Whom a file names stays what the file says."""
    _name_admin(loaded, who, channel, is_one=False)


def _name_admin(loaded: Loaded, who: str, channel: str, *, is_one: bool) -> None:
    meant = _person(who)
    connections = connection_names(loaded.settings)
    _, was_news = acted(loaded, channel, lambda there: there.acts.name_admin(meant, connections, is_one=is_one))
    click.echo(plain(answers.named_admin(one_line(meant), channel, ENGLISH, is_one=is_one, was_news=was_news)))


def _person(who: str) -> str:
    meant = typed_person(who)
    if meant is None:
        raise Stop(f"{who!r} is nobody's id. Wanted is CONNECTION/ID, such as slack-main/U024BE7LH.")
    return meant


def _name_of(role: Role) -> str:
    return say(f"role.name.{role}", ENGLISH)


@click.command(epilog=for_example("pair", "pair K7QM-2XWD", "pair --end telegram-main/4711"))
@click.argument("code", required=False)
@click.option("--end", metavar="PERSON", help="Do not let this person in any more.")
@click.option("--json", "as_json", is_flag=True, help="Of the list: one JSON object.")
@pass_readable
def pair(loaded: Loaded, code: str | None, end: str | None, as_json: bool) -> None:
    """Let somebody in who wrote to us directly and got a code.

    Without a code: who waits, and who was let in. Let nobody in for a name: everybody chooses their own. The code comes
    from the person themselves.
    """
    if code and end:
        raise click.UsageError("Give either a code or --end PERSON.")
    if end:
        meant = _person(end)
        ended = do(loaded, None, lambda there: PairActs(there.acts, loaded).end(meant))
        click.echo(plain(say("pair.ended" if ended else "pair.ended.was", ENGLISH, who=meant)))
    elif code:
        waits = do(loaded, None, lambda there: _accept(there, loaded, code))
        click.echo(say("pair.accepted", ENGLISH, who=exact(waits.person), name=one_line(waits.name or "–")))
    else:
        waiting, let_in = look(loaded, None, lambda there: _both(there, loaded))
        if as_json:
            shown = {
                "waiting": [{"person": one.person, "name": one.name, "at_ms": one.at_ms} for one in waiting],
                "let_in": [
                    {"person": one.person, "by": one.by, "name": one.name, "at_ms": one.at_ms} for one in let_in
                ],
            }
            click.echo(json.dumps(shown, ensure_ascii=False))
        else:
            _show(waiting, let_in)


async def _accept(there: Open, loaded: Loaded, code: str) -> Waits:
    return await PairActs(there.acts, loaded).accept(code)


async def _both(there: Open, loaded: Loaded) -> tuple[list[Waits], list[LetIn]]:
    acts = PairActs(there.acts, loaded)
    return await acts.waiting(), await acts.let_in()


def _show(waiting: list[Waits], let_in: list[LetIn]) -> None:
    if not waiting and not let_in:
        click.echo("Nobody waits to be let in, and nobody was.")
    for one in waiting:
        click.echo(f"waits   {exact(one.person)}  {one_line(one.name)}  since {_when(one.at_ms)}")
    for known in let_in:
        click.echo(f"let in  {exact(known.person)}  {one_line(known.name)}  by {exact(known.by)}, {_when(known.at_ms)}")


def _when(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1_000))
