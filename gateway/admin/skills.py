"""Skills: which there are, what stands in one, and what people decide about them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal

from pydantic import Base64Bytes, Field

from gateway.acts import answers
from gateway.acts.outcomes import DIGITS, Outcome, Shown
from gateway.acts.skill_acts import Acts
from gateway.acts.skill_table import Row, behind, everything, row
from gateway.admin.operations import (
    LOOK,
    SOMEWHERE,
    Act,
    Anywhere,
    Digits,
    InChannel,
    Name,
    Nothing,
    Result,
    Told,
    operation,
)
from gateway.admin.visits import Visit
from gateway.conversation.uses import DAYS_MAX
from gateway.conversation.uses import uses as counted
from gateway.rights.access import Here, switched_off
from gateway.text.unmarked import plain
from skills import document, ids
from skills.folders import BUNDLE_MAX_BYTES, Fault, Skill
from skills.visible import one_line, visible

LOOKED_AT_MAX: Final = 500
"""Channels in which is looked for what waits."""


class SkillRow(Result):
    """A skill as it is in a channel."""

    id: str
    tier: str
    """`builtin`, `org` or `channel`."""
    is_on: bool
    """It is in force."""
    is_switched_on: bool
    """By the switches alone; something else may keep it out, such as that it waits for trust."""
    is_broken: bool
    """It can't be read; `why` says what is wrong."""
    waits: bool
    """Nobody has said that it is trusted here."""
    switched: Literal["on", "off", ""]
    """What was decided for this place; empty: nothing was."""
    switched_everywhere: Literal["on", "off", ""]
    version: str
    summary: str
    why: str
    """Why it is not on, and what else to know of it."""
    may_switch: bool
    """Whether you may, and it does something: not for what the profile does not list, unless it is off."""
    may_trust: bool


class Skills(Result):
    channel: str
    is_readable: bool
    """Whether the switches could be read. If not, no skill is on."""
    skills: list[SkillRow]
    shadowed: list[str]
    """Which skills stand behind another one of their id, in words."""
    warnings: list[str]
    may_add: bool
    """Whether you may add skills here."""
    may_reload: bool
    """Whether you may have the folders looked at."""


@operation(LOOK)
async def list_(visit: Visit, given: Anywhere) -> Skills:
    """All skills of a channel or of the whole organisation, their tiers, and why some are not on."""
    acts = visit.acts(given.channel)
    here = await acts.by.here()
    return Skills(
        channel=given.channel,
        is_readable=here.is_readable,
        skills=await rows(visit, acts, here),
        shadowed=behind(here.library.shadowed, visit.language),
        warnings=list(here.library.warnings),
        may_add=visit.may_here("skill add", here),
        may_reload=visit.may_here("skill reload", here),
    )


class Untrusted(Result):
    """A skill that was added to a channel and that nobody has said to be trusted."""

    channel: str
    id: str
    digits: str
    summary: str
    may_trust: bool


class AllUntrusted(Result):
    skills: list[Untrusted]
    is_whole: bool
    """Whether all channels were looked at; there may be too many to tell."""


@operation(SOMEWHERE)
async def waiting(visit: Visit, given: Nothing) -> AllUntrusted:
    """The skills that wait for somebody to say that they are trusted, of all channels that you look after."""
    del given
    found = await visit.rooms()
    heres = await asyncio.gather(*(visit.house.shelf.here(one, visit.loaded) for one in found.keys[:LOOKED_AT_MAX]))
    return AllUntrusted(
        skills=[
            Untrusted(
                channel=here.room,
                id=one.id,
                digits=one.hash[:DIGITS],
                summary=one_line(one.head.summary),
                may_trust=visit.may_here("skill trust", here),
            )
            for here in heres
            for one in here.waiting.values()
        ],
        is_whole=found.is_whole and len(found.keys) <= LOOKED_AT_MAX,
    )


async def rows(visit: Visit, acts: Acts, here: Here) -> list[SkillRow]:
    """All skills of a place."""
    harmful = await acts.harmful(here)
    may = [visit.may_here(one, here) for one in ("skill off", "skill trust")]
    # There can be thousands, and others' requests go on meanwhile.
    return await asyncio.to_thread(
        lambda: [
            _row(here, one, row(here, one, visit.language, harmful), may) for one in everything(here, unlisted=True)
        ]
    )


def _row(here: Here, one: Skill | Fault, told: Row, may: list[bool]) -> SkillRow:
    waits = isinstance(one, Skill) and here.waiting.get(ids.key(one.id)) is one
    own = here.own if here.room else here.org
    return SkillRow(
        id=told.id,
        tier=told.tier,
        is_on=told.mark == "●" and not waits,
        is_switched_on=isinstance(one, Skill) and not switched_off(here, one),
        is_broken=told.mark == "✗",
        waits=waits,
        switched=own.switch(one.id) or "",
        switched_everywhere=here.org.switch(one.id) or "",
        version=told.version,
        summary=told.summary,
        why=told.why,
        may_switch=may[0] and (not here.room or own.switch(one.id) == "off" or bool(here.fits(ids.key(one.id)))),
        may_trust=may[1] and waits,
    )


class UsesWanted(Anywhere):
    days: Annotated[int, Field(ge=1, le=DAYS_MAX)] = 30
    """The last ones, this one among them; by UTC."""


class SkillUse(Result):
    """In how many turns."""

    offered: int
    """It stood in the list that the model was given, or was a tool."""
    loaded: int
    """Something of it was given to the model."""
    ran: int
    """Its program was run, whatever came of it."""


