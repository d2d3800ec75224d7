"""Access: who may what, where. One function decides, `may`, and every door asks it.

Its answer names the rule that decided, for the audit log and for whoever wonders. What no rule allows is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from config.profiles import Profile
from gateway.events import Actor
from gateway.rights.roles import COMMAND_LINE, Role, allows, line_of, person_of, roles_of
from gateway.rights.skill_tools import OF_THE_TALK, is_listed, switched_with
from gateway.shelf.decisions import NO_REVISION, Decisions
from skills import ids
from skills.folders import Skill
from skills.library import Catalogue, Library, SkillNotFound
from skills.programs import tool_name
from skills.schemas import Effect

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
    "unapproved",
    "reworded",
    "guest",
    "guests",
    "closed",
    "unpaired",
    "nobody",
]

COMMANDS: Final[Mapping[str, Role]] = {
    "help": "guest",
    "pair": "guest",
    "stop": "guest",
    "_over": "guest",
    **dict.fromkeys(
        (
            "answer",
            "approve",
            "compact",
            "deny",
            "hitl",
            "model",
            "new",
            "plan",
            "queue",
            "role",
            "skill",
            "skill list",
            "skill notes list",
            "skill notes show",
            "skill show",
            "status",
            "team",
            "tool",
            "usage",
            "why",
        ),
        "member",
    ),
    **dict.fromkeys(
        (
            "conversation show",
            "dead retry",
            "hitl off",
            "hitl on",
            "queue clear all",
            "skill add",
            "skill notes expire",
            "skill notes revert",
            "skill off",
            "skill on",
            "skill remove",
            "tool off",
            "tool on",
        ),
        "channel_admin",
    ),
    **dict.fromkeys(
        (
            "dead drop",
            "pair accept",
            "pair end",
            "pair list",
            "role grant",
            "role revoke",
            "skill notes promote",
            "skill reload",
        ),
        "admin",
    ),
    **dict.fromkeys(("approve always", "hitl forget", "skill approve", "skill reject", "skill trust"), "approver"),
    **dict.fromkeys(
        (
            "conversation show everywhere",
            "dead drop everywhere",
            "dead retry everywhere",
            "skill notes list everywhere",
            "skill notes show everywhere",
            "skill off everywhere",
            "skill on everywhere",
        ),
        "owner",
    ),
}
"""Who may give a command. One that is not here nobody may."""

OF_PAGES: Final = frozenset(
    {
        "conversation show",
        "conversation show everywhere",
        "dead drop",
        "dead drop everywhere",
        "dead retry",
        "dead retry everywhere",
        "skill notes list everywhere",
        "skill notes promote",
        "skill notes show everywhere",
    }
)
"""Acts that no chat knows: they are done on the admin pages, some by the command line too."""
_TYPED: Final[Mapping[str, str]] = {"pair accept": "pair CODE", "pair list": "pair"}
"""How commands are typed that are not typed as they are called."""
OF_NOBODY: Final = frozenset({"_over"})
"""What only deskmate says to itself."""

NEEDS_ROLE: Final[Mapping[str, Role]] = {
    name: role for name, role in COMMANDS.items() if role not in {"guest", "member"}
}
"""Commands that not everybody in a channel may give."""

UNREADABLE: Final = "the switches could not be read"
DirectPolicy = Literal["open", "paired", "closed"]


OPERATOR: Final = "operator"
"""Begins the name of one, as the audit log has it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Whoever has an account on the machine: on the command line, or signed in from there."""

    name: str
    """Of that account."""
    rule: str = field(default=COMMAND_LINE, compare=False)
    """By which they may do everything: it says where they do it."""


Who = Actor | Operator | None
"""None: the model, on behalf of nobody in particular."""


@dataclass(frozen=True, slots=True)
class SkillUse:
    """Something that is done with a skill."""

    skill: Skill
    act: Act


Words = Literal["ours", "approved", "unapproved", "reworded"]
"""The words in which a tool is described: our own, or those of its server, which count as somebody approved them."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool, one of ours or a server's."""

    name: str
    effect: Effect = "once"
    """Matters where somebody from outside asks."""
    words: Words = "ours"
    """As of now (`gateway.rights.pins.words_of`)."""


