"""Explaining: whether something may be done in a channel, and the line, switch or role that decides. For the command line, the
chat and pages alike; nothing is decided here, `access.may` is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from config.checks import nearest
from config.limits import MICROS, Limit, limits
from config.loading import Loaded
from config.rules import rule_of_room
from config.settings import McpToolSettings, Settings
from gateway.acts import naming
from gateway.acts.naming import Several, Unknown
from gateway.conversation.key import ConversationKey
from gateway.events import Actor
from gateway.inventory import tool_names
from gateway.rights.access import (
    COMMANDS,
    OF_NOBODY,
    OF_PAGES,
    Approval,
    CommandUse,
    Here,
    SkillUse,
    Talk,
    ToolUse,
    Verdict,
    as_given,
    may,
)
from gateway.rights.pins import Pin, is_of_server, words_of
from gateway.rights.roles import named, roles_of, typed_person
from gateway.rights.skill_tools import COMES_WITH, DOES, SAVE
from skills import ids
from skills.folders import Skill
from skills.programs import tool_name

Kind = Literal[
    "profile",
    "talk",
    "direct",
    "skill",
    "program",
    "tool",
    "approval",
    "tainted",
    "limit",
    "hitl",
    "role",
    "command",
    "page",
]
SOMEBODY: Final = "somebody"
UNTYPED: Final = OF_NOBODY | {"pair"}
"""What nobody types: `pair` is what is left of what is said by whoever is not let in."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One question, and what decided it."""

    kind: Kind
    subject: str
    """A skill's id, a tool's name, a command, a role."""
    answer: str
    """`yes`, `no`; of settings, what holds."""
    rule: str
    reason: str = ""
    """In one word, as `access.Verdict` has it."""

    def dump(self) -> dict[str, str]:
        return {
            "kind": self.kind,
            "subject": self.subject,
            "answer": self.answer,
            "rule": self.rule,
            "reason": self.reason,
        }


class NotThere(Exception):
    """There is nothing of this name. `str()` is for operators."""

    def __init__(self, told: str, near: str | None = None) -> None:
        super().__init__(f"{told}; perhaps {near}?" if near else told)
        self.near = near


def pinned(here: Here, *names: str) -> list[str]:
    """The tools of servers there, and among these names, of which has to be known what was approved of them."""
    return [name for name in dict.fromkeys([*here.profile.tools, *names]) if is_of_server(name)]


def chosen(loaded: Loaded, key: ConversationKey) -> Answer:
    """The profile of a channel, and the line that chose it."""
    profile = loaded.profile_for(key.connection, key.channel)
    return Answer("profile", "profile", profile.name, rule_of_room(loaded, key.connection, key.channel))


def channel(
    loaded: Loaded, key: ConversationKey, here: Here, pins: Mapping[str, Pin], *, whole: bool = True
) -> list[Answer]:
    """All that there is to say of a channel, in the order in which people ask. Not `whole`: without skills that are not in
    force, for people who don't look after them.
    """
    profile, ask = here.profile, here.profile.approvals
    skills = [one for skill in _skills(here) for one in of_skill(here, skill)]
    return [
        chosen(loaded, key),
        Answer("direct", "direct chats", here.direct, here.rule("direct", "")),
        Answer("direct", "guests", profile.guests, here.rule("guests", "")),
        *(one for one in skills if whole or one.answer != "no"),
        *tools(here, pins),
        Answer("approval", "calls that ask", ", ".join(ask.ask) or "none", here.rule("approvals.ask", "")),
        Answer("approval", "calls after text from outside", ask.tainted, here.rule("approvals.tainted", "")),
        Answer("approval", "free of that", ", ".join(ask.free) or "none", here.rule("approvals.free", "")),
        Answer("approval", "own yes", _word(ask.own), here.rule("approvals.own", "")),
        *(Answer("limit", one.key, _most(one), here.rule(one.key, "")) for one in limits(profile.budget)),
        *(
            Answer("limit", f"rate.{name}", str(most), here.rule(f"rate.{name}", ""))
            for name, most in profile.rate
            if most is not None
        ),
        Answer("hitl", "every call with an effect asks", _word(here.asks_for_all), _hitl(here)),
        *(
            Answer("role", f"{role} {person}", "yes", rule)
            for role, people in named(here).items()
            for person, rule in people.items()
        ),
    ]


