"""Access: who may what, where. One function decides, `may`, and every door asks it.

Its answer names the rule that decided, for the audit log and for whoever wonders. What no rule allows is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, Literal

from config.profiles import Profile, Role
from gateway.events import Actor
from gateway.shelf.decisions import NO_REVISION, Decisions
from gateway.skill_tools import is_listed
from skills import ids
from skills.folders import Skill
from skills.library import Catalogue, Library, SkillNotFound

CHANNEL: Final = "channel"
"""The tier of the bundles that were added to one channel."""

Act = Literal["load", "read", "note", "run"]
"""`load` its text, `read` one of its files or notes, write a `note` to it, `run` its program."""

Reason = Literal[
    "allowed",
    "profile",
    "unreadable",
    "off_everywhere",
    "off_here",
    "not_on",
    "needs",
    "untrusted",
    "changed",
    "gone",
    "role",
]

NEEDS_ROLE: Final[Mapping[str, Role]] = {
    "skill on": "admin",
    "skill off": "admin",
    "skill add": "admin",
    "skill remove": "admin",
    "skill reload": "admin",
    "skill notes revert": "admin",
    "skill notes expire": "admin",
    "skill notes promote": "admin",
    "hitl on": "admin",
    "hitl off": "admin",
    "skill trust": "approver",
    "skill approve": "approver",
    "skill reject": "approver",
    "queue clear all": "admin",
}
"""Commands that not everybody in a channel may give. The others are for all."""


@dataclass(frozen=True, slots=True)
class SkillUse:
    """Something that is done with a skill."""

    skill: Skill
    act: Act


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of one of our own tools."""

    name: str


@dataclass(frozen=True, slots=True)
class CommandUse:
    """A command in the chat, with its first words: `skill off`."""

    name: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Something of a skill that a conversation holds: a text that guides, or a file of it as data."""

    id: str
    tier: str
    bundle: str
    """What it came from, by its hash."""
    is_guidance: bool


@dataclass(frozen=True, slots=True)
class Approval:
    """The word on a call that waits for one."""

    requester: str
    """The platform's own id of the person on whose behalf the call is asked for; empty: nobody's."""


Thing = SkillUse | Kept | ToolUse | CommandUse | Approval


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes or no, and why."""

    allowed: bool
    reason: Reason
    rule: str
    """What decided, for people who can change it: file and line, a switch, a role."""
    as_data: bool = False
    """Allowed, but nothing of it is guidance."""


