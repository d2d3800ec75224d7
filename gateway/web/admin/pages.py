"""Which admin pages there are: of each its address, its template, and the operations that it shows."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.acts.outcomes import Refusal
from gateway.admin import (
    approvals,
    audit,
    channels,
    connections,
    conversations,
    dead,
    explain,
    notes,
    overview,
    people,
    skills,
    spending,
)
from gateway.admin.operations import ROOM, Operation, Result, Told
from gateway.admin.visits import Visit
from gateway.web.admin.visiting import given

Query = Mapping[str, str]
Shows = Callable[[Visit, Query], Awaitable[dict[str, Result | None]]]


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    title: str
    """A phrase."""
    template: str
    shows: Shows
    """What the template is filled with, by name. Raises `Refusal`, `NotUnderstood`."""
    under: str = ""
    """The page of the menu that leads to it; empty: it is in the menu itself."""
    is_for_all: bool = False
    """Whether it is for those alone who look after all channels."""


async def ask(operation: Operation[Any, Any], visit: Visit, query: Query) -> Any:
    """Do an operation with those of its fields that the address has; an empty one counts as not there."""
    fields = {name: query[name] for name in operation.input.model_fields if query.get(name)}
    channel = fields.get("channel", "")
    if channel and not re.match(ROOM, channel):  # before the schema says it by its pattern
        raise Refusal("no_room", name=channel)
    return await operation(visit, given(operation, fields))


async def _places(visit: Visit, query: Query) -> tuple[channels.Channels, Query]:
    """The channels to choose from, and the address with the first of them where it names none."""
    places = await ask(channels.list_, visit, {})
    if query.get("channel") or not places.channels:
        return places, query
    return places, {**query, "channel": places.channels[0].channel}


async def _overview(visit: Visit, query: Query) -> dict[str, Result | None]:
    seen = await ask(overview.show, visit, query)
    if "live" in query:  # the page that asks again and again takes the figures alone
        return {"seen": seen, "asked": None}
    return {
        "seen": seen,
        "asked": await ask(approvals.list_, visit, {}),
        "notes": await ask(notes.waiting, visit, {}),
        "skills": await ask(skills.waiting, visit, {}),
        "newcomers": await ask(people.waiting, visit, {}),
    }


async def _dead(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"found": await ask(dead.list_, visit, query)}


async def _letter(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"shown": await ask(dead.show, visit, query)}


async def _channels(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"found": await ask(channels.list_, visit, query)}


async def _channel(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {
        "here": await ask(channels.show, visit, query),
        "hits": await ask(channels.test, visit, query) if query.get("text") else None,
    }


async def _skills(visit: Visit, query: Query) -> dict[str, Result | None]:
    """Of the whole organisation for owners and the operator, else of the first of the channels, where none is named."""
    places, at_first = await _places(visit, query)
    query = query if visit.sees_all else at_first
    is_told = bool(query.get("channel")) or visit.sees_all
    return {
        "places": places,
        "found": await ask(skills.list_, visit, query) if is_told else None,
        "uses": await ask(skills.uses, visit, query) if is_told else None,
        "notes": await _unless_unreadable(notes.list_, visit, query) if is_told else None,
        "waiting": await ask(skills.waiting, visit, {}),
        "waiting_notes": await ask(notes.waiting, visit, {}),
    }


async def _unless_unreadable(operation: Operation[Any, Any], visit: Visit, query: Query) -> Any:
    """None where the switches of the place are lost: the page says so, and shows the rest."""
    try:
        return await ask(operation, visit, query)
    except Refusal as refusal:
        if refusal.kind != "unreadable":
            raise
        return None


async def _skill(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"shown": await ask(skills.show, visit, query), "uses": await ask(skills.uses, visit, query)}


async def _approvals(visit: Visit, query: Query) -> dict[str, Result | None]:
    del query
    return {"found": await ask(approvals.list_, visit, {})}


async def _conversations(visit: Visit, query: Query) -> dict[str, Result | None]:
    places, query = await _places(visit, query)
    return {
        "places": places,
        "found": await ask(conversations.list_, visit, query) if query.get("channel") else None,
    }


async def _conversation(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"shown": await ask(conversations.show, visit, query)}


async def _people(visit: Visit, query: Query) -> dict[str, Result | None]:
    """Newcomers are those of the channel's connection; the operator sees those of all."""
    places, query = await _places(visit, query)
    here: people.Holders | None = await ask(people.show, visit, query) if query.get("channel") else None
    is_operator = visit.caller.actor is None
    may_let_in = is_operator or (here is not None and here.may_let_in)
    where = {} if is_operator else query
    return {
        "places": places,
        "here": here,
        "pairing": await ask(people.newcomers, visit, where) if may_let_in else None,
    }


async def _spending(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"found": await ask(spending.ledger_, visit, query), "budgets": await ask(spending.budgets, visit, {})}


async def _connections(visit: Visit, query: Query) -> dict[str, Result | None]:
    del query
    return {"found": await ask(connections.list_, visit, {})}


async def _audit(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {
        "found": await ask(audit.list_, visit, query),
        "places": await ask(channels.list_, visit, {}),
        "verified": await ask(audit.verify, visit, {}) if query.get("verify") else None,
    }


async def _explain(visit: Visit, query: Query) -> dict[str, Result | None]:
    """What is not there is told beside the question."""
    places, query = await _places(visit, query)
    try:
        found = await ask(explain.show, visit, query) if query.get("channel") else None
    except Refusal as refusal:
        if refusal.kind != "no_such":
            raise
        return {"places": places, "found": None, "wrong": Told(told=str(refusal.values["told"]))}
    return {"places": places, "found": found, "wrong": None}


PAGES: Final = (
    Page("/admin", "admin.title.overview", "overview.html", _overview),
    Page("/admin/dead", "admin.title.dead", "dead.html", _dead),
    Page("/admin/letter", "admin.title.letter", "letter.html", _letter, "/admin/dead"),
    Page("/admin/approvals", "admin.title.approvals", "approvals.html", _approvals),
    Page("/admin/conversations", "admin.title.conversations", "conversations.html", _conversations),
    Page("/admin/conversation", "admin.title.conversation", "conversation.html", _conversation, "/admin/conversations"),
    Page("/admin/channels", "admin.title.channels", "channels.html", _channels),
    Page("/admin/channel", "admin.title.channel", "channel.html", _channel, "/admin/channels"),
    Page("/admin/explain", "admin.title.explain", "explain.html", _explain),
    Page("/admin/skills", "admin.title.skills", "skills.html", _skills),
    Page("/admin/skill", "admin.title.skill", "skill.html", _skill, "/admin/skills"),
    Page("/admin/people", "admin.title.people", "people.html", _people),
    Page("/admin/spending", "admin.title.spending", "spending.html", _spending),
    Page("/admin/connections", "admin.title.connections", "connections.html", _connections, is_for_all=True),
    Page("/admin/audit", "admin.title.audit", "audit.html", _audit),
)
"""In the order of the menu."""
