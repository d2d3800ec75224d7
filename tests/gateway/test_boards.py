"""Texts that a platform comes for: any gateway shows what any worker has written."""

from __future__ import annotations

import asyncio
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
    assert await boards.write(HERE, "m1", "好 \x00 half", whole=False) == Board("growing", "好 \x00 half")
    assert await gateway.read(HERE, "m1") == Board("growing", "好 \x00 half")
    assert await boards.write(HERE, "m1", "half and whole", whole=True) == Board("whole", "half and whole")
    assert await gateway.read(HERE, "m1") == Board("whole", "half and whole")


async def test_boards_do_not_show_each_others_text(boards: Boards) -> None:
    await boards.write(HERE, "m1", "mine", whole=True)
    assert await boards.read(HERE, "m2") == Board()
    assert await boards.read(ConversationKey("wecom", "other").id, "m1") == Board()


async def test_a_text_that_comes_late_does_not_replace_the_whole_one(boards: Boards) -> None:
    await boards.write(HERE, "m1", "whole", whole=True)
    for whole in (True, False):
        assert await boards.write(HERE, "m1", "wh", whole=whole) == Board("whole", "whole")


async def test_a_text_is_served_when_the_whole_of_it_was_come_for(boards: Boards, gateway: Boards) -> None:
    await boards.write(HERE, "m1", "half", whole=False)
    assert await gateway.take(HERE, "m1", 5_000) == Board("growing", "half", "", 5_000, 5_000)
    assert not (await boards.write(HERE, "m1", "whole", whole=True)).is_over
    assert await gateway.take(HERE, "m1", 6_000) == Board("served", "whole", "", 5_000, 6_000)
    for _ in range(2):  # whoever tries again is told
        assert (await boards.write(HERE, "m1", "whole", whole=True)).state == "served"
    assert (await boards.close(HERE, "m1", "other", even_whole=True)).state == "served"
    assert await gateway.take(HERE, "m1", 7_000) == Board("served", "whole", "", 5_000, 7_000)


async def test_on_a_closed_board_nothing_is_written_any_more(boards: Boards) -> None:
    await boards.write(HERE, "m1", "half", whole=False)
    assert await boards.close(HERE, "m1") == Board("closed", "half")
    for whole in (False, True):
        assert await boards.write(HERE, "m1", "half an", whole=whole) == Board("closed", "half")
    assert await boards.write_above(HERE, "m1", "above") == Board("closed", "half")
    assert await boards.take(HERE, "m1", 1) == Board("closed", "half", "", 1, 1)


async def test_a_board_that_nobody_has_written_can_be_closed_and_twice(boards: Boards) -> None:
    assert await boards.close(HERE, "m1") == Board("closed")
    assert await boards.close(HERE, "m1", "later") == Board("closed")
    assert (await boards.write(HERE, "m1", "too late", whole=True)).state == "closed"


async def test_a_whole_text_is_closed_away_only_by_who_sends_it_another_way(boards: Boards) -> None:
    await boards.write(HERE, "m1", "whole", whole=True)
    assert await boards.close(HERE, "m1", "later") == Board("whole", "whole")
    assert await boards.close(HERE, "m1", "later", even_whole=True) == Board("closed", "later")
    assert (await boards.take(HERE, "m1", 1)).text == "later"


async def test_what_stands_above_is_there_before_its_text_is_whole_or_it_is_not_there(boards: Boards) -> None:
    assert await boards.write_above(HERE, "m1", "note") == Board("empty", "", "note")
    await boards.write(HERE, "m1", "whole", whole=True)
    assert await boards.write_above(HERE, "m1", "another") == Board("whole", "whole", "note")


async def test_of_many_who_claim_the_same_one_has_it(boards: Boards, gateway: Boards) -> None:
    had = await asyncio.gather(
        *(one.claim(HERE, "url", f"row {number}") for number, one in enumerate([boards, gateway] * 5))
    )
    assert had.count("") == 1
    [holder] = {*had} - {""}
    assert await boards.claim(HERE, "url", "another") == holder
    assert await boards.claim(HERE, "url", holder) == holder
    await gateway.free(HERE, "url")
    assert await boards.claim(HERE, "url", "another") == ""


async def test_a_board_and_a_claim_are_gone_an_hour_later(boards: Boards, store: Store) -> None:
    await boards.write(HERE, "m1", "half", whole=False)
    await boards.close(HERE, "m2")
    await boards.take(HERE, "m3", 1)
    await boards.claim(HERE, "m4", "row")
    for board in ("m1", "m2", "m3", "m4"):
        assert KEEP_MS - 60_000 < await store.redis.pttl(store.layout.key(HERE, f"board:{board}")) <= KEEP_MS


async def test_a_board_lies_in_its_conversations_partition(redis_url: str, layout: Layout) -> None:
    opened = open_store(redis_url, Layout(layout.prefix, 7), timeout_s=5.0)
    try:
        for number in range(20):
            where = ConversationKey("wecom", f"room {number}").id
            assert await Boards(opened).write(where, "m1", str(number), whole=True)
            assert await Boards(opened).read(where, "m1") == Board("whole", str(number))
    finally:
        await opened.close()


async def test_a_redis_that_is_away_is_told(layout: Layout) -> None:
    away = open_store("redis://127.0.0.1:1", layout, timeout_s=0.5)
    try:
        away_boards = Boards(away)
        for asked in (away_boards.write(HERE, "m", "", whole=True), away_boards.claim(HERE, "m", "row")):
            with pytest.raises(Unreachable):
                await asked
        with pytest.raises(Unreachable):
            await Boards(away).read(HERE, "m")
    finally:
        await away.close()
