"""Limits: the lines of a profile's budget, and the prices that money is reckoned by."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from config.profiles import Budget
from config.settings import Price

Scope = Literal["person", "channel", "profile"]
Period = Literal["day", "month"]
Unit = Literal["tokens", "money", "turns"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
MICROS: Final = 1_000_000
"""Money is counted in whole millionths of the currency, so that no sum depends on the order of what was added."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of a profile's budget."""

    scope: Scope
    period: Period
    unit: Unit
    most: int
    """Money in millionths of the currency."""

    @property
    def key(self) -> str:
        """Of the profile."""
        return f"budget.{self.scope}.{self.period}.{self.unit}"


@functools.lru_cache(maxsize=256)
def limits(budget: Budget) -> tuple[Limit, ...]:
    """Those that are set, months first: of two that are used up, the later one says when it goes on."""
    found = []
    for period in reversed(get_args(Period)):
        for scope in get_args(Scope):
            amounts = getattr(getattr(budget, scope), period)
            for unit in UNITS:
                most = getattr(amounts, unit)
                if most is not None:
                    found.append(Limit(scope, period, unit, int(most * MICROS) if unit == "money" else most))
    return tuple(found)


def holds_persons(budget: Budget) -> bool:
    """Whether what one person spends has a limit."""
    return any(one.scope == "person" for one in limits(budget))


def counts_profile(budget: Budget) -> bool:
    """Whether what all channels of the profile spend is counted together."""
    return any(one.scope == "profile" for one in limits(budget))


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Its own, or that of the longest name which it begins with: providers answer with a date behind the name asked for."""
    fitting = [name for name in prices if model == name or model.startswith(f"{name}-")]
    return prices[max(fitting, key=len)] if fitting else None


def unpriced(models: Sequence[str], prices: Mapping[str, Price]) -> list[str]:
    """Those that have no price, each once."""
    return [name for name in dict.fromkeys(models) if price_of(name, prices) is None]
