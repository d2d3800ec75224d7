"""Counts: added up over processes, told to operators."""

from __future__ import annotations

import asyncio

from gateway import counts
from gateway.cli.status import told_counts
from gateway.store import Store


async def test_many_at_once_lose_nothing_and_names_come_in_order(store: Store) -> None:
    assert await counts.counted(store) == {}
    await asyncio.gather(*(counts.add(store, "b", "a:x") for _ in range(50)), counts.add(store, "b"))
    assert await counts.counted(store) == {"a:x": 50, "b": 51}


def test_an_operator_reads_how_often_the_cache_was_broken_and_why() -> None:
    assert told_counts({}) == []
    [told] = told_counts({"break": 3, "break:off": 1, "break:prompt": 2, "other": 9})
    assert told.startswith(
        "requests to the model that its cache did not know the beginning of, each at full price: 3 ("
    )
    assert told.endswith(" (because of: off 1, prompt 2)")
