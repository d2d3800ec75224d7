"""Conversations for the worker's benches: some history, and a message that waits."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable
from typing import Any

import aiohttp

from bench._world import World, until
from gateway.conversation.key import ConversationKey
from gateway.conversation.records import Record
from gateway.events import Actor, Event

CONNECTION = "hooks"
WORDS = "the quick brown fox jumps over the lazy dog and writes down what it saw on the other side of the river."
HISTORY = 20

_numbers = itertools.count()


def conversation() -> ConversationKey:
    """One that nobody has used before."""
    number = next(_numbers)
    return ConversationKey(CONNECTION, f"room-{number % 100}", f"thread-{number}")


def event(key: ConversationKey, text: str) -> Event:
    number = next(_numbers)
    return Event(
        kind="message",
        conversation=key,
        actor=Actor("u1", "Ada"),
        dedupe_keys=(f"id:bench-{number}",),
        at_ms=int(time.time() * 1000),
        message_id=f"m{number}",
        text=text,
        is_direct=True,
        extra={"in_reply_to": f"m{number}"},
    )


def _history(key: ConversationKey) -> Iterable[str]:
    """Ten questions and their answers, about 500 characters each."""
    at_ms = int(time.time() * 1000) - 1_000_000
    for step in range(HISTORY // 2):
        turn = f"turn-{step}"
        asked = json.loads(event(key, f"{step}: {WORDS * 5}").dump())
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0}
        answer: dict[str, Any] = {
            "step": 1, "content": [{"type": "text", "text": f"{step}: {WORDS * 5}"}],
            "stop_reason": "end_turn", "usage": usage, "model": "fake", "bad_inputs": [],
        }  # fmt: skip
        yield Record("event", at_ms, {"turn": turn, "event": asked}).dump()
        yield Record("answer", at_ms, answer).dump()


async def remember(here: World, keys: Iterable[ConversationKey]) -> None:
    """Put history into the store, as earlier turns would have left it."""
    async with here.store.redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.rpush(here.store.layout.key(key.id, "history"), *_history(key))
        await pipeline.execute()


async def put(here: World, keys: Iterable[ConversationKey], text: str = WORDS) -> None:
    """A message into each conversation, and the bell."""

    async def one(key: ConversationKey) -> None:
        said = event(key, text)
        accepted = await here.mailbox.accept(key, said.dump(), dedupe_keys=said.dedupe_keys, at_ms=said.at_ms)
        assert accepted.state == "new", accepted
        if accepted.ring:
            here.bell.ring(0)

    await asyncio.gather(*map(one, keys))


async def replies(http: aiohttp.ClientSession, sink: str) -> int:
    async with http.get(f"{sink}/count") as response:
        counts: dict[str, int] = await response.json()
        return counts.get("reply.completed", 0)


async def until_replies(http: aiohttp.ClientSession, sink: str, count: int, within_s: float) -> None:
    async def all_there() -> bool:
        return await replies(http, sink) >= count

    await until(all_there, within_s)
