"""What may be spent is reserved before it is: whoever asks at once, no limit is passed."""

from __future__ import annotations

import asyncio
import random
import secrets
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.limits import Limit
from config.settings import Price
from gateway.conversation.key import key_of
from gateway.costs.budgets import Balance, Call, Full, at_most, balances, renews_at, reserve, to_warn
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.costs.spending import spent as spent_of
from gateway.events import Actor
from gateway.store import Layout, Store, open_store

ROOM = key_of("slack-main", "C1", "t1")
NEW_YEAR_MS = 1_798_761_600_000
"""2027-01-01, midnight in UTC."""
HERE = Accounts.at(ROOM, Actor("U-ANA", "Ana"), "UTC", NEW_YEAR_MS, "finance")
DAY = Limit("person", "day", "tokens", 1_000)
MONTH = Limit("channel", "month", "money", 5_000_000)
CENTS = Limit("profile", "day", "money", 12_000)
TURNS = Limit("profile", "day", "turns", 2)


def call(name: str = "t1//answer", tokens: int = 400, **more: Any) -> Call:
    return replace(Call(name, "me", tokens, tokens * 10, 60_000), **more)


async def ask(store: Store, one: Call, held_to: Any = (DAY,), accounts: Accounts = HERE) -> Any:
    return await reserve(store, accounts, held_to, one, conversation_ms=10_000)


async def pay(store: Store, one: Call, tokens: int, accounts: Accounts = HERE, **more: Any) -> None:
    spent = Spent(calls=1, tokens={"fast": Tokens(tokens)}, micros=tokens * 10) if tokens else Spent()
    await settle(store, Charge(accounts, spent, one.name, one.by, **more), conversation_ms=10_000)


async def stands(store: Store, limit: Limit = DAY) -> tuple[int, int]:
    [one] = await balances(store, HERE, [limit])
    return one.spent, one.held


@pytest.mark.parametrize(
    ("period", "timezone", "now_ms", "renews"),
    [
        ("day", "UTC", NEW_YEAR_MS, "2027-01-02 00:00 +0000"),
        ("day", "Asia/Shanghai", NEW_YEAR_MS - 1, "2027-01-02 00:00 +0800"),
        ("month", "UTC", NEW_YEAR_MS - 1, "2027-01-01 00:00 +0000"),
        (
            "month",
            "Europe/Berlin",
            1_805_932_800_000,
            "2027-04-01 00:00 +0200",
        ),  # from March on, over the change of time
    ],
)
def test_it_renews_at_midnight_of_the_channels_time_zone(period: Any, timezone: str, now_ms: int, renews: str) -> None:
    assert f"{renews_at(period, timezone, now_ms):%Y-%m-%d %H:%M %z}" == renews


async def test_what_is_reserved_counts_until_it_is_settled_and_then_what_it_took(store: Store) -> None:
    assert await ask(store, call()) == {DAY: 0}
    assert await stands(store) == (0, 400)
    assert await ask(store, call("t2//answer")) == {DAY: 0}
    assert await ask(store, call("t3//answer")) == Full(DAY, 0, 800, 400, may_wait=True)
    await pay(store, call(), 150)
    assert await stands(store) == (150, 400)
    assert await ask(store, call("t3//answer")) == {DAY: 150}
    assert await ask(store, call("t4//answer", 1_001)) == Full(DAY, 150, 800, 1_001, may_wait=False)


async def test_it_is_reserved_in_all_accounts_or_in_none(store: Store) -> None:
    await ask(store, call("t0//answer", 500, micros=4_999_000), [MONTH])
    assert await ask(store, call(), [MONTH, DAY]) == Full(MONTH, 0, 4_999_000, 4_000, may_wait=True)
    assert await stands(store) == (0, 0)


async def test_of_several_limits_the_one_that_waiting_does_not_help_is_told(store: Store) -> None:
    await ask(store, call("t0//answer", 500, micros=4_999_000), [MONTH])
    await pay(store, call("other"), 900)
    assert await ask(store, call(), [MONTH, DAY]) == Full(DAY, 900, 0, 400, may_wait=False)


