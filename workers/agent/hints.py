"""Hints: which skills are meant for a file that a person attached. The system prompt stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.conversation.records import Record
from gateway.events import Event
from skills.library import Catalogue
from skills.paths import for_file

FILES_MAX: Final = 10
"""Of one event."""
SKILLS_MAX: Final = 5
"""Named for one file."""


def due(records: Sequence[Record], catalogue: Catalogue, now_ms: int) -> list[Record]:
    """Hints for those of a turn's events that the model has not been shown yet.

    An event that was sent before stays as it was sent: what a model has seen never changes.
    """
    asked = max((at for at, record in enumerate(records) if record.type == "call"), default=-1)
    fresh = records[asked + 1 :]
    hinted = {record.data["of"] for record in fresh if record.type == "hint"}
    found: list[Record] = []
    for record in fresh:
        event = _with_files(record)
        if event and event.dedupe_keys[0] not in hinted and (skills := for_event(event, catalogue)):
            found.append(
                Record("hint", now_ms, {"turn": record.data["turn"], "of": event.dedupe_keys[0], "skills": skills})
            )
    return found


def for_event(event: Event, catalogue: Catalogue) -> list[list[str]]:
    """Ids of skills for each of an event's files; empty where no skill is for any."""
    files = event.attachments[:FILES_MAX]
    found = [[skill.id for skill in for_file(catalogue, file.name)[:SKILLS_MAX]] for file in files]
    return found if any(found) else []


def _with_files(record: Record) -> Event | None:
    if record.type != "event":
        return None
    try:
        event = Event.of(record.data["event"])
    except ValueError:
        return None
    return event if event.attachments and event.dedupe_keys else None
