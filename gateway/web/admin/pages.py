"""Which admin pages there are: of each its address, its template, and the operations that it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.admin import audit, channels, notes, overview, skills
from gateway.admin.operations import Operation, Result
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
    in_menu: bool = True


async def ask(operation: Operation[Any, Any], visit: Visit, query: Query) -> Any:
    """Do an operation with those of its fields that the address has; an empty one counts as not there."""
    fields = {name: query[name] for name in operation.input.model_fields if query.get(name)}
    return await operation(visit, given(operation, fields))


async def _overview(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {
        "seen": await ask(overview.show, visit, query),
        "notes": await ask(notes.waiting, visit, {}),
        "skills": await ask(skills.waiting, visit, {}),
    }


async def _channels(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"found": await ask(channels.list_, visit, query)}


async def _channel(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {
        "here": await ask(channels.show, visit, query),
        "hits": await ask(channels.test, visit, query) if query.get("text") else None,
    }


async def _skills(visit: Visit, query: Query) -> dict[str, Result | None]:
    """Of the whole organisation for owners and the operator; else of a channel, or what waits in all of them."""
    is_told = bool(query.get("channel")) or visit.sees_all
    return {
        "places": await ask(channels.list_, visit, {}),
        "found": await ask(skills.list_, visit, query) if is_told else None,
        "notes": await ask(notes.list_, visit, query) if is_told else None,
        "waiting": await ask(skills.waiting, visit, {}),
        "waiting_notes": await ask(notes.waiting, visit, {}),
    }


async def _skill(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"shown": await ask(skills.show, visit, query)}


async def _audit(visit: Visit, query: Query) -> dict[str, Result | None]:
    return {"found": await ask(audit.list_, visit, query), "places": await ask(channels.list_, visit, {})}


PAGES: Final = (
    Page("/admin", "admin.title.overview", "overview.html", _overview),
    Page("/admin/channels", "admin.title.channels", "channels.html", _channels),
    Page("/admin/channel", "admin.title.channel", "channel.html", _channel, in_menu=False),
    Page("/admin/skills", "admin.title.skills", "skills.html", _skills),
    Page("/admin/skill", "admin.title.skill", "skill.html", _skill, in_menu=False),
    Page("/admin/audit", "admin.title.audit", "audit.html", _audit),
)
"""In the order of the menu."""
