"""The overview: which conversations run, wait or sleep, for operators. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.approvals.asked import open_in
from gateway.conversation.letters import Letter
from gateway.conversation.letters import letters as latest
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.store import reading

SHOWN_MAX: Final = 1_000
WORDS_MAX: Final = 100
"""So many turns are looked at for what they ask."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One conversation that has work."""

    conversation: str
    connection: str
    channel: str
    thread: str
    state: Literal["running", "ready", "waiting"]
    """Held by a worker, free to be taken, or parked until a time."""
    worker: str
    turn: str
    seconds: float
    """running, ready: since when · waiting: until when."""
    tries: int
    inbox: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What is going on, all partitions together."""

    workers: tuple[str, ...]
    ready: int
    conversations: tuple[Seen, ...]
    """At most 1,000 of each state."""
    dead: tuple[Letter, ...]
    """The latest first."""


async def overview(mailbox: Mailbox, *, letters: int = 10) -> Overview:
    """Look at everything. Raises `Unreachable`."""
    layout = mailbox.store.layout
    seen: list[Seen] = []
    ready = 0
    with reading():
        for partition in range(layout.partitions):
            root = layout.root(partition)
            redis: Any = mailbox.store.redis
            ready += int(await redis.get(f"{root}:waiting") or 0)
            due = await redis.zrange(f"{root}:due", 0, SHOWN_MAX - 1, withscores=True)
            waiting: list[tuple[bytes, float]] = []
            at_their_cap = await redis.hkeys(f"{root}:running")
            for channel in {*await redis.zrange(f"{root}:channels", 0, SHOWN_MAX - 1), *at_their_cap}:
                waiting += await redis.zrange(f"{root}:ready:{channel.decode()}", 0, 99, withscores=True)
            seen += await _look(mailbox, due, "waiting")
            seen += await _look(mailbox, waiting[:SHOWN_MAX], "ready")
        workers = await mailbox.workers()
    dead = await latest(mailbox.store, letters) if letters else []
    return Overview(tuple(workers), ready, tuple(seen), tuple(dead))


async def _look(
    mailbox: Mailbox, found: Iterable[tuple[bytes, float]], state: Literal["ready", "waiting"]
) -> list[Seen]:
    layout, now = mailbox.store.layout, mailbox.now_ms()
    named = [(conversation.decode(), at) for conversation, at in found]
    async with mailbox.store.redis.pipeline(transaction=False) as pipeline:
        for conversation, _ in named:
            pipeline.hmget(layout.key(conversation), "parts", "worker", "turn", "tries", "token")
            pipeline.zcard(layout.key(conversation, "inbox"))
        answers = await pipeline.execute()
    seen = []
    for (conversation, at), (parts, worker, turn, tries, token), inbox in zip(
        named, answers[::2], answers[1::2], strict=True
    ):
        connection, channel, thread, *_ = json.loads(parts or '["?", "?", null]')
        opened = json.loads(turn) if turn else {}
        began = opened.get("at_ms", now) if token else at
        seen.append(
            Seen(
                conversation=conversation,
                connection=str(connection),
                channel=str(channel),
                thread=str(thread or ""),
                state="running" if token else state,
                worker=(worker or b"").decode(),
                turn=str(opened.get("id", ""))[:8],
                seconds=round(abs(now - began) / 1000, 1),
                tries=int(tries or 0),
                inbox=inbox,
            )
        )
    return seen


async def waits_for_word(mailbox: Mailbox, conversations: Sequence[Seen]) -> frozenset[str]:
    """Ids of those whose turn waits for a person's word. Raises `Unreachable`."""
    layout = mailbox.store.layout
    ids = [one.conversation for one in conversations if one.turn and one.state == "waiting"][:WORDS_MAX]
    found = set()
    with reading():
        for id_ in ids:  # one after the other: a turn may hold much
            redis: Any = mailbox.store.redis
            turn = await redis.hget(layout.key(id_), "turn")
            start = json.loads(turn).get("start", 0) if turn else 0
            lines = await redis.lrange(layout.key(id_, "history"), start, -1) if turn else []
            if open_in(Record.load_all(lines)):
                found.add(id_)
    return frozenset(found)
