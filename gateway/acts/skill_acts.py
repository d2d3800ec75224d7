"""Acts: what people change in channels (skills, switches, what runs unasked), by chat, command line or admin pages, with one
set of rules for all.

Each act asks whether its person may, does it once however often it is tried, and returns what happened. Words are found
by whoever answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from config.checks import nearest
from config.settings import SkillsSettings
from gateway.acts import naming
from gateway.acts.naming import Meant, Several, Unknown
from gateway.acts.outcomes import DIGITS, Added, Refusal, Reloaded, Removed, Shown, Since, Switched, Trusted
from gateway.acts.skill_table import count
from gateway.acts.standing import standing
from gateway.audit.log import Change, Made
from gateway.rights import access
from gateway.rights.access import (
    CHANNEL,
    COMMANDS,
    NEEDS_ROLE,
    CommandUse,
    Here,
    Operator,
    Verdict,
    Who,
    named_as,
)
from gateway.rights.roles import Role
from gateway.shelf.decisions import ORG, Always, Decisions, Installed, Switch, scope_of
from gateway.shelf.shelf import LookAlike, NobodyPacks, OtherBundle, Shelf
from gateway.shelf.snapshot import Snapshot
from gateway.shelf.stock import Gone
from skills import contents, document, folders, ids, index, lint
from skills.bundles import BrokenBundle
from skills.differences import between
from skills.document import BrokenSkill
from skills.findings import Finding
from skills.folders import Skill
from skills.summary import changes
from skills.zips import from_zip

EVERYWHERE: Final = "everywhere"
DIGITS_MIN: Final = 6
ALWAYS_MAX: Final = 100
"""Calls of one channel that are allowed for good: all are read with each look at its switches."""
KEPT_FROM: Final = frozenset({"hidden", "hidden_file", "note_waits", "guest"})
"""Kinds of refusals of what others may see and do."""
OVERTAKEN: Final = "overtaken"
"""The kind where it was done, and somebody has changed the same since."""
_LOOK: Final = {"skill": "/skill list", "approve": "/hitl"}
"""What says how it is now, by the first word of what was done; else that word itself does."""


@dataclass(frozen=True, slots=True)
class By:
    """Who does something."""

    id: str
    """The same when the same is tried again after a crash."""
    at_ms: int
    who: Who
    """A person, or the operator on the command line."""
    connection: str = field(default="", kw_only=True)
    """Of the person."""
    here: Callable[[], Awaitable[Here]] = field(kw_only=True)
    """Where it is to hold, afresh each time: a channel, or the whole organisation (without a `room`)."""
    said_in: Callable[[], Awaitable[Here]] | None = field(default=None, kw_only=True)
    """The channel where it is said, if that is another place than where it is to hold."""

    @property
    def is_operator(self) -> bool:
        return isinstance(self.who, Operator)


@dataclass(frozen=True)
class Acts:
    """One person's acts. All methods raise `Refusal` and `Unreachable`."""

    shelf: Shelf
    settings: SkillsSettings
    by: By

    async def switch(self, name: str, to: Switch) -> Switched:
        """For the channel, or for the whole organisation. The switch stays when the skill goes and comes back."""
        here, rule = await self.may(f"skill {to}")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        if made is None:
            one = self._find(here, name)
            if to == "on" and here.room:
                if here.org.switch(one.id) == "off":
                    raise Refusal("off_everywhere", id=one.id)
                if not here.fits(ids.key(one.id)) and here.own.switch(one.id) != "off":
                    raise Refusal("unlisted", id=one.id, rule=here.rule("skills", one.id))
            made = await self.shelf.switch(scope(here), one.id, to, change)
        here = await self.afterwards()
        if _decisions(here).switch(made.id) != to:
            raise overtaken(made.what, made.id)
        one = naming.meant(here, made.id)
        skill = one.skill or one.waiting
        if skill is None:
            return Switched(here.room, made.id, to, is_gone=not one.faults and not one.installed)
        return Switched(here.room, made.id, to, standing(here, skill))

    async def watch_calls(self, to: Switch) -> Here:
        """Whether each call with an effect wants a person's yes in the channel; how it stands afterwards."""
        here, rule = await self.may(f"hitl {to}")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        if made is None:
            made = await self.shelf.watch_calls(here.channel_id, to, change)
        here = await self.afterwards()
        if here.own.hitl != to:
            raise overtaken(made.what, made.id)
        return here

    async def allow_always(self, bound: str, tool: str, form: str) -> Here:
        """Let calls of exactly this form run without a question in the channel; how it stands afterwards."""
        here, rule = await self.may("approve always")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        if made is None:
            if len(here.own.always) >= ALWAYS_MAX and bound not in here.own.always:
                raise Refusal("too_many_always", most=ALWAYS_MAX)
            made = await self.shelf.allow_always(here.channel_id, bound, Always(tool, form, change.who), change)
        here = await self.afterwards()
        if bound not in here.own.always:
            raise overtaken(made.what, made.id)
        return here

    async def ask_again(self, code: str) -> tuple[Here, Always]:
        """Take that back, of the calls whose hash begins so; how it stands afterwards, and what was taken back."""
        here, rule = await self.may("hitl forget")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        if made is None:
            found = [
                one for one in here.own.always.items() if len(code) >= DIGITS_MIN and one[0].startswith(code.casefold())
            ]
            if len(found) != 1:
                raise Refusal("no_always", code=code)
            [(bound, call)] = found
            made = await self.shelf.ask_again(here.channel_id, bound, call, change)
        if not made.before:  # somebody else took it back at this moment
            raise Refusal("no_always", code=code)
        here = await self.afterwards()
        if made.bundle in here.own.always:
            raise overtaken(made.what, made.id)
        return here, Always.read(made.before)

    async def name_admin(self, person: str, connections: Sequence[str], *, is_one: bool) -> tuple[Here, bool]:
        """Make somebody (`connection/id`, of one of the `connections` that there are) an admin of the channel alone, or no
        longer one, wherever they are from; how it stands, and whether it was otherwise before.
        """
        here, rule = await self.may("role grant" if is_one else "role revoke")
        connection = person.partition("/")[0]
        if is_one and connection not in connections:
            closest = nearest(connection, connections) or ", ".join(connections)
            raise Refusal("no_connection", name=connection, closest=closest)
        change = self.change(here, rule)
        made = await self.shelf.name_admin(here.channel_id, person, change, is_one=is_one)
        here = await self.afterwards()
        if (person in here.own.channel_admins) != is_one:
            raise overtaken(made.what, person)
        return here, bool(made.before) != is_one

    async def trust(self, name: str, digits: str = "") -> Trusted:
        """Exactly the bytes that are there now; with `digits` only if their hash begins so, without only if nobody could mean
        others: the refusal has what there is to look at.
        """
        here, rule = await self.may("skill trust")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        skill = await self._to_trust(here, name, digits) if made is None else _trusted(here, made)
        findings = await self._findings(skill)
        try:
            made = await self.shelf.trust(here.channel_id, skill, change)
        except OtherBundle:
            raise Refusal("changed", id=skill.id) from None
        here = await self.afterwards()
        behind = _behind(here, skill.id)[-1:]
        return Trusted(
            here.room, made.id, made.bundle, standing(here, skill), behind[0].tier if behind else "", findings
        )

    async def _to_trust(self, here: Here, name: str, digits: str) -> Skill:
        one = self._find(here, name)
        if one.installed is None:
            raise Refusal("no_bundle", id=one.id, tier=_tier(one))
        skill = one.waiting or one.skill
        if skill is None or skill.tier != CHANNEL or skill.hash != one.installed.bundle:
            raise Refusal("broken", id=one.id, reason=_reason(one))
        if digits and (len(digits) < DIGITS_MIN or not skill.hash.startswith(digits.casefold())):
            raise Refusal("digits", id=one.id, digits=digits, hash=skill.hash[:DIGITS], least=DIGITS_MIN)
        if not digits and (other := here.own.meant_else(one.installed, self._name(here))):
            review = await self._shown(here, one, skill, document.NAME)
            raise Refusal("exchanged", id=one.id, other=other[:DIGITS], hash=skill.hash[:DIGITS], review=review)
        return skill

    async def add(self, filename: str, raw: bytes) -> Added:
        """The skill in a zip. It has to be trusted where it is for one channel, unless these very bytes are already."""
        here, rule = await self.may("skill add")
        change = self.change(here, rule)
        try:
            id_, files, left_out = await asyncio.to_thread(from_zip, raw, filename)
            skill = await asyncio.to_thread(folders.skill_of, id_, _tier_of(here), Path(), files, left_out)
        except BrokenBundle as error:
            raise Refusal("zip", file=filename, reason=str(error)) from None
        except BrokenSkill as error:
            raise Refusal("zip", file=filename, reason=f"{document.NAME} {error}") from None
        skill = replace(skill, folder=self.shelf.stock.place(skill.hash))
        made = await self.shelf.made(change)
        if made is None:
            if other := naming.look_alike(here, id_):
                raise Refusal("look_alike", id=id_, other=other)
            if here.room and not here.fits(ids.key(id_)):
                raise Refusal("unlisted", id=id_, rule=here.rule("skills", id_))
            kept = {file.path: files[file.path] for file in (skill.skill_md, *skill.files.values())}
            try:
                made = await self.shelf.add(scope(here), skill, kept, change)
            except LookAlike as error:
                raise Refusal("look_alike", id=id_, other=str(error)) from None
        here = await self.afterwards()
        now = naming.meant(here, id_)
        installed = now.installed if here.room else now.everywhere
        if installed is None or installed.bundle != skill.hash:
            raise overtaken(made.what, made.id)
        replaced = Installed.read(made.before) if made.before else None
        return Added(
            here.room,
            skill.id,
            skill.hash,
            skill.head.text("version"),
            not here.room or here.own.trusts(skill.id, skill.hash),
            standing(here, skill),
            await self._findings(skill),
            replaced if replaced and replaced.bundle != skill.hash else None,
            now.skill if now.waiting else None,
            tuple(here.profile.roles.approver),
        )

    async def remove(self, name: str) -> Removed:
        """A bundle that was added. Its switch and its trust stay."""
        here, rule = await self.may("skill remove")
        change = self.change(here, rule)
        made = await self.shelf.made(change)
        if made is None:
            one = self._find(here, name)
            installed = one.installed if here.room else one.everywhere
            if installed is None:
                if one.everywhere:
                    raise Refusal("added_everywhere", id=one.id)
                raise Refusal("no_bundle" if here.room else "no_bundle_everywhere", id=one.id, tier=_tier(one))
            try:
                made = await self.shelf.remove(scope(here), installed, change)
            except OtherBundle:
                raise Refusal("changed", id=one.id) from None
        here = await self.afterwards()
        now = naming.meant(here, made.id)
        if now.installed if here.room else now.everywhere:
            raise overtaken(made.what, made.id)
        return Removed(here.room, made.id, made.bundle, now.skill)

    async def reload(self) -> Reloaded:
        """Have the folders looked at, and say what is otherwise than at the reload before."""
        here, rule = await self.may("skill reload")
        change = self.change(here, rule)
        try:
            seen = await self.shelf.reload(change)
        except NobodyPacks:
            raise Refusal("nobody_packs") from None
        try:
            before, now = await self.shelf.reloaded(change, seen.number)
        except ValueError:
            before = now = Snapshot((), (), ())
        here = await self.by.here()
        tokens = self.settings.index_max_tokens
        profile = here.profile
        laid_out = await asyncio.to_thread(index.lay_out, here.catalogue, tokens, profile.order, profile.delivery)
        return Reloaded(
            tuple(changes(before.in_force, now.in_force)),
            await asyncio.to_thread(count, here, unlisted=self.looks_after(here)),
            laid_out,
            tokens,
            here.library.faults,
            here.library.warnings,
        )

    async def show(self, name: str, path: str = document.NAME) -> Shown:
        """The exact bytes of one of its files, and what the scan says about all of them.

        What is off or not listed, and files beside SKILL.md, are for those who may switch or trust skills.
        """
        here, rule = await self.may("skill show")
        one = self._find(here, name)
        skill = one.waiting or one.skill
        if skill is None:
            raise Refusal("broken" if one.faults or one.installed or one.everywhere else "gone", **_about(one))
        stands = standing(here, skill)
        if not self.looks_after(here):
            if stands.reason not in {"allowed", "untrusted", "needs"}:
                raise Refusal("hidden", id=skill.id)
            if path != document.NAME:
                raise Refusal("hidden_file", id=skill.id, path=path)
        known = {ids.key(one): one for one in (document.NAME, *skill.files)}.get(ids.key(path))
        if known is None:
            raise Refusal("no_file", id=skill.id, path=path)
        shown = await self._shown(here, one, skill, known)
        if shown.waits and here.own.seen(skill.id, self._name(here)) != skill.hash:
            await self._note_seen(here, skill, rule)
        return shown

    async def _shown(self, here: Here, one: Meant, skill: Skill, known: str) -> Shown:
        findings = await self._findings(skill)
        try:
            raw = await asyncio.to_thread(contents.read, skill, known)
        except contents.Changed as error:
            raise Refusal("broken", id=skill.id, reason=str(error)) from None
        behind = _behind(here, skill.id)
        other = one.skill if one.skill is not skill else None
        return Shown(
            here.room,
            skill,
            standing(here, skill),
            one.waiting is skill,
            findings,
            raw,
            known,
            () if other else behind,
            one.faults,
            await self._since(here, skill) if skill is one.waiting and known == document.NAME else None,
            other,
        )

    async def _note_seen(self, here: Here, skill: Skill, rule: str) -> None:
        """What somebody saw counts for their own word alone, so nothing is kept of whose word is none."""
        if access.may(self.by.who, here, CommandUse("skill trust")).allowed:
            with suppress(OtherBundle):  # exchanged at this moment: what was shown is not what will be trusted
                await self.shelf.shown(here.channel_id, skill, self.change(here, rule))

    async def _since(self, here: Here, skill: Skill) -> Since | None:
        last = here.own.trusted_last(skill.id)
        if last is None:
            return None
        try:
            old = await self.shelf.stock.bundle(last)
            new = await asyncio.to_thread(contents.whole, skill)
        except (Gone, BrokenBundle, contents.Changed):
            return Since(last, None)
        return Since(last, await asyncio.to_thread(between, old, new))

    async def harmful(self, here: Here) -> Collection[str]:
        """Hashes of the bundles that wait here in which the scan finds signs of harm, or which it can't read."""
        found = set[str]()
        for skill in here.waiting.values():
            known = self.shelf.harmful.get(skill.hash)
            if known is None:
                try:
                    known = any(one.danger for one in await self._findings(skill))
                except Refusal:
                    known = True
                else:
                    self.shelf.harmful[skill.hash] = known
            found |= {skill.hash} if known else set()
        return found

    async def refused(self, command: str, thing: str, refusal: Refusal) -> None:
        """Keep in the audit log that somebody wanted this. Who only looked for what is not there leaves no line."""
        if refusal.kind == OVERTAKEN or (command not in NEEDS_ROLE and refusal.kind not in KEPT_FROM):
            return
        here = await (self.by.said_in or self.by.here)()
        rule = str(refusal.values.get("rule") or refusal.kind)
        change = replace(self.change(here, rule), id=f"{self.by.id} refused")
        await self.shelf.refused(change, f"{command} refused", thing[:200])

    async def may(self, command: str) -> tuple[Here, str]:
        """Where it is to hold, and the rule that allows it. Raises `Refusal`."""
        here = await self.by.here()
        if self.by.said_in:
            rule = rule_in(await self.by.said_in(), self.by.who, f"{command} {EVERYWHERE}")
        else:
            rule = rule_in(here, self.by.who, command)
        if not here.is_readable:
            raise Refusal("unreadable")
        return here, rule

    async def afterwards(self) -> Here:
        """What holds once a change was made. Raises `Refusal` where nobody can tell."""
        here = await self.by.here()
        if not here.is_readable:
            raise Refusal("unreadable")
        return here

    def looks_after(self, here: Here) -> bool:
        """Whether this person switches skills or trusts them."""
        return access.looks_after(self.by.who, here)

    def _find(self, here: Here, name: str) -> Meant:
        try:
            return naming.find(here, name, unlisted=self.looks_after(here))
        except Several as error:
            raise Refusal("several", name=error.name, ids=error.ids) from None
        except Unknown as error:
            if error.closest and self.looks_after(here):
                raise Refusal("unknown_near", name=error.name, closest=error.closest) from None
            raise Refusal("unknown", name=error.name) from None

    def change(self, here: Here, rule: str) -> Change:
        """A change by this person, for the audit log."""
        return Change(self.by.id, self._name(here), here.room, here.channel_id, rule, self.by.at_ms)

    def _name(self, here: Here) -> str:
        """This person, as the audit log names them."""
        return named_as(self.by.who, here.room or self.by.connection)

    async def _findings(self, skill: Skill) -> tuple[Finding, ...]:
        """Signs of harm first."""
        try:
            await self.shelf.stock.at_hand(skill)
        except (Gone, BrokenBundle, OSError) as error:
            raise Refusal("broken", id=skill.id, reason=str(error)) from None
        found = await asyncio.to_thread(lambda: list(lint.inspect(skill, self.settings.body_max_bytes)))
        return tuple(sorted(found, key=lambda one: not one.danger))


