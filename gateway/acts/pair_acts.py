"""Acts about who may write to us directly, in the chat or on the command line, with one set of rules for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from config.loading import Loaded
from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts, overtaken, rule_in
from gateway.events import Actor
from gateway.rights import access
from gateway.rights.access import CommandUse, Here
from gateway.rights.pairing import LetIn, Pairing, TooMany, Waits, is_code
from gateway.rights.places import place
from gateway.rights.roles import person_of

P = TypeVar("P", Waits, LetIn)


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
            if not await self._pairing.is_paired(made.person):
                raise overtaken("pair accept", made.person)
            return made
        if not is_code(code):
            raise Refusal("pair.no_code")  # and none of those that are counted
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
        """Somebody (`connection/id`) is not let in any more. False: they were not, or it is no matter of whoever asks."""
        here, _ = await self.acts.may("pair end")
        change = self.acts.change(here, "")
        if await self._pairing.was_ended(change):
            if await self._pairing.is_paired(person):
                raise overtaken("pair end", person)
            return True
        one = next((one for one in self._mine(here, await self._pairing.let_in()) if one.person == person), None)
        if one is None:
            return False
        there = self._place(one) or here
        return await self._pairing.end(person, self.acts.change(there, rule_in(there, self.acts.by.who, "pair end")))

    async def waiting(self) -> list[Waits]:
        """Who waits, on the connection where it is asked, in direct chats that whoever asks is an admin of; for the operator
        all.
        """
        here, _ = await self.acts.may("pair list")
        connections = [here.room.partition("/")[0]] if here.room else list(self.loaded.settings.connections)
        return self._mine(here, await self._pairing.waiting(connections))

    async def let_in(self) -> list[LetIn]:
        """Who was let in, of the same."""
        here, _ = await self.acts.may("pair list")
        return self._mine(here, await self._pairing.let_in())

    async def waiting_anywhere(self) -> list[Waits]:
        """Who waits on any connection, in direct chats that whoever asks is an admin of."""
        waiting = await self._pairing.waiting(self.loaded.settings.connections)
        return [one for one in waiting if self._is_mine(one)]

    async def is_let_in(self, person: str, here: Here) -> bool | None:
        """Whether somebody (`connection/id`) was let in: a matter of themselves and of whoever lets people in there, by the
        profile of the direct chat where they wrote, as in `let_in`. False: not that whoever asks could know. None: it is
        none of their matters.
        """
        who = self.acts.by.who
        is_theirs = isinstance(who, Actor) and person == person_of(here.room, who)
        if not is_theirs and not access.may(who, here, CommandUse("pair list")).allowed:
            return None
        is_paired = await self._pairing.is_paired(person)
        if is_theirs or not is_paired:
            return is_paired
        return any(one.person == person for one in self._mine(here, await self._pairing.let_in()))

    def _mine(self, here: Here, people: Sequence[P]) -> list[P]:
        """Those of one connection, and each by the profile of the direct chat where they wrote, as in `accept`."""
        connection = here.room.partition("/")[0]  # empty: of all of them
        there = [one for one in people if connection in {"", one.person.partition("/")[0]}]
        return [one for one in there if self._is_mine(one)]

    def _is_mine(self, one: Waits | LetIn) -> bool:
        there = self._place(one)
        if there is None:
            return self.acts.by.is_operator
        return access.may(self.acts.by.who, there, CommandUse("pair list")).allowed

    def _place(self, one: Waits | LetIn) -> Here | None:
        return place(self.loaded, one.key) if one.key else None
