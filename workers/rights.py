"""Rights: what a turn may do, asked afresh each time, over the skills that it began with."""

from __future__ import annotations

from dataclasses import dataclass

from config.watching import Watched
from gateway.access import CHANNEL, Here, SkillUse, ToolUse, may, person_of
from gateway.conversation.key import ConversationKey
from gateway.events import Actor
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import Shelf
from gateway.shelf.stock import Gone
from skills import ids
from skills.bundles import BrokenBundle
from skills.folders import Skill
from skills.library import Library
from workers.loaded import Held, Why
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

    async def at_hand(self, skill: Skill) -> Skill:
        """See `Call.at_hand`."""
        try:
            return await self.shelf.at_hand(skill)
        except (Gone, BrokenBundle) as error:
            raise ToolError(f"{error}. Go on without it.") from error
        except OSError as error:
            raise ToolError(f"{skill.id} can't be laid out here: {error.strerror}. Go on without it.") from error

    async def refused(self, actor: Actor | None, here: Here, tool: str) -> None:
        """Note a call that the profile does not allow. Raises `Unreachable`."""
        verdict = may(actor, here, ToolUse(tool))
        if verdict.reason == "profile":
            who = person_of(here.room, actor) if actor else ""
            await self.shelf.note(who, here.room, "tool refused", tool[:100], verdict.rule)


def why_withheld(here: Here, held: Held) -> Why | None:
    """Why something of a skill that is in context may no longer be sent, if it may not."""
    if not here.is_readable:
        return "unsure"
    skill = here.library.skills.get(ids.key(held.id)) or here.waiting.get(ids.key(held.id))
    verdict = may(None, here, SkillUse(skill, "load")) if skill else None
    if verdict is None:
        return "gone"
    if not verdict.allowed:
        return "off"
    if verdict.as_data and held.is_guidance:
        return "untrusted" if skill and skill.hash == held.bundle else "changed"
    if held.tier == CHANNEL:
        there = here.own.installed.get(ids.skeleton(held.id))
        if there is None:
            return "gone"
        if not here.own.trusts(held.id, there.bundle):
            return "untrusted" if there.bundle == held.bundle else "changed"
    return None
