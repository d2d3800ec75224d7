"""What was spent: accounts, sums and prices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from config.settings import Price
from gateway.conversation.key import key_of
from gateway.conversation.records import Record
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, cost, settle, spent
from gateway.events import Actor
from gateway.store import Store

ROOM = key_of("slack-main", "C1", "t1")
ANA = Actor("U-ANA", "Ana")
NEW_YEAR_MS = 1_798_761_600_000
"""2027-01-01, midnight in UTC."""
SOME = Spent(1, 2, {"fast": Tokens(10, 5, 100, 7)})


def at(now_ms: int = NEW_YEAR_MS, timezone: str = "UTC", actor: Actor | None = ANA, key: Any = ROOM) -> Accounts:
    return Accounts.at(key, actor, timezone, now_ms)


def answer(model: str = "fast", **usage: int) -> Record:
    return Record("answer", 0, {"model": model, "usage": {f"{name}_tokens": number for name, number in usage.items()}})


def test_days_and_months_are_those_of_the_channels_time_zone() -> None:
    assert at(NEW_YEAR_MS - 1).channel_day.endswith(":2026-12-31")
    assert at(NEW_YEAR_MS).channel_day.endswith(":2027-01-01")
    assert at(NEW_YEAR_MS - 1, "Asia/Shanghai").person_month.endswith(":2027-01")


def test_accounts_are_of_one_person_on_one_platform_and_of_one_room() -> None:
    other_thread, other_room = key_of("slack-main", "C1", "t2"), key_of("slack-main", "C2", "t1")
    assert at(key=other_thread).conversation != at().conversation
    assert at(key=other_thread).channel_day == at().channel_day
    assert at(key=other_room).channel_day != at().channel_day
    assert at(key=other_room).person_day == at().person_day
    assert at(key=key_of("telegram", "C1", "t1")).person_day != at().person_day
    assert at(actor=None).person_day == ""


async def test_what_is_added_by_many_at_once_is_all_there(store: Store) -> None:
    await asyncio.gather(*(settle(store, Charge(at(), SOME), conversation_ms=10_000) for _ in range(20)))
    month, person = await spent(store, [at().channel_month, at().person_day])
    assert month == person == Spent(20, 40, {"fast": Tokens(200, 100, 2_000, 140)})


async def test_another_day_is_another_account_of_the_same_month(store: Store) -> None:
    for later_ms in (0, 86_400_000):
        await settle(store, Charge(at(NEW_YEAR_MS + later_ms), SOME), conversation_ms=10_000)
    day, month, conversation, nobody = await spent(
        store, [at().channel_day, at().channel_month, at().conversation, at(actor=Actor("U-LI")).person_day]
    )
    assert (day.turns, month.turns, conversation.turns, nobody) == (1, 2, 2, Spent())


async def test_every_account_ends_by_itself(store: Store) -> None:
    await settle(store, Charge(at(), SOME), conversation_ms=10_000)
    left = [await store.redis.pttl(key) async for key in store.redis.scan_iter(f"{store.layout.prefix}:*")]
    assert len(left) == 5 + 2, "the accounts, and the lists of those of the day and of the month"
    assert min(left) > 0


def test_records_are_added_up_by_model_and_those_that_cost_nothing_are_no_calls() -> None:
    made = [
        answer(input=1, output=2),
        answer("slow", cache_read=3),
        answer(cache_write=4),
        answer(),
        Record("summary", 0, {"usage": {"input_tokens": 9}}),
        Record("reply", 0, {}),
    ]
    assert Spent.of(made) == Spent(
        0, 4, {"fast": Tokens(1, 2, 0, 4), "slow": Tokens(cache_read=3), "?": Tokens(input=9)}
    )
    assert Spent.of(made).total == Tokens(10, 2, 3, 4)


PRICES = {
    "fast": Price(input=3, output=15, cache_read=0.3, cache_write=3.75),
    "fast-lite": Price(input=1, output=2),
}


@pytest.mark.parametrize(
    ("model", "tokens", "amount"),
    [
        ("fast", Tokens(1_000_000, 0, 0, 0), 3),
        ("fast", Tokens(0, 2_000_000, 0, 0), 30),
        ("fast", Tokens(0, 0, 1_000_000, 1_000_000), 4.05),
        ("fast-20270101", Tokens(1_000_000), 3),
        ("fast-lite-20270101", Tokens(1_000_000), 1),
        ("fast-lite", Tokens(0, 0, 1_000_000, 1_000_000), 2),
    ],
)
def test_a_price_is_for_a_million_tokens_of_its_kind(model: str, tokens: Tokens, amount: float) -> None:
    assert cost(Spent(tokens={model: tokens}), PRICES).amount == pytest.approx(amount)


def test_what_has_no_price_is_named_and_not_free() -> None:
    found = cost(Spent(tokens={"faster": Tokens(5), "fast": Tokens(1_000_000)}), PRICES)
    assert found.amount == pytest.approx(3)
    assert found.unpriced == ("faster",)
