"""Offers: what the model is given for a turn, its prompt and its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from config.profiles import Profile
from config.settings import Settings
from gateway.access import Here
from gateway.skill_tools import LOAD, READ_ON, offered
from skills.library import Catalogue
from skills.programs import Programs
from workers.context import main_line
from workers.indexes import Indexes
from workers.programs import program_tools
from workers.rendering import Prompt, prompt
from workers.rights import Rights
from workers.tools import Tool
from workers.turn import Turn


@dataclass(frozen=True, slots=True)
class Offer:
    """For one turn, from its first call to its last."""

    tools: Mapping[str, Tool]
    prompt: Prompt


class Offers:
    """One a worker process."""

    def __init__(self, settings: Settings, tools: Mapping[str, Tool], programs: Programs) -> None:
        self._settings = settings
        self._tools = tools
        self._programs = programs
        self._indexes = Indexes(settings.skills.index_max_tokens)
        self._prompts: WeakKeyDictionary[Catalogue, dict[tuple[int, bool], tuple[Profile, Prompt]]] = (
            WeakKeyDictionary()
        )
        """Turns share them: channels whose profile and skills are the same have the same one."""

    async def to(self, turn: Turn, here: Here, rights: Rights) -> Offer:
        """What the profile lists and there is; without skills nothing that is about them."""
        profile, catalogue = turn.profile, here.catalogue
        has_skills = bool(catalogue.skills)
        index = await self._indexes.of(catalogue, profile) if has_skills and LOAD in profile.tools else None
        names = offered(profile.tools, has_skills=has_skills, is_whole=index is None or index.is_whole)
        tools = {name: self._tools[name] for name in names if name in self._tools}
        if programs := await program_tools(self._programs, self._settings, here, rights):
            tools |= {tool.name: tool for tool in programs}
            tools.setdefault(READ_ON, self._tools[READ_ON])
        had_tools = any(record.type == "tool_result" for record in main_line(turn.stored.history))
        prompts = self._prompts.setdefault(catalogue, {})
        known, made = prompts.get((id(profile), had_tools), (None, None))
        if made is None or known is not profile:
            made = prompt(profile.instructions, index.text if index else "", list(tools.values()), had_tools=had_tools)
            prompts[id(profile), had_tools] = (profile, made)
        return Offer(tools, made)
