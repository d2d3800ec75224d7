"""Heard: whose words a turn may act on, asked again whenever a worker goes on with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from config.watching import Watched
from gateway.approvals.asked import Asked, answer_line
from gateway.conversation.mailbox import Stored, event_of
from gateway.events import Event
from gateway.rights.access import CommandUse, Here, Reply, may
from gateway.shelf.shelf import Shelf
from workers.calling.rights import Rights
from workers.taking import talk_of
from workers.turn import Turn


@dataclass(frozen=True, slots=True)
class Heard:
    """One a worker process. All methods raise `Unreachable`."""

    shelf: Shelf
    watched: Watched

    async def why_not(self, turn: Turn, here: Here) -> str | None:
        """The rule that keeps one of those from being answered who said what this turn is about. None: all are heard."""
        for event in turn.said:
            verdict = await self.shelf.pairing.heard(here, event.actor, is_direct=event.is_direct)
            if not verdict.allowed:
                return verdict.rule
        return None

    async def would_stop_others(self, stored: Stored, event: Event) -> bool:
        """Whether a /stop would end what others wrote, and whoever says it may not do that."""
        waits = [Event.load(event_of(one)) for one in talk_of(stored.inbox)]
        if all(one.actor.id == event.actor.id for one in waits):
            return False
        here = await self.shelf.here(stored.key, await self.watched.current())
        return not may(event.actor, here, CommandUse("stop", about_others=True)).allowed

    def guards(self, turn: Turn) -> None:
        """From now on the turn asks whose /stop ends it."""
        turn.may_stop = partial(self._may_stop, turn)

    async def _may_stop(self, turn: Turn, event: Event) -> bool:
        others = any(one.id != event.actor.id for one in turn.actors)
        here = await self.shelf.here(turn.stored.key, await self.watched.current())
        return may(event.actor, here, CommandUse("stop", about_others=others)).allowed

    def listens(self, turn: Turn, rights: Rights) -> None:
        """From now on the turn asks whose words answer its questions, and notes those."""
        turn.may_answer = partial(_may_answer, rights)
        turn.answers = partial(_answers, rights)


async def _may_answer(rights: Rights, event: Event, requester: str) -> bool:
    return may(event.actor, await rights.now(), Reply(requester)).allowed


async def _answers(rights: Rights, event: Event, asked: Asked) -> None:
    here = await rights.now()
    rule = may(event.actor, here, Reply(asked.requester)).rule
    await rights.noted(event.actor, here, f"{event.dedupe_keys[0]} {asked.code}", (*answer_line(asked), rule))
