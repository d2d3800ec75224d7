"""Every text in a record that somebody outside may have written: wherever it is rendered, it brings no mark of ours."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from gateway.conversation.records import Record
from tests.workers.records import answer, result, said, skill, use
from tests.workers.test_spoofing import IMITATIONS, marks_of
from workers.prompt.rendering import messages

OURS: Final = {
    "event": {"turn", "event.v", "event.kind", "event.conversation", "event.dedupe_keys", "event.attachments.kind"},
    "hint": {"turn", "of", "skills"},
    "attached": {"turn", "of", "kind", "mark", "file", "mime"},
    "overheard": {"turn", "mark"},
    "forgotten": {"turn", "files", "why"},
    "answer": {"content", "stop_reason", "model"},
    "tool_result": {"id", "name", "mark", "note", "skill", "bundle"},
    "skill": {"id", "tier", "hash", "bundle", "delivery", "call", "lead", "replaces"},
    "withheld": {"ids", "why", "turn"},
    "reply": {"turn"},
    "summary": {"turn", "since", "mark", "by", "skills"},
    "given": {"turn", "how", "mark", "step", "results.id"},
    "shortened": {"turn", "results", "files"},
}
"""What we write ourselves: names of ids that are checked where they come from, words of a fixed set, our own lines."""
TRUSTED: Final = {("skill", "text"), ("skill", "rest")}
"""A trusted body may hold tags and quote notes in a message of its own. It can't begin another's."""
NOT_SENT: Final = {
    "prompt",
    "call",
    "switched",
    "tool_start",
    "result",
    "dropped",
    "withdrawn",
    "model",
    "asked",
    "decided",
    "unclear",
    "failed",
    "card",
    "file",
    "cleared",
    "unreadable",
    "plan",
    "step_done",
    "review",
}


GIVEN: Final = (
    ("step", "read"),
    ("again", "twice"),
    ("again", ""),
    ("fault", "no JSON"),
    ("edit", "shorter"),
    ("edit", ""),
    ("review", ""),
    ("closing", "wrong"),
)


def given(how: str, what: str) -> Record:
    results = [
        {"id": "a", "task": "read it", "text": "It is 7.", "failed": False},
        {"id": "b", "task": "look", "text": "It took too long.", "failed": True},
    ]
    data = {"turn": "next", "how": how, "what": what, "step": "c", "results": results, "mark": "g1"}
    return Record("given", 0, data)


def conversation() -> list[Record]:
    """With every type of record that is rendered."""
    before = {
        "turn": "t",
        "begin": 0,
        "since": "",
        "text": "It rained.",
        "mark": "s0",
        "by": "model",
        "skills": ["old"],
    }
    return [
        Record("summary", 0, before),
        said("look at this", files=["a.csv"]),
        Record("hint", 0, {"turn": "turn", "of": "look at this", "skills": [["charts"]]}),
        Record(
            "attached",
            0,
            {"turn": "turn", "of": "look at this", "number": 0, "kind": "text", "text": "a,b", "mark": "f1"},
        ),
        Record("overheard", 0, {"turn": "turn", "until_ms": 1, "said": [["Ana", "it rains"]], "mark": "0v3r"}),
        answer(1, use("one"), use("two"), use("three"), stop_reason="tool_use"),
        result(1, "one", "found", untrusted=True, mark="m4rk", note="It is data."),
        result(1, "two", "did not work", error=True),
        result(1, "three", "a file", skill="gone", bundle="b"),
        skill("Do so.", "ops", rest="\n---\nThe text goes on.\n- 7: A heading\n"),
        skill("Do this.", "net", delivery="tool_result", call="two", rest="\n---\n- 9: Another\n"),
        skill("Later.", "late", delivery="next_turn", call="three"),
        skill("No more.", "gone"),
        Record("withheld", 0, {"ids": ["gone"], "why": "off", "turn": "turn"}),
        Record("reply", 0, {"turn": "turn", "text": "Stopped.", "notice": True, "command": False}),
        said("and now?", "next", direct=True, files=["b.ogg"], quoted="It rains.", forwarded="It pours."),
        Record("attached", 0, {"turn": "next", "of": "and now?", "number": 0, "kind": "unread", "reason": "broken"}),
        Record("forgotten", 0, {"turn": "next", "files": ["p"]}),
        *(given(how, what) for how, what in GIVEN),
        Record("shortened", 0, {"turn": "next", "results": ["two"], "files": [["look at this", 0]]}),
    ]


def texts(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each text lies in a record's data."""
    if isinstance(data, str):
        yield path
    elif isinstance(data, dict | list):
        for name, part in data.items() if isinstance(data, dict) else enumerate(data):
            yield from texts(part, (*path, name))


def is_ours(kind: str, path: tuple[Any, ...]) -> bool:
    named = [one for one in path if isinstance(one, str)]
    return any(".".join(named[:depth]) in OURS[kind] for depth in range(1, len(named) + 1))


PLACES: Final = [
    (at, path)
    for at, record in enumerate(conversation())
    for path in texts(record.data)
    if not is_ours(record.type, path)
]


def with_text(at: int, path: tuple[Any, ...], text: str) -> list[Record]:
    records = conversation()
    data = copy.deepcopy(records[at].data)
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = text
    records[at] = Record(records[at].type, 0, data)
    return records


def structure(records: list[Record]) -> list[tuple[str, str, dict[str, int]]]:
    return [
        (message["role"], block["type"], marks_of(str(block.get("text") or block.get("content"))))
        for message in messages(records)
        for block in message["content"]
    ]


def test_every_type_of_record_is_in_this_table() -> None:
    """Whoever adds one says here which of its texts are ours."""
    told = re.findall(r"^    `(\w+)`  ", Record.__doc__ or "", re.MULTILINE)
    assert set(told) == OURS.keys() | NOT_SENT
    assert {record.type for record in conversation()} == OURS.keys()


def test_records_that_are_not_sent_change_nothing() -> None:
    text = "\n".join(IMITATIONS.values())
    there = [Record(kind, 0, {"turn": text, "text": text, "line": text}) for kind in NOT_SENT - {"cleared"}]
    assert messages([*conversation(), *there]) == messages(conversation())


@pytest.mark.parametrize(
    ("at", "path"), PLACES, ids=[f"{conversation()[at].type}-{at}-{'.'.join(map(str, path))}" for at, path in PLACES]
)
def test_a_text_from_outside_brings_no_mark(at: int, path: tuple[Any, ...]) -> None:
    kind = conversation()[at].type
    is_trusted = (kind, path[-1]) in TRUSTED
    harmless = structure(with_text(at, path, "harmless"))
    for imitation in IMITATIONS.values():
        shown = structure(with_text(at, path, imitation))
        if is_trusted:
            leads = [[marks["lead"] for _, _, marks in one] for one in (shown, harmless)]
            assert leads[0] == leads[1]
        else:
            assert shown == harmless, json.dumps(imitation)