@dataclass(frozen=True)
class Here:
    """One channel at one moment: all that decisions need, the same on every worker."""

    room: str
    """`connection/channel`."""
    channel_id: str
    profile: Profile
    rule: Callable[[str, str], str]
    """Where the profile says something about one of its keys and, in a list, a value: file and line."""
    library: Library
    """All tiers, the trusted bundles of the channel among them."""
    snapshot: tuple[int, str] = (0, "")
    """Number and hash of what was published and is in it."""
    org: Decisions = field(default_factory=Decisions)
    own: Decisions = field(default_factory=Decisions)
    waiting: Mapping[str, Skill] = field(default_factory=dict)
    """Bundles of the channel that nobody has said to be trusted, by `ids.key` of their id."""
    new_skills: Literal["on", "off"] = "on"
    unmet: Callable[[Skill, Profile], str | None] = lambda skill, profile: None  # noqa: ARG005
    """What a skill needs and does not have here."""
    is_readable: bool = True
    """Whether the decisions could be read. If not, no skill is on."""
    catalogues: dict[Any, Catalogue] = field(default_factory=dict, repr=False, compare=False)
    """What channels with this very library made already: equal ones share a catalogue, and so its index."""

    @property
    def asks_for_all(self) -> bool:
        """Whether each call with an effect waits for a person's yes: where nobody can tell, it does."""
        return self.own.hitl == "on" or not self.is_readable

    @property
    def pin(self) -> dict[str, Any]:
        """What the library is made of, in JSON: so that whoever goes on with a turn has the same skills."""
        own = [[one.id, one.bundle] for one in self.own.installed.values() if self.own.trusts(one.id, one.bundle)]
        org = [[one.id, one.bundle] for one in self.org.installed.values()]
        return {"snapshot": list(self.snapshot), "org": org, "own": own}

    def over(self, library: Library) -> Here:
        """The same rights over another snapshot: that of a turn that began before."""
        return self if library is self.library else replace(self, library=library, catalogues={})

    @cached_property
    def fits(self) -> Callable[[str], object]:
        """Whether the profile lists a skill, by `ids.key` of its id."""
        return ids.fitting(self.profile.skills).fullmatch

    @cached_property
    def fits_programs(self) -> Callable[[str], object]:
        """Whether the profile lets the program of a skill run, by `ids.key` of its id."""
        return ids.fitting(self.profile.programs).fullmatch

    @cached_property
    def catalogue(self) -> Catalogue:
        """What may be loaded here."""
        profile, library = self.profile, self.library
        own = (self.channel_id, self.own.revision) if self.own.revision != NO_REVISION else ()
        alike = (tuple(profile.skills), tuple(profile.program_env), self.org.revision, own)
        made = self.catalogues.pop(alike, None)
        if made is None:
            allowed = {
                key: skill
                for key, skill in library.skills.items()
                if _reason(self, SkillUse(skill, "load")) == "allowed"
            }
            made = Catalogue(allowed, library.owners)
        self.catalogues[alike] = made  # behind those that were not asked for since
        return made

    def find(self, name: str) -> Skill:
        """The skill that a name means here, a waiting one too. Raises `SkillNotFound`, which tells of nothing that is
        off unless that very skill was asked for.
        """
        try:
            return self.catalogue.find(name)
        except SkillNotFound:
            if (waiting := self.waiting.get(ids.key(name).strip("/"))) and _skill(
                self, SkillUse(waiting, "load")
            ).allowed:
                return waiting
            try:
                meant = self.library.catalogue(["*"]).find(name)
            except SkillNotFound:
                meant = None
            told = _TOLD.get(_reason(self, SkillUse(meant, "load"))) if meant else None
            if meant and told:
                raise SkillNotFound(f"{meant.id} {told}") from None
            raise


_TOLD: Final[Mapping[Reason, str]] = {
    "off_everywhere": "is switched off.",
    "off_here": "is switched off in this channel.",
    "not_on": "is not switched on in this channel.",
    "unreadable": "can't be used now: nobody can tell whether it is switched off.",
    "needs": "can't be used here: something that it needs is missing.",
}
"""What a model may hear of a skill that it named and may not have. What a profile does not list does not exist."""


def may(actor: Actor | None, here: Here, thing: Thing) -> Verdict:
    """May this person do this here? No `actor`: the model, on behalf of whoever wrote."""
    match thing:
        case SkillUse():
            return _skill(here, thing)
        case Kept(id=name):
            reason = _kept(here, thing)
            return Verdict(reason == "allowed", reason, f"{name} in {here.room}: {reason}")
        case ToolUse(name):
            listed = is_listed(name, here.profile.tools)
            return Verdict(listed, "allowed" if listed else "profile", here.rule("tools", name))
        case Approval(requester):
            return _approval(actor, here, requester)
        case CommandUse(name):
            role = NEEDS_ROLE.get(name)
            if role is None:
                return Verdict(True, "allowed", "for everybody")
            rule = here.rule(f"roles.{role}", person_of(here.room, actor) if actor else "")
            has = actor is not None and not actor.is_bot and has_role(here, actor, role)
            return Verdict(has, "allowed" if has else "role", rule)


def _approval(actor: Actor | None, here: Here, requester: str) -> Verdict:
    person = person_of(here.room, actor) if actor else ""
    if actor is None or actor.is_bot or not actor.id:
        return Verdict(False, "role", here.rule("roles.approver", person))
    if has_role(here, actor, "approver"):
        return Verdict(True, "allowed", here.rule("roles.approver", person))
    own = here.profile.approvals.own and person == person_of(here.room, Actor(requester))
    return Verdict(own, "allowed" if own else "role", here.rule("approvals.own" if own else "roles.approver", person))


