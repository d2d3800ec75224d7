"""Borders: what people write while a turn works, looked at between two steps and while something takes its time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from gateway.approvals.asked import questions_in
from gateway.conversation.claim import Leaving
from gateway.conversation.records import Record
from gateway.events import Event
from workers.agent.moves import is_stop, read_event
from workers.taking import joining
from workers.turn import Ended, Turn

T = TypeVar("T")

CANCEL_WAIT_S: Final = 2.0
"""How long what was called off may take to end."""


class Called(Exception):
    """Somebody wrote while work was under way, and it can't wait: /stop, or a message in the mode `interrupt`."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.stop = stop


async def border(turn: Turn, *, joins: bool = True) -> None:
    """Between two steps: control always, and in `steer` what people wrote meanwhile, unless nothing `joins` this turn."""
    turn.claim.check()
    if turn.claim.leaving:
        raise Leaving(turn.claim.conversation)
    if not turn.news.is_set():
        return
    turn.news.clear()
    called = await look(turn)
    if called and called.stop:
        raise called
    if questions_in(turn.all_records):
        if turn.hear:
            await turn.hear()
    elif called and joins and turn.profile.queue.mode in {"steer", "interrupt"}:
        await take_messages(turn)


async def take_messages(turn: Turn, *also: Record) -> None:
    """What people wrote meanwhile joins the turn, `also` after it. Raises `Lost`."""
    _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
    await _join(turn, joining(inbox, turn), *also)


async def _join(turn: Turn, members: Sequence[bytes], *also: Record) -> None:
    if members and turn.before_talk:
        await turn.before_talk()
    if members or also:
        await turn.take(members, (), *also)


async def look(turn: Turn) -> Called | None:
    """What waits and is for this turn. Control that stops it is taken into it; who may not is told so. Raises `Lost`."""
    async with turn.looking:
        control, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        if any([await _stops(turn, event) for event in control]):
            await turn.take((), control)
            return Called(stop=True)
        if turn.refuse and (refused := [event for event in control if is_stop(read_event(event))]):
            await turn.refuse(refused)
        if turn.aside and await turn.aside(inbox):
            _, inbox = await turn.mailbox.waiting(turn.claim.conversation)
        return Called(stop=False) if joining(inbox, turn) else None


async def _stops(turn: Turn, raw: bytes) -> bool:
    """Whether it is a /stop of somebody who may end this turn."""
    event = read_event(raw)
    return is_stop(event) and (turn.may_stop is None or await turn.may_stop(Event.of(event)))


async def unless_called(turn: Turn, work: Coroutine[Any, Any, T], *, interrupts: bool) -> T:
    """Do the work, unless somebody stops it, interrupts it (where that is allowed), time ends or the claim is lost."""
    task: asyncio.Task[T] = asyncio.create_task(work)
    news = turn.news
    noticed = False
    try:
        while not task.done():
            turn.claim.check()
            if turn.seconds_left <= 0:
                raise Ended("turn.limit_time", seconds=int(turn.profile.limits.turn_s)).by("limits.turn_s")
            listening = asyncio.create_task(news.wait())
            await asyncio.wait(
                {task, listening},
                timeout=min(turn.seconds_left, turn.claim.seconds_left()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            listening.cancel()
            if news.is_set() and not task.done():
                news.clear()
                noticed = True
                called = await look(turn)
                if called and (called.stop or (interrupts and turn.profile.queue.mode == "interrupt")):
                    raise called
        return task.result()
    finally:
        if noticed:
            news.set()  # the border that comes looks as well
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_WAIT_S)
        if task.done() and not task.cancelled():
            task.exception()  # it came too late for anybody
