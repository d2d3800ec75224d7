"""/why: what the last answer did and by which rules; /why skill NAME, /why tool NAME: why one was used or was not; /why channel,
/why person ID: what holds here, and what somebody may, each with the line that decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.commands import Done, Said, WhenBusy, misused
from gateway.commands.why import answer, one
from gateway.commands.why.telling import tools_of
from gateway.conversation.turns import last_turn
from gateway.phrases import say
from gateway.rights import explaining
from gateway.rights.access import Here, SkillUse, ToolUse, may
from gateway.rights.explaining import Answer, NotThere
from gateway.text.quoting import few, quoted
from skills.programs import tool_name

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX: Final = 30
LINES_MAX: Final = 150
LINE_CHARACTERS: Final = 300


async def run(said: Said) -> Done:
    language, turn = said.language, last_turn(said.history)
    here = await said.outside.shelf.here(said.event.conversation, said.outside.loaded)
    match said.rest.split():
        case []:
            head = say("why.head" if turn else "why.nothing", language)
            did = list(answer.lines(turn, here, language)) if turn else []
            has = await _has(said, here)
            return Done("\n".join([head, *(f"- {line}" for line in did), *has]))
        case [what, name] if what.lower() == "skill":
            return Done(one.skill(said, here, name, turn))
        case [what, name] if what.lower() == "tool":
            return Done(one.tool(said, here, name, turn, is_approved=bool(await _offered(said, [name]))))
        case [what] if what.lower() == "channel":
            return Done(_explained(explaining.channel(said.outside.loaded, said.event.conversation, here), language))
        case [what, name] if what.lower() == "person":
            return await _person(said, here, name)
    return misused("why", language)


async def _has(said: Said, here: Here) -> list[str]:
    """What may be used in this channel now."""
    language = said.language
    tools = await _offered(said, [name for name in tools_of(here) if may(None, here, ToolUse(name)).allowed])
    skills = [skill.id for skill in here.catalogue.skills]
    programs = [skill for skill in here.catalogue.skills if skill.program]
    tools += [tool_name(skill.id) for skill in programs if may(None, here, SkillUse(skill, "run")).allowed]
    return [
        say("why.has", language, tools=_named(tools, language), skills=_named(skills, language)),
        say("why.more", language),
    ]


async def _offered(said: Said, tools: Sequence[str]) -> list[str]:
    """Without those of servers that nobody has approved: no model is told of them."""
    of_servers = [name for name in tools if "__" in name]
    approved = await said.outside.approved(of_servers) if of_servers else []
    return [name for name in tools if name not in of_servers or name in approved]


def _named(names: list[str], language: str) -> str:
    return ", ".join(few(map(quoted, names), NAMED_MAX, language)) or say("why.has_none", language)


async def _person(said: Said, here: Here, name: str) -> Done:
    connection = said.event.conversation.connection
    who = name if "/" in name else f"{connection}/{name.lstrip('@')}"
    is_paired = await said.outside.shelf.pairing.is_paired(who)
    try:
        answers = explaining.person(here, who, is_paired=is_paired)
    except NotThere:
        return Done(say("role.no_person", said.language, who=quoted(name)), is_private=True)
    return Done(_explained(answers, said.language))


def _explained(answers: Sequence[Answer], language: str) -> str:
    lines = [quoted(line, LINE_CHARACTERS) for line in explaining.told(answers)]
    return "\n".join(f"- {line}" for line in few(lines, LINES_MAX, language))
