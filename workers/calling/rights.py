"""Rights: what a turn may do, asked afresh each time, over the skills that it began with."""

from __future__ import annotations

from dataclasses import dataclass

from config.watching import Watched
from gateway.audit.log import Change
from gateway.conversation.key import ConversationKey
from gateway.events import Actor
from gateway.rights.access import Here
from gateway.rights.roles import person_of
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import Shelf
from gateway.shelf.stock import Gone
from skills.bundles import BrokenBundle
from skills.folders import Skill
from skills.library import Library
from workers.tools import ToolError


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one turn."""

    shelf: Shelf
    notes: Notes
    watched: Watched
    key: ConversationKey
    library: Library
    """The skills when the turn began: their text stays what it was."""

    async def now(self) -> Here:
        """What holds at this moment. Raises `Unreachable`."""
        return (await self.shelf.here(self.key, await self.watched.current())).over(self.library)

    async def at_hand(self, skill: Skill) -> None:
        """See `Call.at_hand`."""
        try:
            await self.shelf.stock.at_hand(skill)
        except (Gone, BrokenBundle) as error:
            raise ToolError(f"{error}. Go on without it.") from error
        except OSError as error:
            raise ToolError(f"{skill.id} can't be laid out here: {error.strerror}. Go on without it.") from error

    async def noted(self, actor: Actor | None, here: Here, id_: str, line: tuple[str, str, str]) -> None:
        """Note what becomes of a call that a person has a say in: what, of which, by which rule. The same id is one line.

        Raises `Unreachable`.
        """
        what, thing, rule = line
        who = person_of(here.room, actor) if actor else ""
        await self.shelf.note(Change(id_, who, here.room, here.channel_id, rule), what, thing)

    async def refused(self, actor: Actor | None, here: Here, tool: str, rule: str) -> None:
        """Note a call that a rule forbids. Raises `Unreachable`."""
        who = person_of(here.room, actor) if actor else ""
        await self.shelf.refused(Change("", who, here.room, here.channel_id, rule), "tool refused", tool[:100])