class SkillUses(Result):
    channel: str
    days: int
    turns: int
    """In which a model was asked, and which have ended."""
    skills: dict[str, SkillUse]
    """By id, those that are no more too."""


@operation(LOOK)
async def uses(visit: Visit, given: UsesWanted) -> SkillUses:
    """In how many turns each skill was offered to the model, was loaded, and had its program run."""
    channel_id = visit.key(given.channel).channel_id if given.channel else ""
    found = await counted(visit.house.store, channel_id, given.days, visit.at_ms)
    return SkillUses(
        channel=given.channel,
        days=given.days,
        turns=found.turns,
        skills={id_: SkillUse(offered=one.offered, loaded=one.loaded, ran=one.ran) for id_, one in found.by_id.items()},
    )


class OneFile(InChannel):
    id: Name
    file: Annotated[str, Field(min_length=1, max_length=1_024)] = document.NAME
    """One of its files."""


class Found(Result):
    """Something to look at before one trusts it."""

    is_danger: bool
    """A sign of harm, not of weakness."""
    kind: str
    text: str
    file: str
    line: int


class File(Result):
    path: str
    size_bytes: int


class ShownSkill(Result):
    channel: str
    id: str
    tier: str
    hash: str
    """Of all its bytes."""
    digits: str
    """The first ones: said with `trust`, they name exactly these bytes."""
    waits: bool
    """For somebody to say that it is trusted."""
    is_on: bool
    rule: str
    """What decides whether it is on."""
    files: list[File]
    findings: list[Found]
    """Signs of harm first."""
    file: str
    text: str
    """Of that file, with all that is hidden in it named; empty for what is no text."""
    is_text: bool
    size_bytes: int
    beside: list[str]
    """What else to know, in words: its program, which files are otherwise than in the bytes that were trusted last."""
    since: str
    """The lines of `SKILL.md` and its other files that are otherwise than in those bytes, as a difference; empty: there is none."""
    may_trust: bool
    may_remove: bool


@operation(LOOK)
async def show(visit: Visit, given: OneFile) -> ShownSkill:
    """The exact bytes of a skill's file, and what the scan says about all of them; the one that waits for trust first."""
    acts = visit.acts(given.channel)
    shown = await acts.show(given.id, given.file)
    here = await acts.by.here()
    return await asyncio.to_thread(_shown, visit, shown, here)


def _shown(visit: Visit, shown: Shown, here: Here) -> ShownSkill:
    skill, is_text = shown.skill, b"\0" not in shown.raw
    sizes = [(document.NAME, skill.skill_md.size_bytes), *((at, one.size_bytes) for at, one in skill.files.items())]
    return ShownSkill(
        channel=here.room,
        id=skill.id,
        tier=skill.tier,
        hash=skill.hash,
        digits=shown.digits,
        waits=shown.waits,
        is_on=shown.standing.reason == "allowed",
        rule=shown.standing.rule,
        files=[File(path=path, size_bytes=size) for path, size in sorted(sizes)],
        findings=[
            Found(is_danger=one.danger, kind=one.kind, text=visible(one.text), file=one.file, line=one.line)
            for one in shown.findings
        ],
        file=shown.path,
        text=visible(shown.raw.decode("utf-8", "backslashreplace")) if is_text else "",
        is_text=is_text,
        size_bytes=len(shown.raw),
        beside=[plain(one) for one in answers.beside(shown, visit.language)],
        since=answers.lines_since(shown, visit.language),
        may_trust=shown.waits and visit.may_here("skill trust", here),
        may_remove=shown.waits and visit.may_here("skill remove", here),
    )


# ---- what people decide ----


class Switching(Anywhere):
    id: Name
    to: Literal["on", "off"]


@operation(Act("skill {to}", "id"), is_safe=False)
async def switch(visit: Visit, given: Switching) -> Told:
    """Switch a skill on or off, in a channel or for the whole organisation."""
    return told(visit, await visit.acts(given.channel).switch(given.id, given.to))


class Trusting(InChannel):
    id: Name
    digits: Digits
    """With the first digits of the hash, 6 or more, exactly these bytes are meant."""


@operation(Act("skill trust", "id"), is_safe=False)
async def trust(visit: Visit, given: Trusting) -> Told:
    """Say that the bytes of a skill that was added to a channel are trusted there."""
    return told(visit, await visit.acts(given.channel).trust(given.id, given.digits))


class Removing(Anywhere):
    id: Name


@operation(Act("skill remove", "id"), is_safe=False)
async def remove(visit: Visit, given: Removing) -> Told:
    """Take away a skill that was added. Its switch and its trust are kept."""
    return told(visit, await visit.acts(given.channel).remove(given.id))


class Adding(Anywhere):
    filename: Annotated[str, Field(min_length=1, max_length=300)]
    """Without a folder in it, the skill is called as the file."""
    zip: Annotated[Base64Bytes, Field(max_length=BUNDLE_MAX_BYTES)]
    """The zip of the skill's folder, in Base64."""


@operation(Act("skill add", "filename"), is_safe=False)
async def add(visit: Visit, given: Adding) -> Told:
    """Add the skill in a zip; in a channel it then waits for somebody to say that it is trusted."""
    return told(visit, await visit.acts(given.channel).add(given.filename, given.zip))


@operation(Act("skill reload", ""), is_safe=False)
async def reload(visit: Visit, given: Anywhere) -> Told:
    """Have a gateway look at the folders of skills now."""
    return told(visit, await visit.acts(given.channel).reload())


def told(visit: Visit, done: Outcome) -> Told:
    """What came of an act, in the words of the chat."""
    return Told(told=plain(answers.told(done, visit.language)))
