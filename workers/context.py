"""The context: which records of a conversation still count for what the model is sent, and who speaks in them."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.commands import command_of
from gateway.conversation.records import Record
from gateway.events import Event


def in_context(records: Sequence[Record]) -> list[Record]:
    """The records that count for what is sent: since the last `cleared`, without turns that were buried."""
    return _kept(_since_cleared(records))


def spoken(record: Record) -> Event | None:
    """What a person says to the model in this record of type `event`. None: a command, nothing, or no event."""
    try:
        event = Event.of(record.data["event"])
    except ValueError:
        return None
    return None if event.is_empty or command_of(event) else event


def _since_cleared(records: Sequence[Record]) -> Sequence[Record]:
    for index in range(len(records) - 1, -1, -1):
        if records[index].type == "cleared":
            return records[index + 1 :]
    return records


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
