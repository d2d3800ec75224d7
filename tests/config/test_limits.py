"""The lines of a profile's budget, as they may be written and may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.limits import Limit, counts_profile, limits, price_of, unpriced
from config.profiles import Budget, read_profiles
from config.settings import Price


def budget(**of: object) -> Budget:
    return Budget.model_validate(of)


def test_they_are_told_months_first_and_by_their_key() -> None:
    """Of two that are used up, the later one says when it goes on."""
    found = limits(budget(person={"day": {"tokens": 5, "turns": 1}}, profile={"month": {"money": 2.5}}))
    assert found == (
        Limit("profile", "month", "money", 2_500_000),
        Limit("person", "day", "tokens", 5),
        Limit("person", "day", "turns", 1),
    )
    assert found[0].key == "budget.profile.month.money"
    assert limits(Budget()) == ()


def test_what_all_channels_spend_is_counted_only_where_that_is_limited() -> None:
    assert counts_profile(budget(profile={"day": {"turns": 1}}))
    assert not counts_profile(budget(channel={"day": {"turns": 1}}))


def test_a_name_has_its_own_price_or_that_of_what_it_begins_with() -> None:
    prices = {"fast": Price(input=1, output=2), "fast-lite": Price(input=0.5, output=1)}
    assert price_of("fast-lite-20270101", prices) == prices["fast-lite"]
    assert unpriced(["fast-2", "faster", "faster"], prices) == ["faster"]


@pytest.mark.parametrize(
    ("written", "key", "told"),
    [
        ("person: {day: {tokens: -1}}", "budget.person.day.tokens", "at least 1"),
        ("person: {day: {tokens: 1.5}}", "budget.person.day.tokens", "whole number"),
        ("channel: {month: {money: 0}}", "budget.channel.month.money", "above 0"),
        ("channel: {month: {money: true}}", "budget.channel.month.money", "number"),
        ("profile: {week: {turns: 1}}", "budget.profile.week", "day, month"),
        ("people: {day: {turns: 1}}", "budget.people", "person"),
        ("person: {day: {token: 1}}", "budget.person.day.token", "tokens"),
        ("warn_at: 2", "budget.warn_at", "up to 1"),
    ],
)
def test_what_is_no_limit_is_told_with_what_would_be_one(tmp_path: Path, written: str, key: str, told: str) -> None:
    (tmp_path / "default.yaml").write_text(f"budget:\n  {written}\n")
    [problem] = read_profiles([tmp_path]).problems
    assert problem.key == key
    assert told in str(problem)


@pytest.mark.parametrize("key", ["person_per_minute", "channel_per_minute"])
def test_a_rate_is_a_whole_number_of_messages(tmp_path: Path, key: str) -> None:
    (tmp_path / "default.yaml").write_text(f"rate: {{{key}: 0}}\n")
    [problem] = read_profiles([tmp_path]).problems
    assert problem.key == f"rate.{key}"
