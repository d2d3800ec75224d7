"""Offers: what the model is given for a turn, its prompt and its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from config.profiles import Profile
from config.settings import Settings
from gateway.conversation.uses import Listed
from gateway.rights.access import Here, ToolUse, may
from gateway.rights.skill_tools import LOAD, READ_ON, offered
from skills.index import ordered
from skills.library import Catalogue
from skills.programs import Programs
from workers.calling.programs import ProgramTool, program_tools
from workers.calling.rights import Rights
from workers.mcp import Offered
from workers.prompt.context import main_line
from workers.prompt.indexes import Indexes
from workers.prompt.rendering import Prompt, prompt
from workers.tools import Tool
from workers.turn import Turn

if TYPE_CHECKING:
    from workers.mcp.servers import Servers

_Form = tuple[int, bool, tuple[str, ...]]
"""Of a prompt: the profile, whether history has calls, what was approved of tools from elsewhere. What is switched off needs
no place in it: each change of a channel's switches makes another catalogue.
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """For one turn, from its first call to its last."""

    tools: Mapping[str, Tool]
    prompt: Prompt
    listed: Listed = field(default_factory=lambda: Listed(()))
    """The skills that the model can see in them: in the list, or as a tool."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Tools that the profile lists and that are not there now: why, in words for the model and the person."""


class Offers:
    """One a worker process."""

    def __init__(
        self, settings: Settings, tools: Mapping[str, Tool], programs: Programs, servers: Servers | None = None
    ) -> None:
        self._settings = settings
        self._tools = tools
        self._programs = programs
        self._servers = servers
        self._indexes = Indexes(settings.skills.index_max_tokens)
        self._prompts: WeakKeyDictionary[Catalogue, dict[_Form, tuple[Profile, Prompt, Listed]]] = WeakKeyDictionary()
        """Turns share them: channels whose profile and skills are the same have the same one."""

    async def to(self, turn: Turn, here: Here, rights: Rights) -> Offer:
        """What the profile lists, there is, and nobody switched off; without skills nothing that is about them."""
        profile, catalogue = turn.profile, here.catalogue
        has_skills = bool(catalogue.skills)
        loads = LOAD in profile.tools and may(None, here, ToolUse(LOAD)).allowed
        index = await self._indexes.of(catalogue, profile) if has_skills and loads else None
        of_profile = offered(profile.tools, has_skills=has_skills, is_whole=index is None or index.is_whole)
        names = [name for name in of_profile if may(None, here, ToolUse(name)).allowed]
        elsewhere = await self._servers.offered(profile.tools) if self._servers else Offered()
        there = {**self._tools, **elsewhere.tools}
        tools: dict[str, Tool] = {name: there[name] for name in names if name in there}
        programs = await program_tools(self._programs, self._settings, here, rights)
        tools |= {tool.name: tool for tool in programs}
        if programs or elsewhere.tools:
            tools.setdefault(READ_ON, self._tools[READ_ON])
        had_tools = any(record.type == "tool_result" for record in main_line(turn.stored.history))
        prompts = self._prompts.setdefault(catalogue, {})
        approved = tuple(tool.definition.hash for tool in elsewhere.tools.values())
        form = (id(profile), had_tools, approved)
        if form not in prompts or prompts[form][0] is not profile:
            made = prompt(profile.instructions, index.text if index else "", list(tools.values()), had_tools=had_tools)
            shown = [one.id for one in islice(ordered(catalogue, profile.order), index.shown if index else 0)]
            listed = Listed(
                tuple(dict.fromkeys([*shown, *(one.skill.id for one in programs if isinstance(one, ProgramTool))]))
            )
            prompts[form] = (profile, made, listed)
        _, made, listed = prompts[form]
        return Offer(tools, made, listed, elsewhere.withheld)
