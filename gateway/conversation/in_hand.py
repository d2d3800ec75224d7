"""In hand: what a conversation is at, as much as whoever gives it up has to know.

It may have killed all who read it. So nothing is read whole that can be long, history least of all: of each thing its first
bytes, which say whose it is and where an answer goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.claim import Claim, Fenced
from gateway.conversation.key import ConversationKey, of_stored
from gateway.conversation.outbox import Row, state_of
from gateway.conversation.records import Record, is_newer
from gateway.conversation.uses import Used
from gateway.store import Store, script_of

HEAD_BYTES: Final = 262_144
"""Of the turn, of an event, of a part."""
ROWS_MAX: Final = 8
RECORDS_MAX: Final = 256
RECORD_BYTES: Final = 4_096
ENDS: Final = 64
"""So many of the last records are looked at for one that a later version wrote: whoever does not know it writes nothing behind it."""
END_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class InHand:
    """The open turn; else rows that are not sent yet; else what waits first, in control or in the inbox."""

    key: ConversationKey | None
    """None: nobody can tell."""
    turn: dict[str, Any] | None
    """The state of the open turn, as far as it goes."""
    rows: Sequence[Row]
    """That are open, with nothing of what they say."""
    where: str
    """Of what waits first: `control`, or its number in the inbox. Empty: nothing waits."""
    event: dict[str, Any]
    """What waits first, as far as it goes."""
    used: Used | None
    """What the open turn has used of skills, as far as it goes."""
    is_newer: bool
    """A later version wrote something of it in a form that this one does not know."""


async def in_hand(store: Store, claim: Claim) -> InHand:
    """Raises `Lost`, `Unreachable`."""
    c = claim.conversation
    read = await store.run(_script("in_hand"), claim.root, "{}", c, claim.token, HEAD_BYTES, ROWS_MAX)
    if not read:
        claim.lost = True
        raise Fenced(c)
    parts, turn, where, event, rows = read
    ends = await store.run(_script("heads"), claim.root, "{}", c, -ENDS, ENDS, END_BYTES)
    state, begun = head_of(turn), []
    if turn:
        begun = await store.run(
            _script("heads"), claim.root, "{}", c, _number(state.get("start")), RECORDS_MAX, RECORD_BYTES
        )
    return InHand(
        key=of_stored(parts),
        turn=state if turn else None,
        rows=sorted(map(_row, rows[::3], rows[1::3], rows[2::3]), key=lambda row: (row.order, row.made_ms, row.key)),
        where=where.decode(),
        event=head_of(event),
        used=Used.of(_records(begun), str(state.get("offered", ""))),
        is_newer=any(map(is_newer, (event, *ends, *begun))),
    )


def head_of(text: bytes) -> dict[str, Any]:
    """The fields of a JSON object, in their order, as far as it goes; nothing of what is none."""
    decoder, said = json.JSONDecoder(), text.decode(errors="replace")
    found: dict[str, Any] = {}
    at, ends = _next(said, 0), "{"
    with suppress(ValueError, IndexError, RecursionError):
        while said[at] == ends:
            name, at = decoder.raw_decode(said, _next(said, at + 1))
            if said[at := _next(said, at)] != ":":
                break
            value, at = decoder.raw_decode(said, _next(said, at + 1))
            if said[at := _next(said, at)] not in ",}":  # else a number may be half one
                break
            found[str(name)], ends = value, ","
    return found


def _next(said: str, at: int) -> int:
    while said[at : at + 1].isspace():
        at += 1
    return at


def _row(key: bytes, state: bytes, body: bytes) -> Row:
    told = head_of(body)
    word, since_ms, ref = "pending", 0, None
    with suppress(ValueError):
        word, since_ms, ref = state_of(state)
    to = told.get("to")
    return Row(
        key.decode(),
        turn=str(told.get("turn", "")),
        order=_number(told.get("order")),
        part={},
        to=to if isinstance(to, dict) else {},
        made_ms=_number(told.get("made_ms")),
        state=word,
        since_ms=since_ms,
        ref=ref,
    )


def _records(lines: Iterable[bytes]) -> list[Record]:
    """Those that tell what was used."""
    told = [head_of(line) for line in lines]
    return [Record(str(one.get("type")), 0, one) for one in told if one.get("type") != "skill" or "id" in one]


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _script(name: str) -> Any:
    return script_of("gateway.conversation", name)
