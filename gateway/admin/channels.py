"""Channels: which there are, what holds in one, and what a sentence said there would bring up."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal

from pydantic import Field

from config.loading import Loaded
from gateway.acts.skill_table import count
from gateway.acts.tool_acts import State, ToolActs, ToolRow
from gateway.admin.operations import LOOK, SOMEWHERE, Act, InChannel, Name, Nothing, Result, Told, operation
from gateway.admin.skills import SkillRow, rows
from gateway.admin.visits import Visit
from gateway.commands import tool as tool_command
from gateway.conversation.key import ConversationKey
from gateway.phrases import say
from gateway.rights import explaining
from gateway.rights.access import Here
from gateway.rights.pins import Pins
from gateway.text.unmarked import plain
from skills import index
from skills.folders import Skill
from skills.library import Catalogue
from skills.paths import for_file
from skills.search import QUERY_MAX, search

_AROUND: Final = ".,;:!?()[]{}<>\"'`«»“”。，"
FILES_MAX: Final = 10


class Chosen(Result):
    """Which profile holds in a channel, and why that one."""

    profile: str
    rule: str
    """The line of the settings that chose it."""


class OneChannel(Result):
    channel: str
    """`connection/channel`."""
    chosen: Chosen


class Channels(Result):
    channels: list[OneChannel]
    """Those that somebody has written in, or that the settings name, and that you look after."""
    is_whole: bool
    """Whether these are all; there may be too many to tell."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: Nothing) -> Channels:
    """Which channels there are."""
    del given
    found = await visit.rooms()
    return Channels(
        channels=[
            OneChannel(channel=f"{one.connection}/{one.channel}", chosen=chosen(visit.loaded, one))
            for one in found.keys
        ],
        is_whole=found.is_whole,
    )


class Tool(Result):
    name: str
    """By which models call it."""
    shown: str
    """What people call it: of a skill that runs, its id."""
    is_on: bool
    is_switched_on: bool
    """By the switch alone; something else may keep it out, such as that nobody approved its server's words."""
    state: State
    """`on`, `ask` (the profile wants a person's yes to each call) or `off`."""
    reason: str
    """Why it is not on, in one word; `allowed`: it is."""
    rule: str
    """What says so: a line of the profile, who switched what, or what was approved of its server's words."""
    may_switch: bool
    """Whether you may, and it can be: what the profile does not list can't, nor what comes with another one."""


class Calls(Result):
    """Which calls wait for a person's yes."""

    all_ask: bool
    """Whether each call with an effect does (`/hitl`)."""
    asking: list[str]
    """Those that the profile lists."""
    may_switch: bool


class Channel(Result):
    channel: str
    chosen: Chosen
    language: str
    """Of notices; empty: the person's own."""
    timezone: str
    model: str
    admins: list[str]
    """Of the profile, then those who were named for this channel alone (`people.show` tells them apart)."""
    approvers: list[str]
    is_readable: bool
    """Whether the switches could be read. If not, no skill is on."""
    skills_on: int
    skills: list[SkillRow]
    tools: list[Tool]
    calls: Calls
    index_tokens: int
    """About how long the list of skills is that the model sees."""
    index_max_tokens: int
    index_is_whole: bool
    """Whether it shows all skills with their whole descriptions."""


@operation(LOOK)
async def show(visit: Visit, given: InChannel) -> Channel:
    """One channel: its profile and the rule that chose it, its skills and tools, and why some are not on."""
    acts = visit.acts(given.channel)
    here = await acts.by.here()
    profile, settings = here.profile, visit.loaded.settings
    tokens = settings.skills.index_max_tokens
    laid_out = await asyncio.to_thread(index.lay_out, here.catalogue, tokens, profile.order, profile.delivery)
    return Channel(
        channel=given.channel,
        chosen=chosen(visit.loaded, visit.key(given.channel)),
        language=profile.language or "",
        timezone=profile.timezone,
        model=profile.model or settings.model.name,
        admins=[*profile.roles.admin, *sorted(here.own.channel_admins)],
        approvers=profile.roles.approver,
        is_readable=here.is_readable,
        skills_on=count(here, unlisted=True).on,
        skills=await rows(visit, acts, here),
        tools=[
            _tool(one, may_switch=visit.may_here("tool off", here)) for one in await _tool_acts(visit, given).rows(here)
        ],
        calls=Calls(
            all_ask=here.asks_for_all,
            asking=profile.approvals.ask,
            may_switch=here.is_readable and visit.may_here("hitl on", here),
        ),
        index_tokens=laid_out.tokens,
        index_max_tokens=tokens,
        index_is_whole=laid_out.is_whole,
    )


