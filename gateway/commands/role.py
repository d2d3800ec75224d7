"""/role: who may what in this channel, and who one is; /role grant and revoke: admins of this channel alone."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.acting import acts_of, refused
from gateway.acts import answers
from gateway.acts.outcomes import Refusal
from gateway.commands import Done, Said, WhenBusy, misused
from gateway.connections import connection_names
from gateway.events import Actor
from gateway.phrases import say
from gateway.rights.access import Here
from gateway.rights.roles import Role, allows, named, roles_of, typed_person
from gateway.text.quoting import few, quoted

WHEN_BUSY: WhenBusy = "beside"

NAMED_MAX = 20


async def run(said: Said) -> Done:
    match said.rest.split():
        case []:
            return Done("\n".join(_told(await acts_of(said).by.here(), said)))
        case [what, who] if what.lower() in {"grant", "revoke"}:
            return await _name(said, who, is_one=what.lower() == "grant")
    return misused("role", said.language)


async def _name(said: Said, who: str, *, is_one: bool) -> Done:
    acts, language = acts_of(said), said.language
    meant = typed_person(who, said.event.conversation.connection)
    if meant is None:
        return Done(say("role.no_person", language, who=quoted(who)), is_private=True)
    try:
        connections = sorted({*connection_names(said.outside.loaded.settings), said.event.conversation.connection})
        here, was_news = await acts.name_admin(meant, connections, is_one=is_one)
    except Refusal as refusal:
        await acts.refused("role grant" if is_one else "role revoke", meant, refusal)
        return refused(refusal, language)
    lines = [answers.named_admin(quoted(meant), quoted(here.room), language, is_one=is_one, was_news=was_news)]
    connection, _, id_ = meant.partition("/")
    is_here = connection == said.event.conversation.connection
    rule = allows(here, Actor.by_id(id_), "channel_admin") if is_here and not is_one else None
    lines += [say("role.still", language, rule=quoted(rule))] if rule else []
    return Done("\n".join(lines))


def _told(here: Here, said: Said) -> Iterator[str]:
    language, actor = said.language, said.event.actor
    mine = [f"{_name_of(role, language)} ({quoted(rule)})" for role, rule in roles_of(here, actor).items()]
    yield say(
        "role.you", language, who=quoted(f"{said.event.conversation.connection}/{actor.id}"), roles=", ".join(mine)
    )
    for role, people in named(here).items():
        if people:
            told = ", ".join(few(map(quoted, people), NAMED_MAX, language))
            yield say("role.line", language, role=_name_of(role, language), people=told)
    yield ""  # else it would belong to the last of the list
    yield say("role.more", language)


def _name_of(role: Role, language: str) -> str:
    return say(f"role.name.{role}", language)
