"""Whoever answers a card finds what follows below it: what grew above the card is finished as it stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.conversation.outbox import Row
from gateway.events import Actor
from gateway.platforms import Address, Growing, Outcome, Part, Sent, Stream
from gateway.store import Layout
from tests.harness.model_replies import Reply, calls, says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.calling.test_persons import code_in
from tests.workers.room import Room

LI = Actor("U-LI", "Li")


class Chat(Room):
    """Where an answer grows in a message: what stands there, by message, in the order in which the messages came."""

    def __init__(self) -> None:
        super().__init__(buttons=2, stream=Stream("message", interval_s=0.01))
        self.there: dict[str, str] = {}
        self.seen = asyncio.Event()
        self.lets_edit = asyncio.Event()
        self.lets_edit.set()
        self.edits = 0

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        self.there.setdefault(key, part.file.name if part.file else part.payload["text"])
        return await super().send(to, part, key)

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        self.edits += 1
        await self.lets_edit.wait()
        self.there[sent.message_id.removeprefix("id of ")] = part.payload["text"]
        return await super().edit(to, sent, part)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        self.there[key] = growing.markdown
        self.seen.set()
        return await super().show(to, growing, key, sent)

    @property
    def texts(self) -> list[str]:
        return list(self.there.values())


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    profile = {
        "tools": ["send_file", "ask_person", "current_time"],
        "roles": {"approver": ["chat/U-LI"]},
        "approvals": {"ask": ["send_file"]},
    }
    async with at_desk(tmp_path, redis_url, layout.prefix, room=Chat(), profile=profile) as opened:
        yield opened


def chat(world: AtDesk) -> Chat:
    assert isinstance(world.room, Chat)
    return world.room


def script(room: Chat, *after: Reply) -> list[Reply]:
    """A step that is seen, then a call that wants a yes."""
    hold = room.seen
    text = {"type": "text", "text": "I send it."}
    use = {"type": "tool_use", "name": "send_file", "input": {"name": "a.txt", "content": "x"}}
    return [calls("current_time"), Reply([text, use], "tool_use", hold=hold), *after]


async def open_rows(world: AtDesk) -> list[Row]:
    return [row for row in (await world.desk.mailbox.load(WHERE.id)).rows if row.is_open]


async def test_the_reply_comes_below_the_card_and_what_grew_stays_above_it(world: AtDesk) -> None:
    room = chat(world)
    world.model.answer_with(script(room, says("It is sent.")))
    await world.ask("send it")
    above, card = room.texts
    assert "current_time" in above
    assert "/approve" in card
    await world.ask(f"/approve {code_in([card])}", actor=LI)
    assert room.texts[:2] == [above, card]
    assert "a.txt" in room.texts[2:]
    assert room.texts.count("It is sent.") == 1
    assert not await open_rows(world)


async def test_what_grows_after_the_yes_is_another_message_and_becomes_the_reply(world: AtDesk) -> None:
    room = chat(world)
    slow = says("It is sent, and all is well.", deltas=4, between_s=0.05)
    world.model.answer_with(script(room, slow))
    await world.ask("send it")
    above, card = room.texts
    await world.ask(f"/approve {code_in([card])}", actor=LI)
    assert room.texts[:2] == [above, card]
    assert sum("It is sent" in one for one in room.texts) == 1, "what grew below became the reply"
    assert not await open_rows(world)


async def test_a_worker_that_dies_before_its_card_is_followed_by_one_that_finishes_what_grew_and_asks_once(
    world: AtDesk,
) -> None:
    room = chat(world)
    room.lets_edit.clear()
    world.model.answer_with(script(room, says("It is sent.")))
    assert await world.say("send it") == "new"
    [claim] = (await world.desk.mailbox.claim(0, "first", 1)).grants
    first = asyncio.create_task(world.desk.attend(claim, lambda: 0))
    await until(lambda: room.edits > 0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await world.desk.mailbox.hand_over(claim)
    assert [row.order < 0 for row in await open_rows(world)] == [True, True]
    room.lets_edit.set()
    await world.work()
    above, card = room.texts
    assert "current_time" in above
    assert "/approve" in card
    await world.ask(f"/approve {code_in([card])}", actor=LI)
    assert room.texts[:2] == [above, card]
    assert room.texts.count("It is sent.") == 1
    assert not await open_rows(world)
