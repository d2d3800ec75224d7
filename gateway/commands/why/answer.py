"""The last answer: which skills it loaded, which tools ran or were refused, by which rule; and which model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.acts.skill_table import tier_in
from gateway.commands.why.telling import tool_line
from gateway.conversation.records import Record
from gateway.phrases import say
from gateway.rights import explaining
from gateway.rights.access import Here
from gateway.rights.skill_tools import LOAD
from gateway.text.quoting import few, quoted
from skills.folders import Skill
from skills.programs import tool_name

NAMED_MAX: Final = 20
"""Skills that could have been asked for."""


def lines(turn: Sequence[Record], here: Here, language: str) -> Iterator[str]:
    """What a turn did, a line each."""
    yield from _done([one for one in turn if not one.branch], language)
    yield from _steps(turn, language)
    if not any(one.type == "tool_result" and _is_about_skills(one, here) for one in turn):
        yield say("why.by_itself", language)
        yield from _could(here, language)
    yield from _models(turn, language)
    yield from (say("why.ended", language, rule=quoted(one.data["rule"])) for one in turn if _ended(one))
    yield from (say("why.failed", language, reason=quoted(one.data["reason"])) for one in turn if _failed(one))


def _done(records: Sequence[Record], language: str) -> list[str]:
    return [*_loaded(records, language), *_tools(records, language)]


def _steps(turn: Sequence[Record], language: str) -> Iterator[str]:
    """Those of its plan, each with what was done for it; and what a reviewer said."""
    ended = {one.data["id"]: one.data for one in turn if one.type == "step_done"}
    plan: Sequence[Mapping[str, Any]] = next((one.data["steps"] for one in reversed(turn) if one.type == "plan"), [])
    for step in plan:
        end = ended.get(step["id"])
        state = "open" if end is None else "failed" if end.get("failed") else "done"
        head = say(f"why.step_{state}", language, task=quoted(step["task"][:200]), reason=(end or {}).get("text", ""))
        done = _done([one for one in turn if one.branch == f"step {step['id']}"], language)
        yield "\n".join([head, *(f"  - {line}" for line in done)])
    for one in turn:
        if one.type == "review":
            yield say(
                "why.sent_back" if one.data["changes"] else "why.accepted", language, steps=len(one.data["changes"])
            )


def _models(turn: Sequence[Record], language: str) -> list[str]:
    """Which answered, by their own account."""
    names = dict.fromkeys(quoted(one.data["model"]) for one in turn if one.type == "answer" and one.data.get("model"))
    return [say("why.model", language, models=", ".join(names))] if names else []


def _ended(record: Record) -> bool:
    return record.type == "reply" and bool(record.data.get("rule"))


def _failed(record: Record) -> bool:
    return record.type == "failed" and "part" not in record.data


def _loaded(turn: Sequence[Record], language: str) -> Iterator[str]:
    for one in turn:
        if one.type == "skill":
            yield say("why.loaded", language, id=quoted(one.data["id"]), tier=tier_in(one.data["tier"], language))


def _tools(turn: Sequence[Record], language: str) -> Iterator[str]:
    return (tool_line(one, language) for one in turn if one.type == "tool_result")


def _is_about_skills(record: Record, here: Here) -> bool:
    return record.data["name"] == LOAD or _program(here, record.data["name"]) is not None


def _program(here: Here, tool: str) -> Skill | None:
    """The skill that runs under this name."""
    return next((one for one in here.library.skills.values() if one.program and tool_name(one.id) == tool), None)


def _could(here: Here, language: str) -> list[str]:
    """Skills and programs that may be asked for."""
    skills = here.catalogue.skills
    programs = explaining.runnable(here)
    found = []
    if skills:
        found.append(say("why.could_load", language, ids=_named(skills, language)))
    if programs:
        found.append(say("why.could_run", language, ids=_named(programs, language)))
    return found or [say("why.could_nothing", language)]


def _named(skills: Sequence[Skill], language: str) -> str:
    return ", ".join(few([quoted(one.id) for one in skills], NAMED_MAX, language))
