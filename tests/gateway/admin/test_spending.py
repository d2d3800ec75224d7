"""Budgets as those see them who look after the house."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config.limits import limits
from gateway.admin import spending
from gateway.conversation.key import ConversationKey
from gateway.costs.budgets import Call, reserve
from gateway.costs.spending import Accounts, Charge, Spent, Tokens, settle
from gateway.events import Actor
from gateway.store import Store
from tests.gateway.admin.world import ADMIN, CHANNEL_ADMIN, OWNER, ROOM, Admins, admins

BUDGET = """
budget:
  person: {day: {tokens: 1000}, month: {money: 2}}
  channel: {day: {turns: 50}}
"""
DEV = ConversationKey("slack-main", "C-DEV")
MAX, EVE = Actor("U-MAX", "Max"), Actor("U-EVE")


@pytest.fixture
async def there(store: Store, tmp_path: Path) -> Admins:
    made = await admins(store, tmp_path)
    for name in ("default", "other"):
        file = tmp_path / f"profiles/{name}.yaml"
        file.write_text(file.read_text().replace("Asia/Shanghai", "UTC") + BUDGET)  # or it is another day there
    made.world.loaded = made.world.loaded.again()
    return made


async def spend(there: Admins, who: Actor, tokens: int, key: ConversationKey = DEV) -> None:
    """So much is spent, and so much once more is reserved."""
    profile = there.loaded.profile_for(key.connection, key.channel)
    accounts = Accounts.under(profile, key, who, there.house.mailbox.now_ms())
    charge = Charge(accounts, Spent(1, 1, {"m": Tokens(tokens)}, tokens * 1_000))
    await settle(there.house.store, charge, conversation_ms=10_000)
    call = Call(f"next {who.id}", "w", tokens, tokens * 1_000, 60_000)
    await reserve(there.house.store, accounts, limits(profile.budget), call, conversation_ms=10_000)


def told(rows: Sequence[Any], whose: str) -> list[tuple[Any, ...]]:
    mine = [one for one in rows if one.whose == whose and "other.yaml" in one.rule]
    return [(one.name, one.period, one.unit, one.spent, one.held, one.left, one.most) for one in mine]


async def test_a_persons_budgets_are_told_to_owners_with_what_is_used_reserved_and_left(there: Admins) -> None:
    await spend(there, MAX, 300)
    rows = (await there.do("spending.budgets", OWNER)).rows
    assert told(rows, "slack-main/U-MAX") == [
        ("Max", "day", "tokens", 300, 300, 400, 1_000),
        ("Max", "month", "money", 0.3, 0.3, 1.4, 2),
    ]
    assert told(rows, "slack-main/C-DEV") == [("", "day", "turns", 1, 0, 49, 50)]
    assert {one.scope for one in rows if one.whose == "slack-main/U-MAX"} == {"person"}


async def test_whose_id_looks_like_anothers_is_told_apart(there: Admins) -> None:
    await spend(there, Actor("U-MAX "), 300)
    rows = (await there.do("spending.budgets", OWNER)).rows
    assert {one.whose for one in rows if one.scope == "person"} == {"slack-main/U-MAX<U+0020>"}
    lines = (await there.do("spending.ledger", OWNER, by="person")).lines
    assert [one.who for one in lines] == ["slack-main/U-MAX<U+0020>"]


async def test_it_is_one_row_for_each_profile_that_holds_the_person(there: Admins) -> None:
    """What somebody spent in one channel counts in all of the connection."""
    await spend(there, MAX, 300)
    rows = [one for one in (await there.do("spending.budgets")).rows if one.whose == "slack-main/U-MAX"]
    by_file = {(one.rule.partition(" ")[0].rpartition("/")[2], one.period): one.spent for one in rows}
    assert by_file == {
        ("other.yaml", "day"): 300,
        ("other.yaml", "month"): 0.3,
        ("default.yaml", "day"): 300,
        ("default.yaml", "month"): 0.3,
    }


@pytest.mark.parametrize("caller", [ADMIN, CHANNEL_ADMIN])
async def test_nobody_else_is_told_of_persons(there: Admins, caller: Any) -> None:
    await spend(there, MAX, 300, ConversationKey(*ROOM.split("/")))
    rows = (await there.do("spending.budgets", caller)).rows
    assert {one.scope for one in rows} == {"channel"}


async def test_it_says_so_where_there_are_too_many(there: Admins, monkeypatch: pytest.MonkeyPatch) -> None:
    await spend(there, MAX, 300)
    await spend(there, EVE, 100)
    assert (await there.do("spending.budgets")).is_whole
    monkeypatch.setattr(spending, "LISTED_MAX", 1)
    found = await there.do("spending.budgets")
    assert not found.is_whole
    assert {one.whose for one in found.rows if one.scope == "person"} == {"slack-main/U-MAX"}, "who spent most"
