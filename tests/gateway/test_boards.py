"""Texts that a platform comes for: any gateway shows what any worker has written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.boards import KEEP_MS, Board, Boards
from gateway.conversation.key import ConversationKey
from gateway.store import Layout, Store, Unreachable, open_store

HERE = ConversationKey("wecom", "room").id


@pytest.fixture
def boards(store: Store) -> Boards:
    return Boards(store)


@pytest.fixture
async def gateway(store: Store, redis_url: str) -> AsyncIterator[Boards]:
    """Another process."""
    opened = open_store(redis_url, store.layout, timeout_s=5.0)
    yield Boards(opened)
    await opened.close()


async def test_what_one_process_writes_another_reads(boards: Boards, gateway: Boards) -> None:
    assert await gateway.read(HERE, "m1") == Board()
    assert await boards.write(HERE, "m1", "好 \x00 half", whole=False)
    assert await gateway.read(HERE, "m1") == Board("好 \x00 half")
    assert await boards.write(HERE, "m1", "half and whole", whole=True)
    assert await gateway.read(HERE, "m1") == Board("half and whole", is_whole=True)


async def test_boards_do_not_show_each_others_text(boards: Boards) -> None:
    await boards.write(HERE, "m1", "mine", whole=True)
    assert await boards.read(HERE, "m2") == Board()
    assert await boards.read(ConversationKey("wecom", "other").id, "m1") == Board()


async def test_a_growing_text_that_comes_late_does_not_replace_the_whole_one(boards: Boards) -> None:
    await boards.write(HERE, "m1", "whole", whole=True)
    assert await boards.write(HERE, "m1", "wh", whole=False), "nothing is wrong: it will be read"
    assert await boards.read(HERE, "m1") == Board("whole", is_whole=True)
    assert await boards.write(HERE, "m1", "whole", whole=True)
    assert await boards.read(HERE, "m1") == Board("whole", is_whole=True)


async def test_on_a_closed_board_nothing_is_written_any_more(boards: Boards) -> None:
    await boards.write(HERE, "m1", "half", whole=False)
    assert await boards.close(HERE, "m1")
    assert not await boards.write(HERE, "m1", "half an", whole=False)
    assert not await boards.write(HERE, "m1", "half and whole", whole=True)
    assert await boards.read(HERE, "m1") == Board("half", is_closed=True)


async def test_a_board_that_nobody_has_written_can_be_closed_and_twice(boards: Boards) -> None:
    assert await boards.close(HERE, "m1")
    assert await boards.close(HERE, "m1")
    assert not await boards.write(HERE, "m1", "too late", whole=True)


async def test_a_whole_text_is_not_closed_away_before_it_was_read(boards: Boards) -> None:
    await boards.write(HERE, "m1", "whole", whole=True)
    assert not await boards.close(HERE, "m1")
    assert await boards.read(HERE, "m1") == Board("whole", is_whole=True)


async def test_a_board_is_gone_a_quarter_of_an_hour_later(boards: Boards, store: Store) -> None:
    await boards.write(HERE, "m1", "half", whole=False)
    await boards.close(HERE, "m2")
    for board in ("m1", "m2"):
        assert KEEP_MS - 60_000 < await store.redis.pttl(store.layout.key(HERE, f"board:{board}")) <= KEEP_MS


async def test_a_board_lies_in_its_conversations_partition(redis_url: str, layout: Layout) -> None:
    opened = open_store(redis_url, Layout(layout.prefix, 7), timeout_s=5.0)
    try:
        for number in range(20):
            where = ConversationKey("wecom", f"room {number}").id
            assert await Boards(opened).write(where, "m1", str(number), whole=True)
            assert await Boards(opened).read(where, "m1") == Board(str(number), is_whole=True)
    finally:
        await opened.close()


async def test_a_redis_that_is_away_is_told(layout: Layout) -> None:
    away = open_store("redis://127.0.0.1:1", layout, timeout_s=0.5)
    try:
        for asked in (Boards(away).write(HERE, "m", "", whole=True), Boards(away).close(HERE, "m")):
            with pytest.raises(Unreachable):
                await asked
        with pytest.raises(Unreachable):
            await Boards(away).read(HERE, "m")
    finally:
        await away.close()
