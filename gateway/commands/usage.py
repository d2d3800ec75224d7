"""/usage: tokens and turns, of the last turn, of this conversation, and of today and this month for who asks and for here;
and how far the limits that hold here are used.
"""

from __future__ import annotations

from config.limits import limits
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.conversation.turns import last_turn
from gateway.costs.budget_words import of_balance
from gateway.costs.spending import Accounts, Spent, cost
from gateway.phrases import say
from gateway.text.quoting import quoted

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    if said.rest:
        return misused("usage", said.language)
    event, loaded = said.event, said.outside.loaded
    key = event.conversation
    profile = loaded.profile_for(key.connection, key.channel)
    accounts = Accounts.under(profile, key, event.actor, said.now_ms)
    named = {
        "conversation": accounts.conversation,
        "your_day": accounts.person_day,
        "your_month": accounts.person_month,
        "day": accounts.channel_day,
        "month": accounts.channel_month,
    }
    named = {what: name for what, name in named.items() if name}
    lines = [("running", Spent.of(said.open))] if said.open else []
    if last := last_turn(said.history):
        lines.append(("last", Spent.of(last)))
    lines += zip(named, await said.outside.spent(list(named.values())), strict=True)
    told = [f"- {_line(what, spent, said)}" for what, spent in lines]
    told = [say("usage.head", said.language, timezone=profile.timezone), *told]
    if balances := await said.outside.balances(accounts, limits(profile.budget)):
        currency = loaded.settings.model.currency
        told += ["", say("usage.limits", said.language)]  # the blank line ends the list
        for one in sorted(balances, key=lambda one: one.limit.scope):
            how = of_balance(one, currency, profile.timezone, said.now_ms, said.language)
            told.append(f"- {say('usage.limit', said.language, **how)}")
    return Done("\n".join(told))


def _line(what: str, spent: Spent, said: Said) -> str:
    total, language = spent.total, said.language
    line = say(
        "usage.line",
        language,
        what=say(f"usage.{what}", language),
        calls=f"{spent.calls:,}",
        input=f"{total.whole_input:,}",
        cached=f"{total.cache_read:,}",
        output=f"{total.output:,}",
    )
    line += say("usage.reckoned", language, calls=f"{spent.reckoned:,}") if spent.reckoned else ""
    line += say("usage.turns", language, turns=f"{spent.turns:,}") if spent.turns else ""
    return line + _money(spent, said)


def _money(spent: Spent, said: Said) -> str:
    """Nothing where no price is set."""
    model = said.outside.loaded.settings.model
    if not model.prices:
        return ""
    found = cost(spent, model.prices)
    told = say("usage.cost", said.language, amount=f"{found.amount:,.4f}", currency=model.currency)
    if not found.unpriced:
        return told
    return told + say("usage.unpriced", said.language, models=", ".join(map(quoted, found.unpriced)))
