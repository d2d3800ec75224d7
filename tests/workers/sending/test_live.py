"""The growing answer and the typing sign: shown at the platform's pace, and never in the answer's way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from config.profiles import Profile
from config.settings import MailboxSettings
from gateway import pace
from gateway.conversation.mailbox import Mailbox
from gateway.events import Actor, Event
from gateway.platforms import Outcome, Pace, Stream
from gateway.store import Store
from tests.gateway.conversation.world import now_ms
from tests.harness.processes import until
from tests.workers.records import WHERE
from tests.workers.room import Room
from workers.sending.live import TAKE_BACK_S, Live
from workers.turn import Turn, begin

MESSAGE, PASSING = Stream("message", 0.02), Stream("passing", 0.02)


@pytest.fixture
async def turn(store: Store) -> Turn:
    mailbox = Mailbox(store, MailboxSettings(lease_s=10, send_timeout_s=2))
    await mailbox.open()
    event = Event(kind="message", conversation=WHERE, actor=Actor("u"), dedupe_keys=("d",), at_ms=now_ms(), text="hi")
    await mailbox.accept(WHERE, event.dump(), dedupe_keys=("d",), at_ms=now_ms())
    claim = (await mailbox.claim(0, "w", 1)).grants[0]
    stored = await mailbox.load(claim.conversation)
    begun = begin(mailbox, claim, stored, Profile(), event)
    await begun.take(stored.inbox)
    return begun


@asynccontextmanager
async def shown_by(turn: Turn, room: Any) -> AsyncIterator[Live]:
    live = Live(turn, room)
    try:
        yield live
    finally:
        await live.close()


async def hang(*_: Any) -> None:
    await asyncio.sleep(60)


# typing


async def test_the_sign_is_repeated_before_it_fades_and_taken_back_at_the_end(turn: Turn) -> None:
    room = Room(typing_s=0.05)
    async with shown_by(turn, room):
        await until(lambda: len(room.signs) >= 3)
    assert room.signs[:3] == [True] * 3
    assert (room.signs.count(False), room.signs[-1]) == (1, False)
    signs = list(room.signs)
    await asyncio.sleep(0.1)
    assert room.signs == signs, "it ended"


async def test_the_sign_ends_when_something_of_the_answer_is_seen(turn: Turn) -> None:
    room = Room(stream=MESSAGE, typing_s=0.05)
    async with shown_by(turn, room) as live:
        await until(lambda: room.signs != [])
        live.add("half")
        await until(lambda: room.signs[-1] is False)
        assert room.shown == ["half"]


async def test_a_platform_without_a_sign_is_asked_for_none(turn: Turn) -> None:
    room = Room()
    async with shown_by(turn, room) as live:
        live.add("text")
        await asyncio.sleep(0.05)
        await live.end()
    assert (room.signs, room.shown) == ([], [])


async def test_an_adapter_whose_sign_hangs_does_not_hold_up_the_answer(turn: Turn) -> None:
    room = Room(stream=PASSING, typing_s=0.05)
    room.on_typing = hang
    async with shown_by(turn, room) as live:
        live.add("half")
        await until(lambda: room.shown == ["half"])
        begun_s = time.monotonic()
        await live.end()
    assert time.monotonic() - begun_s < TAKE_BACK_S + 1.0
    assert room.signs == [True, False]


async def test_an_adapter_that_breaks_at_the_sign_costs_only_the_sign(turn: Turn) -> None:
    async def breaks(_: bool) -> None:
        raise RuntimeError("not as promised")

    room = Room(stream=PASSING, typing_s=0.05)
    room.on_typing = breaks
    async with shown_by(turn, room) as live:
        live.add("half")
        await until(lambda: room.shown == ["half"])
        await live.end()


async def test_a_sign_that_does_not_come_in_time_is_not_asked_for_again(turn: Turn) -> None:
    turn.mailbox.settings = MailboxSettings(lease_s=10, send_timeout_s=0.05)
    room = Room(typing_s=0.05)
    room.on_typing = hang
    async with shown_by(turn, room):
        await until(lambda: room.signs == [True, False])
        await asyncio.sleep(0.1)
    assert room.signs == [True, False]


# what grows


async def test_a_platform_that_shows_nothing_is_shown_nothing(turn: Turn) -> None:
    room = Room(stream=Stream("none", 0.01))
    async with shown_by(turn, room) as live:
        live.step_done(live.step("tool", "web_fetch"), "done")
        live.add("text")
        await asyncio.sleep(0.05)
        await live.end()
    assert room.shown == []
    assert (await turn.mailbox.load(WHERE.id)).rows == []


async def test_what_passes_leaves_no_row_and_shows_steps_that_were_too_quick(turn: Turn) -> None:
    room = Room(stream=Stream("passing", 5.0))
    async with shown_by(turn, room) as live:
        live.step_done(live.step("tool", "web_fetch"), "done")
        live.add("text")
        await live.end()
    [shown] = room.shown
    assert "web_fetch" in shown
    assert shown.endswith("text")
    assert (await turn.mailbox.load(WHERE.id)).rows == []


async def test_a_message_waits_for_something_to_show_and_its_row_is_there_first(turn: Turn) -> None:
    room: Any = Room(stream=MESSAGE)
    seen: list[list[str]] = []
    show = room.show

    async def look(*args: Any) -> Any:
        seen.append([row.state for row in (await turn.mailbox.load(WHERE.id)).rows])
        return await show(*args)

    room.show = look
    async with shown_by(turn, room) as live:
        live.drop()
        await asyncio.sleep(0.06)
        assert seen == []
        live.add("ha")
        await until(lambda: len(room.shown) == 1)
        live.add("lf")
        await until(lambda: room.shown == ["ha", "half"])
    assert seen == [["sending"], ["live"]]


async def test_what_was_dropped_is_not_shown_before_the_new_answer(turn: Turn) -> None:
    room = Room(stream=PASSING)
    async with shown_by(turn, room) as live:
        live.add("wrong")
        await until(lambda: room.shown == ["wrong"])
        live.drop()
        live.add("right")
        await until(lambda: room.shown[-1] == "right")


async def test_an_answer_that_is_quick_comes_as_one_message(turn: Turn) -> None:
    room = Room(stream=Stream("message", 1.0))
    async with shown_by(turn, room) as live:
        live.add("all of it")
        await asyncio.sleep(0.05)
        await live.end()
    assert room.shown == []


# pace


async def test_all_that_is_shown_keeps_to_the_platforms_pace_and_ends_with_the_newest(turn: Turn) -> None:
    rule = (Pace("channel", 1, 0.2),)
    room = Room(stream=Stream("passing", 0.01), pace=rule)
    begun_s = time.monotonic()
    async with shown_by(turn, room) as live:
        for number in range(20):
            live.add(f"{number} ")
            await asyncio.sleep(0.02)
        await until(lambda: room.shown[-1:] == ["0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"])
    assert len(room.shown) <= 1 + (time.monotonic() - begun_s) / 0.2


async def test_what_the_platform_refuses_holds_every_worker_and_is_shown_when_it_may_be(turn: Turn) -> None:
    room = Room(stream=PASSING, pace=(Pace("channel", 100, 1.0),))
    room.outcomes = [Outcome("rate_limited", retry_after_s=0.6)]
    async with shown_by(turn, room) as live:
        live.add("ha")
        await until(lambda: room.outcomes == [])
        async with asyncio.timeout(2):
            while not await pace.take(turn.mailbox.store, WHERE, ()):  # another worker, which keeps to no other limit
                await asyncio.sleep(0.005)
        assert room.shown == []
        live.add("lf")
        await until(lambda: room.shown == ["half"])


@pytest.mark.parametrize("stream", [MESSAGE, PASSING])
async def test_past_the_lease_nothing_is_shown(turn: Turn, stream: Stream) -> None:
    room = Room(stream=stream)
    turn.claim.deadline_s = 0.0
    async with shown_by(turn, room) as live:
        live.add("half")
        await asyncio.sleep(0.06)
    assert room.shown == []


async def test_a_picture_of_the_answer_that_fails_does_not_cost_the_next_one(turn: Turn) -> None:
    room = Room(stream=PASSING)
    room.outcomes = [Outcome("transient"), Outcome("rejected")]
    async with shown_by(turn, room) as live:
        for piece in ("a", "b", "c"):
            live.add(piece)
            await asyncio.sleep(0.04)
        await until(lambda: room.shown == ["abc"])
