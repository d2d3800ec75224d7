"""One skill or one tool: whether it may be used here, by which rule, and what became of it in the last turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.acting import acts_of
from gateway.acts import naming
from gateway.acts.naming import Several, Unknown
from gateway.acts.skill_table import tier_in
from gateway.commands import Said
from gateway.commands.why.telling import reason, tool_line
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.rights import explaining
from gateway.rights.access import Here
from gateway.rights.explaining import Answer, NotThere
from gateway.rights.pins import Pin
from gateway.rights.skill_tools import LOAD
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
    keys = {"skill": "why.may_load", "program": "why.may_run"}
    lines = [_answered(keys[answer.kind], answer, language) for answer in explaining.of_skill(here, one)]
    lines += _of_skill(said, one, turn)
    return _told(say("why.skill", language, id=quoted(one.id), tier=tier_in(one.tier, language)), lines)


def tool(said: Said, here: Here, name: str, turn: Sequence[Record], pins: Mapping[str, Pin]) -> str:
    """`/why tool NAME`."""
    language = said.language
    try:
        settings, whole = said.outside.loaded.settings, acts_of(said).looks_after(here)
        call, *asks = explaining.tool(here, name, pins, settings, whole=whole)
    except NotThere as error:
        key = "why.no_tool_near" if error.near else "why.no_tool"
        return say(key, language, name=quoted(name), near=quoted(error.near or ""))
    lines = [_answered("why.may_call", call, language)]
    lines += (
        _asks({one.kind: one for one in asks if one.answer not in {"no", "allow"}}, language)
        if call.answer == "yes"
        else []
    )
    lines += _of_tool(
        said, [one for one in turn if one.type == "tool_result" and one.data["name"] == call.subject], turn
    )
    return _told(say("why.tool", language, name=quoted(name)), lines)


def _asks(asks: Mapping[str, Answer], language: str) -> Iterator[str]:
    """What makes its calls wait for a person's yes."""
    if "approval" in asks:
        yield say("why.asks", language)
    if "hitl" in asks:
        yield say("why.hitl", language)
    if tainted := asks.get("tainted"):
        key = "why.tainted" if tainted.answer == "ask" else "why.tainted.address"
        yield say(key, language, rule=quoted(tainted.rule))


def _answered(key: str, answer: Answer, language: str) -> str:
    """Yes or no, by the rule that decides."""
    if answer.answer == "yes":
        return say(f"{key}.yes", language, rule=quoted(answer.rule))
    return say(f"{key}.no", language, why=reason(answer.reason, answer.rule, language))


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
