"""The audit log: who changed what where, what it was before, and which rule allowed or refused it: skills, notes, roles, who was
let in, `/hitl`, approvals, tools of servers, and the operator's files.

Each line is written by the script that makes the change, so that there is no change without its line: those about tools lie
where what was approved of them does (`gateway.rights.pins`). What changes in a conversation or in files is noted beside: approvals
before they count, what becomes of dead letters before (`begun`) and after.
Refusals, which anybody can bring about as often as they like, are kept apart: of them there are only the latest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from gateway.rights.roles import COMMAND_LINE
from gateway.store import Store, reading
from gateway.stored import mapping

PAGE: Final = 500
"""Lines that are read at a time."""
PAGES_MAX: Final = 10
"""So often for one page of those of some rooms."""
REFUSALS_KEPT: Final = 100_000
"""About so many; changes are all kept."""
_HASH: Final = re.compile(r"\b[0-9a-f]{64}\b")
_UNTIL: Final = re.compile(r"^until (\d*)$")


@dataclass(frozen=True, slots=True)
class Change:
    """Who changes something, where, and why they may."""

    id: str
    """The same whenever this very change is asked for again, after a crash or a lost answer."""
    who: str
    """`connection/id`, as roles name people; `operator NAME`; empty: the model."""
    room: str
    """`connection/channel`; empty for the whole organisation."""
    channel_id: str
    """`ConversationKey.channel_id`; empty for the whole organisation."""
    rule: str
    """What allowed it, or refused it."""
    at_ms: int = 0

    def line(self, what: str, thing: str) -> str:
        """What the log keeps of it, as the scripts take it: `what` is done (`skill off`) to which `thing`."""
        return line_of(self.who, what, thing, room=self.room, rule=self.rule)


@dataclass(frozen=True, slots=True)
class Made:
    """What a change did when it was made, as it is kept for a day for whoever asks for it again."""

    what: str
    """`skill trust`."""
    id: str
    """What it was about: a skill, a tool, a person, a channel."""
    bundle: str
    """Hash of the bundle that it was about; of a skill's program, the name by which models call it; else empty."""
    before: str
    """What was stored before; empty for nothing."""

    @classmethod
    def read(cls, stored: str | bytes) -> Made:
        """Raises `ValueError`."""
        kept = mapping(stored)
        said = mapping(str(kept.get("said")))
        id_, _, bundle = str(said.get("thing")).partition(" ")
        return cls(str(said.get("what")), id_, bundle, str(kept.get("before")))


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    id: str
    """As Redis numbers it; later ones are greater."""
    at_ms: int
    """By Redis's clock."""
    who: str
    """`connection/id`, or `operator NAME`; empty: the model."""
    channel: str
    """`connection/channel`; empty for the whole organisation."""
    what: str
    """`skill off`, `note save`; with `refused` at its end nothing was changed; with `begun`, a line of its own says that it was done."""
    thing: str
    rule: str
    before: str
    """As it was stored; empty for nothing."""
    after: str
    n: int = 0
    """Its number in the chain of its stream (`gateway.audit.chain`); 0: it was written before there was one."""
    hash: str = ""


def line_of(who: str, what: str, thing: str, *, room: str = "", rule: str = COMMAND_LINE) -> str:
    """See `Change.line`."""
    said = {"who": who, "channel": room, "what": what, "thing": thing, "rule": rule}
    return json.dumps(said, ensure_ascii=False)