class Watching(InChannel):
    to: Literal["on", "off"]


@operation(Act("hitl {to}", "to"), is_safe=False)
async def hitl(visit: Visit, given: Watching) -> Told:
    """Let each call with an effect wait for a person's yes, or only those that the profile names."""
    here = await visit.acts(given.channel).watch_calls(given.to)
    return Told(told=say("hitl.on" if here.asks_for_all else "hitl.off", visit.language, room=here.room))


class SwitchingTool(InChannel):
    name: Name
    """By which models call it, or the id of a skill that runs."""
    to: Literal["on", "off"]


@operation(Act("tool {to}", "name"), is_safe=False)
async def tool(visit: Visit, given: SwitchingTool) -> Told:
    """Switch a tool off in a channel, at once, or leave it to the profile again.

    What the profile does not list can't be switched on.
    """
    here, one = await _tool_acts(visit, given).switch(given.name, given.to)
    return Told(told=plain(tool_command.switched(here, one, visit.language)))


class Sentence(InChannel):
    text: Annotated[str, Field(min_length=1, max_length=QUERY_MAX)]
    """As somebody could say it there."""


class Hit(Result):
    id: str
    summary: str
    place: int
    """In the list that the model sees: from 1; 0: it is not in it, and only a search finds it."""


class Hits(Result):
    by_words: list[Hit]
    """Skills in whose id, tags or description words of the sentence stand, the best first: what `find_skills` would find."""
    total: int
    by_files: list[Hit]
    """Skills that are meant for a file of that name, were it attached: the model is told of them."""
    index_is_whole: bool
    """Whether the model sees all skills with their whole descriptions, so that it need not search."""


@operation(LOOK)
async def test(visit: Visit, given: Sentence) -> Hits:
    """Which skills a sentence would bring up in a channel, by its words and by names of files in it.

    Which of them the model then loads is the model's decision: `deskmate skills probe` asks it.
    """
    here = await visit.here(given.channel)()
    return await asyncio.to_thread(_hits, visit, here, given.text)


def _hits(visit: Visit, here: Here, text: str) -> Hits:
    catalogue, profile = here.catalogue, here.profile
    tokens = visit.loaded.settings.skills.index_max_tokens
    laid_out = index.lay_out(catalogue, tokens, profile.order, profile.delivery)
    places = {skill.id: at for at, skill in enumerate(index.ordered(catalogue, profile.order), 1)}

    def hit(one: Skill) -> Hit:
        place = places.get(one.id, 0)
        return Hit(id=one.id, summary=one.head.summary, place=place if place <= laid_out.shown else 0)

    try:
        found = search(catalogue, text)
    except ValueError:  # no word in it
        found = None
    return Hits(
        by_words=[hit(one) for one in found.skills] if found else [],
        total=found.total if found else 0,
        by_files=[hit(one) for one in _for_files(catalogue, text)],
        index_is_whole=laid_out.is_whole,
    )


def _for_files(catalogue: Catalogue, text: str) -> list[Skill]:
    names = [word.strip(_AROUND) for word in text.split()]
    files = [name for name in names if "." in name.strip(".")][:FILES_MAX]
    return list({one.id: one for name in files for one in for_file(catalogue, name)}.values())


def _tool_acts(visit: Visit, given: InChannel) -> ToolActs:
    return ToolActs(visit.acts(given.channel), Pins(visit.house.store).of)


def _tool(one: ToolRow, *, may_switch: bool) -> Tool:
    return Tool(
        name=one.name,
        shown=one.shown,
        is_on=one.verdict.allowed,
        is_switched_on=not one.is_switched_off,
        state=one.state,
        reason=one.verdict.reason,
        rule=one.verdict.rule,
        may_switch=may_switch and one.is_switched and one.verdict.reason != "unreadable",
    )


def chosen(loaded: Loaded, key: ConversationKey) -> Chosen:
    """The profile of a channel, and the line that chose it."""
    found = explaining.chosen(loaded, key)
    return Chosen(profile=found.answer, rule=found.rule)
