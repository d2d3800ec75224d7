"""Spending: tokens and turns of channels, and what they cost by the prices that are set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date as date_
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from config.limits import MICROS, Scope, limits
from config.profiles import Profile, profiles_of
from config.rules import rule_of
from gateway.admin.operations import SOMEWHERE, Anywhere, Input, Nothing, Result, operation
from gateway.admin.visits import Visit
from gateway.connections import PAGE
from gateway.conversation.key import ConversationKey
from gateway.conversation.rooms import Rooms
from gateway.costs.budgets import Balance, balances, renews_at
from gateway.costs.ledger import dates, ledger
from gateway.costs.spending import Accounts, Spent, Tokens, cost, spent
from gateway.events import Actor
from skills.visible import exact, one_line

LISTED_MAX: Final = 500
ASKED_AT_ONCE: Final = 200
"""Accounts that travel to Redis together."""


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
    reckoned: int
    """Calls whose tokens the model's service did not count, or not all, and which were reckoned."""


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
        reckoned=one.reckoned,
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


def _there_is(date: str) -> str:
    if date:
        date_.fromisoformat(date if len(date) > len("2026-01") else f"{date}-01")
    return date


class LedgerWanted(Input):
    by: Literal["channel", "person", "model"] = "channel"
    """Persons are for owners and the operator: what somebody spends is spent in all channels of a connection."""
    date: Annotated[str, Field(pattern=r"^([0-9]{4}-[0-9]{2}(-[0-9]{2})?)?$"), AfterValidator(_there_is)] = ""
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
    lines = [LedgerLine(who=exact(who), name=one_line(name), spent=amount(visit, one)) for who, name, one in parts]
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
    turns, calls, reckoned, tokens = 0, 0, 0, dict[str, Tokens]()
    for one in all_:
        turns, calls, reckoned = turns + one.turns, calls + one.calls, reckoned + one.reckoned
        for name, more in one.tokens.items():
            tokens[name] = tokens.get(name, Tokens()) + more
    return Spent(turns, calls, tokens, reckoned=reckoned)


class BudgetRow(Result):
    """How far a limit is used: of a person, of a channel, or of all channels of a profile together."""

    whose: str
    """`connection/id` of a person, `connection/channel`, or the profile's name."""
    name: str
    """Of a person, as the platform told it."""
    scope: Scope
    period: Literal["day", "month"]
    unit: Literal["tokens", "money", "turns"]
    spent: float
    held: float
    """Reserved for calls that are under way."""
    left: float
    most: float
    rule: str
    """The line that says so."""
    renews: str
    """When, by the profile's time zone."""


class Budgets(Result):
    rows: list[BudgetRow]
    """Those that are used most first."""
    currency: str
    is_whole: bool
    """Whether these are of all channels and persons; there may be too many to tell."""


@operation(SOMEWHERE)
async def budgets(visit: Visit, given: Nothing) -> Budgets:
    """Budgets of the channels that you look after, of all persons for owners and the operator, and how far they are used."""
    del given
    found = await visit.rooms()
    asked, is_whole = [_Asked(visit.loaded.profile_for(one.connection, one.channel), one) for one in found.keys], True
    if visit.sees_all:
        of_persons, is_whole = await _persons(visit)
        asked += of_persons
    rows: dict[tuple[str, str], BudgetRow] = {}
    for at in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[at : at + ASKED_AT_ONCE]
        for one, standings in zip(some, await asyncio.gather(*(_stands(visit, one) for one in some)), strict=True):
            for now in standings:
                row = _row(visit, one, now)
                rows[row.whose, f"{row.rule} {row.scope} {row.period} {row.unit}"] = row
    ordered = sorted(rows.values(), key=lambda one: -(one.spent + one.held) / (one.most or 1))
    return Budgets(rows=ordered, currency=visit.loaded.settings.model.currency, is_whole=found.is_whole and is_whole)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose limits are looked at: a person's, or else a room's and its profile's."""

    profile: Profile
    room: ConversationKey
    """Of a person: any of the connection, for a person is one in all of them."""
    person: Actor | None = None


async def _persons(visit: Visit) -> tuple[list[_Asked], bool]:
    """Those who spent something in this month, under each profile of their connection that has a limit for persons; and whether
    these are all.
    """
    under: dict[str, list[tuple[str, Profile]]] = {}
    for connection in (PAGE[0], *visit.loaded.settings.connections):
        for name in profiles_of(visit.loaded.settings.channels, connection):
            profile = visit.loaded.profiles[name]
            if any(one.scope == "person" for one in limits(profile.budget)):
                under.setdefault(_month(profile, visit.at_ms), []).append((connection, profile))
    asked: list[_Asked] = []
    is_whole = True
    for month, places in under.items():
        lines = await ledger(visit.house.store, "person", month)
        is_whole = is_whole and len(lines) <= LISTED_MAX
        for line in lines[:LISTED_MAX]:
            connection, _, id_ = line.who.partition("/")
            room = ConversationKey(connection, "*")
            asked += [
                _Asked(one, room, Actor.by_id(id_, name=line.name)) for where, one in places if where == connection
            ]
    return asked, is_whole


def _month(profile: Profile, now_ms: int) -> str:
    return f"{datetime.fromtimestamp(now_ms / 1000, ZoneInfo(profile.timezone)):%Y-%m}"


async def _stands(visit: Visit, asked: _Asked) -> list[Balance]:
    held_to = [one for one in limits(asked.profile.budget) if (one.scope == "person") == (asked.person is not None)]
    accounts = Accounts.under(asked.profile, asked.room, asked.person, visit.at_ms)
    return await balances(visit.house.store, accounts, held_to)


def _row(visit: Visit, asked: _Asked, now: Balance) -> BudgetRow:
    limit, profile, size = now.limit, asked.profile, MICROS if now.limit.unit == "money" else 1
    whose = f"{asked.room.connection}/{asked.person.id if asked.person else asked.room.channel}"
    return BudgetRow(
        whose=exact(profile.name if limit.scope == "profile" else whose),
        name=one_line(asked.person.name) if asked.person else "",
        scope=limit.scope,
        period=limit.period,
        unit=limit.unit,
        spent=now.spent / size,
        held=now.held / size,
        left=max(0, limit.most - now.spent - now.held) / size,
        most=limit.most / size,
        rule=rule_of(visit.loaded, profile, limit.key, ""),
        renews=f"{renews_at(limit.period, profile.timezone, visit.at_ms):%Y-%m-%d %H:%M} {profile.timezone}",
    )