async def read(store: Store, *, room: str = "", most: int = 50) -> list[Line]:
    """The latest lines, the oldest of them first; with a `room` only those of it. Raises `Unreachable`."""
    found = [line for key in streams(store).values() for line in await _latest(store, key, room, most)]
    return sorted(found, key=_when)[-most:]


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines, the latest first."""

    lines: list[Line]
    older: str
    """The id that the next page is `before`; empty: there are no older ones."""


async def page(
    store: Store, *, rooms: Collection[str] | None, most: int, before: str = "", pages: int = PAGES_MAX
) -> Page:
    """The latest lines of these rooms (None: all of everything), or those older than the one of that id.

    Lines of one moment stay together, so that none is left out between two pages. So much of each stream is looked at: where
    these rooms have few lines, a page may have fewer than `most`, or none, and older ones. Raises `Unreachable`.
    """
    if before and not any(map(int, before.split("-"))):  # Redis knows nothing older than that, and calls it an error
        return Page([], "")
    found: list[Line] = []
    reached: list[tuple[int, int]] = []
    """Of streams that go on: all lines from there on are known."""
    for key in streams(store).values():
        end, of_stream = f"({before}" if before else "+", 0
        for _ in range(pages):
            with reading():
                read: Any = await store.redis.xrevrange(key, max=end, count=PAGE)
            lines = [_line(id_.decode(), fields) for id_, fields in read]
            theirs = [one for one in lines if rooms is None or one.channel in rooms]
            found, of_stream = found + theirs, of_stream + len(theirs)
            if len(read) < PAGE:
                break
            end = f"({lines[-1].id}"
            if of_stream > most:
                reached.append(_when(lines[-1]))
                break
        else:
            reached.append(_when(lines[-1]))
    first = max(reached, default=(0, 0))
    known = sorted((one for one in found if _when(one) >= first), key=_when, reverse=True)
    end_at = most
    while end_at < len(known) and known[end_at].id == known[end_at - 1].id:
        end_at += 1
    if len(known) > end_at:
        return Page(known[:end_at], known[end_at - 1].id)
    return Page(known, f"{first[0]}-{first[1]}" if reached else "")


STREAMS: Final = ("changes", "refused", "tools")


def streams(store: Store) -> dict[str, str]:
    """The keys of what is kept, by name."""
    skills, tools = store.layout.skills_root, store.layout.mcp_root
    return dict(zip(STREAMS, (f"{skills}:audit", f"{skills}:refused", f"{tools}:audit"), strict=True))


async def _latest(store: Store, key: str, room: str, most: int) -> list[Line]:
    found: list[Line] = []
    end = "+"
    while len(found) < most:
        with reading():
            page: Any = await store.redis.xrevrange(key, max=end, count=PAGE)
        lines = [_line(id_.decode(), fields) for id_, fields in page]
        found += [one for one in lines if not room or one.channel == room]
        if len(page) < PAGE:
            break
        end = f"({lines[-1].id}"
    return found[:most]


def _when(line: Line) -> tuple[int, int]:
    return line.at_ms, int(line.id.partition("-")[2])


def _line(id_: str, fields: dict[bytes, bytes]) -> Line:
    try:
        said = mapping(fields.get(b"said", b""))
    except ValueError:  # somebody wrote here by hand; `verify` says so
        said = {"what": "unreadable"}
    who, channel, what, thing, rule = (str(said.get(name, "")) for name in ("who", "channel", "what", "thing", "rule"))
    before, after = (fields.get(name, b"").decode("utf-8", "replace") for name in (b"before", b"after"))
    number, hash_ = fields.get(b"n", b"0"), fields.get(b"hash", b"").decode("utf-8", "replace")
    n = int(number) if number.isdigit() else 0
    return Line(id_, int(id_.partition("-")[0]), who, channel, what, thing, rule, before, after, n, hash_)


def shortened(text: str) -> str:
    """With the first digits of hashes alone."""
    return _HASH.sub(lambda found: found[0][:12], text)


def short(stored: str) -> str:
    """A decision in a word: which way it was switched, or the first digits of a bundle. Times are of this machine."""
    try:
        read = mapping(stored)
    except ValueError:
        return shortened(_UNTIL.sub(_until, stored))
    match read:
        case {"to": str(to)}:
            return to
        case {"bundle": str(bundle)}:
            return bundle[:12]
        case {"by": str()}:
            return "yes"
    return shortened(stored)


def _until(until: re.Match[str]) -> str:
    return time.strftime("until %Y-%m-%d %H:%M", time.localtime(int(until[1]) / 1_000)) if until[1] else "without end"
