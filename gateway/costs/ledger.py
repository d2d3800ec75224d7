"""The ledger: who spent what, by person, channel and profile, of one day or month. For those who look after the house.

In the chat people see their own figures and their channel's (`/usage`), nobody else's.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from config.limits import Scope
from gateway.costs.spending import Spent, read_spent
from gateway.store import Store, reading

AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Line:
    """What one person, channel or profile spent on one day or in one month."""

    date: str
    """`2027-01-31` or `2027-01`, by the time zone of the channel that it was spent in."""
    scope: Scope
    who: str
    """`connection/id` of a person, `connection/channel`, or the profile's name."""
    name: str
    """Of a person, as the platform told it with the first message of that time."""
    spent: Spent


async def dates(store: Store, timezones: Collection[str]) -> tuple[list[str], list[str]]:
    """Which days it is now in these time zones, and which months, by the server's clock. Raises `Unreachable`."""
    with reading():
        seconds, _ = await store.redis.time()
    now = [datetime.fromtimestamp(seconds, ZoneInfo(one)) for one in timezones]
    return sorted({f"{one:%Y-%m-%d}" for one in now}), sorted({f"{one:%Y-%m}" for one in now})


async def ledger(store: Store, scope: Scope, date: str) -> list[Line]:
    """All that spent something then, who spent most first. Raises `Unreachable`."""
    root = store.layout.spent_root
    with reading():
        members: Any = await store.redis.smembers(f"{root}:all:{date}")
        names = sorted(one.decode() for one in members if one.startswith(f"{scope}:".encode()))
        found: list[dict[bytes, bytes]] = []
        for at in range(0, len(names), AT_ONCE):
            async with store.redis.pipeline(transaction=False) as pipeline:
                for name in names[at : at + AT_ONCE]:
                    pipeline.hgetall(f"{root}:{name}")
                found += await pipeline.execute()
    lines = [_line(date, scope, one) for one in found if b"of" in one]
    return sorted(lines, key=lambda line: (-line.spent.micros, -line.spent.total.counted, line.who))


def _line(date: str, scope: Scope, found: dict[bytes, bytes]) -> Line:
    label = [str(one) for one in json.loads(found[b"of"])]
    return Line(date, scope, "/".join(label[:2]), label[2] if len(label) > 2 else "", read_spent(found))
