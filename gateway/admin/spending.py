"""Spending: tokens and turns of channels, and what they cost by the prices that are set."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date as date_
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from config.limits import MICROS, Scope, counts_profile, limits
from config.rules import rule_of
from gateway.admin.operations import SOMEWHERE, Anywhere, Input, Nothing, Result, operation
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.rooms import Rooms
from gateway.costs.budgets import renews_at, standing
from gateway.costs.ledger import dates, ledger
from gateway.costs.spending import Accounts, Spent, Tokens, cost, spent
from skills.visible import one_line

LISTED_MAX: Final = 500


class Amount(Result):
    turns: int
    calls: int
    """Of models."""
    input_tokens: int
    """Those that came from the provider's cache among them."""
    cached_tokens: int
    output_tokens: int
    cost: float
    """In `currency`, of models that have a price."""
    unpriced: list[str]
    """Models without one."""


def amount(visit: Visit, one: Spent) -> Amount:
    """What was spent, at the prices of now."""
    total, found = one.total, cost(one, visit.loaded.settings.model.prices)
    return Amount(
        turns=one.turns,
        calls=one.calls,
        input_tokens=total.whole_input,
        cached_tokens=total.cache_read,
        output_tokens=total.output,
        cost=found.amount,
        unpriced=list(found.unpriced),
    )


def currency(visit: Visit) -> str:
    """Empty: no price is set."""
    model = visit.loaded.settings.model
    return model.currency if model.prices else ""


class ChannelSpent(Result):
    channel: str
    timezone: str
    """Of its days and months."""
    day: Amount
    """Today."""
    month: Amount


class Spending(Result):
    channels: list[ChannelSpent]
    """Those with the most tokens in this month first."""
    currency: str
    """Empty: no price is set (`model.prices`)."""
    is_whole: bool
    """Whether these are all channels; there may be too many to tell."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: Anywhere) -> Spending:
    """What was spent today and in this month: in one channel, or in all that you look after."""
    if given.channel:
        await visit.look(given.channel)
        found = Rooms((visit.key(given.channel),), is_whole=True)
    else:
        found = await visit.rooms()
    keys = found.keys
    zones = [visit.loaded.profile_for(one.connection, one.channel).timezone for one in keys]
    accounts = [Accounts.at(key, None, zone, visit.at_ms) for key, zone in zip(keys, zones, strict=True)]
    names = [name for one in accounts for name in (one.channel_day, one.channel_month)]
    amounts = [amount(visit, one) for one in await spent(visit.house.store, names)]
    rows = [
        ChannelSpent(channel=f"{key.connection}/{key.channel}", timezone=zone, day=day, month=month)
        for key, zone, day, month in zip(keys, zones, amounts[::2], amounts[1::2], strict=True)
    ]
    return Spending(
        channels=sorted(rows, key=lambda one: -(one.month.input_tokens + one.month.output_tokens)),
        currency=currency(visit),
        is_whole=found.is_whole,
    )


class LedgerWanted(Input):
    by: Literal["channel", "person", "model"] = "channel"
    """Persons are for owners and the operator: what somebody spends is spent in all channels of a connection."""
    date: Annotated[str, Field(pattern=r"^([0-9]{4}-[0-9]{2}(-[0-9]{2})?)?$")] = ""
    """A day or a month, by the time zone of each channel; empty: the month that it is now."""


class LedgerLine(Result):
    who: str
    """`connection/channel`, `connection/id` of a person, or the name of a model."""
    name: str
    """Of a person, as the platform told it."""
    spent: Amount


class Ledger(Result):
    by: Literal["channel", "person", "model"]
    date: str
    dates: list[str]
    """Days and months that are kept, the latest first of each."""
    lines: list[LedgerLine]
    """Who spent most first."""
    total: Amount
    """Of all lines, those that are not told as well."""
    currency: str
    """Empty: no price is set (`model.prices`)."""
    is_whole: bool
    """Whether all lines are told."""


@operation(SOMEWHERE)
async def ledger_(visit: Visit, given: LedgerWanted) -> Ledger:
    """Who spent what on a day or in a month: by channel, of those that you look after, by person, or by model."""
    if given.by == "person":
        visit.look_everywhere()
    kept = await _kept(visit)
    date = given.date or next(one for one in kept if len(one) == len("2027-01"))
    found = await ledger(visit.house.store, "person" if given.by == "person" else "channel", date)
    if not visit.sees_all:
        mine = {f"{one.connection}/{one.channel}" for one in (await visit.rooms()).keys}
        found = [one for one in found if one.who in mine]
    whole = _sum(one.spent for one in found)
    if given.by == "model":
        parts = [(name, "", Spent(tokens={name: tokens})) for name, tokens in whole.tokens.items()]
    else:
        parts = [(one.who, one.name, one.spent) for one in found]
    lines = [LedgerLine(who=one_line(who), name=one_line(name), spent=amount(visit, one)) for who, name, one in parts]
    lines.sort(key=lambda one: (-one.spent.cost, -one.spent.input_tokens - one.spent.output_tokens))
    return Ledger(
        by=given.by,
        date=date,
        dates=kept,
        lines=lines[:LISTED_MAX],
        total=amount(visit, whole),
        currency=currency(visit),
        is_whole=len(lines) <= LISTED_MAX,
    )


async def _kept(visit: Visit) -> list[str]:
    """Days and months that there may be something of: today and the two days before, this month and the two before."""
    days, months = await dates(visit.house.store, {one.timezone for one in visit.loaded.profiles.values()})
    last, month = date_.fromisoformat(days[-1]), date_.fromisoformat(f"{months[0]}-01")
    days += [f"{last - timedelta(days=number)}" for number in (1, 2)]
    for _ in range(2):
        month = (month - timedelta(days=1)).replace(day=1)
        months.append(f"{month:%Y-%m}")
    return [*sorted({*days}, reverse=True), *sorted({*months}, reverse=True)]


def _sum(all_: Iterable[Spent]) -> Spent:
    turns, calls, tokens = 0, 0, dict[str, Tokens]()
    for one in all_:
        turns, calls = turns + one.turns, calls + one.calls
        for name, more in one.tokens.items():
            tokens[name] = tokens.get(name, Tokens()) + more
    return Spent(turns, calls, tokens)


class BudgetRow(Result):
    """How far a limit of a channel, or of all channels of a profile together, is used."""

    whose: str
    """`connection/channel`, or the profile's name."""
    scope: Scope
    period: Literal["day", "month"]
    unit: Literal["tokens", "money", "turns"]
    spent: float
    held: float
    """Reserved for calls that are under way."""
    most: float
    rule: str
    """The line that says so."""
    renews: str
    """When, by the channel's time zone."""


