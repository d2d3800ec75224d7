"""/why: what the last answer did and by which rules; /why skill NAME, /why tool NAME: why one was used or was not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.access import Here, SkillUse, ToolUse, may
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.commands.why import answer, one
from gateway.commands.why.telling import tools_of
from gateway.conversation.turns import last_turn
from gateway.phrases import say
from gateway.text.quoting import few, quoted
from skills.programs import tool_name

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX: Final = 30


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
