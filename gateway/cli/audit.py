"""`deskmate audit`: who changed what about skills and tools of servers, and what was refused."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import click

from config.loading import Loaded
from gateway.cli import CHANNEL_HELP, for_example, pass_readable
from gateway.cli.acts import do, key_of
from gateway.shelf.audit import Line, read, short
from skills.visible import one_line


@click.command(epilog=for_example("audit --channel slack-main/C0123", "audit -n 500 --json"))
@click.option("--channel", metavar="CONNECTION/CHANNEL", help=f"Only what was done there. {CHANNEL_HELP}")
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, everything as it was stored.")
@pass_readable
def audit(loaded: Loaded, channel: str | None, lines: int, as_json: bool) -> None:
    """Show who switched, trusted, approved, added, removed or wrote down what, and what was refused, the latest at the end.

    A line: when, who, where, what, before → after, and the rule that decided. Lines whose `what` ends in `refused`
    changed nothing. `operator NAME` is who typed it, by the machine's account.
    """
    key = key_of(loaded, channel) if channel else None
    room = f"{key.connection}/{key.channel}" if key else ""
    found = do(loaded, channel, lambda there: read(there.store, room=room, most=lines))
    for one in found:
        click.echo(json.dumps(asdict(one), ensure_ascii=False) if as_json else _told(one))
    if not found and not as_json:
        click.echo(
            "Nothing is in the audit log yet." if key is None else f"Nothing is in the audit log about {channel}."
        )


def _told(line: Line) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.at_ms / 1_000))
    change = f"{short(line.before) or '–'} → {short(line.after) or '–'}" if line.before or line.after else ""
    told = (at, line.who or "the model", line.channel or "everywhere", line.what, line.thing, change)
    rule = f"({line.rule})" if line.rule else ""
    return "  ".join(one_line(one) for one in (*told, rule) if one)
