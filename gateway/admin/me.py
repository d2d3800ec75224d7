"""Me: who is signed in."""

from __future__ import annotations

from gateway.admin.operations import SIGNED_IN, Nothing, Result, operation
from gateway.admin.visits import Visit


class Me(Result):
    name: str
    """As the audit log names them."""
    person: str
    """`connection/id`, as roles name people; empty: the operator."""
    is_operator: bool
    sees_all: bool
    """Whether you look after all channels."""


@operation(SIGNED_IN)
async def show(visit: Visit, given: Nothing) -> Me:
    """Who you are here."""
    del given
    return Me(
        name=visit.caller.name,
        person=visit.caller.person,
        is_operator=visit.caller.actor is None,
        sees_all=visit.sees_all,
    )
