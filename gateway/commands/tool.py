"""/tool: which tools there are in this channel, and which of them its admins switched off."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.acting import acts_of, refused
from gateway.acts.outcomes import Refusal
from gateway.acts.tool_acts import ToolActs, ToolRow
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.phrases import say
from gateway.rights.access import Here
from gateway.text.quoting import quoted

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    acts, language = ToolActs(acts_of(said), said.outside.pins), said.language
    match said.rest.split():
        case []:
            try:
                here, there = await acts.list()
            except Refusal as refusal:
                return refused(refusal, language)
            return Done(listed(here, there, language))
        case [to, name] if to.lower() in {"on", "off"}:
            try:
                here, one = await acts.switch(name, "on" if to.lower() == "on" else "off")
            except Refusal as refusal:
                await acts.acts.refused(f"tool {to.lower()}", name, refusal)
                return refused(refusal, language)
            return Done(switched(here, one, language))
    return misused("tool", language)


def switched(here: Here, one: ToolRow, language: str) -> str:
    """What came of it."""
    is_off = here.own.is_tool_off(one.name)
    told = say("tool.off" if is_off else "tool.on", language, tool=quoted(one.shown), room=quoted(here.room))
    if is_off or one.verdict.allowed:
        return told
    return f"{told}\n{say('tool.on.yet', language, why=why_not(one, language))}"


def why_not(one: ToolRow, language: str) -> str:
    """Why it is off, with the rule that decides."""
    rule = quoted(one.verdict.rule)
    told = say(f"skill.why.{one.verdict.reason}", language, rule=rule)
    return told if rule in told else say("why.rule", language, why=told, rule=rule)


def listed(here: Here, there: Sequence[ToolRow], language: str) -> str:
    """Those of the profile, each with the rule that decides, and which others there are."""
    lines = [f"- {_row(here, one, language)}" for one in there if one.verdict.reason != "profile"]
    told = [say("tool.list" if lines else "tool.none", language, room=quoted(here.room)), *lines]
    if rest := [quoted(one.shown) for one in there if one.verdict.reason == "profile"]:
        told.append(say("tool.unlisted", language, tools=", ".join(rest)))
    if off := [quoted(one.shown) for one in there if one.verdict.reason == "profile" and one.is_switched_off]:
        told.append(say("tool.unlisted.off", language, tools=", ".join(off)))
    if here.asks_for_all:
        told.append(say("hitl.on", language, room=quoted(here.room)))
    return "\n".join(told)


def _row(here: Here, one: ToolRow, language: str) -> str:
    tool = quoted(one.shown)
    match one.state:
        case "off":
            return say("tool.row.off", language, tool=tool, why=quoted(one.verdict.rule))
        case "ask":
            rule = here.rule("approvals.ask", one.asks or one.name)
            return say("tool.row.ask", language, tool=tool, rule=quoted(rule))
        case "on":
            return say("tool.row.on", language, tool=tool, rule=quoted(one.verdict.rule))
