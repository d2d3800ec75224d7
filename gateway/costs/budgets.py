"""Budgets: what may be spent of an account, reserved before each call of the model.

One script looks at all accounts concerned and reserves in all of them, or in none: however many turns ask at once in
however many processes, what is spent and reserved never passes a limit. What a call really took is settled afterwards
(`gateway.costs.spending.settle`). A reservation has a name: whoever goes on with a turn after a crash replaces the one of the
worker that died. One that nobody settles ends by itself, in the server's time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from config.limits import UNITS, Limit, Period, Unit, price_of
from config.settings import Price
from gateway.costs.spending import DAY_MS, LUA, Accounts, Tokens, micros
from gateway.store import GO_ON_WHEN_FULL, Script, Store

_LOOK: Final = """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local function look(account)
        for _, old in ipairs(redis.call('ZRANGEBYSCORE', account .. ':until', '-inf', now)) do put_back(account, old) end
        local spent = redis.call('HMGET', account, 'tokens', 'money', 'turns')
        local held = redis.call('HMGET', account .. ':holds', '=tokens', '=money')
        for at = 1, 3 do
            spent[at], held[at] = tonumber(spent[at] or 0), tonumber(held[at] or 0)
        end
        return spent, held
    end
"""
_RESERVE: Final = Script(
    "reserve",
    GO_ON_WHEN_FULL
    + LUA
    + _LOOK
    + f"""
    local keep_ms = {DAY_MS}
    local hold, by, turn = ARGV[1], ARGV[2], ARGV[4]
    local want = {{tonumber(ARGV[5]), tonumber(ARGV[6]), 0}}
    if turn ~= '' and redis.call('HEXISTS', root .. ':of:' .. turn, 'counted') == 0 then want[3] = 1 end
