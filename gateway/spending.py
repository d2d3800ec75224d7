"""Spending: tokens, model calls and turns, by conversation, and by day and month of a person and of a channel.

Each account is one hash; one script adds to all that something goes to. They lie under one hash tag, so that whoever
wants to hold some of them to a limit can look and add in one script as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from config.settings import Price
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.store import Script, Store, reading

DAY_MS: Final = 86_400_000
KEEP_MS: Final = {"day": 3 * DAY_MS, "month": 70 * DAY_MS}
"""From the last time that something was added."""
UNNAMED: Final = "?"
"""A model that did not say its name."""

_ADD: Final = Script(
    "spend",
    """
    local accounts = tonumber(ARGV[1])
    for account = 2, 2 * accounts, 2 do
      local name = KEYS[1] .. ':' .. ARGV[account]
      for at = 2 * accounts + 2, #ARGV, 2 do
        redis.call('HINCRBY', name, ARGV[at], ARGV[at + 1])
      end
      redis.call('PEXPIRE', name, ARGV[account + 1])
    end
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


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent."""

    turns: int = 0
    calls: int = 0
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    """By the name of the model."""

    @classmethod
    def of(cls, records: Iterable[Record], *, turns: int = 0) -> Spent:
        """What these records cost, those of branches too."""
        tokens: dict[str, Tokens] = {}
        calls = 0
        for record in records:
            usage: Mapping[str, int] = record.data.get("usage") or {}
            if any(usage.values()):
                calls += 1
                model = record.data.get("model") or UNNAMED
                spent = Tokens(*(usage.get(f"{one.name}_tokens", 0) for one in fields(Tokens)))
                tokens[model] = tokens.get(model, Tokens()) + spent
        return cls(turns, calls, tokens)

    @property
    def total(self) -> Tokens:
        return sum(self.tokens.values(), Tokens())


@dataclass(frozen=True, slots=True)
class Accounts:
    """Where something goes that is spent at one moment: names of keys, and how long they are kept."""

    conversation: str
    channel_day: str
    channel_month: str
    person_day: str = ""
    person_month: str = ""
    """Empty: nobody's."""

    @classmethod
    def at(cls, key: ConversationKey, actor: Actor | None, timezone: str, now_ms: int) -> Accounts:
        """Days and months are those of the channel's time zone."""
        now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone))
        day, month = f"{now:%Y-%m-%d}", f"{now:%Y-%m}"
        channel = f"channel:{key.channel_id}"
        if actor is None or not actor.id:
            return cls(f"c:{key.id}", f"{channel}:{day}", f"{channel}:{month}")
        who = json.dumps([key.connection, actor.id]).encode()  # an id of one platform is nobody on another
        person = f"person:{hashlib.sha256(who).hexdigest()[:32]}"
        return cls(f"c:{key.id}", f"{channel}:{day}", f"{channel}:{month}", f"{person}:{day}", f"{person}:{month}")

    def kept(self, conversation_ms: int) -> list[tuple[str, int]]:
        """Each, with its time in milliseconds."""
        by_day = [(name, KEEP_MS["day"]) for name in (self.channel_day, self.person_day) if name]
        by_month = [(name, KEEP_MS["month"]) for name in (self.channel_month, self.person_month) if name]
        return [(self.conversation, conversation_ms), *by_day, *by_month]


async def add(store: Store, accounts: Accounts, spent: Spent, *, conversation_ms: int) -> None:
    """To all of them, or to none. What a conversation has spent is kept for `conversation_ms`. Raises `Unreachable`."""
    amounts = {"turns": spent.turns, "calls": spent.calls}
    for model, tokens in spent.tokens.items():
        amounts |= {f"{kind}:{model}": number for kind, number in asdict(tokens).items()}
    kept = accounts.kept(conversation_ms)
    flat = [text for name, keep_ms in kept for text in (name, keep_ms)]
    added = [text for name, number in amounts.items() if number for text in (name, number)]
    await store.run(_ADD, store.layout.spent_root, len(kept), *flat, *added)


async def spent(store: Store, names: Sequence[str]) -> list[Spent]:
    """What went to these accounts, one for each. Raises `Unreachable`."""
    with reading():
        async with store.redis.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.hgetall(f"{store.layout.spent_root}:{name}")
            found: list[dict[bytes, bytes]] = await pipeline.execute()
    return [_read(one) for one in found]


def _read(found: Mapping[bytes, bytes]) -> Spent:
    counts: dict[str, int] = {}
    tokens: dict[str, dict[str, int]] = {}
    for name, number in found.items():
        kind, _, model = name.decode().partition(":")
        if model:
            tokens.setdefault(model, {})[kind] = int(number)
        else:
            counts[kind] = int(number)
    return Spent(
        counts.get("turns", 0), counts.get("calls", 0), {name: Tokens(**one) for name, one in sorted(tokens.items())}
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


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Its own, or that of the longest name which it begins with: providers answer with a date behind the name asked for."""
    fitting = [name for name in prices if model == name or model.startswith(f"{name}-")]
    return prices[max(fitting, key=len)] if fitting else None
