"""Which model a turn asks, once people have chosen one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from config.profiles import Profile
from gateway.counts import counted
from gateway.store import Layout
from tests.harness.model_replies import calls, says
from tests.harness.processes import until
from tests.workers.at_desk import AtDesk, at_desk
from workers.turn import Turn

PROFILE = {"tools": ["current_time"], "models": ["fast", "deep"]}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=PROFILE) as made:
        yield made


def asked(world: AtDesk) -> list[str]:
    return [one.request["model"] for one in world.model.asked]


async def test_the_choice_holds_from_the_next_turn_on_in_this_conversation_and_after_new(world: AtDesk) -> None:
    await world.ask("one")
    await world.ask("/model fast")
    await world.ask("two")
    await world.ask("/new")
    await world.ask("/clear")
    await world.ask("three")
    await world.ask("/model fake")
    await world.ask("four")
    assert asked(world) == ["fake", "fast", "fast", "fake"]


async def test_a_turn_keeps_its_model_to_the_end_and_each_switch_is_a_counted_break(world: AtDesk) -> None:
    hold = asyncio.Event()
    script = iter([calls("current_time", hold=hold), says("Noon."), says("Well."), says("Well.")])
    world.model.answer_with(lambda _: next(script))
    async with world.busy("what time is it?") as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
        [told] = await world.beside(claim, "/model deep")
        assert "`deep`" in told
        hold.set()
        await until(lambda: claim.lost)  # given back
    await world.work()
    assert (await counted(world.desk.mailbox.store)).get("break:model") is None
    await world.ask("and now?")
    await world.ask("and now?")
    assert asked(world) == ["fake", "fake", "deep", "deep"]
    assert (await counted(world.desk.mailbox.store))["break:model"] == 1


async def test_what_the_operator_takes_away_is_not_asked_any_more(world: AtDesk, tmp_path: Path) -> None:
    await world.ask("/model fast")
    await world.ask("one")
    (tmp_path / "profiles/default.yaml").write_text(yaml.safe_dump({**PROFILE, "models": ["deep"]}))
    await until(lambda: world.desk.watched.latest().profile_for("chat", "room").models == ["deep"])
    await world.ask("two")
    assert asked(world) == ["fast", "fake"]


@pytest.mark.parametrize(("models", "asked"), [(["fast"], "fast"), (["deep"], "own"), ([], "own")])
def test_a_turn_that_is_taken_over_asks_what_the_profile_allows_now(models: list[str], asked: str) -> None:
    nothing: Any = SimpleNamespace(news=None)
    turn = Turn(nothing, nothing, nothing, Profile(model="own", models=models), {"chosen": "fast"})
    assert turn.model == asked
