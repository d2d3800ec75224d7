"""Judging: whether a call that the model asks for runs, with which arguments, and if not, why and by which rule."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from gateway.approvals.asked import Asked, asked_in
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.rights.access import Approval, CommandUse, Here, Reason, SkillUse, ToolUse, Verdict, may, who_said
from gateway.rights.skill_tools import ABOUT_SKILLS, SAVE
from gateway.workspace import Workspace
from skills import ids
from skills.arguments import fit
from skills.programs import tool_name
from skills.schemas import takes_words
from skills.visible import visible
from workers.agent.mending import NO_NAME
from workers.agent.moves import Pending
from workers.calling.programs import ProgramTool
from workers.calling.taint import reason_to_ask, tainted
from workers.prompt.loaded import narrowing
from workers.prompt.memo import Memo
from workers.tools import OverFiles, Tool


@dataclass(frozen=True, slots=True)
class Runs:
    """A call that may run."""

    call: Pending
    tool: Tool
    arguments: dict[str, Any]
    """As they fit the tool's schema."""
    changes: tuple[str, ...]
    """What was converted or filled in, for the log."""
    yes: Asked | None = None
    """A person's, without which it would not run."""
    always: str = ""
    """Who allowed calls of this form for good, where one would have to ask otherwise."""
    bound: str = ""
    """Then: hash of what that is about."""
    workspace: Workspace | None = None
    """The files that the yes is about, as they were looked at."""


@dataclass(frozen=True, slots=True)
class Barred:
    """A call that must not run."""

    call: Pending
    why: str
    """For the model."""
    rule: str = ""
    """What forbids it, where a rule of the operator or an admin does."""
    named: str = ""
    """The tool's name as the model gave it."""
    reason: str = ""
    """The kind of rule, as `gateway.rights.access` has it, for people who ask in their language."""
    by_person: bool = False
    """Somebody said no to it: nothing went wrong."""
    names: str = ""
    """What follows in words that are not ours."""


@dataclass(frozen=True, slots=True)
class Waits:
    """A call that runs when a person has said yes."""

    call: Pending
    arguments: dict[str, Any]
    """As they would be run with."""
    why: Why
    bound: str
    """Hash of what the yes is about."""
    shown: str
    """What people call the tool."""
    files: Mapping[str, str] = field(default_factory=dict)
    """See `gateway.approvals.asked.Asked`."""
    form: str = ""
    """The arguments in a line, where the call may be allowed in this form for good."""


Why = Literal["listed", "hitl", "tainted"]
"""Why a call asks: the profile names the tool, somebody wants to see all, text from outside was read."""