def _most(limit: Limit) -> str:
    return f"{limit.most / MICROS:g}" if limit.unit == "money" else str(limit.most)


def skill(here: Here, name: str) -> list[Answer]:
    """Of the skill that a name means there, whatever the profile lists. Raises `NotThere`."""
    try:
        meant = naming.find(here, name, unlisted=True)
    except Several as error:
        raise NotThere(f"{name} fits several skills: {', '.join(error.ids)}") from None
    except Unknown as error:
        raise NotThere(f"there is no skill {name}", error.closest) from None
    found = meant.skill or meant.waiting
    if found is None:
        raise NotThere(f"{meant.id} can't be read, or is gone")
    return of_skill(here, found)


def of_skill(here: Here, one: Skill) -> list[Answer]:
    """Whether it is in force, and whether its program runs."""
    answers = [_verdict("skill", one.id, may(None, here, SkillUse(one, "load")))]
    if one.program:
        answers.append(_verdict("program", tool_name(one.id), may(None, here, SkillUse(one, "run"))))
    return answers


def runnable(here: Here) -> list[Skill]:
    """Skills whose programs run there."""
    return [one for one in here.catalogue.skills if one.program and may(None, here, SkillUse(one, "run")).allowed]


def tools(here: Here, pins: Mapping[str, Pin]) -> list[Answer]:
    """All tools that there are, those of the profile first. `pins`: of what `pinned` names."""
    return [_tool(here, name, pins) for name in _tools(here)]


def tool(here: Here, name: str, pins: Mapping[str, Pin], settings: Settings, *, whole: bool = True) -> list[Answer]:
    """Of a tool by the name that a model calls, or of a skill's program, by that or by the skill: first whether it may be called.
    Raises `NotThere`; not `whole`: also for programs of skills that the profile does not list, and nothing like it is named
    that is not in force.
    """
    programs = {
        tool_name(one.id): one
        for one in here.library.skills.values()
        if one.program and (whole or here.fits(ids.key(one.id)))
    }
    there = [*_tools(here), *COMES_WITH]
    program = programs.get(name) or (None if name in there else _program(here, name, programs, whole=whole))
    if program:
        answers = [_verdict("program", tool_name(program.id), may(None, here, SkillUse(program, "run")))]
    elif name in there:
        answers = [_tool(here, name, pins)]
    else:
        known = [*there, *(programs if whole else (tool_name(one.id) for one in runnable(here)))]
        raise NotThere(f"there is no tool {name}", nearest(name, known))
    if asking := asked_as(here, answers[0].subject, program):
        answers.append(Answer("approval", f"calls of {name}", "ask", here.rule("approvals.ask", asking)))
    elif outside := _of_outside(here, answers[0].subject, program, settings):
        answers.append(Answer("tainted", f"calls of {name} after text from outside", *outside))
    return [*answers, Answer("hitl", "every call with an effect asks", _word(here.asks_for_all), _hitl(here))]


def _program(here: Here, name: str, programs: Mapping[str, Skill], *, whole: bool) -> Skill | None:
    """The one of the skill that people call so. Raises `NotThere`."""
    try:
        meant = naming.find(here, name, unlisted=whole)
    except Several as error:
        raise NotThere(f"{name} fits several skills: {', '.join(error.ids)}") from None
    except Unknown:
        return None
    return programs.get(tool_name(meant.id))


def asked_as(here: Here, name: str, program: Skill | None = None) -> str | None:
    """By which of its names the profile wants a person's yes to each call of a tool. None: it wants none."""
    listed = here.profile.approvals.ask
    return next((one for one in (name, *([program.id] if program else [])) if one in listed), None)


