"""The context: which records of a conversation still count for what the model is sent, and who speaks in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.commands import said_to_model
from gateway.conversation.records import Record
from gateway.events import Event


def in_context(records: Sequence[Record]) -> list[Record]:
    """The records that count for what is sent: since the last `cleared`, or the last `summary` and what it leaves whole,
    without turns that were buried, and of the main line alone. What a branch is sent is read from a history of its own.
    """
    return main_line(with_branches(records))


def with_branches(records: Sequence[Record]) -> list[Record]:
    """The same with what branches wrote: it stands behind what the main line says."""
    return _kept(_since_cut(records))


def main_line(records: Sequence[Record]) -> list[Record]:
    """Those that belong to no branch (`workers.planning.branches`)."""
    return [record for record in records if not record.branch]


def begin_after(records: Sequence[Record], place: int) -> int | None:
    """Where what counts begins once these records are stored from `place` on. None: it begins where it did. A summary names
    that place itself: what others write between its making and its writing shifts nothing.
    """
    for at in range(len(records) - 1, -1, -1):
        if records[at].branch:
            continue
        if records[at].type == "cleared":
            return place + at
        if records[at].type == "summary":
            return int(records[at].data["begin"])
    return None


SHORT_CHARACTERS: Final = 1_000
"""What is still sent of a text that was shortened."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """Texts of which only a part is sent."""

    results: frozenset[str]
    """Ids of calls."""
    files: frozenset[tuple[str, int]]
    """Attached ones: the first dedupe key of the event, and the number."""


def shortened(records: Sequence[Record]) -> Shortened:
    """Of records that are in context."""
    notes = [record.data for record in records if record.type == "shortened"]
    return Shortened(
        frozenset(one for note in notes for one in note["results"]),
        frozenset((of, number) for note in notes for of, number in note["files"]),
    )


def files_of(records: Sequence[Record]) -> dict[tuple[str, int], dict[str, Any]]:
    """What became of each file that was attached: by the first dedupe key of the event, and the number there. Of records
    that are in context. A picture that the model's service refused is of the kind `refused`.
    """
    notes = [record.data for record in records if record.type == "forgotten" and record.data.get("why") == "refused"]
    refused = {file for note in notes for file in note["files"]}
    return {
        (record.data["of"], record.data["number"]): record.data
        | ({"kind": "refused"} if record.data.get("file") in refused else {})
        for record in records
        if record.type == "attached"
    }


def makers(records: Sequence[Record]) -> tuple[dict[int, str], str | None]:
    """By an answer's place the model that was asked for it; and the one that is asked now. Earlier records don't say."""
    made_by: dict[int, str] = {}
    asked = None
    for at, record in enumerate(records):
        if record.type in {"call", "switched"}:
            asked = record.data.get("model", asked)
        elif record.type == "answer" and asked is not None:
            made_by[at] = asked
    return made_by, asked


def is_thought(block: Mapping[str, Any]) -> bool:
    """Whether a block of an answer is what the model thought. It is signed for this model: no other one may be sent it."""
    return block.get("type") in {"thinking", "redacted_thinking"}


def spoken(record: Record) -> Event | None:
    """What a person says to the model in this record of type `event`. None: a command, nothing, or no event."""
    try:
        return said_to_model(Event.of(record.data["event"]))
    except ValueError:
        return None


def _since_cut(records: Sequence[Record]) -> Sequence[Record]:
    for at in range(len(records) - 1, -1, -1):
        if records[at].branch:
            continue
        if records[at].type == "cleared":
            return records[at + 1 :]
        if records[at].type == "summary":
            whole = records[_begin_of(records[at].data["since"], records[:at]) : at]
            return [records[at], *(one for one in whole if one.type != "summary"), *records[at + 1 :]]
    return records


def _begin_of(turn: str, records: Sequence[Record]) -> int:
    """The place of a turn's first message; behind all where there is none."""
    places = (
        at for at, one in enumerate(records) if one.type == "event" and one.data["turn"] == turn and not one.branch
    )
    return next(places, len(records))


def _kept(records: Sequence[Record]) -> list[Record]:
    """Without the turns that were given up as dead letters: what killed workers once is not sent to the model again."""
    dead = {record.data["turn"] for record in records if record.type == "failed" and "part" not in record.data}
    if not dead:
        return list(records)
    kept: list[Record] = []
    skipping = ""
    for record in records:
        if record.type == "event" and record.data["turn"] in dead:
            skipping = record.data["turn"]
        if not skipping:
            kept.append(record)
        elif record.type == "failed" and record.data["turn"] == skipping:
            skipping = ""
    return kept
