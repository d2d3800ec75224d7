"""Who spent what, for those who look after the house."""

from __future__ import annotations

from gateway.conversation.key import key_of
from gateway.costs.ledger import Line, dates, ledger
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.events import Actor
from gateway.store import Store

ROOM = key_of("slack-main", "C1", "t1")
NEW_YEAR_MS = 1_798_761_600_000
"""2027-01-01, midnight in UTC."""


async def spend(store: Store, who: str, tokens: int, at_ms: int = NEW_YEAR_MS, profile: str = "") -> Spent:
    spent = Spent(1, 2, {"fast": Tokens(tokens)}, tokens * 3)
    accounts = Accounts.at(ROOM, Actor(who, who.title()), "UTC", at_ms, profile)
    await settle(store, Charge(accounts, spent), conversation_ms=10_000)
    return spent


async def test_who_spent_most_comes_first_with_the_name_that_the_platform_told(store: Store) -> None:
    little, much = await spend(store, "ANA", 5), await spend(store, "MAX", 7)
    assert await ledger(store, "person", "2027-01-01") == [
        Line("2027-01-01", "person", "slack-main/MAX", "Max", much),
        Line("2027-01-01", "person", "slack-main/ANA", "Ana", little),
    ]
    [channel] = await ledger(store, "channel", "2027-01")
    assert (channel.who, channel.name, channel.spent.micros) == ("slack-main/C1", "", 36)
    assert await ledger(store, "profile", "2027-01") == []


async def test_each_day_is_listed_by_itself_and_months_have_all(store: Store) -> None:
    await spend(store, "ANA", 5, profile="finance")
    await spend(store, "ANA", 5, NEW_YEAR_MS + 86_400_000, profile="finance")
    assert [len(await ledger(store, "person", day)) for day in ("2027-01-01", "2027-01-02", "2027-01-03")] == [1, 1, 0]
    [month] = await ledger(store, "profile", "2027-01")
    assert (month.who, month.spent.turns) == ("finance", 2)


async def test_the_names_of_keys_tell_nobody_who_it_is(store: Store) -> None:
    await spend(store, "ANA", 5)
    keys = [key async for key in store.redis.scan_iter(f"{store.layout.prefix}:*")]
    assert not any(b"ANA" in key for key in keys)


async def test_it_is_more_than_one_day_where_channels_have_several_time_zones(store: Store) -> None:
    days, months = await dates(store, ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
    assert len(days) == 2
    assert {day[:7] for day in days} == set(months)
