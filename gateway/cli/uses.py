"""`deskmate skills uses`: in how many turns skills were of use."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from config.loading import Loaded
from gateway.cli import channel_option, for_example, pass_readable
from gateway.cli.acts import Open, key_of, look
from gateway.conversation.uses import DAYS_MAX, Uses
from gateway.conversation.uses import uses as counted
from gateway.text.columns import padded, widths

HEADINGS = ("id", "offered", "loaded", "run")


@click.command(epilog=for_example("skills uses", "skills uses --channel slack-main/C0123 --days 7 --json"))
@channel_option
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=30, show_default=True, help="The last ones, by UTC.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a skill, each on a line of its own.")
@pass_readable
def uses(loaded: Loaded, channel: str | None, days: int, as_json: bool) -> None:
    """Show in how many turns each skill was offered, loaded and run.

    With --channel, of one; otherwise of all together. A turn counts when it ends.
    """
    channel_id = key_of(loaded, channel).channel_id if channel else ""

    async def read(there: Open) -> Uses:
        return await counted(there.store, channel_id, days, await there.store.now_ms())

    found = look(loaded, channel, read)
    if as_json:
        for id_, one in found.by_id.items():
            click.echo(json.dumps({"id": id_, **asdict(one)}, ensure_ascii=False))
        return
    rows = [HEADINGS, *((id_, *map(str, asdict(one).values())) for id_, one in found.by_id.items())]
    room = widths(rows)
    for row in rows if found.by_id else ():
        click.echo("  ".join(padded(cell, size) for cell, size in zip(row, room, strict=True)).rstrip())
    click.echo(f"In {found.turns} turns of the last {days} days a model was asked, {channel or 'everywhere'}.")
