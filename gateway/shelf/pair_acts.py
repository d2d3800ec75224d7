"""Acts about who may write to us directly, in the chat or on the command line, with one set of rules for both."""

from __future__ import annotations

from dataclasses import dataclass

from config.loading import Loaded
from gateway.shelf.acts import Acts, rule_in
from gateway.shelf.outcomes import Refusal
from gateway.shelf.pairing import LetIn, Pairing, TooMany, Waits, place


@dataclass(frozen=True)
class PairActs:
    """One person's. All methods raise `Refusal` and `Unreachable`."""

    acts: Acts
    loaded: Loaded

    @property
    def _pairing(self) -> Pairing:
        return self.acts.shelf.pairing

    async def accept(self, code: str) -> Waits:
        """Let in whoever got this code. It takes an admin of the direct chat where they wrote, and of its connection."""
        here, _ = await self.acts.may("pair accept")
        change = self.acts.change(here, "")
        made = await self.acts.shelf.pairing.done(change)
        if made is not None:
            return made
        try:
            waits = await self._pairing.find(code, change.who)
        except TooMany:
            raise Refusal("pair.too_many") from None
        if waits is None or (here.room and waits.key.connection != here.room.partition("/")[0]):
            raise Refusal("pair.no_code")
        there = place(self.loaded, waits.key)
        rule = rule_in(there, self.acts.by.who, "pair accept")
        if not await self._pairing.accept(waits, code, self.acts.change(there, rule)):
            raise Refusal("pair.no_code")
        return waits

    async def end(self, person: str) -> bool:
        """Somebody (`connection/id`) is not let in any more. False: they were not."""
        here, rule = await self.acts.may("pair end")
        if here.room and person.partition("/")[0] != here.room.partition("/")[0]:
            return False
        return await self._pairing.end(person, self.acts.change(here, rule))

    async def waiting(self) -> list[Waits]:
        """Who waits, on the connection where it is asked; for the operator, on all."""
        here, _ = await self.acts.may("pair list")
        connections = [here.room.partition("/")[0]] if here.room else list(self.loaded.settings.connections)
        return await self._pairing.waiting(connections)

    async def let_in(self) -> list[LetIn]:
        """All who were let in, on any connection."""
        await self.acts.may("pair list")
        return await self._pairing.let_in()
