"""People: who has which role where."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from config.addresses import person
from gateway.acts import answers
from gateway.acts.pair_acts import PairActs
from gateway.admin.operations import LOOK, SOMEWHERE, Act, Anywhere, InChannel, Nothing, Result, Told, operation
from gateway.admin.visits import Visit
from gateway.connections import connection_names
from gateway.phrases import say
from gateway.rights.pairing import Waits
from gateway.rights.roles import Role, named
from skills.visible import exact, one_line

Named = Annotated[str, Field(max_length=300, pattern=r"^[a-z0-9][a-z0-9-]{0,62}/[^*\s\x00-\x1f\x7f-\x9f]+$")]
"""`connection/id`, such as `slack-main/U024BE7LH`; also one that stands in a list from before such ids were refused."""
Person = Annotated[Named, AfterValidator(person)]
"""The same, of somebody who can be."""


class RoleOf(Result):
    role: Role
    person: str
    """`connection/id`; `*` stands for anything."""
    rule: str
    """The line that says so."""
    is_granted: bool
    """Whether somebody said so in the chat or here, and it can be taken back. What files say stays."""


class Holders(Result):
    """Those who are named in a channel. Everybody else there is a member."""

    channel: str
    profile: str
    roles: list[RoleOf]
    own_approvals: bool
    """Whether people may say yes to what is asked for on their own behalf."""
    may_name: bool
    """Whether you may name admins of this channel."""
    may_let_in: bool
    """Whether you may let people in who write directly, on its connection."""


class People(Result):
    channels: list[Holders]
    is_whole: bool
    """Whether all channels were looked at; there may be too many to tell."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: Nothing) -> People:
    """Who has which role in the channels that you look after, and the line that says so."""
    del given
    found = await visit.rooms()
    rooms = [f"{one.connection}/{one.channel}" for one in found.keys]
    return People(
        channels=list(await asyncio.gather(*(_holders(visit, one) for one in rooms))), is_whole=found.is_whole
    )


@operation(LOOK)
async def show(visit: Visit, given: InChannel) -> Holders:
    """Who has which role in one channel, and the line that says so."""
    return await _holders(visit, given.channel)


async def _holders(visit: Visit, channel: str) -> Holders:
    here = await visit.now(visit.key(channel))
    granted = here.own.channel_admins
    return Holders(
        channel=channel,
        profile=here.profile.name,
        roles=[
            RoleOf(role=role, person=one, rule=rule, is_granted=role == "channel_admin" and one in granted)
            for role, people in named(here).items()
            for one, rule in people.items()
        ],
        own_approvals=here.profile.approvals.own,
        may_name=visit.may_here("role grant", here),
        may_let_in=visit.may_here("pair accept", here),
    )


class Naming(InChannel):
    person: Person
    """`connection/id`, such as `slack-main/U024BE7LH`."""


class TakingBack(InChannel):
    person: Named
    """`connection/id`, as the list has it."""


@operation(Act("role grant", "person"), is_safe=False)
async def grant(visit: Visit, given: Naming) -> Told:
    """Make somebody an admin of one channel, as `/role grant` does."""
    return await _name_admin(visit, given, is_one=True)


@operation(Act("role revoke", "person"), is_safe=False)
async def revoke(visit: Visit, given: TakingBack) -> Told:
    """Take back what `grant` gave, as `/role revoke` does. Whom a file names stays what the file says."""
    return await _name_admin(visit, given, is_one=False)


async def _name_admin(visit: Visit, given: Naming | TakingBack, *, is_one: bool) -> Told:
    there = connection_names(visit.loaded.settings)
    _, was_news = await visit.acts(given.channel).name_admin(given.person, there, is_one=is_one)
    names = given.person, given.channel
    return Told(told=answers.named_admin(*names, visit.language, is_one=is_one, was_news=was_news))


class Newcomer(Result):
    """Somebody who waits to be let in. Their code they have themselves."""

    person: str
    """`connection/id`."""
    name: str
    """What they call themselves: that proves nothing."""
    at_ms: int


class Paired(Result):
    """Somebody who was let in."""

    person: str
    name: str
    by: str
    """Who let them in."""
    at_ms: int


class Newcomers(Result):
    channel: str
    waiting: list[Newcomer]
    """Who came last is at the end."""
    let_in: list[Paired]


@operation(Act("pair list", "channel"))
async def newcomers(visit: Visit, given: Anywhere) -> Newcomers:
    """Who wrote to us directly and waits to be let in, and who was: on the connection of a channel; for the operator, on all."""
    acts = PairActs(visit.acts(given.channel), visit.loaded)
    return Newcomers(
        channel=given.channel,
        waiting=_newcomers(await acts.waiting()),
        let_in=[
            Paired(person=one.person, name=one_line(one.name), by=one.by, at_ms=one.at_ms)
            for one in await acts.let_in()
        ],
    )


class AllNewcomers(Result):
    people: list[Newcomer]
    """Who came last is at the end."""


@operation(SOMEWHERE)
async def waiting(visit: Visit, given: Nothing) -> AllNewcomers:
    """Who wrote to us directly and waits to be let in, on all connections: those whom you may let in."""
    del given
    acts = PairActs(visit.acts(""), visit.loaded)
    return AllNewcomers(people=_newcomers(await acts.waiting_anywhere()))


def _newcomers(people: Sequence[Waits]) -> list[Newcomer]:
    return [Newcomer(person=one.person, name=one_line(one.name), at_ms=one.at_ms) for one in people]


class Accepting(Anywhere):
    code: Annotated[str, Field(min_length=4, max_length=40)]
    """As whoever got it reads it out; blanks and dashes don't matter."""


@operation(Act("pair accept", "channel"), is_safe=False)
async def accept(visit: Visit, given: Accepting) -> Told:
    """Let somebody in with the code that they got, as `/pair CODE` does: on the connection of that channel."""
    waits = await PairActs(visit.acts(given.channel), visit.loaded).accept(given.code)
    name = one_line(waits.name) or "–"
    return Told(told=say("pair.accepted", visit.language, who=exact(waits.person), name=name))


class TurningAway(Anywhere):
    person: Named
    """`connection/id`, such as `telegram-main/4711`."""


@operation(Act("pair end", "person"), is_safe=False)
async def end(visit: Visit, given: TurningAway) -> Told:
    """Let somebody in no longer, as `/pair end` does."""
    done = await PairActs(visit.acts(given.channel), visit.loaded).end(given.person)
    return Told(told=say("pair.ended" if done else "pair.ended.was", visit.language, who=given.person))