def _of_outside(here: Here, name: str, program: Skill | None, settings: Settings) -> tuple[str, str] | None:
    """Whether calls of a tool ask once text from outside was read, and the line that says so. None: it does nothing that would
    have to be asked for then.
    """
    effect, reach = _does(name, program, settings)
    if (effect != "once" and reach == "inside") or (name == SAVE and here.profile.notes == "ask"):
        return None
    names = [name, *([program.id] if program else [])]
    if free := next((one for one in names if one in here.profile.approvals.free), None):
        return "allow", here.rule("approvals.free", free)
    tainted = here.profile.approvals.tainted
    is_by_address = tainted == "ask" and effect != "once" and reach == "address"
    return f"{tainted}, unless the address was given" if is_by_address else tainted, here.rule("approvals.tainted", "")


def _does(name: str, program: Skill | None, settings: Settings) -> tuple[str, str]:
    """What a call changes, and what of it leaves the house: of our own tools as they are, of others as the settings say."""
    if program and program.program:
        return program.program.effect, "free" if program.id in settings.skills.programs.network else "inside"
    if is_of_server(name):
        server, _, own = name.partition("__")
        said = settings.mcp.servers[server].tools.get(own) if server in settings.mcp.servers else None
        said = said or McpToolSettings()
        return said.effect, said.reach
    return DOES.get(name, ("read", "inside"))


def person(here: Here, who: str, *, is_paired: bool | None, is_guest: bool | None) -> list[Answer]:
    """Of `connection/id`: the roles, whether they are answered, and what they may say. Raises `NotThere`.

    `is_paired`: whether they were let in with a code; None: that is no matter of whoever asks. `is_guest`: see `Actor`.
    """
    connection, _, id_ = (typed_person(who) or "").partition("/")
    if not id_:
        raise NotThere(f"{who} is nobody's id: wanted is CONNECTION/ID, as /role tells each person their own")
    actor = Actor.by_id(id_, connection=connection, is_guest=is_guest)
    return [
        *(Answer("role", role, "yes", rule) for role, rule in roles_of(here, actor).items()),
        _verdict("talk", "in the channel", may(actor, here, Talk(is_direct=False))),
        *(
            []
            if is_paired is None
            else [_verdict("talk", "in direct chats", may(actor, here, Talk(is_direct=True, is_paired=is_paired)))]
        ),
        _verdict("approval", "say yes to calls of others", may(actor, here, Approval(SOMEBODY))),
        _verdict("approval", "say yes to their own calls", may(actor, here, Approval(id_))),
        *(_verdict(*_shown(name), may(actor, here, CommandUse(name))) for name in sorted(COMMANDS.keys() - UNTYPED)),
    ]


def _shown(command: str) -> tuple[Kind, str]:
    """As people type it, or do it on a page."""
    return "page" if command in OF_PAGES else "command", as_given(command)


def told(answers: Sequence[Answer]) -> Iterator[str]:
    """A line each, for a terminal and for the chat."""
    for one in answers:
        why = f", {one.reason}" if one.reason not in {"", "allowed"} else ""
        yield f"{one.kind} {one.subject}: {one.answer}{why} ({one.rule})"


def dump(key: ConversationKey, answers: Sequence[Answer]) -> dict[str, Any]:
    """As JSON."""
    return {"channel": f"{key.connection}/{key.channel}", "answers": [one.dump() for one in answers]}


def _skills(here: Here) -> list[Skill]:
    """Also those that are off: what a profile does not list is told only to whoever names it."""
    there = {**here.library.skills, **here.waiting}
    return [there[key] for key in sorted(there) if here.fits(ids.key(there[key].id))]


def _tools(here: Here) -> list[str]:
    return list(dict.fromkeys([*here.profile.tools, *tool_names()]))


def _tool(here: Here, name: str, pins: Mapping[str, Pin]) -> Answer:
    return _verdict("tool", name, may(None, here, ToolUse(name, words=words_of(name, pins))))


def _verdict(kind: Kind, subject: str, verdict: Verdict) -> Answer:
    answer = "as data" if verdict.as_data and verdict.allowed else _word(verdict.allowed)
    return Answer(kind, subject, answer, verdict.rule, verdict.reason)


def _word(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _hitl(here: Here) -> str:
    if not here.is_readable:
        return "the switches could not be read"
    return (
        f"/hitl {here.own.hitl} was said in {here.room}" if here.own.hitl else f"nobody has said /hitl in {here.room}"
    )
