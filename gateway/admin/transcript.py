"""Transcripts: what a conversation's records say, turn by turn, as people who look after it read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from gateway.admin.operations import Result
from gateway.admin.spending import Amount, amount
from gateway.admin.visits import Visit
from gateway.conversation.records import Record
from gateway.costs.spending import Spent
from gateway.events import Event
from gateway.phrases import say
from skills.visible import visible

LINE_MAX: Final = 100
"""Characters of a call's arguments that stand in one line."""
SHORT: Final = 8
"""Characters of an id, as the command line shows it."""
TEXT_MAX: Final = 8_000
"""Characters of one thing that are shown."""

What = Literal["person", "reply", "notice", "call", "tool", "skill", "asked", "word", "failed"]
_WHAT: Final[dict[str, What]] = {
    "event": "person",
    "withdrawn": "person",
    "reply": "reply",
    "card": "notice",
    "answer": "call",
    "tool_result": "tool",
    "skill": "skill",
    "asked": "asked",
    "decided": "word",
    "failed": "failed",
}
"""By type of record."""


class TranscriptLine(Result):
    """Something that was said or done."""

    place: int
    at_ms: int
    what: What
    turn: str
    """Which it belongs to."""
    step: int
    """Of its turn; 0: none."""
    branch: str
    """Of its turn, as `/plan` and `/team` have them."""
    who: str
    """Of a person: name and id. Of a tool, a skill or a request: its name or code."""
    text: str
    """With all that is hidden in it named. Of a call its arguments."""
    is_error: bool
    rule: str
    """What forbade a call."""


class OneTurn(Result):
    """A turn of which something is shown."""

    id: str
    at_ms: int
    """When it began."""
    is_whole: bool
    """Whether nothing of it was before; else it cost more."""
    models: list[str]
    """Who answered."""
    spent: Amount
    replay: str
    """The command that runs it again; empty: its requests are not recorded, or not any more."""


def turn_of(visit: Visit, conversation: str, turn: str, records: Sequence[Record]) -> OneTurn:
    cost, settings = Spent.of(records), visit.loaded.settings.recordings
    last_ms = max(one.at_ms for one in records)
    is_kept = settings.keep and bool(cost.calls) and last_ms > visit.at_ms - 1_000 * settings.retention_s
    return OneTurn(
        id=turn,
        at_ms=records[0].at_ms,
        is_whole=True,
        models=list(cost.tokens),
        spent=amount(visit, cost),
        replay=f"deskmate replay {conversation[:SHORT]} {turn[:SHORT]}" if is_kept else "",
    )


def said_in(place: int, turn: str, record: Record, language: str) -> Iterator[TranscriptLine]:
    data = record.data
    is_ours = record.type == "card" or data.get("notice") or data.get("command")
    for who, text, is_error, rule in _calls(data) if record.type == "answer" else _told(record, language):
        what: What = "notice" if is_ours and record.type in {"reply", "card"} else _WHAT[record.type]
        yield TranscriptLine(
            place=place,
            at_ms=record.at_ms,
            what=what,
            turn=turn,
            step=int(data.get("step") or 0),
            branch=record.branch,
            who=visible(str(who)),
            text=visible(str(text)[:TEXT_MAX]),
            is_error=is_error,
            rule=str(rule),
        )


def _calls(data: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Which tools an answer of the model calls, with what; its words are those of the reply."""
    for block in data.get("content") or ():
        if block.get("type") == "tool_use":
            given = json.dumps(block.get("input"), ensure_ascii=False)
            if len(given) > LINE_MAX:
                given = json.dumps(block.get("input"), ensure_ascii=False, indent=1)
            yield str(block.get("name", "")), given, False, ""


def _told(record: Record, language: str) -> Iterator[tuple[str, str, bool, str]]:
    """Who, what, whether it is an error, and the rule that forbade it; nothing of what people don't ask for."""
    data = record.data
    who, text, is_error, rule = "", "", False, ""
    match record.type:
        case "event" | "withdrawn":
            who, text = _event(data, language)
        case "reply" | "card":
            text = data.get("text", "")
        case "tool_result":
            who, text = data.get("name", ""), data.get("text", "")
            is_error, rule = bool(data.get("error")), data.get("rule") or ""
        case "skill":
            who = data.get("id", "")
        case "asked":
            who, text = data.get("code", ""), data.get("text", "")
        case "decided":
            words = (data.get(name, "") for name in ("word", "name", "by", "text"))
            who, text = data.get("code", ""), " ".join(filter(None, words))
        case "failed":
            text, is_error = data.get("reason", ""), True
        case _:
            return
    yield who, text, is_error, rule


def _event(data: dict[str, Any], language: str) -> tuple[str, str]:
    """Who, and what they said."""
    try:
        event = Event.of(dict(data["event"]))
    except (KeyError, ValueError):
        return "", ""
    files = "".join(
        f"\n{say('admin.conversation.attached', language, name=file.name or file.kind)}" for file in event.attachments
    )
    words = f"/{event.name} {event.text}".strip() if event.kind == "command" else event.text or event.value
    return f"{event.actor.name} {event.actor.id}".strip(), words + files
