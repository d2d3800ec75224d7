"""Audit: who changed what, and what was refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.acts.answers import decided_by
from gateway.admin.operations import EVERYTHING, SOMEWHERE, Anywhere, Nothing, Result, operation
from gateway.admin.visits import Visit
from gateway.audit import chain
from gateway.audit import log as audit
from gateway.audit.log import Line, short, shortened
from skills.visible import one_line


class AuditWanted(Anywhere):
    before: Annotated[str, Field(pattern=r"^([0-9]{1,16}-[0-9]{1,16})?$")] = ""
    """Lines that are older than the one with this id; empty: the latest."""
    most: Annotated[int, Field(ge=1, le=500)] = 50


class AuditLine(Result):
    id: str
    at_ms: int
    who: str
    """`connection/id`, or `operator NAME`; empty: the model."""
    channel: str
    """`connection/channel`; empty: the whole organisation."""
    what: str
    """`skill off`; with `refused` at its end nothing was changed; with `begun`, a line of its own says that it was done."""
    is_refused: bool
    thing: str
    """With the first digits of hashes alone."""
    rule: str
    """What allowed or refused it."""
    why: str
    """The same in words, where it is one word of ours."""
    before: str
    """In a word."""
    after: str


class AuditLog(Result):
    channel: str
    lines: list[AuditLine]
    """The latest first."""
    older: str
    """What to say as `before` for the page after this; empty: there is none."""


@operation(SOMEWHERE)
async def list_(visit: Visit, given: AuditWanted) -> AuditLog:
    """Who changed what, and what was refused: of one channel, or of all that you look after."""
    if given.channel:
        await visit.look(given.channel)
        rooms = frozenset({given.channel})
    elif visit.sees_all:
        rooms = None
    else:
        rooms = frozenset(f"{one.connection}/{one.channel}" for one in (await visit.rooms()).keys)
    found = await audit.page(visit.house.store, rooms=rooms, most=given.most, before=given.before)
    return AuditLog(
        channel=given.channel,
        lines=[_line(one, visit.language) for one in found.lines],
        older=found.older,
    )


def _line(one: Line, language: str) -> AuditLine:
    return AuditLine(
        id=one.id,
        at_ms=one.at_ms,
        who=one.who,
        channel=one.channel,
        what=one.what,
        is_refused=one.what.endswith(" refused"),
        thing=shortened(one.thing),
        rule=one.rule,
        why=decided_by(one, language),
        before=short(one.before),
        after=short(one.after),
    )


class Stream(Result):
    stream: str
    lines: int
    older: int
    """Lines from before there was a chain: nobody can tell anything of them."""
    head: str
    """`STREAM:NUMBER:HASH` of its last line: kept elsewhere, it shows later that nothing up to there was changed."""
    trouble: str
    """The first line that is broken, missing or changed; empty: there is none."""


class Verified(Result):
    is_whole: bool
    streams: list[Stream]


@operation(EVERYTHING)
async def verify(visit: Visit, given: Nothing) -> Verified:
    """Whether the log is as it was written: each line holds the hash of the one before. The first break of each stream is named.

    What was kept elsewhere is compared by `deskmate audit verify --against`.
    """
    del given
    store = visit.house.store
    found = [await chain.verify(store, one, chain.KeptElsewhere()) for one in audit.streams(store)]
    return Verified(
        is_whole=not any(one.trouble for one in found),
        streams=[
            Stream(
                stream=one.stream,
                lines=one.lines,
                older=one.older,
                head=str(one.head) if one.head.n else "",
                trouble=one_line(one.trouble),
            )
            for one in found
        ],
    )
