"""Buttons under a note that waits: who presses one says what it carries, with their own rights."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.log import Change
from gateway.commands import Done, command_of, names
from gateway.conversation.key import ConversationKey
from gateway.events import Actor, Event
from gateway.shelf.notes import Draft
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.pressed import TEXT_MAX, tell_pressed

LI, MAX = Actor("U-LI", "Li"), Actor("U-MAX", "Max")
PROFILE = {"skills": ["*"], "tools": ["load_skill"], "roles": {"approver": ["chat/U-LI"]}}


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(at_desk(tmp_path, redis_url, layout.prefix, profile=PROFILE))


async def waiting_note(world: AtDesk) -> str:
    """Max had the model write a note, which waits; its code."""
    change = Change("note 1", "chat/U-MAX", "chat/room", WHERE.channel_id, "profile")
    draft = Draft("web-access", "references/x.md", "A note.", "Max", WHERE.id)
    return (await world.desk.course.notes.save(change, draft, ask=True)).note.code


async def press(world: AtDesk, command: str, who: Actor) -> list[str]:
    return await world.ask(kind="action", name="button", value=command, actor=who)


async def state(world: AtDesk) -> list[str]:
    return [one.text for one in await world.desk.course.notes.read(WHERE.channel_id, "web-access", "references/x.md")]


def without_code(text: str, code: str) -> str:
    return text.replace(code, "CODE")


async def test_a_members_press_is_refused_exactly_as_the_command_and_the_buttons_stay(world: AtDesk) -> None:
    code = await waiting_note(world)
    typed = await world.ask(f"/skill approve {code}", actor=MAX)
    pressed = await press(world, f"skill approve {code}", MAX)
    assert pressed == typed
    assert "needs the role" in pressed[0]
    assert [part.only_for for _, part in world.room.parts] == ["U-MAX", "U-MAX"], "nobody else has to read it"
    [(value, told, is_settled)] = world.room.pressed_as
    assert (value, is_settled) == (f"skill approve {code}", False)
    assert told
    assert told in pressed[0]
    assert await state(world) == []


@pytest.mark.parametrize(("word", "counts"), [("approve", ["A note."]), ("reject", [])])
async def test_an_approvers_press_works_and_a_second_one_is_told_that_it_was_decided(
    world: AtDesk, word: str, counts: list[str]
) -> None:
    code = await waiting_note(world)
    await press(world, f"skill {word} {code}", LI)
    assert await state(world) == counts
    [second] = await press(world, "skill " + ("reject" if word == "approve" else "approve") + f" {code}", LI)
    assert code in second
    assert await state(world) == counts, "the first press decided"
    assert [is_settled for _, _, is_settled in world.room.pressed_as] == [True, True]
    assert world.room.pressed_as[0][1] != world.room.pressed_as[1][1]


async def test_two_who_press_at_once_decide_once(world: AtDesk) -> None:
    code = await waiting_note(world)
    for word in ("approve", "reject"):
        await world.say(kind="action", name="button", value=f"skill {word} {code}", actor=LI)
    await world.work()
    assert await state(world) == ["A note."]
    assert [is_settled for _, _, is_settled in world.room.pressed_as] == [True, True]


async def test_a_press_while_a_turn_runs_is_decided_beside_it(world: AtDesk) -> None:
    code = await waiting_note(world)
    hold = asyncio.Event()
    world.model.answer_with(says("At last.", hold=hold))
    await world.say("a long story")
    [claim] = (await world.desk.mailbox.claim(0, "w1", 1)).grants
    running = asyncio.create_task(world.desk.attend(claim, lambda: 0))
    await world.model.until(lambda: len(world.model.asked) == 1)
    await world.say(kind="action", name="button", value=f"skill approve {code}", actor=LI)
    claim.news.set()
    await until(lambda: len(world.room.sent) == 1)
    assert await state(world) == ["A note."]
    assert [is_settled for _, _, is_settled in world.room.pressed_as] == [True]
    hold.set()
    await running
    assert world.room.sent[1:] == ["At last."]
    await world.work()
    assert len(world.room.pressed_as) == 1, "once"


async def test_a_press_for_a_note_that_there_is_not_takes_the_buttons_away(world: AtDesk) -> None:
    await press(world, "skill approve 0000", LI)
    assert [is_settled for _, _, is_settled in world.room.pressed_as] == [True]


async def test_another_channels_press_decides_nothing_here(world: AtDesk) -> None:
    code = await waiting_note(world)
    elsewhere = ConversationKey("chat", "elsewhere")
    await world.ask("", elsewhere, kind="action", value=f"skill approve {code}", actor=LI)
    assert await state(world) == []


async def test_a_typed_command_tells_no_button(world: AtDesk) -> None:
    await world.ask("/help")
    assert world.room.pressed_as == []


async def test_what_is_no_button_of_ours_does_nothing(world: AtDesk) -> None:
    for value in ("", "skillet approve X", "/skill approve X", "rm -rf", "skill\napprove"):
        assert await world.say(kind="action", value=value, actor=LI) == "ignored"
    await world.work()
    assert (world.room.pressed_as, world.room.sent, world.model.asked) == ([], [], [])


def test_a_buttons_value_is_a_command_only_if_there_is_one() -> None:
    def action(value: str) -> Event:
        return Event(
            kind="action", conversation=WHERE, actor=MAX, dedupe_keys=("d",), at_ms=0, value=value, text="/stop"
        )

    assert command_of(action(" skill  approve  KMTR ")) == ("skill", "approve  KMTR")
    assert [command_of(action(name)) for name in names()] == [(name, "") for name in names()]
    assert command_of(action("")) is None
    assert command_of(action("nonsense x")) is None


# what the platform is told


def event() -> Event:
    return Event(kind="action", conversation=WHERE, actor=MAX, dedupe_keys=("d",), at_ms=0, value="skill list")


async def test_it_is_told_the_first_line_and_no_more_than_fits() -> None:
    room: Any = Room()
    await tell_pressed(room, event(), Done("\n\nIt is **done**.\n\nAnd much more."), 1.0)
    await tell_pressed(room, event(), Done("好" * 1_000, is_settled=False), 1.0)
    assert room.pressed_as == [("skill list", "It is **done**.", True), ("skill list", "好" * TEXT_MAX, False)]


class Bad(Room):
    """Its waiting sign never ends, or it is not as promised."""

    async def pressed(self, *args: Any, **more: Any) -> None:
        await super().pressed(*args, **more)
        if self.growing.interval_s:
            raise RuntimeError("not as promised")
        await asyncio.sleep(60)


async def test_a_platform_that_hangs_or_breaks_there_does_not_keep_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    for wait_s in (0.0, 1.0):
        room: Any = Bad()
        room.growing = type(room.growing)(interval_s=wait_s)
        with caplog.at_level(logging.WARNING):
            await tell_pressed(room, event(), Done("Done."), 0.05)
    assert [record.getMessage() for record in caplog.records] == ["press not told"] * 2
