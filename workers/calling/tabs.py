"""Tabs: what one call of the model may cost is reserved before it is made, and what it did cost is settled after it.

Settling needs no way of its own to Redis: a tab that is closed becomes a charge, which travels with the next write of its
turn. It is closed however the call ended, for a call that failed or was called off has cost something as well.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from config.limits import Limit, limits, price_of
from config.settings import ModelSettings
from gateway.costs import budgets
from gateway.costs.budget_words import amount, of_balance
from gateway.costs.budgets import Balance, Call, Full
from gateway.costs.spending import UNNAMED, Accounts, Charge, Spent, Tokens, micros
from gateway.logs import log
from gateway.phrases import say
from gateway.store import Refused, Unreachable
from workers.agent.borders import unless_called
from workers.models import Answer, Meter, ModelError, Usage
from workers.turn import Ended, Turn

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN: Final = 3.5
"""Of what came of an answer and nobody has counted."""
WAIT_S: Final = 15.0
"""How long a call waits for others to give back what they have reserved and may not need."""
PAUSE_S: Final = 0.5
LINGERS_S: Final = 30.0
"""So much longer than its turn may work a reservation holds: nothing that is under way outlives it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a request, in tokens."""

    likely: int
    most: int
    """On the safe side."""


@dataclass(frozen=True, slots=True)
class Tabs:
    """One a worker process."""

    settings: ModelSettings
    uncounted: set[str] = field(default_factory=set)
    """Models whose service counts nothing, as far as that was logged."""

    def open(self, turn: Turn, model: str, size: Size, *, purpose: str = "answer") -> Tab:
        """For one call. What a turn calls for one purpose it calls one after the other."""
        hold = f"{turn.id}/{turn.branch}/{purpose}".replace(" ", "_")
        return Tab(self, turn, model, size, hold, limits(turn.profile.budget), counts=purpose == "answer")


@dataclass(slots=True)
class Tab:
    """Of one call."""

    tabs: Tabs
    turn: Turn
    model: str
    size: Size
    hold: str
    limits: Sequence[Limit]
    """Those that hold here. None: nothing has to be reserved."""
    counts: bool = True
    """Whether the turn counts with it: a command that has something summed up is none."""
    meter: Meter = field(default_factory=Meter)
    _accounts: Accounts | None = None
    """Where it was reserved, or may have been."""

    @property
    def settings(self) -> ModelSettings:
        return self.tabs.settings

    async def reserve(self, output: int) -> None:
        """For the request, and an answer of at most `output` tokens. Raises `Ended` where a limit would be passed, `Called`,
        `Lost`; then nothing is reserved any more.
        """
        try:
            await self._reserve(output)
        except BaseException:
            self.give_back()  # it may have got there, though nobody heard of it
            raise

    async def _reserve(self, output: int) -> None:
        turn, size = self.turn, self.size
        cost = budgets.at_most(size.most, output, self.model, self.settings.prices)
        if cost is None and (limit := next((one for one in self.limits if one.unit == "money"), None)):
            turn.whole.state["counted"] = True
            raise Ended("turn.budget_unpriced", model=self.model).by(limit.key)
        self._accounts = turn.accounts
        call = Call(
            self.hold,
            turn.claim.token,
            size.most + output,
            cost or 0,
            math.ceil(1000 * (max(0.0, turn.seconds_left) + LINGERS_S)),
            turn.id if self.counts and not turn.whole.state.get("counted") else "",
        )
        until_s = asyncio.get_running_loop().time() + WAIT_S
        while isinstance(told := await self._asked(self._accounts, call), Full):
            if not told.may_wait or asyncio.get_running_loop().time() > until_s:
                turn.whole.state["counted"] = True  # one that is refused is none
                raise self._ended(told, has_begun=not call.turn)
            await unless_called(turn, asyncio.sleep(PAUSE_S), interrupts=False)
        if call.turn:
            turn.whole.state["counted"] = turn.whole.is_counted_now = True
        for limit, spent in told.items():
            turn.whole.near[limit] = (self._accounts, spent)

    async def of(self, call: Awaitable[Answer]) -> Answer:
        """Make the call; then the tab is closed, however it ended. What the service did not count is reckoned."""
        try:
            made = await call
        except BaseException as error:
            self.close(*self._usage(error))
            raise
        self.meter.usage, self.meter.model = made.usage, made.model or self.meter.model
        usage, is_reckoned = self._usage(None)
        self.close(usage, is_reckoned)
        if not is_reckoned:
            return made
        if self.model not in self.tabs.uncounted:
            self.tabs.uncounted.add(self.model)
            log(
                logger,
                "the model's service does not count tokens: they are reckoned",
                logging.WARNING,
                model=self.model,
            )
        return replace(made, usage=usage, reckoned=True)

    def close(self, usage: Usage, is_reckoned: bool) -> None:
        """It is over, and this is what it took."""
        spent = self._spent(usage, is_reckoned)
        if not spent.calls and not self._accounts:
            return
        whole = self.turn.whole
        accounts = self._accounts or self.turn.accounts
        held = (self.hold, self.turn.claim.token) if self._accounts else ("", "")
        whole.charges.append(Charge(accounts, spent, *held))
        for limit, (reserved, before) in list(whole.near.items()):
            more = {"tokens": spent.total.counted, "money": spent.micros, "turns": 0}[limit.unit]
            whole.near[limit] = (reserved, before + more)
        self._accounts = None

    def give_back(self) -> None:
        """The call is not made."""
        if self._accounts:
            charge = Charge(self._accounts, Spent(), self.hold, self.turn.claim.token)
            self.turn.whole.charges.append(charge)
            self._accounts = None

    async def _asked(self, accounts: Accounts, call: Call) -> dict[Limit, int] | Full:
        """Until there is an answer: asked again it is the same reservation. Ends with the lease."""
        claim, mailbox = self.turn.claim, self.turn.mailbox
        while True:
            try:
                keep_ms = mailbox.settings.retention_s * 1000
                return await budgets.reserve(mailbox.store, accounts, self.limits, call, conversation_ms=keep_ms)
            except Refused:
                raise
            except Unreachable:
                claim.check()
                await asyncio.sleep(PAUSE_S)
                claim.check()

    def _ended(self, full: Full, *, has_begun: bool) -> Ended:
        turn, limit, currency = self.turn, full.limit, self.settings.currency
        now = Balance(limit, full.spent, full.held)
        told = of_balance(now, currency, turn.profile.timezone, turn.now_ms(), turn.language)
        want = amount(full.want, limit.unit, currency, turn.language)
        if full.want > limit.most and not full.spent and not has_begun:  # it would be no better when it renews
            phrase = "turn.budget_small"
        elif limit.unit == "turns":
            phrase = "turn.budget_turns"
        else:
            phrase = "turn.budget" if has_begun else "turn.budget_first"
        return Ended(phrase, want=want, **told).by(limit.key)

    def _spent(self, usage: Usage, is_reckoned: bool) -> Spent:
        if usage == Usage():
            return Spent()
        tokens = Tokens(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        price = price_of(self.meter.model, self.settings.prices) or price_of(self.model, self.settings.prices)
        cost = micros(tokens, price) if price else 0
        model = self.meter.model or self.model or UNNAMED
        return Spent(calls=1, tokens={model: tokens}, micros=cost, reckoned=int(is_reckoned))

    def _usage(self, error: BaseException | None) -> tuple[Usage, bool]:
        """As the service counted; what it did not, because it was broken off before or never counts, is reckoned. And whether
        anything was.
        """
        counted, came = self.meter.usage or Usage(), math.ceil(self.meter.characters / CHARACTERS_PER_TOKEN)
        if isinstance(error, ModelError) and counted == Usage() and not came:  # it was refused, or never arrived
            return Usage(), False
        is_heard = counted.input_tokens or counted.cache_read_tokens or counted.cache_write_tokens
        usage = counted if is_heard else replace(counted, input_tokens=self.size.likely)
        if error or not counted.output_tokens:
            usage = replace(usage, output_tokens=max(counted.output_tokens, came))
        return usage, usage != counted


async def warnings(turn: Turn, currency: str) -> str:
    """Of limits that are nearly used up, each once until it renews. Empty: of none."""
    share = turn.profile.budget.warn_at
    near = {limit: accounts for limit, (accounts, spent) in turn.near.items() if spent >= limit.most * share}
    lines: list[str] = []
    if near:
        await turn.settle()  # so that the account is there
    with suppress(Unreachable):  # the answer is worth more
        for limit in await budgets.to_warn(turn.mailbox.store, near, turn.id):
            now = Balance(limit, turn.near[limit][1], 0)
            told = of_balance(now, currency, turn.profile.timezone, turn.now_ms(), turn.language)
            lines.append(say("budget.near", turn.language, **told))
    return "\n".join(lines)
