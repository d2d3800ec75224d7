"""/usage: what was spent, of what, and in which words."""

from __future__ import annotations

from pathlib import Path

from config.limits import Limit
from gateway.conversation.records import Record
from gateway.costs.budgets import Call, reserve
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.store import Store
from tests.gateway.commands.world import ANA, MAX, NOW_MS, OPS, PROFILE, World

SETTINGS = "model: {prices: {fast: {input: 2, output: 10}}, currency: EUR}\n"
BUDGET = """
budget:
  person:
    day:
      tokens: 2000000
  channel:
    month:
      money: 9
      turns: 50
"""
SPENT = Spent(3, 4, {"fast": Tokens(1_000_000, 100_000, 500_000)})


def turn(usage: int, name: str = "t") -> list[Record]:
    return [
        Record("event", 0, {"turn": name}),
        Record("answer", 0, {"model": "fast", "usage": {"input_tokens": usage}}),
        Record("reply", 0, {"turn": name, "text": "x"}),
    ]


async def spend(store: Store, *, who: str = "U-MAX") -> None:
    actor = MAX if who == MAX.id else ANA
    await settle(store, Charge(Accounts.at(OPS, actor, "Asia/Shanghai", NOW_MS), SPENT), conversation_ms=10_000)


async def test_of_what_and_by_whom(world: World, store: Store) -> None:
    await spend(store)
    await spend(store, who="U-ANA")
    told = await world.told("/usage", MAX, history=[*turn(7), *turn(12_345, "t2")])
    lines = {line[2:].partition(":")[0]: line for line in told.split("\n")[1:]}
    assert "Asia/Shanghai" in told.split("\n")[0]
    assert "in 12,345 (from the cache 0), out 0; model calls 1" in lines["the last turn"]
    for own in ("you today", "you this month"):
        assert (
            lines[own] == f"- {own}: tokens in 1,500,000 (from the cache 500,000), out 100,000; model calls 4, turns 3"
        )
    for all_ in ("this conversation", "this channel today", "this channel this month"):
        assert "in 3,000,000" in lines[all_]
        assert "turns 6" in lines[all_]
    assert "cost" not in told


async def test_money_only_where_prices_are_set(store: Store, tmp_path: Path) -> None:
    world = World(store, tmp_path, settings=SETTINGS)
    await spend(store)
    told = await world.told("/usage", MAX)
    assert (
        "you today: tokens in 1,500,000 (from the cache 500,000), out 100,000; model calls 4, turns 3, cost 4.0000 EUR"
        in told
    )
    records = [Record("answer", 0, {"model": "other", "usage": {"input_tokens": 5}})]
    told = await world.told("/usage", MAX, history=[*turn(1)[:1], *records, *turn(1)[1:]])
    assert "cost 0.0000 EUR (without `other`, which has no price)" in told


async def test_where_nothing_was_said_it_says_so_in_figures_and_wrong_words_are_told(world: World) -> None:
    told = await world.told("/usage", MAX)
    assert "last turn" not in told
    assert "this conversation: tokens in 0" in told
    assert "nothing was done" in await world.told("/usage me", MAX)


async def test_limits_that_hold_are_told_with_what_is_spent_reserved_and_when_they_renew(
    store: Store, tmp_path: Path
) -> None:
    world = World(store, tmp_path, settings=SETTINGS, profile=PROFILE + BUDGET)
    await spend(store)
    accounts = Accounts.at(OPS, MAX, "Asia/Shanghai", NOW_MS)
    call = Call("t1//answer", "w1", 5_000, 1_230_000, 60_000)
    held_to = [Limit("person", "day", "tokens", 2_000_000), Limit("channel", "month", "money", 9_000_000)]
    await reserve(store, accounts, held_to, call, conversation_ms=10_000)
    *_, blank, limits, month_money, month_turns, day = (await world.told("/usage", MAX)).split("\n")
    assert (blank, limits) == ("", "Limits:")
    assert month_money.startswith(
        "- this channel's budget of this month: 0.00 of 9.00 EUR spent (and 1.23 EUR reserved"
    )
    assert "renews at " in month_money
    assert "3 of 50 questions spent; it renews at" in month_turns
    assert day.startswith("- your budget of today: 1,100,000 of 2,000,000 tokens spent (and 5,000 tokens reserved")
    assert "(Asia/Shanghai)" in day
