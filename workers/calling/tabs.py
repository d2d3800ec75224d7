"""Tabs: what one call of the model may cost is reserved before it is made, and what it did cost is settled after it.

Settling needs no way of its own to Redis: a tab that is closed becomes a charge, which travels with the next write of its
turn. It is closed however the call ended, for a call that failed or was called off has cost something as well.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from config.limits import Limit, limits, price_of
from config.settings import ModelSettings
from gateway.costs import budgets
from gateway.costs.budget_words import amount, of_balance
from gateway.costs.budgets import Balance, Call, Full
from gateway.costs.spending import UNNAMED, Accounts, Charge, Spent, Tokens, micros
from gateway.phrases import say
from gateway.store import Refused, Unreachable
from workers.agent.borders import unless_called
from workers.models import Meter, ModelError, Usage
from workers.turn import Ended, Turn

T = TypeVar("T")

CHARACTERS_PER_TOKEN: Final = 3.5
"""Of what came of an answer that was broken off: nobody has counted it."""
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

    def open(self, turn: Turn, model: str, *, purpose: str = "answer") -> Tab:
        """For one call. What a turn calls for one purpose it calls one after the other."""
        hold = f"{turn.id}/{turn.branch}/{purpose}".replace(" ", "_")
        return Tab(self.settings, turn, model, hold, limits(turn.profile.budget))


@dataclass(slots=True)
class Tab:
    """Of one call."""

    settings: ModelSettings
    turn: Turn
    model: str
    hold: str
    limits: Sequence[Limit]
    """Those that hold here. None: nothing has to be reserved."""
    meter: Meter = field(default_factory=Meter)
    _accounts: Accounts | None = None
    """Where it was reserved."""
    _size: Size = Size(0, 0)

    async def reserve(self, size: Size, output: int) -> None:
        """For a request of this size, and an answer of at most `output` tokens. Raises `Ended` where a limit would be
        passed, `Called`, `Lost`.
        """
        turn = self.turn
        cost = budgets.at_most(size.most, output, self.model, self.settings.prices)
        if cost is None and (limit := next((one for one in self.limits if one.unit == "money"), None)):
            raise Ended("turn.budget_unpriced", model=self.model).by(limit.key)
        self._size = size
        self._accounts = turn.accounts
        call = Call(
            self.hold,
            turn.claim.token,
            size.most + output,
            cost or 0,
            math.ceil(1000 * (max(0.0, turn.seconds_left) + LINGERS_S)),
            "" if turn.whole.state.get("counted") else turn.id,
        )
        turn.whole.state["counted"] = True  # here; one that is refused is none
        until_s = asyncio.get_running_loop().time() + WAIT_S
        while isinstance(told := await self._asked(self._accounts, call), Full):
            if not told.may_wait or asyncio.get_running_loop().time() > until_s:
                self._accounts = None
                raise self._ended(told)
            await unless_called(turn, asyncio.sleep(PAUSE_S), interrupts=False)
        for limit, spent in told.items():
            turn.whole.near[limit] = (self._accounts, spent + (limit.unit == "turns" and bool(call.turn)))

    async def of(self, call: Awaitable[T]) -> T:
        """Make the call; then the tab is closed, however it ended."""
        try:
            made = await call
        except BaseException as error:
            self.close(error)
            raise
        self.close()
        return made

    def close(self, error: BaseException | None = None) -> None:
        """It is over. `error`: why there is no answer."""
        spent = self._spent(error)
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

    def _ended(self, full: Full) -> Ended:
        turn, limit, currency = self.turn, full.limit, self.settings.currency
        now = Balance(limit, full.spent, full.held)
        told = of_balance(now, currency, turn.profile.timezone, turn.now_ms(), turn.language)
        want = amount(full.want, limit.unit, currency, turn.language)
        return Ended("turn.budget", want=want, **told).by(limit.key)

    def _spent(self, error: BaseException | None) -> Spent:
        usage = self._usage(error)
        if usage == Usage():
            return Spent()
        tokens = Tokens(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        price = price_of(self.meter.model, self.settings.prices) or price_of(self.model, self.settings.prices)
        cost = micros(tokens, price) if price else 0
        return Spent(calls=1, tokens={self.meter.model or self.model or UNNAMED: tokens}, micros=cost)

    def _usage(self, error: BaseException | None) -> Usage:
        """As the service counted; where it was broken off before that, as it is reckoned."""
        counted, came = self.meter.usage, math.ceil(self.meter.characters / CHARACTERS_PER_TOKEN)
        if error is None:
            return counted or Usage()
        if counted:
            return replace(counted, output_tokens=max(counted.output_tokens, came))
        if isinstance(error, ModelError) and not came:  # it was refused, or never arrived
            return Usage()
        return Usage(self._size.likely, came)


async def warnings(turn: Turn, currency: str) -> str:
    """Of limits that are nearly used up, each once until it renews. Empty: of none."""
    share = turn.profile.budget.warn_at
    near = [limit for limit, (_, spent) in turn.near.items() if spent >= limit.most * share]
    lines: list[str] = []
    if near:
        await turn.settle()  # so that the account is there
    with suppress(Unreachable):  # the answer is worth more
        for limit in near:
            accounts, spent = turn.near[limit]
            if await budgets.to_warn(turn.mailbox.store, accounts, [limit], turn.id):
                now = Balance(limit, spent, 0)
                told = of_balance(now, currency, turn.profile.timezone, turn.now_ms(), turn.language)
                lines.append(say("budget.near", turn.language, **told))
    return "\n".join(lines)
