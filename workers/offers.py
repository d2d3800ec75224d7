"""Offers: what the model is given for a turn, its prompt and its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from config.profiles import Profile
from config.settings import Settings
from gateway.access import READ_ON, Here
from skills.library import Catalogue
from skills.programs import Programs
from workers.indexes import FIND, Indexes
from workers.programs import program_tools
from workers.rendering import Prompt, prompt
from workers.rights import Rights
from workers.tools import Tool
from workers.turn import Turn

LOAD: Final = "load_skill"
UNLOAD: Final = "unload_skill"
"""Puts a skill's text away: it comes with the one that loads."""
ABOUT_SKILLS: Final = frozenset({LOAD, "save_skill_reference"})
"""Of no use without skills."""


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
        names = [name for name in profile.tools if name in self._tools and name not in {FIND, UNLOAD}]
        tools = {name: self._tools[name] for name in names if name not in ABOUT_SKILLS or catalogue.skills}
        index = await self._indexes.of(catalogue, profile) if LOAD in tools else None
        if index:
            tools[UNLOAD] = self._tools[UNLOAD]
        if index and not index.is_whole:
            tools[FIND] = self._tools[FIND]
        if programs := await program_tools(self._programs, self._settings, here, rights):
            tools |= {tool.name: tool for tool in programs}
            tools.setdefault(READ_ON, self._tools[READ_ON])
        had_tools = any(record.type == "tool_result" for record in turn.stored.history)
        prompts = self._prompts.setdefault(catalogue, {})
        known, made = prompts.get((id(profile), had_tools), (None, None))
        if made is None or known is not profile:
            made = prompt(profile.instructions, index.text if index else "", list(tools.values()), had_tools=had_tools)
            prompts[id(profile), had_tools] = (profile, made)
        return Offer(tools, made)
