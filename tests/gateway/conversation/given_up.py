"""A turn that was given up."""

from __future__ import annotations

import secrets
from typing import Any

from gateway.conversation.key import ConversationKey
from gateway.conversation.letters import Letter, letters
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Actor, Event


async def given_up(mailbox: Mailbox, key: ConversationKey, *, text: str = "hello", reason: str = "test") -> Letter:
    """Of what Max said there; what else waits is left as it is."""
    name, actor = secrets.token_hex(6), Actor("U-MAX", "Max")
    event = Event(kind="message", conversation=key, actor=actor, dedupe_keys=(name,), at_ms=1, text=text)
    await mailbox.accept(key, event.dump(), dedupe_keys=event.dedupe_keys, at_ms=1)
    for claim in (await mailbox.claim(0, "w1", 100)).grants:
        if claim.conversation != key.id:
            await mailbox.hand_over(claim)
            continue
        turn = {"id": f"turn-{name}", "start": 0, "at_ms": 1}
        await mailbox.take(claim, turn, members=(await mailbox.load(key.id)).inbox)
        failed = Record("failed", mailbox.now_ms(), {"turn": turn["id"], "reason": reason})
        await mailbox.bury(claim, f"turn-{name}", reason, records=[failed], rows=[])
        await mailbox.settle(claim, "w1", 0)
    return next(one for one in await letters(mailbox.store, 10) if one.turn == f"turn-{name}")


async def went_wrong(mailbox: Mailbox, one: Letter, reason: str) -> str:
    """Something else in that turn: the id of its entry."""
    layout = mailbox.store.layout
    redis: Any = mailbox.store.redis
    entry = {"conversation": one.conversation, "turn": one.turn, "reason": reason}
    number = await redis.xadd(f"{layout.root_of(one.conversation)}:dead", entry)
    return f"{layout.partition(one.conversation)}-{number.decode()}"
