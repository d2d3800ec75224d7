"""Who has which session with a server, and what becomes of one that is dead, slow or wanted by too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import is_alive, until
from tests.workers.mcp.twins import ledger, like, program
from workers.mcp.results import text_of
from workers.mcp.servers import Server
from workers.tools import ToolError


@asynccontextmanager
async def serving(folder: Path, **more: Any) -> AsyncIterator[Server]:
    server = Server("twin", program(folder, **more))
    try:
        yield server
    finally:
        await server.close()


async def counted(server: Server, conversation: str) -> str:
    return text_of(await (await server.session(conversation)).call("count", {}))


async def test_conversations_do_not_see_each_others_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert [await counted(server, who) for who in "aaba"] == ["1", "2", "1", "3"]
    assert len(ledger(tmp_path, "start")) == 2
    assert not any(is_alive(one["pid"]) for one in ledger(tmp_path, "start"))


async def test_a_session_may_be_the_workers(tmp_path: Path) -> None:
    async with serving(tmp_path, per="worker") as server:
        assert [await counted(server, who) for who in "aaba"] == ["1", "2", "3", "4"]
    assert len(ledger(tmp_path, "start")) == 1


async def test_calls_that_begin_at_once_share_the_session_that_they_start(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert sorted(await asyncio.gather(*(counted(server, "a") for _ in range(4)))) == list("1234")
    assert len(ledger(tmp_path, "start")) == 1


async def test_a_crash_between_calls_is_mended_at_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert await counted(server, "a") == "1"
        session = await server.session("a")
        with pytest.raises(Exception, match="ended"):
            await session.call("crash", {})
        assert await counted(server, "a") == "1"


async def test_who_waits_for_a_start_and_is_stopped_does_not_stop_the_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        first, second = (asyncio.create_task(counted(server, "a")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "1"


async def test_a_server_that_does_not_start_is_not_tried_at_each_call(tmp_path: Path) -> None:
    like(tmp_path, start="die")
    async with serving(tmp_path) as server:
        tries = (server.session(who) for who in "aa")
        for told in await asyncio.gather(*tries, return_exceptions=True):
            assert isinstance(told, ToolError)
            assert "The server twin ended; the last that it printed: no paper in tray 2. Go on without it" in str(told)
        with pytest.raises(ToolError, match=r"no paper in tray 2\. It is tried again in 1 s"):
            await server.session("b")
        assert len(ledger(tmp_path, "start")) == 1
        like(tmp_path)
        server._not_before_s = 0
        assert await counted(server, "b") == "1"


async def test_each_failure_makes_the_wait_longer_and_a_call_that_works_ends_that(tmp_path: Path) -> None:
    like(tmp_path, start="die")
    async with serving(tmp_path) as server:
        for _ in range(3):
            server._not_before_s = 0
            with pytest.raises(ToolError):
                await server.session("a")
        with pytest.raises(ToolError, match=r"tried again in [34] s"):
            await server.session("a")
        like(tmp_path)
        server._not_before_s = 0
        session = await server.session("a")
        await session.call("count", {})
        like(tmp_path, start="die")
        with pytest.raises(Exception, match="ended"):
            await session.call("crash", {})
        with pytest.raises(ToolError, match="no paper"):
            await server.session("a")
        with pytest.raises(ToolError, match=r"tried again in 1 s"):
            await server.session("a")


async def test_the_one_that_was_idle_longest_makes_room(tmp_path: Path) -> None:
    async with serving(tmp_path, sessions_max=2) as server:
        for who in "abac":
            await counted(server, who)
        assert await counted(server, "a") == "3"
        assert await counted(server, "b") == "1", "b had to go"
        await until(lambda: sum(is_alive(one["pid"]) for one in ledger(tmp_path, "start")) == 2)


async def test_where_all_are_at_work_nobody_is_put_away(tmp_path: Path) -> None:
    async with serving(tmp_path, sessions_max=1) as server:
        hanging = asyncio.create_task((await server.session("a")).call("hang", {}))
        await until(lambda: bool(ledger(tmp_path, "call")))
        with pytest.raises(ToolError, match="All 1 sessions with twin are in use"):
            await server.session("b")
        hanging.cancel()
        await asyncio.wait([hanging])
        assert await counted(server, "b") == "1"


async def test_what_nobody_uses_is_ended(tmp_path: Path) -> None:
    async with serving(tmp_path, idle_s=0.2) as server:
        hanging = asyncio.create_task((await server.session("busy")).call("hang", {}))
        await counted(server, "a")
        await until(lambda: len(ledger(tmp_path, "end")) == 1)
        assert not hanging.done()
        assert await counted(server, "a") == "1"
        hanging.cancel()
        await asyncio.wait([hanging])