async def test_whoever_goes_on_replaces_what_the_one_before_had_reserved(store: Store) -> None:
    """And that one, if it lives after all, gives back nothing that is not its own; what it took was spent all the same."""
    await ask(store, call(by="dead"))
    await ask(store, call(by="next", tokens=300))
    assert await stands(store) == (0, 300)
    await pay(store, call(by="dead"), 100)
    assert await stands(store) == (100, 300)
    await pay(store, call(by="next"), 100)
    assert await stands(store) == (200, 0)


async def test_what_nobody_settles_ends_by_itself(store: Store) -> None:
    await ask(store, call(ttl_ms=30))
    await ask(store, call("t2//answer", ttl_ms=60_000))
    async with asyncio.timeout(5):
        while await stands(store) != (0, 400):
            await asyncio.sleep(0.01)
    assert await ask(store, call("t3//answer", 600)) == {DAY: 0}


@pytest.mark.parametrize("held_to", [[DAY], [TURNS], []])
async def test_what_may_have_been_settled_is_settled_once(store: Store, held_to: list[Limit]) -> None:
    """Whether anything was reserved for it or not: nothing is, where turns alone have a limit."""
    for number, took in enumerate((150, 50)):
        await ask(store, call(turn="t1"), held_to)
        for _ in range(3):
            await pay(store, call(), took, turn="t1", name=f"{number}")
    assert await stands(store) == (200, 0)
    [spent] = await spent_of(store, [HERE.person_day])
    assert (spent.calls, spent.turns) == (2, 1)


async def test_a_turn_counts_once_whether_with_its_first_call_or_at_its_end(store: Store) -> None:
    """A budget may come or go while it runs, or its worker die in between."""
    end = Charge(HERE, Spent(), turn="t1", counts=True)
    for name in ("dead", "next"):
        await settle(store, replace(end, name=name), conversation_ms=10_000)
    await ask(store, call(turn="t1"), [TURNS])
    await ask(store, call(turn="t2"), [TURNS])
    await settle(store, replace(end, turn="t2", name="end"), conversation_ms=10_000)
    assert [one.turns for one in await spent_of(store, [HERE.person_day, HERE.conversation])] == [2, 2]


async def test_a_turn_counts_once_with_its_first_call_whoever_makes_it(store: Store) -> None:
    for by in ("dead", "next"):
        assert isinstance(await ask(store, call(by=by, turn="t1"), [TURNS]), dict)
    await ask(store, call("t2//answer", turn="t2"), [TURNS])
    assert await ask(store, call("t3//answer", turn="t3"), [TURNS]) == Full(TURNS, 2, 0, 1, may_wait=False)
    assert isinstance(await ask(store, call(), [TURNS]), dict), "a further call of a turn is none"
    assert [one.turns for one in await spent_of(store, [HERE.person_month, HERE.conversation])] == [2, 2]


async def test_a_turn_that_was_counted_goes_on_whatever_other_turns_counted_since(store: Store) -> None:
    """Others ask where that limit does not hold, while this one waits for a word."""
    first = call(turn="t1")
    await ask(store, first, [TURNS])
    for name in ("t2", "t3"):
        await ask(store, call(f"{name}//answer", turn=name), [])
    for counted in (call(), first):
        assert await ask(store, counted, [TURNS]) == {TURNS: 3}
    assert await ask(store, call("t4//answer", turn="t4"), [TURNS]) == Full(TURNS, 3, 0, 1, may_wait=False)


async def test_turns_are_told_with_this_one_and_no_higher_when_it_is_asked_again(store: Store) -> None:
    """So that a warning says the same whoever gives it, before a crash and after."""
    for by in ("dead", "next"):
        assert await ask(store, call(by=by, turn="t1"), [TURNS]) == {TURNS: 1}
    assert await ask(store, call("t2//answer", turn="t2"), [TURNS]) == {TURNS: 2}


async def test_a_limit_of_an_account_that_there_is_none_of_holds_nobody(store: Store) -> None:
    nobody = Accounts.at(ROOM, None, "UTC", NEW_YEAR_MS)
    assert await ask(store, call(tokens=5_000), [DAY], nobody) == {}
    assert await balances(store, nobody, [DAY, TURNS]) == []


