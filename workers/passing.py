"""Passing: a word on something that is asked in another conversation of the channel goes there, and is answered there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.approvals.asked import conversation_of
from gateway.commands import Passed
from gateway.conversation.mailbox import Mailbox
from gateway.events import Event


@dataclass(frozen=True, slots=True)
class Passing:
    """One a worker process. `ring` says that somebody waits in a partition."""

    mailbox: Mailbox
    ring: Callable[[int], None]

    async def on(self, event: Event, code: str) -> Passed:
        """See `gateway.commands.Outside.pass_on`."""
        to = await conversation_of(self.mailbox.store, event.conversation, code)
        if to is None or to == event.conversation:
            return "nowhere"
        passed = replace(event, conversation=to)
        keys = [f"forwarded:{to.id}:{key}" for key in event.dedupe_keys[:1]]
        accepted = await self.mailbox.accept(to, passed.dump(), dedupe_keys=keys, at_ms=event.at_ms)
        if accepted.ring:
            self.ring(self.mailbox.store.layout.partition(to.id))
        return "there" if accepted.state in {"new", "known"} else "no_room"
