"""Spending: tokens, model calls and turns, by conversation, and by day and month of a person and of a channel.

Each account is one hash; one script adds to all that something goes to, and gives back what was reserved for it
(`gateway.costs.budgets`): they lie under one hash tag. A hash says whose it is for those who look after the house
(`gateway.costs.ledger`); its name does not.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from config.limits import Period, Scope, counts_profile, price_of
from config.profiles import Profile
from config.settings import Price
from gateway.conversation.key import ConversationKey, person_hash
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.store import GO_ON_WHEN_FULL, Script, Store, reading

DAY_MS: Final = 86_400_000
KEEP_MS: Final = {"day": 3 * DAY_MS, "month": 70 * DAY_MS}
"""From the last time that something was added."""
ENDED_MS: Final = 3_600_000
"""So long after a turn's end it is known what was settled of it. Before its end whoever takes it over may ask again, after hours
without a worker: a day. After it only a process does that was cut off when an answer was due, seconds after it is back.
"""
UNNAMED: Final = "?"
"""A model that did not say its name."""

LUA: Final = (
    f"    local keep_noted_ms, keep_ended_ms = {DAY_MS}, {ENDED_MS}"
    """
    local root = KEYS[1]
    -- Of a reservation: whoever made it (by), or anybody (nil). What it was, if it was there.
    local function put_back(account, hold, by)
        local kept = redis.call('HGET', account .. ':holds', hold)
        if not kept then return nil end
        local whose, tokens, money = string.match(kept, '^(%S*) (%d+) (%d+)$')
        if by and whose ~= by then return nil end
        redis.call('HDEL', account .. ':holds', hold)
        redis.call('ZREM', account .. ':until', hold)
        redis.call('HINCRBY', account .. ':holds', '=tokens', string.format('%.0f', 0 - tokens))
        redis.call('HINCRBY', account .. ':holds', '=money', string.format('%.0f', 0 - money))
        return true
    end
    -- What was noted of a turn: that it was counted, and which charges were settled. Once each, whoever asks again.
    local function note(turn, what)
        local noted = root .. ':of:' .. turn
        local is_new = redis.call('HSETNX', noted, what, '1') == 1
        if is_new then redis.call('PEXPIRE', noted, keep_noted_ms) end
        return is_new
    end
    -- Before the first that is added to it, so that it can be listed.
    local function begin(account, keep, index, label)
        if index ~= '' and redis.call('EXISTS', account) == 0 then
            redis.call('HSET', account, 'of', label)
            redis.call('SADD', root .. ':all:' .. index, string.sub(account, #root + 2))
            redis.call('PEXPIRE', root .. ':all:' .. index, 2 * keep) -- longer than what it names
        end
    end
"""
)
"""What scripts about accounts share. Beside `<account>`: `<account>:holds` has the reservations by name, and their sums;
`<account>:until` when each ends by itself. `all:<day or month>` names the accounts of that time, `of:<turn>` has what was
noted of a turn."""

_SETTLE: Final = Script(
    "spend",
    GO_ON_WHEN_FULL
    + LUA
    + """
    local last, hold, turn = 4 * ARGV[1] + 7, ARGV[2], ARGV[4]
    if turn ~= '' and not note(turn, ARGV[5]) then return redis.status_reply('DONE') end
    local counts = ARGV[6] == '1' and (turn == '' or note(turn, 'counted'))
    for at = 8, last, 4 do
        local account = root .. ':' .. ARGV[at]
        if hold ~= '' then put_back(account, hold, ARGV[3]) end
        if #ARGV > last or counts then
            begin(account, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
            for more = last + 1, #ARGV, 2 do
                redis.call('HINCRBY', account, ARGV[more], ARGV[more + 1])
            end
            if counts then redis.call('HINCRBY', account, 'turns', 1) end
            redis.call('PEXPIRE', account, ARGV[at + 1])
        end
    end
    if ARGV[7] == '1' then redis.call('PEXPIRE', root .. ':of:' .. turn, keep_ended_ms) end
    return redis.status_reply('OK')
    """,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of model calls, as the API counts them: the four are disjoint."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Tokens)))

    @property
    def whole_input(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def counted(self) -> int:
        """What counts against a limit: what was read from the provider's cache does not."""
        return self.input + self.cache_write + self.output


KINDS: Final = tuple(one.name for one in fields(Tokens))


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent."""

    turns: int = 0
    calls: int = 0
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    """By the name of the model."""
    micros: int = 0
    """What it cost, in millionths of the currency, by the prices when it was spent; without models that had none."""
    reckoned: int = 0
    """Calls whose tokens the service did not count, or not all: we did, by what was sent and what came."""

    @classmethod
    def of(cls, records: Iterable[Record], *, turns: int = 0) -> Spent:
        """What these records cost, those of branches too."""
        tokens: dict[str, Tokens] = {}
        calls = reckoned = 0
        for record in records:
            usage: Mapping[str, int] = record.data.get("usage") or {}
            if any(usage.values()):
                calls += 1
                reckoned += bool(record.data.get("reckoned"))
                model = record.data.get("model") or UNNAMED
                spent = Tokens(*(usage.get(f"{one.name}_tokens", 0) for one in fields(Tokens)))
                tokens[model] = tokens.get(model, Tokens()) + spent
        return cls(turns, calls, tokens, reckoned=reckoned)

    @property
    def total(self) -> Tokens:
        return sum(self.tokens.values(), Tokens())


@dataclass(frozen=True, slots=True)
class Accounts:
    """Where something goes that is spent at one moment: names of keys."""

    conversation: str
    channel_day: str
    channel_month: str
    person_day: str = ""
    person_month: str = ""
    """Empty: nobody's."""
    profile_day: str = ""
    profile_month: str = ""
    """Empty: not counted, as no limit holds for all channels of the profile together."""
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By scope: whose they are, in JSON, for those who look after the house."""

    @classmethod
    def at(cls, key: ConversationKey, actor: Actor | None, timezone: str, now_ms: int, profile: str = "") -> Accounts:
        """Days and months are those of the channel's time zone. `profile`: its name, where all its channels are counted."""
        now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone))
        day, month = f"{now:%Y-%m-%d}", f"{now:%Y-%m}"
        names, labels = {"channel": f"channel:{key.channel_id}"}, {"channel": [key.connection, key.channel]}
        if actor is not None and actor.id:
            names["person"] = f"person:{person_hash(key.connection, actor.id)}"
            labels["person"] = [key.connection, actor.id, actor.name]
        if profile:
            names["profile"], labels["profile"] = f"profile:{profile}", [profile]
        dated = {
            f"{scope}_{period}": f"{name}:{date}"
            for scope, name in names.items()
            for period, date in (("day", day), ("month", month))
        }
        told = {scope: json.dumps(label, ensure_ascii=False) for scope, label in labels.items()}
        return cls(f"c:{key.id}", **dated, labels=told)

    @classmethod
    def under(cls, profile: Profile, key: ConversationKey, actor: Actor | None, now_ms: int) -> Accounts:
        """Those that the profile's limits are about, and all that is counted besides."""
        together = profile.name if counts_profile(profile.budget) else ""
        return cls.at(key, actor, profile.timezone, now_ms, together)

    def of(self, scope: Scope, period: Period) -> str:
        """Empty: there is none."""
        return str(getattr(self, f"{scope}_{period}"))

    def listed(self, conversation_ms: int) -> list[tuple[str, int, str, str]]:
        """Each with its time in milliseconds, the day or month that it is listed under, and whose it is."""
        scopes: tuple[Scope, ...] = ("channel", "person", "profile")
        periods: tuple[Period, ...] = ("day", "month")
        dated = [
            (name, KEEP_MS[period], name.rpartition(":")[2], self.labels.get(scope, ""))
            for period in periods
            for scope in scopes
            if (name := self.of(scope, period))
        ]
        return [(self.conversation, conversation_ms, "", ""), *dated]


@dataclass(frozen=True, slots=True)
class Charge:
    """What is to be settled: what was spent, where it goes, and what was reserved for it."""

    accounts: Accounts
    spent: Spent
    hold: str = ""
    """The name of the reservation; empty: none was made."""
    by: str = ""
    """Who made it: another one's is left as it is."""
    turn: str = ""
    """Whose it is; empty: nobody's, and then it is settled anew each time."""
    name: str = ""
    """Of all charges of the turn it is settled once by this name."""
    counts: bool = False
    """The turn counts with it, unless it was counted before."""
    ends: bool = False
    """Nothing more is spent in the turn."""


async def settle(store: Store, charge: Charge, *, conversation_ms: int) -> None:
    """Add what was spent, and give back what was reserved for it. Raises `Unreachable`."""
    await store.run(_SETTLE, store.layout.spent_root, *_flat(charge, conversation_ms))


def see_to(store: Store, charge: Charge, *, conversation_ms: int) -> asyncio.Task[None]:
    """The same of a turn's, until it was done: once, however often it had to be asked for."""
    tokens, conversation = charge.spent.total.counted, charge.accounts.conversation.removeprefix("c:")
    told = (
        f"settle {tokens} tokens, {charge.spent.micros} millionths, conversation {conversation}, turn {charge.turn[:8]}"
    )
    return store.see_to(_SETTLE, store.layout.spent_root, *_flat(charge, conversation_ms), told=told)


def _flat(charge: Charge, conversation_ms: int) -> list[str | int]:
    spent = charge.spent
    amounts = {
        "turns": spent.turns,
        "calls": spent.calls,
        "tokens": spent.total.counted,
        "money": spent.micros,
        "reckoned": spent.reckoned,
    }
    for model, tokens in spent.tokens.items():
        amounts |= {f"{kind}:{model}": number for kind, number in asdict(tokens).items()}
    listed = charge.accounts.listed(conversation_ms)
    flat = [text for one in listed for text in one]
    added = [text for name, number in amounts.items() if number for text in (name, number)]
    about = (charge.hold, charge.by, charge.turn, charge.name, int(charge.counts), int(charge.ends))
    return [len(listed), *about, *flat, *added]


async def spent(store: Store, names: Sequence[str]) -> list[Spent]:
    """What went to these accounts, one for each. Raises `Unreachable`."""
    with reading():
        async with store.redis.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.hgetall(f"{store.layout.spent_root}:{name}")
            found: list[dict[bytes, bytes]] = await pipeline.execute()
    return [read_spent(one) for one in found]


def read_spent(found: Mapping[bytes, bytes]) -> Spent:
    """Of an account's hash."""
    counts: dict[str, int] = {}
    tokens: dict[str, dict[str, int]] = {}
    for name, number in found.items():
        kind, _, model = name.decode().partition(":")
        if kind in KINDS and model:
            tokens.setdefault(model, {})[kind] = int(number)
        elif kind in {"turns", "calls", "money", "reckoned"}:
            counts[kind] = int(number)
    by_model = {name: Tokens(**one) for name, one in sorted(tokens.items())}
    return Spent(
        counts.get("turns", 0), counts.get("calls", 0), by_model, counts.get("money", 0), counts.get("reckoned", 0)
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """In the currency of the prices."""

    amount: float
    unpriced: tuple[str, ...]
    """Models without a price: what they cost is not in it."""


def cost(spent: Spent, prices: Mapping[str, Price]) -> Cost:
    """By the prices that are set now."""
    amount, unpriced = 0.0, []
    for model, tokens in spent.tokens.items():
        price = price_of(model, prices)
        if price is None:
            unpriced.append(model)
        else:
            amount += sum(getattr(tokens, one.name) * price.of(one.name) for one in fields(Tokens)) / 1_000_000
    return Cost(amount, tuple(unpriced))


def micros(tokens: Tokens, price: Price) -> int:
    """What they cost, in millionths of the currency, not less."""
    amount: float = sum(getattr(tokens, kind) * price.of(kind) for kind in KINDS)
    return math.ceil(amount)
