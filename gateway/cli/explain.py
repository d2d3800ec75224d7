"""`deskmate explain`: what holds in a channel, and which line or switch decides."""

from __future__ import annotations

import json

import click

from config.loading import Loaded
from gateway.acts.pair_acts import PairActs
from gateway.cli import Stop, for_example, pass_readable
from gateway.cli.acts import Open, key_of, look
from gateway.rights import explaining
from gateway.rights.explaining import Answer, NotThere
from gateway.rights.guests import is_guest_by_id
from gateway.rights.pins import Pins
from skills.visible import one_line


@click.command(
    epilog=for_example(
        "explain slack-main/C0123",
        "explain slack-main/C0123 --skill web-access",
        "explain slack-main/C0123 --person slack-main/U024BE7LH --json",
    )
)
@click.argument("channel", metavar="CONNECTION/CHANNEL")
@click.option("--skill", metavar="ID", help="Only this skill, and its program.")
@click.option("--tool", metavar="NAME", help="Only this tool, or this program of a skill.")
@click.option("--person", metavar="CONNECTION/ID", help="Only what this person may.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_readable
def explain(  # noqa: PLR0917  # as click gives them
    loaded: Loaded, channel: str, skill: str | None, tool: str | None, person: str | None, as_json: bool
) -> None:
    """Say what holds in a channel and what decided it: file and line, a switch, a role, a rule of the organisation.

    Without an option: the profile and the rule that chose it, skills, tools, approvals and roles.
    """
    if sum(one is not None for one in (skill, tool, person)) > 1:
        raise click.UsageError("Give one of --skill, --tool and --person.")
    key = key_of(loaded, channel)

    async def work(there: Open) -> list[Answer]:
        here = await there.acts.by.here()
        if skill is not None:
            return explaining.skill(here, skill)
        if tool is not None:
            return explaining.tool(
                here, tool, await Pins(there.store).of(explaining.pinned(here, tool)), loaded.settings
            )
        if person is not None:
            is_paired = await PairActs(there.acts, loaded).is_let_in(person, here)
            is_guest = await is_guest_by_id(there.store, loaded.settings, person)
            return explaining.person(here, person, is_paired=is_paired, is_guest=is_guest)
        return explaining.channel(loaded, key, here, await Pins(there.store).of(explaining.pinned(here)))

    try:
        found = look(loaded, channel, work)
    except NotThere as error:
        raise Stop(f"{one_line(str(error))}.") from None
    if as_json:
        click.echo(json.dumps(explaining.dump(key, found), ensure_ascii=False))
        return
    for line in explaining.told(found):
        click.echo(one_line(line))
