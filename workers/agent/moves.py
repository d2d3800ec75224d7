"""What a turn does next, decided from its records alone: the same for a first run and for a takeover."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.commands import command_of
from gateway.conversation.records import Record
from gateway.events import Event


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model."""

    step: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A tool call of the last answer that has no result yet."""

    id: str
    name: str
    input: dict[str, Any]
    step: int
    bad_input: str | None
    """Why the model's arguments could not be read."""
    was_started: bool
    """Somebody began to run it and did not live to note the result."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run these, then ask again."""

    calls: tuple[Pending, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody said so."""


def next_move(records: Sequence[Record]) -> Ask | Run | Stop:
    """The next move of a turn whose records these are."""
    if any(record.type == "event" and is_stop(record.data["event"]) for record in records):
        return Stop()
    answer = next((record for record in reversed(records) if record.type == "answer"), None)
    step = answer.data["step"] if answer else 0
    calls = pending(records, answer) if answer else ()
    return Run(calls) if calls else Ask(step + 1)


def is_stop(event: dict[str, Any]) -> bool:
    """Whether somebody said /stop. What is no event says nothing."""
    try:
        said = command_of(Event.of(event))
    except ValueError:
        return False
    return bool(said and said[0] == "stop")


def read_event(raw: bytes) -> dict[str, Any]:
    """An event's JSON; nothing for what is none."""
    try:
        read = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def pending(records: Sequence[Record], answer: Record) -> tuple[Pending, ...]:
    """The calls of an answer that have no result."""
    step, bad = answer.data["step"], answer.data.get("bad_inputs", {})
    done = {record.data["id"] for record in records if record.type == "tool_result" and record.data["step"] == step}
    begun = {record.data["id"] for record in records if record.type == "tool_start" and record.data["step"] == step}
    return tuple(
        Pending(block["id"], block["name"], block["input"], step, bad.get(block["id"]), block["id"] in begun)
        for block in answer.data["content"]
        if block.get("type") == "tool_use" and block["id"] not in done
    )
