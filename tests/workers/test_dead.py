"""A dead letter that is asked again is a new turn: answered once, beside what was left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from gateway.acts.letter_acts import LetterActs
from gateway.acts.skill_acts import Acts, By
from gateway.conversation.letters import Letter, done_in, letters
from gateway.conversation.records import Record
from gateway.events import ReplyHandle
from gateway.rights.access import Operator
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.workers.at_desk import WHERE, AtDesk, at_desk


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix) as made:
        yield made


async def given_up(world: AtDesk) -> Letter:
    """What somebody said, while its workers died."""
    hold = asyncio.Event()
    world.model.answer_with(says("Late.", hold=hold))
    handle = ReplyHandle("test", {}, world.desk.mailbox.now_ms() + 60_000)
    async with world.busy("what is up?", reply_handle=handle) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
    await world.desk.bury(claim, "test")
    hold.set()
    world.model.answer_with(says("Nothing is."))
    [found] = await letters(world.desk.mailbox.store, 10)
    return found


async def ask_again(world: AtDesk, one: Letter) -> None:
    desk = world.desk
    shelf, loaded = desk.course.shelf, await desk.watched.current()

    by = By("test", desk.mailbox.now_ms(), Operator("root"), here=partial(shelf.everywhere, loaded))
    await LetterActs(Acts(shelf, loaded.settings.skills, by), desk.mailbox).retry(one.id)


async def test_it_is_a_new_turn_and_one(world: AtDesk) -> None:
    one = await given_up(world)
    assert [record.type for record in await done_in(world.desk.mailbox.store, one)][-2:] == ["failed", "reply"]
    before = len(world.room.sent)
    await ask_again(world, one)
    await ask_again(world, one)
    await world.work()
    assert world.room.sent[before:] == ["Nothing is."]
    said = [record for record in await world.history() if record.type == "event"]
    assert [record.data["event"]["text"] for record in said] == ["what is up?"] * 2
    assert len({record.data["turn"] for record in said}) == 2
    assert said[1].data["event"].get("reply_handle") is None
    assert str(world.model.asked[-1].request["messages"]).count("what is up?") == 1, "what was given up is left out"
    assert await letters(world.desk.mailbox.store, 10) == []
    assert await world.desk.mailbox.retry(WHERE, one.number, ["{}"], act="x") == "gone", (
        "whoever comes at the same time"
    )
    assert not (await world.desk.mailbox.load(WHERE.id)).inbox


async def test_its_turn_is_found_however_much_was_said_since(world: AtDesk) -> None:
    one = await given_up(world)
    store = world.desk.mailbox.store
    many = [Record("reply", 1, {"turn": "another", "text": "x"}).dump()] * 1_200
    await store.redis.rpush(store.layout.key(WHERE.id, "history"), *many)
    assert "event" in [record.type for record in await done_in(store, one)]
