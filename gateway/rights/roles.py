"""Roles: who is what in a channel, by the platform's own id and never by a name, and the line that says so.

Files name most of them: the settings the owners, a profile the others. A channel's admin can also be named in the chat
(`/role`), which Redis keeps with the channel's other decisions. Who is named nowhere is a member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic_core import PydanticCustomError

from config.addresses import person
from config.rules import fits
from gateway.events import Actor

if TYPE_CHECKING:
    from gateway.rights.access import Here

COMMAND_LINE: Final = "the command line"
"""The rule by which an operator may do everything there."""
SIGNED_IN: Final = "the operator, signed in"
"""The same on the admin pages and in their API."""

Role = Literal["owner", "admin", "channel_admin", "approver", "member", "guest"]


MAY_AS_WELL: Final[Mapping[Role, tuple[Role, ...]]] = {
    "guest": ("member", "approver", "channel_admin", "admin", "owner"),
    "member": ("approver", "channel_admin", "admin", "owner"),
    "channel_admin": ("admin", "owner"),
    "approver": ("owner",),
    "admin": ("owner",),
    "owner": (),
}
"""Who else may do what a role may. An admin is no approver: who adds a skill should not be the only one to look at it."""


def person_of(room: str, actor: Actor) -> str:
    """A person as roles and the audit log name them: `slack-main/U024BE7LH`."""
    return f"{actor.connection or room.partition('/')[0]}/{actor.id}"


def typed_person(text: str, connection: str = "") -> str | None:
    """Whom somebody means who types that: `connection/id`; on that `connection` the id alone does, with `@` or without.

    None: nobody in particular.
    """
    try:
        meant = person(text if "/" in text or not connection else f"{connection}/{text.lstrip('@')}")
    except PydanticCustomError:
        return None
    return None if "*" in meant else meant


def roles_of(here: Here, actor: Actor) -> dict[Role, str]:
    """The roles that somebody was given here, each with the line that gives it; `member` for who was given none.

    A bot has none at all but that it may talk where the profile lets it, and nobody without an id has one.
    """
    if not actor.id:
        return {}
    person = person_of(here.room, actor)
    given = {} if actor.is_bot else dict(_given(here, person))
    if not given:
        guest = _guest(here, actor, person)
        given = {"guest": guest} if guest else {"member": "everybody who is named nowhere is a member"}
    return given


def allows(here: Here, actor: Actor, role: Role) -> str | None:
    """The line by which somebody may do what takes this role. None: they may not."""
    given = roles_of(here, actor)
    return next((given[one] for one in (role, *MAY_AS_WELL[role]) if one in given), None)


def named(here: Here) -> dict[Role, dict[str, str]]:
    """Whom files and admins name here, with the line that does, by role. What stands for many stays a pattern."""
    roles, rule = here.profile.roles, here.rule
    there = {room: people for room, people in roles.channel_admin.items() if fits(room, here.room)}
    channel_admins = {
        one: rule(f"roles.channel_admin.{room}", one) for room, people in reversed(there.items()) for one in people
    }
    for one, by in here.own.channel_admins.items():
        channel_admins.setdefault(one, _granted(by, one, here.room))
    return {
        "owner": {one: here.org_rule("people.owners", one) for one in here.owners},
        "admin": {one: rule("roles.admin", one) for one in roles.admin},
        "channel_admin": channel_admins,
        "approver": {one: rule("roles.approver", one) for one in roles.approver},
        "guest": {one: rule("roles.guest", one) for one in roles.guest},
    }


def line_of(here: Here, actor: Actor | None, role: Role) -> str:
    """The line that would have to name somebody, for whoever was refused; and what else would do beside being an owner."""
    if role == "owner":
        return here.org_rule("people.owners", "")
    if role in {"member", "guest"}:
        return here.rule("roles.guest", person_of(here.room, actor) if actor else "")
    if role == "channel_admin":
        return f"{here.rule('roles.admin', '')} or roles.channel_admin"
    return here.rule(f"roles.{role}", "")


def _given(here: Here, person: str) -> Iterator[tuple[Role, str]]:
    roles = here.profile.roles
    if any(fits(one, person) for one in here.owners):
        yield "owner", here.org_rule("people.owners", person)
    if any(fits(one, person) for one in roles.admin):
        yield "admin", here.rule("roles.admin", person)
    for room, people in roles.channel_admin.items():
        if fits(room, here.room) and any(fits(one, person) for one in people):
            yield "channel_admin", here.rule(f"roles.channel_admin.{room}", person)
            break
    else:
        if granted := here.own.channel_admins.get(person):
            yield "channel_admin", _granted(granted, person, here.room)
    if any(fits(one, person) for one in roles.approver):
        yield "approver", here.rule("roles.approver", person)


def _guest(here: Here, actor: Actor, person: str) -> str:
    """The line that makes somebody a guest, where the profile makes any difference of it."""
    if here.profile.guests == "member":
        return ""
    if any(fits(one, person) for one in here.profile.roles.guest):
        return here.rule("roles.guest", person)
    if actor.is_guest is None:
        return f"the platform does not say whether {person} is from outside"
    return f"the platform says that {person} is from outside" if actor.is_guest else ""


def _granted(by: str, person: str, room: str) -> str:
    return f"{by} made {person} an admin of {room}"