_TOLD: Final[Mapping[Reason, str]] = {
    "off_here": "{name!r} is switched off in this channel, and did not run.",
    "unreadable": "{name!r} did not run: nobody can tell now whether it is switched off.",
}
"""What the model is told of a tool that there would be."""
SHOWN_MAX: Final = 6_000
"""Arguments that are longer can't be looked at by a person."""
FORM_MAX: Final = 1_000
"""Those that are longer can't be allowed for good."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Of one turn."""

    offered: Mapping[str, Tool]
    zone: ZoneInfo
    memo: Memo
    conversation: Sequence[Record] = ()
    """All of its records, where `history` may be that of a branch."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """See `Offer.withheld`."""
    actors: Sequence[Actor] = ()
    """All who said what the turn answers: it may what the least of them may."""

    def judge(self, call: Pending, here: Here, history: Sequence[Record]) -> Runs | Waits | Barred:
        """By what was offered, what holds now, the skills that are loaded, the tool's schema, and what a crash left."""
        named = call.bad_input if call.name == NO_NAME and call.bad_input else call.name
        tool = self.offered.get(call.name)
        verdict = self._verdict(here, tool) if tool else _verdict_on(here, named)
        if tool is None or not verdict.allowed:
            there = sorted(name for name, one in self.offered.items() if self._verdict(here, one).allowed)
            if verdict.reason == "guest":
                why = f"{call.name} changes something, and is not for guests, who asked for this. Tell them."
                return Barred(call, why, verdict.rule, named, verdict.reason)
            no = _TOLD.get(verdict.reason, "There is no tool {name!r} here.").format(name=call.name)
            why = f"{no} Tools: {', '.join(there) or 'none'}."
            if verdict.allowed:
                missing = f"{named} can't be used now: {self.withheld[named]}. " if named in self.withheld else ""
                return Barred(call, missing + why, named=named)
            return Barred(call, why, verdict.rule, named, verdict.reason)
        if narrower := self._narrower(tool, history):
            return Barred(call, narrower)
        if call.bad_input:
            why = f"The arguments could not be read: {call.bad_input}. Send them again as one JSON object."
            return Barred(call, why)
        fitted = fit(tool.input_schema, call.input, self.zone)
        if fitted.faults:
            return Barred(call, f"Nothing was run. The arguments do not fit: {'; '.join(fitted.faults)}.")
        if call.was_started and tool.effect == "once":
            why = "Interrupted: it is not known whether this ran, and it was not run again. "
            return Barred(call, f"{why}Tell the person, and let them decide.")
        runs = Runs(call, tool, fitted.values, tuple(map(str, fitted.changes)))
        asks: Why | None = reason_to_ask(tool, fitted.values, self.conversation, here.profile, self.memo)
        asks = asks or ("hitl" if _wants_all_seen(tool, here) else None)
        return self._asked(runs, asks, here, history) if asks else runs

    def _asked(self, runs: Runs, why: Why, here: Here, history: Sequence[Record]) -> Runs | Waits | Barred:
        """A person's word first: it counts for exactly what it was said about, and while who said it may say it."""
        call, bound = runs.call, _bound(runs)
        word = next(
            (one for one in asked_in(history) if one.call == call.id and one.kind == "approval" and one.word), None
        )
        if word is None:
            form = self._form(runs)
            if form and (always := _always(here, bound)):
                return replace(runs, always=always, bound=bound)
            if len(json.dumps(runs.arguments, ensure_ascii=False)) > SHOWN_MAX:
                return Barred(
                    call, f"Nobody can look through arguments of more than {SHOWN_MAX} characters. Ask for less."
                )
            shown = runs.tool.skill.id if isinstance(runs.tool, ProgramTool) else runs.tool.name
            return Waits(call, runs.arguments, why, bound, shown, form=form)
        if word.word == "expired":
            return Barred(call, "Nobody said yes in time, so it did not run. Tell the person.")
        if word.word != "yes":
            reason = f": {word.text}" if word.text else ""
            said_no = f"{word.name or word.by} said no{reason}. It did not run. Don't ask for it again."
            return Barred(call, said_no, by_person=True)
        verdict = may(word.who, here, Approval(word.requester))
        if not verdict.allowed:
            return Barred(call, "Whoever said yes may not do so any more. It did not run.", verdict.rule, call.name)
        if word.bound != bound:
            return Barred(call, "What was said yes to is not what would run now. It did not run.")
        return replace(runs, yes=word)

    def _form(self, runs: Runs) -> str:
        """See `Waits.form`. What can't be undone is looked at each time, if the model has words in it or something that was
        read may be behind it; and so is what files say, for they change.
        """
        tool = runs.tool
        if tool.effect == "once" and (
            takes_words(tool.input_schema, tool.input_schema) or tainted(self.conversation, self.memo)
        ):
            return ""
        if isinstance(tool, OverFiles) and tool.used(runs.arguments) is not None:
            return ""
        form = visible(json.dumps(runs.arguments, ensure_ascii=False, sort_keys=True))
        return form if len(form) <= FORM_MAX else ""

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Of the names of tools in a skill, those that say nothing here."""
        ours = self._all_names()
        return [name for name in names if ids.key(name) not in ours]

    def _verdict(self, here: Here, tool: Tool) -> Verdict:
        """May the model call this tool here now?"""
        thing = SkillUse(tool.skill, "run") if isinstance(tool, ProgramTool) else ToolUse(tool.name, tool.effect)
        verdicts = [may(actor, here, thing) for actor in self.actors or (None,)]
        return next((one for one in verdicts if not one.allowed), verdicts[0])

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


def _wants_all_seen(tool: Tool, here: Here) -> bool:
    """What skills are loaded is the model's matter; and a note waits for a yes of its own."""
    is_decided_on_elsewhere = tool.name in ABOUT_SKILLS and (tool.name != SAVE or here.profile.notes == "ask")
    return tool.effect != "read" and not is_decided_on_elsewhere and here.asks_for_all


def _bound(runs: Runs) -> str:
    """Of the tool with its version, of what it says of itself (an MCP server may say something else by now), and of the
    arguments.
    """
    tool = runs.tool
    version = tool.skill.hash if isinstance(tool, ProgramTool) else ""
    about = [tool.name, tool.effect, tool.reach, version, tool.description, tool.input_schema]
    whole = json.dumps([*about, runs.arguments], sort_keys=True, ensure_ascii=False, default=dict)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def _always(here: Here, bound: str) -> str:
    """Who allowed it for good, and may do so still; empty: nobody."""
    allowed = here.own.always.get(bound)
    is_valid = allowed and may(who_said(allowed.by), here, CommandUse("approve always")).allowed
    return allowed.by if allowed and is_valid else ""


def _verdict_on(here: Here, name: str) -> Verdict:
    """What forbids a tool that was not offered: a program's is that of its skill."""
    skills = (skill for skill in here.library.skills.values() if skill.program and tool_name(skill.id) == name)
    skill = next(skills, None)
    return may(None, here, SkillUse(skill, "run") if skill else ToolUse(name))


def _names(tool: Tool) -> set[str]:
    """What a skill may call this tool by: its name, and of a program the id of its skill; case makes no difference."""
    return {ids.key(tool.name), *([ids.key(tool.skill.id)] if isinstance(tool, ProgramTool) else [])}
