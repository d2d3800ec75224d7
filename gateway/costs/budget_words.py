"""What people read about budgets: whose, how much, and when it renews."""

from __future__ import annotations

from config.limits import MICROS, Limit, Unit
from gateway.costs.budgets import Balance, renews_at
from gateway.phrases import say


def amount(number: int, unit: Unit, currency: str, language: str) -> str:
    """`12,345 tokens`, `1.50 EUR`, `7 questions`."""
    return say(f"budget.{unit}", language, amount=figure(number, unit), currency=currency)


def figure(number: int, unit: Unit) -> str:
    """`12,345`, `1.50`, `7`."""
    return f"{number / MICROS:,.2f}" if unit == "money" else f"{number:,}"


def whose(limit: Limit, language: str) -> str:
    """`your budget of today`."""
    return say(f"budget.{limit.scope}.{limit.period}", language)


def renews(limit: Limit, timezone: str, now_ms: int) -> str:
    """`2027-01-01 00:00 (Asia/Shanghai)`."""
    return f"{renews_at(limit.period, timezone, now_ms):%Y-%m-%d %H:%M} ({timezone})"


def of_balance(one: Balance, currency: str, timezone: str, now_ms: int, language: str) -> dict[str, str]:
    """For phrases about how far a limit is used."""
    held = amount(one.held, one.limit.unit, currency, language)
    return {
        "budget": whose(one.limit, language),
        "spent": figure(one.spent, one.limit.unit),
        "most": amount(one.limit.most, one.limit.unit, currency, language),
        "held": say("budget.held", language, held=held) if one.held else "",
        "renews": renews(one.limit, timezone, now_ms),
    }
