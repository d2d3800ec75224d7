"""`deskmate usage`, as an operator types it."""

from __future__ import annotations

import json
import time

import pytest

from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.events import Actor
from gateway.store import Store
from tests.gateway.cli.test_acts import Typed, typed, world  # noqa: F401
from tests.gateway.commands.world import ANA, DEV, MAX, OPS

BOTH = {"fast": Tokens(1_000, 100, 500), "slow": Tokens(10)}


@pytest.fixture
async def spent(store: Store) -> None:
    now_ms = int(time.time() * 1000)
    for key, actor, tokens in ((OPS, MAX, BOTH), (DEV, ANA, {"fast": Tokens(7)})):
        accounts = Accounts.at(key, actor, "UTC", now_ms)
        await settle(store, Charge(accounts, Spent(1, 2, tokens, 2_500_000)), conversation_ms=10_000)


@pytest.mark.usefixtures("spent")
async def test_by_channel_and_by_person_with_the_models(typed: Typed) -> None:  # noqa: F811
    lines = (await typed("usage")).splitlines()
    assert len([line for line in lines if line.endswith(":")]) == 2, "today, and this month"
    assert "  slack-main/C-OPS: turns 1, calls 2, tokens in 1,510 (from the cache 500), out 100, 2.5000 USD" in lines
    assert "    slow: tokens in 10 (from the cache 0), out 0" in lines
    assert "  slack-main/C-DEV: turns 1, calls 2, tokens in 7 (from the cache 0), out 0, 2.5000 USD  [fast]" in lines
    told = await typed("usage", "--person")
    assert "slack-main/U-MAX" in told
    assert "C-OPS" not in told


@pytest.mark.usefixtures("spent")
async def test_one_channel_and_for_programs(typed: Typed) -> None:  # noqa: F811
    told = await typed("usage", "slack-main/C-DEV", "--json")
    read = [json.loads(line) for line in told.splitlines()]
    assert [one["who"] for one in read] == ["slack-main/C-DEV"] * 2
    assert read[0]["spent"]["tokens"] == {"fast": {"input": 7, "output": 0, "cache_read": 0, "cache_write": 0}}


async def test_where_nothing_was_spent_it_says_so(typed: Typed) -> None:  # noqa: F811
    assert await typed("usage", "--date", "2020-01") == "Nothing was spent then.\n"
    assert "not both" in await typed.fails("usage", "slack-main/C-DEV", "--person")


async def test_whose_id_looks_like_anothers_is_told_apart(store: Store, typed: Typed) -> None:  # noqa: F811
    """Of a time before such ids were refused."""
    for id_ in ("own", "own ", "own\u00a0"):
        accounts = Accounts.at(DEV, Actor(id_), "UTC", int(time.time() * 1000))
        await settle(store, Charge(accounts, Spent(1, 2, {"fast": Tokens(7)}, 0)), conversation_ms=10_000)
    told = await typed("usage", "--person")
    assert [told.count(f"slack-main/{one}: ") for one in ("own", "own<U+0020>", "own<U+00A0>")] == [2, 2, 2]
