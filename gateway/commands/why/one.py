"""One skill or one tool: whether it may be used here, by which rule, and what became of it in the last turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from config.checks import nearest
from gateway.acting import acts_of
from gateway.commands import Said
from gateway.commands.why.telling import reason, tool_line, tools_of
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.rights.access import Here, SkillUse, ToolUse, Verdict, may
from gateway.rights.skill_tools import LOAD
from gateway.shelf import naming
from gateway.shelf.naming import Several, Unknown
from gateway.shelf.skill_table import tier_in
from gateway.text.quoting import few, quoted
from skills import ids
from skills.folders import Skill
from skills.programs import tool_name

IDS_MAX: Final = 20


def skill(said: Said, here: Here, name: str, turn: Sequence[Record]) -> str:
    """`/why skill NAME`."""
    language = said.language
    try:
        meant = naming.find(here, name, unlisted=acts_of(said).looks_after(here))
    except Several as error:
        found = ", ".join(few(map(quoted, error.ids), IDS_MAX, language))
        return say("skill.no.several", language, name=quoted(name), ids=found)
    except Unknown:
        return say("skill.no.unknown", language, name=quoted(name))
    one = meant.skill or meant.waiting
    if one is None:
        return say("skill.no.gone", language, id=quoted(meant.id))
    lines = [_standing("why.may_load", may(None, here, SkillUse(one, "load")), language)]
    if one.program:
        lines.append(_standing("why.may_run", may(None, here, SkillUse(one, "run")), language))
    lines += _of_skill(said, one, turn)
    return _told(say("why.skill", language, id=quoted(one.id), tier=tier_in(one.tier, language)), lines)


def tool(said: Said, here: Here, name: str, turn: Sequence[Record], *, is_approved: bool) -> str:
    """`/why tool NAME`. `is_approved`: it is none of a server, or somebody has approved its words."""
    language = said.language
    listed = [one for one in here.library.skills.values() if here.fits(ids.key(one.id))]
    runs = {tool_name(one.id): one for one in listed if one.program}
    if name not in runs and name not in (there := tools_of(here)):
        near = nearest(name, [*runs, *there])
        key = "why.no_tool_near" if near else "why.no_tool"
        return say(key, language, name=quoted(name), near=quoted(near or ""))
    verdict = may(None, here, SkillUse(runs[name], "run") if name in runs else ToolUse(name))
    lines = [_standing("why.may_call", verdict, language)]
    if verdict.allowed and not is_approved:
        lines.append(say("why.not_approved", language, name=name))
    if verdict.allowed and (here.asks_for_all or name in here.profile.approvals.ask):
        lines.append(say("why.hitl" if here.asks_for_all else "why.asks", language))
    lines += _of_tool(said, [one for one in turn if one.type == "tool_result" and one.data["name"] == name], turn)
    return _told(say("why.tool", language, name=quoted(name)), lines)


def _standing(key: str, verdict: Verdict, language: str) -> str:
    """Yes or no, by the rule that decides."""
    if verdict.allowed and not verdict.as_data:
        return say(f"{key}.yes", language, rule=quoted(verdict.rule))
    return say(f"{key}.no", language, why=reason(verdict.reason, verdict.rule, language))


def _of_skill(said: Said, one: Skill, turn: Sequence[Record]) -> Iterator[str]:
    language, key = said.language, ids.key(one.id)
    if key in {ids.key(name) for name in said.skills}:
        yield say("why.is_loaded", language)
    if not turn:
        yield say("why.no_turn", language)
        return
    came = [record for record in turn if record.type == "skill" and ids.key(record.data["id"]) == key]
    if came:
        yield say("why.was_loaded", language)
    asked = [
        record
        for record in turn
        if record.type == "tool_result"
        and (record.data["name"] == tool_name(one.id) or (record.data["name"] == LOAD and _names(record, key)))
    ]
    yield from (tool_line(record, language) for record in asked if not (came and record.data["name"] == LOAD))
    if not came and not asked:
        yield say("why.not_asked", language)


def _names(record: Record, key: str) -> bool:
    return ids.key(str(record.data.get("shown", ""))).strip("/") == key


def _of_tool(said: Said, results: Sequence[Record], turn: Sequence[Record]) -> Iterator[str]:
    if not turn:
        yield say("why.no_turn", said.language)
    elif not results:
        yield say("why.not_asked", said.language)
    yield from (tool_line(record, said.language) for record in results)


def _told(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *(f"- {line}" for line in lines)])
