"""Skills that run, as tools: each program of a channel is one."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from config.settings import Settings
from gateway.logs import log
from gateway.rights.access import Here, SkillUse, may
from skills import programs
from skills.folders import Skill
from skills.programs import Grant, ProgramFailed, Programs
from workers.calling.rights import Rights
from workers.prompt.paging import Pages
from workers.tools import Call, Effect, Reach, Tool, ToolError, ToolResult

logger = logging.getLogger(__name__)


async def program_tools(runs: Programs, settings: Settings, here: Here, rights: Rights) -> list[Tool]:
    """The programs that may run in a channel, each laid out: a turn runs the versions that it began with."""
    tools: list[Tool] = []
    grant = Grant(ZoneInfo(here.profile.timezone), frozenset(here.profile.program_env))
    for skill in here.catalogue.fitting(here.profile.programs):
        if skill.program is not None and may(None, here, SkillUse(skill, "run")).allowed:
            try:
                await rights.at_hand(skill)
            except ToolError as error:
                log(logger, "program not laid out", level=logging.WARNING, id=skill.id, reason=str(error))
            tools.append(ProgramTool(runs, settings, skill, grant))
    return tools


class ProgramTool:
    """One program, in the version of one snapshot. See `workers.tools.Tool`."""

    def __init__(self, runs: Programs, settings: Settings, skill: Skill, grant: Grant) -> None:
        if skill.program is None:
            raise ValueError(f"{skill.id} has no program")
        self.skill = skill
        self.name: str = programs.tool_name(skill.id)
        self.description: str = programs.description(skill)
        self.input_schema: Mapping[str, Any] = skill.program.arguments
        self.effect: Effect = skill.program.effect
        self.reach: Reach = "free" if skill.id in settings.skills.programs.network else "inside"
        self._runs = runs
        self._grant = grant
        self._pages = Pages(settings.tools.result_max_characters)

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        about: dict[str, Any] = {"id": self.skill.id, "conversation": call.conversation, "call": call.key[:12]}
        sizes = {name: len(str(value)) for name, value in arguments.items()}
        log(logger, "program", **about, arguments=sizes)
        log(logger, "program's arguments", level=logging.DEBUG, **about, values=arguments)
        begun_s = time.monotonic()
        try:
            result = await self._runs.run(self.skill, arguments, self._grant)
        except ProgramFailed as error:
            took_ms = int((time.monotonic() - begun_s) * 1_000)
            log(logger, "program failed", level=logging.WARNING, **about, ms=took_ms, reason=str(error))
            log(logger, "program printed", level=logging.DEBUG, **about, text=error.chatter)
            raise ToolError(str(error), untrusted=error.in_its_words, own=self.reach == "inside") from error
        log(logger, "program ended", **about, ms=result.took_ms, result_bytes=len(result.text.encode()))
        log(logger, "program printed", level=logging.DEBUG, **about, text=result.chatter)
        return replace(await self._pages.first(result.text, call, self.skill.id), own=self.reach == "inside")
