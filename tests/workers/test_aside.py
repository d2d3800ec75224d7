"""Commands that are run beside a turn: answered at once, whatever the turn waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.commands import find, names
from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import calls, fails, says
from tests.harness.processes import until
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


async def test_a_command_that_there_is_not_waits_for_nothing(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("what is new?") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            [told] = await world.beside(claim, "/aprove X")
            assert "There is no command /aprove. Perhaps `/approve`?" in told
        hold.set()


async def test_what_it_answers_is_named_in_the_record(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("what is new?") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            await world.beside(claim, "/status")
        records = await world.history()
        [card] = [one for one in records if one.type == "card"]
        asked = [one for one in records if one.type == "event"][-1]
        assert card.data["of"] == asked.data["event"]["dedupe_keys"][0]
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
                [told] = await world.beside(claim, "/status")
                assert "the tool `web_fetch` runs" in told
            hold.set()


async def test_while_the_turn_is_parked_and_nobody_holds_it(opened: Opened) -> None:
    async with opened(settings={"mailbox": {"send_hold_s": 0.05}}) as world:
        world.model.answer_with(fails(529, "overloaded_error", headers={"retry-after": "30"}))
        assert await world.ask("what is new?") == []
        [told] = await world.ask("/help")
        assert "/stop" in told
        assert len(world.model.asked) == 1, "the model has its rest"
        assert (await world.desk.mailbox.load(WHERE.id)).turn, "and the turn is still open"


async def test_what_is_taken_back_is_never_answered_and_stays_in_history(opened: Opened) -> None:
    hold = asyncio.Event()
    async with opened() as world:
        world.model.answer_with(says("Well.", hold=hold))
        async with world.busy("first") as claim:
            await world.model.until(lambda: world.model.in_flight == 1)
            for text, who in (("second", "U-MAX"), ("third", "U-ANA"), ("/new", "U-MAX")):
                assert await world.say(text, actor=Actor(who, who)) == "new"
            [told] = await world.beside(claim, "/queue")
            assert [line.split()[1] for line in told.split("\n")[1:4]] == ["`U-MAX`:", "`U-ANA`:", "`U-MAX`:"]
            [told] = await world.beside(claim, "/queue clear")
            assert "`second`" in told
            assert "`/new`" in told
            assert "third" not in told
            hold.set()
            await until(lambda: claim.lost)  # given back
        await world.work()
        sent = [str(asked.request["messages"]) for asked in world.model.asked]
        assert ["third" in one for one in sent] == [False, True]
        assert not any("second" in one for one in sent)
        stored = (await world.desk.mailbox.load(WHERE.id)).history
        assert [one.data["event"]["text"] for one in stored if one.type == "withdrawn"] == ["second", "/new"]
        assert not any(one.type == "cleared" for one in stored)


async def test_what_waits_for_a_yes_is_told_though_nobody_holds_it(opened: Opened) -> None:
    async with opened(profile={"tools": ["send_file"], "approvals": {"ask": ["send_file"]}}) as world:
        world.model.answer_with(calls("send_file", {"name": "a.txt", "content": "x"}))
        await world.ask("as a file, please")
        [told] = await world.ask("/status")
        assert "waits for a yes or a no" in told
        assert "model calls so far: 1" in told


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
