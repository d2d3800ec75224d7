"""Judging: whether a call that the model asks for runs, with which arguments, and if not, why and by which rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from gateway.access import Here, SkillUse, ToolUse, Verdict, may
from gateway.conversation.records import Record
from gateway.skill_tools import ABOUT_SKILLS
from skills import ids
from skills.arguments import fit
from skills.programs import tool_name
from workers.loaded import narrowing
from workers.mending import NO_NAME
from workers.moves import Pending
from workers.programs import ProgramTool
from workers.tools import Tool


@dataclass(frozen=True, slots=True)
class Runs:
    """A call that may run."""

    call: Pending
    tool: Tool
    arguments: dict[str, Any]
    """As they fit the tool's schema."""
    changes: tuple[str, ...]
    """What was converted or filled in, for the log."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that does not run."""

    call: Pending
    why: str
    """For the model."""
    rule: str = ""
    """What forbids it, where a rule of the operator or an admin does."""
    asked: str = ""
    """The tool's name as the model gave it."""
    reason: str = ""
    """The kind of rule, as `gateway.access` has it, for people who ask in their language."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Of one turn."""

    offered: Mapping[str, Tool]
    zone: ZoneInfo

    def judge(self, call: Pending, here: Here, history: Sequence[Record]) -> Runs | Refusal:
        """By what was offered, what holds now, the skills that are loaded, the tool's schema, and what a crash left."""
        asked = call.bad_input if call.name == NO_NAME and call.bad_input else call.name
        tool = self.offered.get(call.name)
        verdict = _verdict(here, tool) if tool else _verdict_on(here, asked)
        if tool is None or not verdict.allowed:
            there = sorted(name for name, one in self.offered.items() if _verdict(here, one).allowed)
            why = f"There is no tool {call.name!r} here. Tools: {', '.join(there) or 'none'}."
            if verdict.allowed:
                return Refusal(call, why, asked=asked)
            return Refusal(call, why, verdict.rule, asked, verdict.reason)
        if narrower := self._narrower(tool, history):
            return Refusal(call, narrower)
        if call.bad_input:
            why = f"The arguments could not be read: {call.bad_input}. Send them again as one JSON object."
            return Refusal(call, why)
        fitted = fit(tool.input_schema, call.input, self.zone)
        if fitted.faults:
            return Refusal(call, f"Nothing was run. The arguments do not fit: {'; '.join(fitted.faults)}.")
        if call.was_started and tool.effect == "once":
            why = "Interrupted: it is not known whether this ran, and it was not run again. "
            return Refusal(call, f"{why}Tell the person, and let them decide.")
        return Runs(call, tool, fitted.values, tuple(map(str, fitted.changes)))

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Of the names of tools in a skill, those that say nothing here."""
        ours = self._all_names()
        return [name for name in names if ids.key(name) not in ours]

    def _narrower(self, tool: Tool, history: Sequence[Record]) -> str | None:
        """What a loaded skill has against this tool. Skills only take away: what is not offered was refused before."""
        if tool.name in ABOUT_SKILLS:
            return None
        names = _names(tool)
        for skill, allowed in narrowing(history).items():
            if names.isdisjoint(map(ids.key, allowed)):
                ours = self._all_names()
                few = ", ".join(one for one in allowed if ids.key(one) in ours) or "none but those for skills"
                return (
                    f"{tool.name} can't be used while the skill {skill} is loaded, which names the tools that may be: "
                    f"{few}. When it is done with, put it away with unload_skill."
                )
        return None

    def _all_names(self) -> set[str]:
        return set().union(*map(_names, self.offered.values()))


def _verdict(here: Here, tool: Tool) -> Verdict:
    """May the model call this tool here now?"""
    return may(None, here, SkillUse(tool.skill, "run") if isinstance(tool, ProgramTool) else ToolUse(tool.name))


def _verdict_on(here: Here, name: str) -> Verdict:
    """What forbids a tool that was not offered: a program's is that of its skill."""
    skills = (skill for skill in here.library.skills.values() if skill.program and tool_name(skill.id) == name)
    skill = next(skills, None)
    return may(None, here, SkillUse(skill, "run") if skill else ToolUse(name))


def _names(tool: Tool) -> set[str]:
    """What a skill may call this tool by: its name, and of a program the id of its skill; case makes no difference."""
    return {ids.key(tool.name), *([ids.key(tool.skill.id)] if isinstance(tool, ProgramTool) else [])}
