"""/why: what the last answer did and by which rules; /why skill NAME, /why tool NAME: why one was used or was not; /why channel,
/why person ID: what holds here, and what somebody may, each with the line that decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.acting import acts_of
from gateway.acts.pair_acts import PairActs
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.commands.why import answer, one
from gateway.conversation.turns import last_turn
from gateway.phrases import say
from gateway.rights import explaining
from gateway.rights.access import Here
from gateway.rights.explaining import Answer
from gateway.rights.roles import typed_person
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
            answered = "\n".join([head, *(f"- {line}" for line in did)])
            return Done(f"{answered}\n\n" + "\n".join(has))
        case [what, name] if what.lower() == "skill":
            return Done(one.skill(said, here, name, turn))
        case [what, name] if what.lower() == "tool":
            return Done(one.tool(said, here, name, turn, await said.outside.pins(explaining.pinned(here, name))))
        case [what] if what.lower() == "channel":
            return Done(_explained(await _channel(said, here), language))
        case [what, name] if what.lower() == "person":
            return await _person(said, here, name)
    return misused("why", language)


async def _has(said: Said, here: Here) -> list[str]:
    """What may be used in this channel now."""
    language, pins = said.language, await said.outside.pins(explaining.pinned(here))
    tools = [one.subject for one in explaining.tools(here, pins) if one.answer == "yes"]
    tools += [tool_name(skill.id) for skill in explaining.runnable(here)]
    skills = [skill.id for skill in here.catalogue.skills]
    return [
        say("why.has", language, tools=_named(tools, language), skills=_named(skills, language)),
        say("why.more", language),
    ]


async def _channel(said: Said, here: Here) -> list[Answer]:
    """To whoever looks after its skills also what is not in force."""
    pins = await said.outside.pins(explaining.pinned(here))
    whole = acts_of(said).looks_after(here)
    return explaining.channel(said.outside.loaded, said.event.conversation, here, pins, whole=whole)


def _named(names: list[str], language: str) -> str:
    return ", ".join(few(map(quoted, names), NAMED_MAX, language)) or say("why.has_none", language)


async def _person(said: Said, here: Here, name: str) -> Done:
    who = typed_person(name, said.event.conversation.connection)
    if who is None:
        return Done(say("role.no_person", said.language, who=quoted(name)), is_private=True)
    is_paired = await PairActs(acts_of(said), said.outside.loaded).is_let_in(who, here)
    is_guest = await said.outside.is_guest(who)
    return Done(_explained(explaining.person(here, who, is_paired=is_paired, is_guest=is_guest), said.language))


def _explained(answers: Sequence[Answer], language: str) -> str:
    lines = [quoted(line, LINE_CHARACTERS) for line in explaining.told(answers)]
    return "\n".join(f"- {line}" for line in few(lines, LINES_MAX, language))
