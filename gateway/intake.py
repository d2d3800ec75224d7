"""Intake: which events become work, and one line in the log for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from config.watching import Watched
from gateway.bell import Bell
from gateway.commands import command_of, find
from gateway.conversation.mailbox import Mailbox
from gateway.events import Event
from gateway.files import Files
from gateway.logs import log_soon
from gateway.store import Unreachable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """What became of one event."""

    state: Literal["new", "known", "full", "cold", "away", "ignored"]
    """All but `new`, `known` and `ignored` come again. `away`: nobody knows whether it was stored; then it is known."""
    reason: str = ""


class Intake:
    """One a gateway process."""

    def __init__(self, mailbox: Mailbox, bell: Bell, watched: Watched) -> None:
        self._mailbox = mailbox
        self._bell = bell
        self._watched = watched
        self._files = Files(mailbox.store)

    async def receive(self, events: Sequence[Event]) -> list[Received]:
        """Put the events of one delivery into their mailboxes, in their order. Raises `Unreachable`.

        It ends with the first that can't be stored now: the platform sends all again, and the stored ones are known.
        """
        received: list[Received] = []
        for at, event in enumerate(events):
            try:
                one = await self._receive(event)
            except (Unreachable, asyncio.CancelledError):
                _tell(events[at:], Received("away", "redis did not answer in time"))
                raise
            _tell([event], one)
            received.append(one)
            if one.state in {"full", "cold"}:
                _tell(events[at + 1 :], Received("away", "one before it could not be stored"))
                break
        return received

    async def _receive(self, event: Event) -> Received:
        key = event.conversation
        profile = self._watched.latest().profile_for(key.connection, key.channel)
        reason = _why_not(event)
        if not reason and not event.addressed:
            follows = key.thread and profile.thread_follow and await self._mailbox.has_answered(key)
            reason = "" if follows else "not addressed"
        if reason:
            return Received("ignored", reason)
        event = await self._files.put_away(event)
        command = command_of(event)
        known = find(command[0]) if command else None
        accepted = await self._mailbox.accept(
            key,
            event.dump(),
            dedupe_keys=event.dedupe_keys,
            at_ms=event.at_ms,
            control=bool(known and known.CONTROL),
            delay_ms=0 if command else profile.queue.gather_ms or self._mailbox.settings.hold_back_ms,
        )
        if accepted.ring:
            self._bell.ring(self._mailbox.store.layout.partition(key.id))
        return Received(accepted.state)


def _why_not(event: Event) -> str:
    """Why an event is none of our business, whatever the room. An ignored event leaves no trace: a later copy may be for us."""
    if event.actor.is_self:
        return "own message"
    if event.actor.is_bot:
        return "another bot"
    if event.kind not in {"message", "command"}:
        return f"{event.kind} events have no effect"
    return ""


def _tell(events: Sequence[Event], became: Received) -> None:
    why = {"reason": became.reason} if became.reason else {}
    for event in events:
        log_soon(
            logger,
            "message",
            outcome=became.state,
            **why,
            connection=event.conversation.connection,
            channel=event.conversation.channel,
            conversation=event.conversation.id,
            message=event.message_id,
            kind=event.kind,
        )