class Budgets(Result):
    rows: list[BudgetRow]
    """Those that are used most first."""
    currency: str
    is_whole: bool
    """Whether these are of all channels; there may be too many to tell."""


@operation(SOMEWHERE)
async def budgets(visit: Visit, given: Nothing) -> Budgets:
    """The budgets of the channels that you look after, and how far they are used."""
    del given
    found = await visit.rooms()
    rows: dict[tuple[str, str], BudgetRow] = {}
    for key in found.keys:
        for one in await _budgets(visit, key):
            rows[one.whose, f"{one.scope} {one.period} {one.unit}"] = one
    ordered = sorted(rows.values(), key=lambda one: -(one.spent + one.held) / (one.most or 1))
    return Budgets(rows=ordered, currency=visit.loaded.settings.model.currency, is_whole=found.is_whole)


async def _budgets(visit: Visit, key: ConversationKey) -> list[BudgetRow]:
    profile = visit.loaded.profile_for(key.connection, key.channel)
    held_to = [one for one in limits(profile.budget) if one.scope != "person"]
    together = profile.name if counts_profile(profile.budget) else ""
    accounts = Accounts.at(key, None, profile.timezone, visit.at_ms, together)
    rows = []
    for one in await standing(visit.house.store, accounts, held_to):
        limit, size = one.limit, MICROS if one.limit.unit == "money" else 1
        rows.append(
            BudgetRow(
                whose=profile.name if limit.scope == "profile" else f"{key.connection}/{key.channel}",
                scope=limit.scope,
                period=limit.period,
                unit=limit.unit,
                spent=one.spent / size,
                held=one.held / size,
                most=limit.most / size,
                rule=rule_of(visit.loaded, profile, limit.key, ""),
                renews=f"{renews_at(limit.period, profile.timezone, visit.at_ms):%Y-%m-%d %H:%M} {profile.timezone}",
            )
        )
    return rows
