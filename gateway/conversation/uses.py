"""Uses: in how many turns a skill was offered to the model, was loaded, and had its program run; by channel and day.

A turn is counted by the script that closes it, so once, whatever crashed and whoever goes on. What is offered is a list of
skills that many turns share: it is kept once, by its hash, from the write that says that a turn works with it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.conversation.records import Record
from gateway.store import Store, reading

DAYS_MAX: Final = 31
"""So many days are kept, and this one (`prelude.lua`)."""
DAY_MS: Final = 86_400_000
AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Listed:
    """The skills that the model is offered, by id."""

    ids: tuple[str, ...]
    hash: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", hashlib.sha256(self.dump().encode()).hexdigest()[:16])

    def dump(self) -> str:
        return json.dumps(self.ids, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Used:
    """Of one turn that ends."""

    offered: str
    """The hash of what it was offered with its first call of the model; empty: no skills."""
    loaded: tuple[str, ...]
    """Ids of skills of which something was given to the model."""
    ran: tuple[str, ...]
    """Ids of skills whose program was run, whatever came of it."""

    @classmethod
    def of(cls, records: Iterable[Record], offered: str) -> Used | None:
        """Of a turn's records, with those of its branches. None: it asked no model."""
        records = list(records)
        if not any(one.type == "call" for one in records):
            return None
        loaded = [str(one.data["id"]) for one in records if one.type == "skill"]
        loaded += [str(one.data["skill"]) for one in records if one.type == "tool_result" and one.data.get("skill")]
        ran = [str(one.data["program"]) for one in records if one.type == "tool_start" and one.data.get("program")]
        return cls(offered, tuple(dict.fromkeys(loaded)), tuple(dict.fromkeys(ran)))

    def fields(self) -> list[str]:
        """As the scripts count them."""
        offered = [f"o:{self.offered}"] if self.offered else []
        return ["t", *offered, *(f"l:{one}" for one in self.loaded), *(f"r:{one}" for one in self.ran)]


@dataclass(frozen=True, slots=True)
class Use:
    """Of one skill: in how many turns."""

    offered: int = 0
    """It stood in the list that the model was given, or was a tool."""
    loaded: int = 0
    ran: int = 0


@dataclass(frozen=True, slots=True)
class Uses:
    """Of some days."""

    turns: int
    """In which a model was asked."""
    by_id: Mapping[str, Use]

    def of(self, id_: str) -> Use:
        return self.by_id.get(id_, Use())


async def uses(store: Store, channel_id: str, days: int, now_ms: int) -> Uses:
    """Of a channel (`ConversationKey.channel_id`), or (empty) of all, in the last days, this one among them; by UTC.

    Raises `Unreachable`.
    """
    roots = [store.layout.root(one) for one in range(store.layout.partitions)]
    today = now_ms // DAY_MS
    names = [f"{root}:uses:{day}:{channel_id}" for root in roots for day in range(today - days + 1, today + 1)]
    counts: Counter[str] = Counter()
    redis: Any = store.redis
    with reading():
        for at in range(0, len(names), AT_ONCE):
            async with redis.pipeline(transaction=False) as pipeline:
                for name in names[at : at + AT_ONCE]:
                    pipeline.hgetall(name)
                for found in await pipeline.execute():
                    counts.update({name.decode(): int(number) for name, number in found.items()})
        by_list = {name[2:]: number for name, number in counts.items() if name.startswith("o:")}
        offered = await _offered(store, roots, by_list)
    ids = {*offered, *(name[2:] for name in counts if name[:2] in {"l:", "r:"})}
    return Uses(counts["t"], {one: Use(offered[one], counts[f"l:{one}"], counts[f"r:{one}"]) for one in sorted(ids)})


async def _offered(store: Store, roots: Sequence[str], by_list: Mapping[str, int]) -> Counter[str]:
    """In how many turns each skill was, by how many each list was."""
    offered: Counter[str] = Counter()
    redis: Any = store.redis
    for hash_, turns in by_list.items():  # one after the other: there are few, and they can be long
        async with redis.pipeline(transaction=False) as pipeline:
            for root in roots:
                pipeline.get(f"{root}:offer:{hash_}")
            kept = next((one for one in await pipeline.execute() if one), b"[]")
        offered.update(dict.fromkeys(json.loads(kept), turns))
    return offered
