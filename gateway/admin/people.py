"""People: who has which role where."""

from __future__ import annotations

import asyncio

from gateway.admin.operations import LOOK, SOMEWHERE, InChannel, Nothing, Result, operation
from gateway.admin.visits import Visit
from gateway.roles import Role, named


class RoleOf(Result):
    role: Role
    person: str
    """`connection/id`; `*` stands for anything."""
    rule: str
    """The line that says so."""


class Holders(Result):
    """Those who are named in a channel. Everybody else there is a member."""

    channel: str
    profile: str
    roles: list[RoleOf]
    own_approvals: bool
    """Whether people may say yes to what is asked for on their own behalf."""


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
    return Holders(
        channel=channel,
        profile=here.profile.name,
        roles=[
            RoleOf(role=role, person=person, rule=rule)
            for role, people in named(here).items()
            for person, rule in people.items()
        ],
        own_approvals=here.profile.approvals.own,
    )