def rule_in(here: Here, who: Who, command: str, *, about_others: bool = False) -> str:
    """The rule by which somebody may give a command there. Raises `Refusal`."""
    verdict = access.may(who, here, CommandUse(command, about_others))
    if not verdict.allowed:
        raise not_for(here, who, command, verdict)
    return verdict.rule


def not_for(here: Here, who: Who, command: str, verdict: Verdict, role: Role | None = None) -> Refusal:
    """That somebody may not, what would have to name them, and as what: by `role`, else by that of the command. What no role
    gives is the operator's.
    """
    if verdict.reason == "role" and role is None and command not in COMMANDS:
        return Refusal("operator", rule=verdict.rule, who=named_as(who, here.room))
    return Refusal(
        "guest" if verdict.reason == "guest" else "role",
        command=command,
        role=role or COMMANDS.get(command),
        rule=verdict.rule,
        who=named_as(who, here.room),
    )


def scope(here: Here) -> str:
    return scope_of(here.channel_id) if here.room else ORG


def _decisions(here: Here) -> Decisions:
    return here.own if here.room else here.org


def _behind(here: Here, id_: str) -> tuple[Skill, ...]:
    """In whose place the skill of this id stands."""
    return tuple(each.skill for each in here.library.shadowed if ids.key(each.by.id) == ids.key(id_))


def _trusted(here: Here, made: Made) -> Skill:
    one = naming.meant(here, made.id)
    for skill in (one.waiting, one.skill):
        if skill and skill.tier == CHANNEL and skill.hash == made.bundle:
            return skill
    raise overtaken(made.what, made.id)


def overtaken(what: str, thing: str, look: str = "") -> Refusal:
    """It was done, and does not hold any more. `what` was done (`skill off`) to which `thing`, and what to `look` at now."""
    first = what.partition(" ")[0]
    return Refusal(OVERTAKEN, id=thing, what=f"/{what}", look=look or _LOOK.get(first, f"/{first}"))


def _tier_of(here: Here) -> str:
    return CHANNEL if here.room else "org"


def _tier(one: Meant) -> str:
    return one.skill.tier if one.skill else ""


def _about(one: Meant) -> Mapping[str, str]:
    return {"id": one.id, "reason": _reason(one)}


def _reason(one: Meant) -> str:
    return "; ".join(fault.told for fault in one.faults)