async def test_a_warning_is_given_once_and_again_only_by_the_turn_that_gave_it(store: Store) -> None:
    await pay(store, call(), 900)
    assert await to_warn(store, {DAY: HERE, MONTH: HERE}, "t1") == [DAY, MONTH]
    assert await to_warn(store, {DAY: HERE}, "t2") == []
    assert await to_warn(store, {DAY: HERE}, "t1") == [DAY], "its worker died before the answer was written"
    tomorrow = Accounts.at(ROOM, Actor("U-ANA", "Ana"), "UTC", NEW_YEAR_MS + 86_400_000)
    assert await to_warn(store, {DAY: tomorrow, MONTH: tomorrow}, "t3") == [DAY]


def test_a_call_is_reckoned_by_the_dearest_of_its_prices() -> None:
    prices = {"fast": Price(input=3, output=15, cache_read=0.3, cache_write=3.75)}
    assert at_most(1_000, 100, "fast-20270101", prices) == 3_750 + 1_500
    assert at_most(1_000, 100, "slow", prices) is None


async def test_every_key_of_a_reservation_ends_by_itself(store: Store) -> None:
    await ask(store, call(turn="t1"), [DAY, MONTH, TURNS])
    left = {key: await store.redis.pttl(key) async for key in store.redis.scan_iter(f"{store.layout.prefix}:*")}
    assert min(left.values()) > 0, left
    assert any(key.endswith(b":until") for key in left)


Step = tuple[int, int, int, str]
STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 600), st.integers(0, 600), st.sampled_from(["pays", "dies", "fails"])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, seed=st.integers(0, 2**31))
async def test_whatever_many_turns_do_at_once_no_limit_is_ever_passed(
    redis_url: str, layout: Layout, steps: list[Step], seed: int
) -> None:
    """Each turn calls, pays less than it reserved, fails, or dies and is taken over; over several connections."""
    order, held_to = random.Random(seed), [Limit("channel", "month", "tokens", 1_500), DAY, CENTS, TURNS]
    fresh = replace(layout, prefix=f"{layout.prefix}:{secrets.token_hex(4)}")
    stores = [open_store(redis_url, fresh, timeout_s=5) for _ in range(3)]
    seen: list[Balance] = []

    async def one(number: int, turn: int, most: int, took: int, end: str) -> None:
        where, mine = order.choice(stores), call(f"t{turn}//answer", most, by=f"w{number}", turn=f"t{turn}")
        told = await ask(where, mine, held_to)
        seen.extend(await balances(order.choice(stores), HERE, held_to))
        if not isinstance(told, Full) and end != "dies":
            await pay(where, mine, min(most, took) if end == "pays" else 0)
            seen.extend(await balances(order.choice(stores), HERE, held_to))

    async def turn(number: int) -> None:
        """A conversation has one writer at a time, so the calls of a turn follow each other."""
        for at, step in enumerate(steps):
            if step[0] == number:
                await one(at, *step)

    try:
        await asyncio.gather(*map(turn, range(6)))
    finally:
        for each in stores:
            await each.close()
    for now in seen:
        assert now.spent + now.held <= now.limit.most, now


@pytest.mark.parametrize(
    ("timezone", "date", "renews_day", "hours"),
    [
        ("Europe/Berlin", "2027-03-28", "2027-03-29 00:00 +0200", 23),
        ("Europe/Berlin", "2027-10-31", "2027-11-01 00:00 +0100", 25),
        ("America/New_York", "2027-11-07", "2027-11-08 00:00 -0500", 25),
        ("Asia/Kathmandu", "2027-12-31", "2028-01-01 00:00 +0545", 24),
        ("Pacific/Auckland", "2028-02-29", "2028-03-01 00:00 +1300", 24),
    ],
)
def test_a_day_is_one_account_however_long_it_is_and_renews_with_the_next(
    timezone: str, date: str, renews_day: str, hours: int
) -> None:
    """Over a change of time, at the end of a month, and of a year."""
    begins = datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1_000
    ends = begins + hours * 3_600_000
    at = [Accounts.at(ROOM, Actor("U-ANA"), timezone, int(ms)) for ms in (begins - 1, begins, ends - 1, ends)]
    assert [one.person_day.endswith(date) for one in at] == [False, True, True, False]
    for ms in (begins, ends - 1):
        renewed = renews_at("day", timezone, int(ms))
        assert f"{renewed:%Y-%m-%d %H:%M %z}" == renews_day
        assert renewed.timestamp() * 1_000 == ends
