"""What is told of notes: which there are, and what became of one."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from gateway.acts.outcomes import Listed, Noted
from gateway.phrases import say
from gateway.text.quoting import fenced, quoted
from skills.notes import Note, signed
from skills.visible import visible


def listed(done: Listed, language: str) -> str:
    parts = []
    for name, notes in (("waiting", done.waiting), ("kept", done.kept), ("everywhere", done.everywhere)):
        if notes:
            lines = [f"- {_note(one, done.timezone, language)}" for one in notes]
            parts.append("\n".join([say(f"skill.notes.{name}", language), *lines]))
    return "\n\n".join(parts) or say("skill.notes.none", language)


def _note_shown(done: Noted, language: str) -> str:
    text = visible(done.note.text).strip("\n")
    return "\n\n".join([_note(done.note, done.timezone, language), *([fenced(text)] if text else [])])


def noted(done: Noted, language: str) -> str:
    """Names who wrote it, so that they see what became of it."""
    note, what = done.note, done.what
    if what == "shown":
        return _note_shown(done, language)
    if what != "ends":
        return say(f"skill.note.{what}", language, **_about(note), who=quoted(note.by_name or note.by))
    if note.state != "kept":
        return say("skill.note.ended", language, **_about(note))
    if note.until_ms is None:
        return say("skill.note.never", language, **_about(note))
    return say("skill.note.ends", language, **_about(note), at=_end(note.until_ms, done.timezone))


def _note(note: Note, timezone: str, language: str) -> str:
    state = say(f"skill.state.{note.state}", language)
    if note.state == "kept" and note.until_ms is not None:
        state = say("skill.state.until", language, at=_end(note.until_ms, timezone))
    return say("skill.note", language, **_about(note), who=quoted(signed(note)), state=state)


def _end(at_ms: int, timezone: str) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1_000, ZoneInfo(timezone)):%Y-%m-%d %H:%M} {timezone}"


def _about(note: Note) -> dict[str, str]:
    return {"code": f"`{note.code}`", "skill": quoted(note.skill), "file": quoted(note.file)}