@dataclass(frozen=True, slots=True)
class CommandUse:
    """A command in the chat, with its first words: `skill off`."""

    name: str
    about_others: bool = False
    """It would end what somebody else asked for."""


@dataclass(frozen=True, slots=True)
class Talk:
    """Something said to us, that we would answer."""

    is_direct: bool
    is_paired: bool = False
    """Whether who says it was let in with a code."""


@dataclass(frozen=True, slots=True)
class HeldText:
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


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question of the agent."""

    requester: str
    """As of `Approval`."""


Thing = SkillUse | HeldText | ToolUse | CommandUse | Approval | Reply | Talk


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
    owners: tuple[str, ...] = ()
    """Patterns of the people whom the settings name as owners."""
    org_rule: Callable[[str, str], str] = lambda key, value: key  # noqa: ARG005
    """As `rule`, of the settings."""
    direct: DirectPolicy = "open"
    """Who is answered in direct chats, by the profile or else by the platform."""
    is_readable: bool = True
    """Whether the decisions could be read. If not, no skill and no tool is on."""
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


def looks_after(who: Who, here: Here) -> bool:
    """Whether somebody switches skills there or trusts them."""
    return any(may(who, here, CommandUse(command)).allowed for command in ("skill off", "skill trust"))


def as_given(command: str) -> str:
    """How people give it: as it is typed in the chat, or by its name alone where it is done on the admin pages."""
    return command if command in OF_PAGES else f"/{_TYPED.get(command, command)}"


def named_as(who: Who, room: str) -> str:
    """As the audit log and decisions name them: `connection/id`, or `operator NAME`; empty: nobody."""
    if isinstance(who, Operator):
        return f"{OPERATOR} {who.name}"
    return person_of(room, who) if who else ""


def who_said(by: str) -> Who:
    """Whom `named_as` named so: by a role that they were given, for whether they are a guest nobody says here. What it names
    nobody by is nobody, and no operator.
    """
    connection, slash, id_ = by.partition("/")
    word, _, name = by.partition(" ")
    if word == OPERATOR and name:
        return Operator(name)
    return Actor.by_id(id_, connection=connection) if slash and connection and id_ else None


def may(who: Who, here: Here, thing: Thing) -> Verdict:
    """May this person do this here? Nobody: the model, on behalf of whoever wrote."""
    if isinstance(who, Operator):
        return Verdict(True, "allowed", who.rule)
    match thing:
        case SkillUse():
            changes = thing.act == "note" or (thing.act == "run" and not _only_reads(thing.skill))
            return _of_guest(who, here, _skill(here, thing), changes=changes)
        case HeldText(id=name):
            reason = _kept(here, thing)
            return Verdict(reason == "allowed", reason, f"{name} in {here.room}: {reason}")
        case ToolUse():
            changes = thing.effect != "read" and thing.name not in OF_THE_TALK
            return _of_guest(who, here, _tool(here, thing), changes=changes)
        case Approval(requester):
            return _approval(who, here, requester)
        case Reply(requester):
            if who is None or who.is_bot or not who.id:
                return Verdict(False, "nobody", "only people answer")
            told = guest_rule(who, here)
            own = person_of(here.room, who) == person_of(here.room, Actor.by_id(requester))
            return Verdict(own or not told, "allowed" if own or not told else "guest", told or "everybody may answer")
        case CommandUse(name, about_others):
            return _command(who, here, name, about_others=about_others)
        case Talk(is_direct, is_paired):
            return _talk(who, here, is_direct=is_direct, is_paired=is_paired)


def _tool(here: Here, use: ToolUse) -> Verdict:
    """The profile first, then what is switched: what looks like the name of a tool that is off is off as well."""
    tools, switch = here.profile.tools, switched_with(use.name)
    if switch and here.own.is_tool_off(switch):
        looks = ids.skeleton(switch)
        if listed := next((one for one in tools if ids.skeleton(one) == looks), None):
            return Verdict(False, "off_here", f"{listed} is switched off in {here.room}")
    if not is_listed(use.name, tools):
        return Verdict(False, "profile", here.rule("tools", use.name))
    if switch and not here.is_readable:
        return Verdict(False, "unreadable", UNREADABLE)
    match use.words:
        case "unapproved":
            return Verdict(False, "unapproved", f"deskmate mcp: {use.name} is not approved")
        case "reworded":
            return Verdict(False, "reworded", f"deskmate mcp: {use.name} is described otherwise than was approved")
    return Verdict(True, "allowed", here.rule("tools", use.name))


def _command(actor: Actor | None, here: Here, name: str, *, about_others: bool) -> Verdict:
    role = COMMANDS.get(name)
    if role is None:
        in_one = name.removesuffix(" everywhere")
        is_wider = in_one != name and in_one in COMMANDS
        what = f" do {as_given(in_one)} for all channels" if is_wider else f": there is no command {name}"
        return Verdict(False, "role", f"no role may{what}")
    if told := guest_rule(actor, here):
        is_theirs = role == "guest" and not about_others
        return Verdict(is_theirs, "allowed" if is_theirs else "guest", told)
    rule = allows(here, actor, role) if actor else None
    return Verdict(rule is not None, "allowed" if rule else "role", rule or line_of(here, actor, role))


def _approval(actor: Actor | None, here: Here, requester: str) -> Verdict:
    if actor is None or actor.is_bot or not actor.id:
        return Verdict(False, "role", line_of(here, actor, "approver"))
    if told := guest_rule(actor, here):
        return Verdict(False, "guest", told)
    if rule := allows(here, actor, "approver"):
        return Verdict(True, "allowed", rule)
    person = person_of(here.room, actor)
    own = here.profile.approvals.own and person == person_of(here.room, Actor.by_id(requester))
    return Verdict(own, "allowed" if own else "role", here.rule("approvals.own" if own else "roles.approver", person))


def _talk(actor: Actor | None, here: Here, *, is_direct: bool, is_paired: bool) -> Verdict:
    if actor is None or not actor.id:
        return Verdict(False, "nobody", "nobody knows who says it")
    if actor.is_bot:  # whether bots are answered is asked before: `other_bots`
        return Verdict(True, "allowed", here.rule("other_bots", ""))
    given = roles_of(here, actor)
    if "guest" in given and here.profile.guests == "nothing":
        return Verdict(False, "guests", here.rule("guests", ""))
    named = next((rule for role, rule in given.items() if role not in {"guest", "member"}), None)
    if not is_direct or here.direct == "open" or named:
        return Verdict(True, "allowed", named or (here.rule("direct", "") if is_direct else next(iter(given.values()))))
    if here.direct == "closed":
        return Verdict(False, "closed", here.rule("direct", ""))
    who = person_of(here.room, actor)
    if is_paired:
        return Verdict(True, "allowed", f"{who} was let in with a code")
    return Verdict(False, "unpaired", here.rule("direct", ""))


def guest_rule(actor: Actor | None, here: Here) -> str:
    """The line that makes somebody a guest. Empty: they are none."""
    return roles_of(here, actor).get("guest", "") if actor else ""


def _of_guest(actor: Actor | None, here: Here, verdict: Verdict, *, changes: bool) -> Verdict:
    """On behalf of a guest nothing is changed."""
    told = guest_rule(actor, here) if verdict.allowed and changes else ""
    return Verdict(False, "guest", told) if told else verdict


def _only_reads(skill: Skill) -> bool:
    return skill.program is not None and skill.program.effect == "read"


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
    if use.act == "run" and here.own.tools and here.own.is_tool_off(tool_name(skill.id)):
        return "off_here"
    return "allowed"


def _kept(here: Here, kept: HeldText) -> Reason:
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


def switched_off(here: Here, skill: Skill) -> bool:
    """Whether a switch keeps it out, whatever else does."""
    return _switched(here, skill) != "allowed"


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
        case "unreadable":
            return UNREADABLE
        case "off_everywhere":
            return f"{skill.id} is switched off for the whole organisation"
        case "off_here" if _switched(here, skill) == "allowed":
            return f"the program of {skill.id} is switched off in {here.room}"
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
        case _:
            is_of_program = use.act == "run" and here.fits(ids.key(skill.id))
            return here.rule("programs" if is_of_program else "skills", skill.id)
