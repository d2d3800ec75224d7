"""Notes: what was written back to skills, what waits for a word, and what people decide about it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from gateway.admin.operations import LOOK, SOMEWHERE, Act, Anywhere, Code, InChannel, Nothing, Result, Told, operation
from gateway.admin.skills import told
from gateway.admin.visits import Visit
from skills.notes import Note
from skills.visible import visible


class NoteRow(Result):
    code: str
    skill: str
    file: str
    state: str
    """`pending` waits; `kept` is read."""
    by: str
    """Who wrote it: `connection/id`; empty: the model."""
    by_name: str
    at_ms: int
    until_ms: int
    """When it ends; 0: it does not."""
    takes_the_place: bool
    """It takes the place of all other notes of its file."""
    text: str
    """With all that is hidden in it named; empty in lists."""


class NoteList(Result):
    channel: str
    waiting: list[NoteRow]
    kept: list[NoteRow]
    everywhere: list[NoteRow]
    """Those that hold in all channels."""
    may_approve: bool
    """Whether you may accept and refuse those that wait."""
    may_revert: bool
    """Whether you may take those of the channel back."""
    may_revert_everywhere: bool
    """Whether you may take those back that hold in all channels."""


class WaitingIn(Result):
    channel: str
    notes: list[NoteRow]
    may_approve: bool


class AllWaiting(Result):
    channels: list[WaitingIn]
    is_whole: bool
    """Whether all channels were looked at; there may be too many to tell."""


class OneNote(Anywhere):
    code: Code


class WaitingNote(InChannel):
    code: Code


class Ending(OneNote):
    when: Annotated[str, Field(min_length=1, max_length=20)]
    """`now`, `never`, hours or days such as `12h` and `7d`, or a day such as `2027-01-31`."""


@operation(LOOK)
async def list_(visit: Visit, given: Anywhere) -> NoteList:
    """The notes of a channel and of all channels, newest first, those that wait for a word among them."""
    notes = visit.notes(given.channel)
    found = await notes.list()
    here = await notes.acts.by.here()
    return NoteList(
        channel=given.channel,
        waiting=[_row(one, with_text=True) for one in found.waiting],
        kept=[_row(one) for one in found.kept],
        everywhere=[_row(one) for one in found.everywhere],
        may_approve=visit.may_here("skill approve", here),
        may_revert=visit.may_here("skill notes revert", here),
        may_revert_everywhere=notes.acts.by.is_operator,
    )


@operation(SOMEWHERE)
async def waiting(visit: Visit, given: Nothing) -> AllWaiting:
    """The notes that wait for a word, of all channels that you look after."""
    del given
    found = await visit.rooms()
    rooms = [f"{one.connection}/{one.channel}" for one in found.keys]
    lists = await asyncio.gather(*(visit.house.notes.list(one.channel_id, "waiting", most=20) for one in found.keys))
    heres = await asyncio.gather(*(visit.now(one) for one in found.keys))
    return AllWaiting(
        channels=[
            WaitingIn(
                channel=room,
                notes=[_row(one, with_text=True) for one in notes],
                may_approve=visit.may_here("skill approve", here),
            )
            for room, here, notes in zip(rooms, heres, lists, strict=True)
            if notes
        ],
        is_whole=found.is_whole,
    )


@operation(LOOK)
async def show(visit: Visit, given: OneNote) -> NoteRow:
    """One note with its text."""
    return _row((await visit.notes(given.channel).show(given.code)).note, with_text=True)


@operation(Act("skill approve", "code"), is_safe=False)
async def approve(visit: Visit, given: WaitingNote) -> Told:
    """Accept a note that waits: it counts from now on."""
    return told(visit, await visit.notes(given.channel).approve(given.code))


@operation(Act("skill reject", "code"), is_safe=False)
async def reject(visit: Visit, given: WaitingNote) -> Told:
    """Refuse a note that waits. Nothing of it is kept."""
    return told(visit, await visit.notes(given.channel).reject(given.code))


@operation(Act("skill notes revert", "code"), is_safe=False)
async def revert(visit: Visit, given: OneNote) -> Told:
    """Take a note back. What it had taken the place of is read again."""
    return told(visit, await visit.notes(given.channel).revert(given.code))


@operation(Act("skill notes expire", "code"), is_safe=False)
async def expire(visit: Visit, given: Ending) -> Told:
    """Let a note end at some time, or never."""
    return told(visit, await visit.notes(given.channel).expire(given.code, given.when))


@operation(Act("skill notes promote", "code"), is_safe=False)
async def promote(visit: Visit, given: WaitingNote) -> Told:
    """Let a note of this channel hold in all channels, under another code."""
    return told(visit, await visit.notes(given.channel).promote(given.code))


def _row(note: Note, *, with_text: bool = False) -> NoteRow:
    return NoteRow(
        code=note.code,
        skill=note.skill,
        file=note.file,
        state=note.state,
        by=note.by,
        by_name=note.by_name,
        at_ms=note.at_ms,
        until_ms=note.until_ms or 0,
        takes_the_place=note.overwrite,
        text=visible(note.text) if with_text else "",
    )
