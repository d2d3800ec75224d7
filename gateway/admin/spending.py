"""Spending: tokens and turns of channels, and what they cost by the prices that are set."""

from __future__ import annotations

from gateway.admin.operations import SOMEWHERE, Anywhere, Result, operation
from gateway.admin.visits import Visit
from gateway.conversation.rooms import Rooms
from gateway.spending import Accounts, Spent, cost, spent


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
    amounts = [_amount(visit, one) for one in await spent(visit.house.store, names)]
    rows = [
        ChannelSpent(channel=f"{key.connection}/{key.channel}", timezone=zone, day=day, month=month)
        for key, zone, day, month in zip(keys, zones, amounts[::2], amounts[1::2], strict=True)
    ]
    model = visit.loaded.settings.model
    return Spending(
        channels=sorted(rows, key=lambda one: -(one.month.input_tokens + one.month.output_tokens)),
        currency=model.currency if model.prices else "",
        is_whole=found.is_whole,
    )


def _amount(visit: Visit, one: Spent) -> Amount:
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
