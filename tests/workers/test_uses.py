"""In how many turns a skill was offered, loaded and run: each turn counts once, whatever becomes of its workers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import LISTED_AGAIN_S
from gateway.conversation.uses import DAY_MS, Use, Uses, uses
from gateway.shelf.packing import Packer
from gateway.store import Layout
from skills.programs import tool_name
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.harness.planning import part, plan
from tests.skills.test_library import write
from tests.skills.test_programs import write_program
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.dying import turn_with_deaths

OTHER = ConversationKey("chat", "other-room", "t")
TOOL = tool_name("count")


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    write(tmp_path / "skills", "standup")
    write(tmp_path / "skills", "triage")
    write_program(tmp_path / "skills", "count")
    profile = {"tools": ["load_skill"], "skills": ["standup", "triage", "count"], "programs": ["*"]}
    settings = {"skills": {"folder": str(tmp_path / "skills"), "unsandboxed": ["count"]}}
    async with at_desk(tmp_path, redis_url, layout.prefix, profile=profile, settings=settings) as made:
        loaded = await made.desk.watched.current()
        packer = Packer(made.desk.mailbox.store, loaded.settings.skills, "packer", rests_s=0.0)
        for _ in range(2):
            await packer.step()
        yield made


def told(found: Uses) -> dict[str, tuple[int, int, int]]:
    return {id_: (one.offered, one.loaded, one.ran) for id_, one in found.by_id.items()}


async def counted(world: AtDesk, where: ConversationKey | None = WHERE, days: int = 1) -> Uses:
    mailbox = world.desk.mailbox
    return await uses(mailbox.store, where.channel_id if where else "", days, mailbox.now_ms())


def script(*steps: Callable[[], Reply]) -> Callable[[Asked], Reply]:
    """The steps of a turn, by how many answers it has had: whoever goes on with it gets the same again."""

    def answer(asked: Asked) -> Reply:
        had: int = sum(one["role"] == "assistant" for one in asked.request["messages"])
        return steps[min(had, len(steps) - 1)]()

    return answer


LOADS = script(
    lambda: calls("load_skill", {"name": "standup"}),
    lambda: calls("load_skill", {"name": "standup"}),
    lambda: calls(TOOL, {"n": 1}),
    lambda: calls(TOOL, {"n": 2}),
    lambda: says("Done."),
)


async def test_a_turn_counts_once_what_it_was_offered_loaded_and_ran(world: AtDesk) -> None:
    world.model.answer_with(LOADS)
    await world.ask("count")
    once = {"count": (1, 0, 1), "standup": (1, 1, 0), "triage": (1, 0, 0)}
    assert (told(found := await counted(world)), found.turns) == (once, 1)
    assert told(await counted(world, None)) == once
    await world.ask("/status")
    assert (await counted(world)).turns == 1, "a command asks no model"
    assert (await counted(world, OTHER)).turns == 0
    world.model.answer_with(says("Well."))
    await world.ask("hello", OTHER)
    assert told(await counted(world, OTHER)) == dict.fromkeys(once, (1, 0, 0))
    assert told(await counted(world)) == once
    everywhere = await counted(world, None)
    assert (everywhere.of("standup"), everywhere.of("nothing")) == (Use(2, 1, 0), Use())


@pytest.mark.parametrize("before", [True, False])
async def test_a_turn_counts_once_wherever_its_workers_die(world: AtDesk, before: bool) -> None:
    world.model.answer_with(LOADS)
    for number in itertools.count(1):
        where = ConversationKey("chat", "room", f"t{number}")
        history = await turn_with_deaths(world, where, "count", [(number, before), (number, before)])
        assert [one.type for one in history].count("reply") == 1
        assert told(await counted(world)) == {
            "count": (number, 0, number),
            "standup": (number, number, 0),
            "triage": (number, 0, 0),
        }
        if number > 14:  # later than the last write of a turn
            break


async def test_a_turn_that_is_given_up_counts_too(world: AtDesk) -> None:
    hold = asyncio.Event()
    world.model.answer_with(script(lambda: calls("load_skill", {"name": "standup"}), lambda: says("Done.", hold=hold)))
    async with world.busy("hello") as claim:
        await world.model.until(lambda: len(world.model.asked) == 2)
    await world.desk.bury(claim, "test")
    hold.set()
    found = await counted(world)
    assert (told(found), found.turns) == ({"count": (1, 0, 0), "standup": (1, 1, 0), "triage": (1, 0, 0)}, 1)


async def test_steps_of_a_plan_are_of_their_turn(world: AtDesk) -> None:
    def answer(asked: Asked) -> Reply:
        match part(asked):
            case "plan":
                return plan(("a", "one", []), ("b", "two", []))
            case "closing":
                return says("All is done.")
        return LOADS(asked)

    world.model.answer_with(answer)
    await world.ask("/plan count")
    found = await counted(world)
    assert (told(found), found.turns) == ({"count": (1, 0, 1), "standup": (1, 1, 0), "triage": (1, 0, 0)}, 1)


async def test_the_list_is_written_once_and_again_after_a_while(world: AtDesk) -> None:
    mailbox = world.desk.mailbox
    await world.ask("hello")
    [key] = await mailbox.store.redis.keys(f"{mailbox.store.layout.root(0)}:offer:*")
    await mailbox.store.redis.delete(key)
    await world.ask("hello")
    assert not await mailbox.store.redis.exists(key)
    mailbox._listed_s = {name: at_s - LISTED_AGAIN_S for name, at_s in mailbox._listed_s.items()}
    await world.ask("hello")
    assert await mailbox.store.redis.exists(key)


async def test_days_end_by_themselves(world: AtDesk) -> None:
    await world.ask("hello")
    store = world.desk.mailbox.store
    for pattern in ("uses:*", "offer:*"):
        for key in await store.redis.keys(f"{store.layout.root(0)}:{pattern}"):
            assert 31 * DAY_MS < await store.redis.pttl(key) <= 32 * DAY_MS
    tomorrow = world.desk.mailbox.now_ms() + DAY_MS
    assert (await uses(store, WHERE.channel_id, 1, tomorrow)).turns == 0
    assert (await uses(store, WHERE.channel_id, 2, tomorrow)).turns == 1
