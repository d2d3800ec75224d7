"""Explaining: why something may be done in a channel or not, and the line, switch or role that decides."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.acts.outcomes import Refusal
from gateway.acts.pair_acts import PairActs
from gateway.admin.operations import LOOK, InChannel, Result, operation
from gateway.admin.visits import Visit
from gateway.rights import explaining
from gateway.rights.explaining import Answer, NotThere
from gateway.rights.guests import is_guest_by_id
from gateway.rights.pins import Pins
from skills.visible import one_line

Asked = Annotated[str, Field(max_length=300)]


class Question(InChannel):
    skill: Asked = ""
    """Only this skill, and its program."""
    tool: Asked = ""
    """Only this tool, or this program of a skill."""
    person: Asked = ""
    """Only what this person may: `connection/id`."""


class Why(Result):
    kind: str
    """`skill`, `tool`, `command` ..."""
    subject: str
    answer: str
    """`yes`, `no`; of settings, what holds."""
    rule: str
    reason: str
    """In one word; empty: there is none."""


class Explained(Result):
    channel: str
    answers: list[Why]


@operation(LOOK)
async def show(visit: Visit, given: Question) -> Explained:
    """What holds in a channel and what decided it: file and line, a switch, a role, a rule of the organisation.

    With nothing else given, all of it; else of the first that is given of skill, tool and person.
    """
    try:
        answers = await _answers(visit, given)
    except NotThere as error:
        raise Refusal("no_such", told=one_line(str(error))) from None
    return Explained(
        channel=given.channel,
        answers=[
            Why(kind=one.kind, subject=one_line(one.subject), answer=one.answer, rule=one.rule, reason=one.reason)
            for one in answers
        ],
    )


async def _answers(visit: Visit, given: Question) -> list[Answer]:
    key, acts, pins = visit.key(given.channel), visit.acts(given.channel), Pins(visit.house.store)
    here = await acts.by.here()
    if given.skill:
        return explaining.skill(here, given.skill)
    if given.tool:
        return explaining.tool(
            here, given.tool, await pins.of(explaining.pinned(here, given.tool)), visit.loaded.settings
        )
    if given.person:
        is_paired = await PairActs(acts, visit.loaded).is_let_in(given.person, here)
        is_guest = await is_guest_by_id(visit.house.store, visit.loaded.settings, given.person)
        return explaining.person(here, given.person, is_paired=is_paired, is_guest=is_guest)
    return explaining.channel(visit.loaded, key, here, await pins.of(explaining.pinned(here)))