"""
    + """
    local figures, refused = {}, nil
    for at = 7, #ARGV, 7 do
        local account = root .. ':' .. ARGV[at]
        local spent, held = nil, nil
        for unit = 1, 3 do
            local most = tonumber(ARGV[at + 3 + unit])
            if most then
                if not spent then
                    put_back(account, hold) -- the same call, asked for by whoever had this turn before
                    spent, held = look(account)
                end
                figures[#figures + 1] = spent[unit] + (unit == 3 and want[3] or 0)
                local fits_alone, asks = spent[unit] + want[unit] <= most, unit < 3 or want[3] > 0
                if asks and spent[unit] + held[unit] + want[unit] > most and not (refused and (fits_alone or not refused[6])) then
                    refused = {(at - 7) / 7, unit - 1, spent[unit], held[unit], want[unit], fits_alone}
                end
            end
        end
    end
    if refused then
        refused[6] = refused[6] and 1 or 0
        return {0, unpack(refused)}
    end
    for at = 7, #ARGV, 7 do
        local account, keep = root .. ':' .. ARGV[at], ARGV[at + 1]
        if ARGV[at + 4] ~= '' or ARGV[at + 5] ~= '' then
            redis.call('HSET', account .. ':holds', hold, by .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
            redis.call('HINCRBY', account .. ':holds', '=tokens', ARGV[5])
            redis.call('HINCRBY', account .. ':holds', '=money', ARGV[6])
            redis.call('ZADD', account .. ':until', now + ARGV[3], hold)
            redis.call('PEXPIRE', account .. ':holds', keep_ms)
            redis.call('PEXPIRE', account .. ':until', keep_ms)
        end
        if want[3] == 1 then
            begin(account, keep, ARGV[at + 2], ARGV[at + 3])
            redis.call('HINCRBY', account, 'turns', 1)
            redis.call('PEXPIRE', account, keep)
        end
    end
    if want[3] == 1 then note(turn, 'counted') end
    return {1, unpack(figures)}
    """,
)
_BALANCES: Final = Script(
    "balances",
    LUA
    + _LOOK
    + """
    local found = {}
    for at = 1, #ARGV do
        local spent, held = look(root .. ':' .. ARGV[at])
        for unit = 1, 3 do
            found[#found + 1], found[#found + 2] = spent[unit], held[unit]
        end
    end
    return found
    """,
)
_WARN: Final = Script(
    "budget warning",
    """
    local told = {}
    for at = 2, #ARGV, 2 do
        local account, field = KEYS[1] .. ':' .. ARGV[at], 'warned:' .. ARGV[at + 1]
        redis.call('HSETNX', account, field, ARGV[1])
        told[#told + 1] = redis.call('HGET', account, field) == ARGV[1] and 1 or 0
    end
    return told
    """,
)


def renews_at(period: Period, timezone: str, now_ms: int) -> datetime:
    """The next midnight there, or that of the month's end."""
    today = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone)).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return today + timedelta(days=1)
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model that is about to be made."""

    name: str
    """The same for whoever makes it, before a crash and after."""
    by: str
    """Who makes it now."""
    tokens: int
    """At most so many, in and out."""
    micros: int
    """At most so much."""
    ttl_ms: int
    """By then it is over."""
    turn: str = ""
    """The turn that counts with it, unless it was counted before; empty: it was."""


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing was reserved: this limit would be passed."""

    limit: Limit
    spent: int
    held: int
    """Reserved for other calls."""
    want: int
    may_wait: bool
    """It would fit if the others took nothing."""


async def reserve(
    store: Store, accounts: Accounts, held_to: Sequence[Limit], call: Call, *, conversation_ms: int
) -> dict[Limit, int] | Full:
    """What is spent, by limit: turns with this one, if it counts now; the rest is reserved. A limit of an account that there is none of holds nobody.

    Raises `Unreachable`: then it may be reserved or not, and asking again is harmless.
    """
    by_account: dict[str, dict[Unit, Limit]] = {}
    for limit in held_to:
        if name := accounts.of(limit.scope, limit.period):
            by_account.setdefault(name, {})[limit.unit] = limit
    order = list(by_account)
    listed = accounts.listed(conversation_ms)
    listed.sort(key=lambda one: order.index(one[0]) if one[0] in by_account else len(order))
    flat: list[str | int] = []
    asked: list[Limit] = []
    for name, keep_ms, index, label in listed:
        own = by_account.get(name, {})
        flat += [name, keep_ms, index, label, *(own[unit].most if unit in own else "" for unit in UNITS)]
        asked += [own[unit] for unit in UNITS if unit in own]
    about = (call.name, call.by, call.ttl_ms, call.turn, call.tokens, call.micros)
    done, *told = await store.run(_RESERVE, store.layout.spent_root, *about, *flat)
    if done:
        return dict(zip(asked, told, strict=True))
    place, unit, spent, held, want, may_wait = told
    return Full(by_account[listed[place][0]][UNITS[unit]], spent, held, want, bool(may_wait))


@dataclass(frozen=True, slots=True)
class Balance:
    """How far a limit is used."""

    limit: Limit
    spent: int
    held: int
    """Reserved for calls that are under way."""


async def balances(store: Store, accounts: Accounts, held_to: Sequence[Limit]) -> list[Balance]:
    """Of these limits, without those of accounts that there are none of. Raises `Unreachable`."""
    own = [one for one in held_to if accounts.of(one.scope, one.period)]
    if not own:
        return []
    names = list(dict.fromkeys(accounts.of(one.scope, one.period) for one in own))
    found = await store.run(_BALANCES, store.layout.spent_root, *names)
    told = []
    for limit in own:
        at = 6 * names.index(accounts.of(limit.scope, limit.period)) + 2 * UNITS.index(limit.unit)
        told.append(Balance(limit, found[at], found[at + 1]))
    return told


async def to_warn(store: Store, near: Mapping[Limit, Accounts], turn: str) -> list[Limit]:
    """Of these limits, those that nobody was warned of but by this very turn. Raises `Unreachable`."""
    if not near:
        return []
    flat = [text for one, accounts in near.items() for text in (accounts.of(one.scope, one.period), one.unit)]
    told = await store.run(_WARN, store.layout.spent_root, turn, *flat)
    return [limit for limit, is_new in zip(near, told, strict=True) if is_new]


def at_most(tokens: int, output: int, model: str, prices: Mapping[str, Price]) -> int | None:
    """What a call can cost, in millionths of the currency: so many tokens in, so many out. None: it has no price."""
    price = price_of(model, prices)
    if price is None:
        return None
    dearest = max(price.of(kind) for kind in ("input", "cache_read", "cache_write"))
    return math.ceil(tokens * dearest) + micros(Tokens(output=output), price)
