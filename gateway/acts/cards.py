"""Cards: what an approver sees of a note, whole and with nothing hidden in it, and how to decide on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.phrases import say
from gateway.platforms import Button, Outbound
from gateway.text.quoting import quoted
from skills.differences import shared
from skills.notes import Note
from skills.visible import visible

NAME_MAX: Final = 200
GOING_MAX_CHARACTERS: Final = 12_000
"""Of what goes, more is counted and not shown; what comes is shown whole."""


def card(note: Note, replaces: Sequence[Note], language: str) -> Outbound:
    """What the chat is shown of a note, with buttons while it waits for somebody's decision."""
    buttons = (
        Button(say("note.approve", language), f"skill approve {note.code}", "primary"),
        Button(say("note.reject", language), f"skill reject {note.code}", "danger"),
    )
    waits = note.state == "pending"
    return Outbound(shown(note, replaces, language), is_notice=True, buttons=buttons if waits else ())


def shown(note: Note, replaces: Sequence[Note], language: str) -> str:
    """Markdown: who wants what written down, where; the text as a difference to the notes it would replace; what to say.

    Lines that come begin with `+`, lines that go with `-`, those that stay with a blank.
    """
    waits = note.state == "pending"
    lead = say(
        "note.asks" if waits else "note.saved",
        language,
        code=note.code,
        who=_who(note),
        place=quoted(note.source, NAME_MAX),
        skill=quoted(note.skill, NAME_MAX),
        file=quoted(note.file, NAME_MAX),
    )
    rule = [say("note.replaces", language, count=len(replaces))] if replaces else []
    end = say("note.decide" if waits else "note.undo", language, code=note.code)
    difference = _difference("\n".join(one.text.strip("\n") for one in replaces), note.text, language)
    return "\n".join([lead, *rule, "", "```diff", *difference, "```", "", end])


def _who(note: Note) -> str:
    """By name and id; where the name is the id, once."""
    who = quoted(note.by, NAME_MAX)
    is_named = note.by_name not in {"", note.by, note.by.partition("/")[2]}
    return f"{quoted(note.by_name, NAME_MAX)} ({who})" if is_named else who


def _difference(old: str, new: str, language: str) -> Iterator[str]:
    """All lines that differ, first those that go; around them the ones that both begin and end with."""
    going, coming = _lines(old), _lines(new)
    begin = shared(going, coming)
    end = shared(going[begin:][::-1], coming[begin:][::-1])
    yield from (f"  {line}" for line in coming[:begin])
    size = 0
    removed = going[begin : len(going) - end]
    for at, line in enumerate(removed):
        size += len(line) + 1
        if size > GOING_MAX_CHARACTERS:
            yield "- " + say("note.more_lines", language, count=len(removed) - at)
            break
        yield f"- {line}"
    yield from (f"+ {line}" for line in coming[begin : len(coming) - end])
    yield from (f"  {line}" for line in coming[len(coming) - end :])


def _lines(text: str) -> list[str]:
    return visible(text).splitlines()
