"""Overview: what runs, what waits, what was given up."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.admin.dead import of_mine
from gateway.admin.operations import SOMEWHERE, Input, Result, operation
from gateway.admin.visits import Visit
from gateway.conversation.key import ConversationKey
from gateway.conversation.overview import Seen, overview
from gateway.counts import counted


class OverviewWanted(Input):
    letters: Annotated[int, Field(ge=0, le=1_000)] = 100
    """How many dead letters are looked at."""


class Working(Result):
    """A conversation that has work."""

    conversation: str
    channel: str
    """`connection/channel`."""
    state: Literal["running", "ready", "waiting"]
    """Held by a worker, free to be taken, or parked until a time."""
    seconds: float
    """running, ready: since when; waiting: until when."""
    turn: str
    worker: str
    tries: int
    """How many workers died with it."""
    inbox: int
    """Messages that wait behind it."""


class Overview(Result):
    is_whole: bool
    """Whether it is of all channels, as owners and the operator see it. Else of those that you look after."""
    workers: list[str]
    ready: int
    """Conversations that are free to be taken."""
    oldest_ready_s: float
    """How long the one of them has waited that waits longest."""
    running: int
    conversations: list[Working]
    dead: int
    """Dead letters; at most as many as were asked for (`dead.list` tells which)."""
    counts: dict[str, int]
    """What happened how often since the installation; for owners and the operator."""


@operation(SOMEWHERE)
async def show(visit: Visit, given: OverviewWanted) -> Overview:
    """What runs, what waits, what was given up."""
    seen = await overview(visit.house.mailbox, letters=given.letters)
    is_whole = visit.sees_all
    rooms = [_room(one.connection, one.channel) for one in seen.conversations]
    mine = {one.channel_id for one in await visit.mine(filter(None, rooms))}
    working = [
        _working(one)
        for one, room in zip(seen.conversations, rooms, strict=True)
        if is_whole or (room and room.channel_id in mine)
    ]
    waiting = [one.seconds for one in working if one.state == "ready"]
    return Overview(
        is_whole=is_whole,
        workers=list(seen.workers) if is_whole else [],
        ready=seen.ready if is_whole else len(waiting),
        oldest_ready_s=max(waiting, default=0.0),
        running=sum(one.state == "running" for one in working),
        conversations=sorted(working, key=lambda one: (one.state, -one.seconds)),
        dead=len(await of_mine(visit, list(seen.dead))),
        counts=await counted(visit.house.store) if is_whole else {},
    )


def _working(one: Seen) -> Working:
    return Working(
        conversation=one.conversation,
        channel=f"{one.connection}/{one.channel}",
        state=one.state,
        seconds=one.seconds,
        turn=one.turn,
        worker=one.worker,
        tries=one.tries,
        inbox=one.inbox,
    )


def _room(connection: str, channel: str) -> ConversationKey | None:
    """None: somebody's own conversation, or one that is forgotten."""
    return ConversationKey(connection, channel) if channel and connection != "?" else None
