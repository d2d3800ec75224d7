"""What the turn of a dead letter did is found without a whole history in memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from config.settings import MailboxSettings
from gateway.conversation.key import ConversationKey
from gateway.conversation.letters import done_in
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.store import Store
from tests.gateway.conversation.given_up import given_up

THERE = ConversationKey("slack-main", "C-OPS", "t")
MB = 1_000_000


async def test_behind_long_results_it_is_found_in_little_memory(store: Store) -> None:
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    one = await given_up(mailbox, THERE, text="what is up?")
    redis: Any = store.redis
    for number in range(30):
        line = Record("tool_result", 1, {"turn": f"later {number // 10}", "text": "x" * MB}).dump()
        await redis.rpush(store.layout.key(THERE.id, "history"), line)
    tracemalloc.start()
    try:
        found = await done_in(store, one)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [record.type for record in found] == ["event", "failed"]
    assert most < 20 * MB


async def test_what_belongs_to_the_call_of_a_model_is_found_where_a_page_ends_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = Mailbox(store, MailboxSettings())
    await mailbox.open()
    one = await given_up(mailbox, THERE)
    redis: Any = store.redis
    mine, other = {"turn": one.turn}, {"turn": "next"}
    for kind, data in (("call", mine), ("answer", {}), ("answer", {}), ("failed", mine), ("call", other)):
        await redis.rpush(store.layout.key(THERE.id, "history"), Record(kind, 1, data).dump())
    for size in range(1, 8):
        monkeypatch.setattr("gateway.conversation.letters.PAGE", size)
        found = [record.type for record in await done_in(store, one)]
        assert found == ["event", "failed", "call", "answer", "answer", "failed"], f"pages of {size}"
