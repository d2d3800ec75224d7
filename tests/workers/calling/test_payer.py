"""Of a turn in which several people write: for whom each call counts, and who may ride along."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.costs.spending import Accounts, spent
from gateway.events import Actor
from gateway.store import Layout
from tests.harness.model_replies import calls, says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk

MAX, ANA = Actor("U-MAX", "Max"), Actor("U-ANA", "Ana")
FIRST, NEXT = ({"input_tokens": number, "output_tokens": 1} for number in (100, 7))

Opened = Callable[..., AbstractAsyncContextManager[AtDesk]]


@pytest.fixture
def desk_with(tmp_path: Path, redis_url: str, layout: Layout) -> Opened:
    def opened(mode: str, budget: dict[str, Any] | None = None) -> Any:
        profile = {"tools": ["current_time", "ask_person"], "queue": {"mode": mode}}
        profile |= {"budget": budget} if budget else {}
        settings = {"model": {"answer_max_tokens": 100}}
        return at_desk(tmp_path, redis_url, layout.prefix, profile=profile, settings=settings)

    return opened


async def of(world: AtDesk, who: Actor) -> tuple[int, int]:
    """Tokens in, and turns."""
    mailbox = world.desk.mailbox
    [found] = await spent(mailbox.store, [Accounts.at(WHERE, who, "UTC", mailbox.now_ms()).person_day])
    return found.total.input, found.turns


async def while_it_runs(world: AtDesk, said: str, who: Actor) -> None:
    """Max's turn is at its first call when somebody writes; then all that waits is worked on."""
    hold = asyncio.Event()
    script = iter([replace(calls("current_time", usage=FIRST), hold=hold)])
    world.model.answer_with(lambda _: next(script, says("Well.", usage=NEXT)))
    async with world.busy("what time is it?") as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        assert await world.say(said, actor=who) == "new"
        claim.news.set()
        hold.set()
        await until(lambda: claim.lost)
    await world.work()


def words(world: AtDesk) -> list[bool]:
    """Of each request, whether Ana's words are in it."""
    return ["and the weather" in one.body.decode() for one in world.model.asked]


async def test_without_budgets_of_persons_each_call_counts_for_whoever_wrote_last(desk_with: Opened) -> None:
    """So nobody can have others pay for what they ask: the others would have to write in their turn."""
    async with desk_with("steer") as world:
        await while_it_runs(world, "and the weather?", ANA)
        assert words(world) == [False, True]
        assert [await of(world, one) for one in (MAX, ANA)] == [(100, 0), (7, 1)]


@pytest.mark.parametrize("mode", ["collect", "steer", "interrupt", "followup"])
async def test_where_persons_have_budgets_nobody_rides_on_anothers_turn_or_ends_it(
    desk_with: Opened, mode: str
) -> None:
    async with desk_with(mode, {"person": {"day": {"turns": 1}}}) as world:
        world.model.answer_with(says("Hello.", usage=NEXT))
        await world.ask("hello", actor=ANA)
        await while_it_runs(world, "and the weather?", ANA)
        answered, refused = world.room.sent[1:]
        assert answered.startswith("Well.")
        assert "is used up: 1 of 1 questions are spent" in refused
        assert words(world) == [False] * 3
        assert [await of(world, one) for one in (MAX, ANA)] == [(107, 1), (7, 1)]


async def test_ones_own_words_join_ones_own_turn(desk_with: Opened) -> None:
    async with desk_with("steer", {"person": {"day": {"turns": 1}}}) as world:
        await while_it_runs(world, "and the weather?", MAX)
        assert words(world) == [False, True]
        assert await of(world, MAX) == (107, 1)


async def test_what_waits_from_several_people_is_a_turn_each(desk_with: Opened) -> None:
    async with desk_with("collect", {"person": {"day": {"turns": 1}}}) as world:
        world.model.answer_with(says("Well.", usage=NEXT))
        for who, said in ((MAX, "one"), (ANA, "two"), (MAX, "three")):
            assert await world.say(said, actor=who) == "new"
        await world.work()
        heard = [[one in each.body.decode() for one in ("one", "two", "three")] for each in world.model.asked]
        assert heard == [[True, False, True], [True, True, True]], "all of the first one's, then the other's"
        assert [await of(world, one) for one in (MAX, ANA)] == [(7, 1), (7, 1)]


@pytest.mark.parametrize("budget", [None, {"person": {"day": {"turns": 5}}}])
async def test_who_answers_what_a_turn_asks_pays_nothing_for_it(
    desk_with: Opened, budget: dict[str, Any] | None
) -> None:
    async with desk_with("steer", budget) as world:
        script = iter([calls("ask_person", {"question": "Which year?"}, usage=FIRST), says("2024.", usage=NEXT)])
        world.model.answer_with(lambda _: next(script))
        await world.ask("make the report", actor=MAX)
        assert (await world.ask("the last one", actor=ANA))[-1] == "2024."
        assert [await of(world, one) for one in (MAX, ANA)] == [(107, 1), (0, 0)]
