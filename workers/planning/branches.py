"""Branches: work of a turn that has a head of its own, such as one step of a plan.

A branch is a `Turn` to everything that works on it, and so it has its own history, loaded skills and trouble with the
model. What it writes lies in the conversation's one history, by the same claim, each record with the branch's name; so a
takeover and a zombie's write are told apart there as everywhere. Nothing that reads the conversation sees those records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.conversation.records import History, Record
from workers.prompt.context import in_context
from workers.turn import OF_THE_WHOLE, Turn


def branch_of(turn: Turn, name: str) -> Turn:
    """The branch as its records have it, new or from another worker's hands: what was said before, then its own records."""
    records = turn.stored.history.since(turn.stored.history.first)
    begins = next((at for at, one in enumerate(turn.all_records) if one.branch), len(turn.all_records))
    before = list(talk(records[: len(records) - len(turn.all_records) + begins]))
    history = History(())
    history.extend(before)
    history.extend(replace(one, branch="") for one in turn.all_records if one.branch == name)
    state = {key: value for key, value in turn.state.items() if key in OF_THE_WHOLE - {"branches"}}
    state |= turn.state.get("branches", {}).get(name, {}) | {"start": len(before)}
    return Turn(
        turn.mailbox,
        turn.claim,
        replace(turn.stored, history=history),
        turn.profile,
        state,
        live_rows=turn.live_rows,
        branch=name,
        trunk=turn,
    )


def talk(records: Sequence[Record]) -> Iterator[Record]:
    """What people said and what they were told: no results, and nothing of skills."""
    for record in in_context(records):
        match record.type:
            case "event" | "attached" | "forgotten" | "overheard" | "reply" | "shortened":
                yield record
            case "summary":
                yield replace(record, data={**record.data, "skills": []})
            case "answer" if record.data["stop_reason"] not in {"tool_use", "pause_turn"}:
                said = [block for block in record.data["content"] if block.get("type") == "text"]
                yield replace(record, data={**record.data, "content": said, "usage": {}})