def has_role(here: Here, actor: Actor, role: Role) -> bool:
    """By the platform's own id, never by a name."""
    person = person_of(here.room, actor)
    return bool(actor.id) and any(fnmatchcase(person, pattern) for pattern in getattr(here.profile.roles, role))


def person_of(room: str, actor: Actor) -> str:
    """A person as roles and the audit log name them: `slack-main/U024BE7LH`."""
    return f"{actor.connection or room.partition('/')[0]}/{actor.id}"


def _skill(here: Here, use: SkillUse) -> Verdict:
    reason = _reason(here, use)
    as_data = reason == "untrusted"
    allowed = reason == "allowed" or (as_data and use.act in {"load", "read"})
    return Verdict(allowed, reason, _rule(here, use, reason), as_data=as_data)


def _reason(here: Here, use: SkillUse) -> Reason:
    """The ceiling first, then what is switched, then whether it can be trusted."""
    skill = use.skill
    if not here.fits(ids.key(skill.id)):
        return "profile"
    switched = _switched(here, skill)
    if switched != "allowed":
        return switched
    if here.unmet(skill, here.profile):
        return "needs"
    if skill.tier == CHANNEL:
        installed = here.own.installed.get(ids.skeleton(skill.id))
        if installed is None or installed.bundle != skill.hash:
            return "gone"
        if not here.own.trusts(skill.id, skill.hash):
            return "untrusted"
    if use.act == "run" and not here.fits_programs(ids.key(skill.id)):
        return "profile"
    return "allowed"


def _kept(here: Here, kept: Kept) -> Reason:
    """A text of the channel's tier is held to the bytes that are trusted now, whatever else has its id. What is data stays
    data, whoever trusts it. An older version of a skill that is trusted stays until it is replaced.
    """
    if not here.is_readable:
        return "unreadable"
    skill = here.library.skills.get(ids.key(kept.id)) or here.waiting.get(ids.key(kept.id))
    if skill is None:
        return "gone"
    reason = _reason(here, SkillUse(skill, "load"))
    if reason not in {"allowed", "untrusted"} or not kept.is_guidance:
        return "allowed" if reason == "untrusted" else reason
    if reason == "untrusted":
        return "untrusted" if skill.hash == kept.bundle else "changed"
    if kept.tier == CHANNEL:
        there = here.own.installed.get(ids.skeleton(kept.id))
        if there is None:
            return "gone"
        if not here.own.trusts(kept.id, there.bundle):
            return "untrusted" if there.bundle == kept.bundle else "changed"
    return "allowed"


def _switched(here: Here, skill: Skill) -> Reason:
    """Off for the organisation beats all; else the channel's switch, else the organisation's, else the setting."""
    if not here.is_readable:
        return "unreadable"
    everywhere = here.org.switch(skill.id)
    if everywhere == "off":
        return "off_everywhere"
    switch = here.own.switch(skill.id) or everywhere
    if switch == "off":
        return "off_here"
    return "allowed" if switch == "on" or here.new_skills == "on" else "not_on"


def _rule(here: Here, use: SkillUse, reason: Reason) -> str:
    skill = use.skill
    match reason:
        case "profile" if here.fits(ids.key(skill.id)):
            return here.rule("programs", skill.id)
        case "profile" | "allowed" | "role":
            return here.rule("skills", skill.id)
        case "unreadable":
            return "the switches could not be read"
        case "off_everywhere":
            return f"{skill.id} is switched off for the whole organisation"
        case "off_here":
            return f"{skill.id} is switched off in {here.room}"
        case "not_on":
            return f"{skill.id} was never switched on, and skills.new_skills is off"
        case "needs":
            return here.unmet(skill, here.profile) or ""
        case "untrusted":
            return f"nobody has said that {skill.id} {skill.hash[:8]} is trusted in {here.room}"
        case "gone" | "changed":
            return f"{skill.id} {skill.hash[:8]} is not what was added to {here.room} last"
