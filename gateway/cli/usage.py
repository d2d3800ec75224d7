"""`deskmate usage`: who spent what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click

from config.limits import MICROS, Scope
from config.loading import Loaded
from gateway.cli import for_example, pass_readable
from gateway.cli.acts import Open, key_of, look
from gateway.costs.ledger import Line, dates, ledger
from gateway.costs.spending import Tokens
from skills.visible import exact, one_line


@click.command(epilog=for_example("usage", "usage --person", "usage slack-main/C0123 --date 2027-01 --json"))
@click.argument("channel", required=False)
@click.option("--person", "by_person", is_flag=True, help="By person, in place of by channel.")
@click.option("--profile", "by_profile", is_flag=True, help="By profile, of those that share a budget.")
@click.option("--date", metavar="YYYY-MM[-DD]", help="Another day or month. [default: today, and this month]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@pass_readable
def usage(  # one each for what may be typed
    loaded: Loaded, *, channel: str | None, by_person: bool, by_profile: bool, date: str | None, as_json: bool
) -> None:
    """Show who spent what, today and this month, who spent most first: turns, calls, tokens, money, by model.

    CHANNEL is connection/channel, such as slack-main/C0123. Days are those of each channel's time zone. They are kept for 3
    days, months for 70.
    """
    if channel and (by_person or by_profile):
        raise click.UsageError("A channel, or by person or profile: not both.")
    key = key_of(loaded, channel) if channel else None
    room = f"{key.connection}/{key.channel}" if key else ""
    scope: Scope = "person" if by_person else "profile" if by_profile else "channel"

    async def read(there: Open) -> list[Line]:
        zones = {profile.timezone for profile in loaded.profiles.values()}
        days, months = await dates(there.store, zones)
        asked = [date] if date else [*days, *months]
        return [line for one in asked for line in await ledger(there.store, scope, one)]

    found = [line for line in look(loaded, channel, read) if room in {"", line.who}]
    if as_json:
        for line in found:
            click.echo(json.dumps(asdict(line), ensure_ascii=False))
    else:
        click.echo("\n".join(_told(found, loaded.settings.model.currency)) or "Nothing was spent then.")


def _told(lines: Sequence[Line], currency: str) -> list[str]:
    told: list[str] = []
    for date, same in groupby(lines, key=lambda line: line.date):
        told.append(f"{date}:")
        for line in same:
            told += _one(line, currency)
    return told


def _one(line: Line, currency: str) -> list[str]:
    spent = line.spent
    money = f", {spent.micros / MICROS:,.4f} {currency}" if spent.micros else ""
    who = f"{exact(line.who)} ({one_line(line.name)})" if line.name else exact(line.who)
    models = list(spent.tokens.items())
    only = f"  [{one_line(models[0][0])}]" if len(models) == 1 else ""
    reckoned = f" ({spent.reckoned:,} reckoned)" if spent.reckoned else ""
    head = f"  {who}: turns {spent.turns:,}, calls {spent.calls:,}{reckoned}, {_tokens(spent.total)}{money}{only}"
    return [head, *(f"    {one_line(model)}: {_tokens(one)}" for model, one in models if len(models) > 1)]


def _tokens(one: Tokens) -> str:
    return f"tokens in {one.whole_input:,} (from the cache {one.cache_read:,}), out {one.output:,}"
