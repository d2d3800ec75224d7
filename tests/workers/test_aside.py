"""Commands that are run beside a turn: answered at once, whatever the turn waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.commands import find, names
from gateway.store import Layout
from tests.harness.model_replies import calls, fails, says
from tests.harness.web import site
from tests.workers.at_desk import WHERE, AtDesk, at_desk

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def opened(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    return lambda **more: at_desk(tmp_path, redis_url, layout.prefix, **more)


async def test_while_the_model_is_asked(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("what is new?") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            [told] = await world.beside(claim, "/help")
            assert "/stop" in told
            assert world.model.in_flight == 1, "what is on its way is not cut"
        hold.set()


async def test_while_a_tool_runs(opened: Opened) -> None:
    asked, hold = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        asked.set()
        await hold.wait()
        return web.Response(text="late")

    async with site({"/": slow}) as port:
        settings = {"tools": {"web_fetch": {"allow_private": [f"127.0.0.1:{port}"]}}}
        async with opened(profile={"tools": ["web_fetch"]}, settings=settings) as world:
            world.model.answer_with(calls("web_fetch", {"url": f"http://127.0.0.1:{port}/"}))
            async with world.busy("look it up") as claim:
                await asked.wait()
                [told] = await world.beside(claim, "/help")
                assert "/stop" in told
            hold.set()


async def test_while_the_turn_is_parked_and_nobody_holds_it(opened: Opened) -> None:
    async with opened(
        settings={"mailbox": {"send_hold_s": 0.05}, "model": {"max_retries": 0, "retry_for_s": 60}}
    ) as world:
        world.model.answer_with(fails(529, "overloaded_error", headers={"retry-after": "30"}))
        assert await world.ask("what is new?") == []
        [told] = await world.ask("/help")
        assert "/stop" in told
        assert len(world.model.asked) == 1, "the model has its rest"
        assert (await world.desk.mailbox.load(WHERE.id)).turn, "and the turn is still open"


async def test_what_waits_keeps_its_place_in_line(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("what is new?") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            assert await world.say("/new") == "new"
            [told] = await world.beside(claim, "/help")
            assert "/stop" in told
        hold.set()
        assert [one.type for one in await world.history() if one.type == "cleared"] == []


def test_each_command_says_what_becomes_of_it_meanwhile() -> None:
    when = {name: command.WHEN_BUSY for name in names() if (command := find(name))}
    assert when.keys() == set(names())
    assert {name for name, one in when.items() if one == "overtakes"} == {"stop"}
    assert {name for name, one in when.items() if one == "waits"} == {"compact", "new", "plan", "team"}
