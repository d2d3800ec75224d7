"""`deskmate audit`: who changed what, and what was refused; all of it for elsewhere, and whether it is still whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from config.loading import Loaded
from gateway.acts.answers import decided_by
from gateway.audit.chain import Found, KeptElsewhere, links
from gateway.audit.chain import verify as check
from gateway.audit.log import Line, read, short, streams
from gateway.cli import CHANNEL_HELP, ENGLISH, Stop, for_example, pass_readable
from gateway.cli.acts import Open, key_of, look
from skills.visible import exact, one_line

_OPTIONS: Final = (
    click.option("--channel", metavar="CONNECTION/CHANNEL", help=f"Only what was done there. {CHANNEL_HELP}"),
    click.option(
        "-n", "--lines", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most."
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON object a line, everything as it was stored."),
)


def _listing(command: Callable[..., None]) -> Callable[..., None]:
    """With the options of a list, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(
    invoke_without_command=True,
    epilog=for_example(
        "audit --channel slack-main/C0123",
        "audit -n 500 --json",
        "audit export > audit.jsonl",
        "audit verify --against audit.jsonl",
    ),
)
@_listing
@pass_readable
def audit(loaded: Loaded, channel: str | None, lines: int, as_json: bool) -> None:
    """Show who switched, trusted, approved, added, removed or wrote down what, and what was refused, the latest at the end.

    A line: when, who, where, what, before → after, and the rule that decided. Lines whose `what` ends in `refused`
    changed nothing. `operator NAME` is who typed it, by the machine's account.
    """
    if not click.get_current_context().invoked_subcommand:
        _show(loaded, channel, lines, as_json=as_json)


@audit.command("list", epilog=for_example("audit list --channel slack-main/C0123", "audit list -n 500 --json"))
@_listing
@pass_readable
def list_(loaded: Loaded, channel: str | None, lines: int, as_json: bool) -> None:
    """The same as `deskmate audit` alone: who did what, and what was refused, the latest at the end."""
    _show(loaded, channel, lines, as_json=as_json)


def _show(loaded: Loaded, channel: str | None, lines: int, *, as_json: bool) -> None:
    key = key_of(loaded, channel) if channel else None
    room = f"{key.connection}/{key.channel}" if key else ""
    found = look(loaded, channel, lambda there: read(there.store, room=room, most=lines))
    for one in found:
        click.echo(json.dumps(asdict(one), ensure_ascii=False) if as_json else _told(one))
    if not found and not as_json:
        click.echo(
            "Nothing is in the audit log yet." if key is None else f"Nothing is in the audit log about {channel}."
        )


def _told(line: Line) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.at_ms / 1_000))
    change = f"{short(line.before) or '–'} → {short(line.after) or '–'}" if line.before or line.after else ""
    who, where = exact(line.who) or "the model", exact(line.channel) or "everywhere"
    told = (line.what, line.thing, change, f"({decided_by(line, ENGLISH)})" if line.rule else "")
    return "  ".join((at, who, where, *(one_line(one) for one in told if one)))


@audit.command(epilog=for_example("audit export > audit-2026-11.jsonl"))
@pass_readable
def export(loaded: Loaded) -> None:
    """Print all lines that are kept, one JSON object each, the oldest of each stream first.

    Streams are changes, refused (only the latest) and tools (of MCP servers). `said` is what the hash was made of.
    """

    async def work(there: Open) -> None:
        for stream in streams(there.store):
            async for link in links(there.store, stream):
                click.echo(link.dump())

    look(loaded, None, work)


@audit.command(
    epilog=for_example(
        "audit verify", "audit verify --against audit.jsonl", "audit verify --against changes:12:0a1b..."
    )
)
@click.option(
    "--against",
    metavar="FILE|HEAD",
    help="What was kept elsewhere: an export, or a text with heads that verify printed; or one such head.",
)
@pass_readable
def verify(loaded: Loaded, against: str | None) -> None:
    """Check that the log is as it was written.

    Each line holds the hash of the one before. Printed are the heads, which you can keep elsewhere. The first line that was
    changed, moved or taken out is named, in the log or in what was kept, and the exit code is 1 then. Without --against nobody can tell a chain that
    somebody made anew as a whole, or whose end and head were both taken away.
    """
    try:
        kept = KeptElsewhere() if against is None else _kept(against)
    except (OSError, ValueError) as error:
        raise Stop(f"--against: {error}.") from None

    async def work(there: Open) -> list[Found]:
        return [await check(there.store, stream, kept) for stream in streams(there.store)]

    found = look(loaded, None, work)
    for one in found:
        older = f", {one.older} of them from before there was a chain" if one.older else ""
        told = one.trouble or "unbroken"
        click.echo(f"{one.stream}: {one.lines} lines{older}: {one_line(told)}")
        if one.head.n and not one.trouble:
            click.echo(f"  {one.head}")
    if any(one.trouble for one in found):
        raise Stop(f"The audit log{', or what was kept of it,' if against else ''} is not as it was written.")


def _kept(against: str) -> KeptElsewhere:
    """Raises `OSError`, `ValueError`."""
    file = Path(against)
    if not against or not file.exists():
        return KeptElsewhere.read([against])
    with file.open(encoding="utf-8") as lines:
        return KeptElsewhere.read(lines)
