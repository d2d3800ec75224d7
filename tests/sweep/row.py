"""How a turn gets to where it has a worker for itself: docs/reliability.md, "Whose death it was".

There it is only known how many holders died with it, so they have to die. Nothing that a holder of it finishes may come
between: it dies where it has got the conversation, or where it asks the model for the first time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.conversation.deaths import SOLE_AFTER
from tests.harness.tap import Message, Place

Where = Literal["grant", "model"]
"""Behind the grant; before its first request to the model, which never arrives then."""
WHERE: Final[tuple[Where, ...]] = ("grant", "model")


@dataclass(slots=True)
class Row:
    """Of one turn. Points count only in the row, from the last grant on: all before is other each time."""

    conversation: str
    deaths: Sequence[Where]
    """Where each of the last holders before the row dies; what died before these is only written down as dead."""
    kill: Callable[[Message], Awaitable[None]]
    tries: int = -1
    """As of the last grant."""
    is_held: bool = False
    was_in: bool = False
    _dead: set[str] = field(default_factory=set)

    def hears_of(self, message: Message, place: Place) -> bool:
        """A grant or a release, if it is that. True: here the row begins, perhaps once more."""
        if place != "after":
            return False
        granted = message.seen.get("granted", {})
        if self.conversation in granted:
            self.tries, self.is_held = granted[self.conversation], True
            self.was_in = self.was_in or self.tries >= SOLE_AFTER
            return self.tries >= SOLE_AFTER
        if message.seen.get("released") == self.conversation:
            self.is_held = False
        return False

    @property
    def is_past(self) -> bool:
        """One more death, and it would be given up."""
        return self.tries > SOLE_AFTER

    def covers(self, message: Message) -> bool:
        """Is it said in the row? The message that ends it is."""
        is_last = message.seen.get("released") == self.conversation
        return self.tries >= SOLE_AFTER and (self.is_held or is_last)

    async def lets(self, message: Message, place: Place, *, is_beside: bool) -> bool:
        """Whether it goes on. Until the row is reached each holder dies at its place, and nothing more is heard of it."""
        if message.process in self._dead:
            return False
        if self.was_in or self.tries < 0:
            return True
        where = self.deaths[max(0, self.tries - (SOLE_AFTER - len(self.deaths)))]
        dies = {
            "grant": place == "after" and self.conversation in message.seen.get("granted", {}),
            "model": place == "before" and message.link == "model" and not is_beside,
        }
        if not dies[where]:
            return True
        self._dead.add(message.process)
        await self.kill(message)
        return False
