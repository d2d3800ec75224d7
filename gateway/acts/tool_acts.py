"""Tools of a channel, and what people do about them: switch one off, and leave it to the profile again.

A tool has two names where it is the program of a skill: the one that models call, and the skill's id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from config.checks import nearest
from gateway.acts import naming
from gateway.acts.naming import Several, Unknown
from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts, overtaken
from gateway.inventory import tool_names
from gateway.rights.access import Here, SkillUse, ToolUse, Verdict, may
from gateway.rights.explaining import asked_as, pinned
from gateway.rights.pins import Pin, words_of
from gateway.rights.skill_tools import COMES_WITH, switched_with
from gateway.shelf.decisions import Switch
from skills import ids
from skills.programs import tool_name

State = Literal["on", "ask", "off"]
"""`ask`: the profile wants a person's yes to each call."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool as it is in a channel."""

    name: str
    """By which models call it."""
    shown: str
    """What people call it."""
    verdict: Verdict
    asks: str | None
    """The name by which the profile wants a person's yes to each call. None: it wants none."""
    is_switched_off: bool
    """By an admin of the channel; it stays so while the profile does not list the tool."""

    @property
    def is_switched(self) -> bool:
        """Whether there is a switch that does something: for what the profile lists or is off, with no other tool's."""
        is_of_use = self.is_switched_off or self.verdict.reason != "profile"
        return switched_with(self.name) == self.name and is_of_use

    @property
    def state(self) -> State:
        if not self.verdict.allowed:
            return "off"
        return "ask" if self.asks else "on"


def rows(here: Here, pins: Mapping[str, Pin], also: str = "") -> list[ToolRow]:
    """All that there are: those that the profile lists, as it does, our others, and programs of skills that it lists or that are
    switched off; `also`: and this program, by the name that models call.
    """
    named: dict[str, ToolUse | SkillUse] = {
        name: ToolUse(name, words=words_of(name, pins))
        for name in dict.fromkeys([*here.profile.tools, *COMES_WITH, *tool_names()])
    }
    skills = here.library.skills
    programs = [
        one
        for key, one in sorted(skills.items())
        if one.program and (here.fits(key) or (name := tool_name(one.id)) == also or here.own.is_tool_off(name))
    ]
    named |= {tool_name(one.id): SkillUse(one, "run") for one in programs}
    return [_row(here, name, use) for name, use in named.items()]


def _row(here: Here, name: str, use: ToolUse | SkillUse) -> ToolRow:
    program = use.skill if isinstance(use, SkillUse) else None
    shown = program.id if program else name
    asks, is_off = asked_as(here, name, program), here.own.is_tool_off(name)
    return ToolRow(name, shown, may(None, here, use), asks, is_off)


def find(here: Here, there: Sequence[ToolRow], name: str) -> ToolRow:
    """By the name that models call, else that of a skill with a program; case and width of letters do not matter.

    Raises `Refusal`.
    """
    by_name = {ids.key(one.name): one for one in there}
    by_id = {ids.key(one.shown): one for one in there}
    if found := by_name.get(ids.key(name), by_id.get(ids.key(name))):
        return found
    try:
        meant = naming.find(here, name, unlisted=False)
    except Several as error:
        raise Refusal("several", name=name, ids=error.ids) from None
    except Unknown:
        if near := nearest(name, [one.name for one in there]):
            raise Refusal("unknown_tool_near", name=name, closest=near) from None
        raise Refusal("unknown_tool", name=name) from None
    if found := by_name.get(tool_name(meant.id)):
        return found
    raise Refusal("no_program", id=meant.id)


@dataclass(frozen=True)
class ToolActs:
    """One person's acts. All methods raise `Refusal` and `Unreachable`."""

    acts: Acts
    pins: Callable[[Sequence[str]], Awaitable[Mapping[str, Pin]]]
    """See `gateway.rights.pins.Pins.of`."""

    async def list(self) -> tuple[Here, Sequence[ToolRow]]:
        here, _ = await self.acts.may("tool")
        return here, await self.rows(here)

    async def rows(self, here: Here, also: str = "") -> Sequence[ToolRow]:
        return rows(here, await self.pins(pinned(here)), also)

    async def switch(self, name: str, to: Switch) -> tuple[Here, ToolRow]:
        """For the channel; how it stands afterwards. On takes an off back, also while the profile does not list it."""
        here, rule = await self.acts.may(f"tool {to}")
        change = self.acts.change(here, rule)
        made = await self.acts.shelf.made(change)
        if made is None:
            one = find(here, await self.rows(here), name)
            if (switch := switched_with(one.name)) != one.name:
                raise Refusal("tool_comes_with" if switch else "tool_stays", name=one.name, brings=switch)
            if to == "on" and one.verdict.reason == "profile" and not one.is_switched_off:
                raise Refusal("unlisted", id=one.shown, rule=one.verdict.rule)
            made = await self.acts.shelf.switch_tool(here.channel_id, one.name, one.shown, to, change)
        here = await self.acts.afterwards()
        name = made.bundle or made.id
        if here.own.is_tool_off(name) != (to == "off"):
            raise overtaken(made.what, made.id)
        return here, find(here, await self.rows(here, name), name)
