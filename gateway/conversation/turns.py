"""Turns that are over, read from a conversation's records."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.conversation.records import Record


def last_turn(history: Sequence[Record]) -> list[Record]:
    """The records of the last turn that was no command, its messages first; none after `/new`."""
    end = next(
        (
            at
            for at in range(len(history) - 1, -1, -1)
            if history[at].type == "cleared" or (history[at].type == "reply" and not history[at].data.get("command"))
        ),
        None,
    )
    if end is None or history[end].type == "cleared":
        return []
    turn = history[end].data["turn"]
    begin = next((at for at in range(end) if history[at].type == "event" and history[at].data.get("turn") == turn), end)
    return list(history[begin : end + 1])
