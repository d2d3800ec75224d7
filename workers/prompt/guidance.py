"""Guidance: a skill's text as a record, and that record as the model reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from config.profiles import Delivery
from gateway.conversation.records import Record
from skills import document, marks, references
from skills.folders import Skill
from skills.parts import Heading, Part
from workers.prompt.loaded import Why

HEADINGS_SHOWN: Final = 40
_GONE: Final[Mapping[Why, str]] = {
    "off": "the skill is switched off here. Do not go by it any more.",
    "unsure": "nobody can tell now whether the skill is switched off. Do not go by it; load it again later.",
    "untrusted": "nobody here has said that the skill is trusted. Do not go by it any more.",
    "changed": "its files are not those that were trusted. Do not go by it any more.",
    "gone": "the skill is not there any more. Do not go by it.",
    "unloaded": "it was put away. Load it again if it is needed.",
}


def record(
    skill: Skill,
    part: Part,
    *,
    delivery: Delivery,
    call: str,
    replaces: str | None,
    is_above: bool,
    at_ms: int,
) -> Record:
    """The record of type `skill`. `is_above`: the model has read the text that it replaces."""
    tools = skill.head.allowed_tools
    return Record(
        "skill",
        at_ms,
        {
            "id": skill.id,
            "tier": skill.tier,
            "hash": skill.body_hash,
            "bundle": skill.hash,
            "offset": part.offset,
            "characters": len(part.text),
            "bytes": len(part.text.encode()),
            "replaces": replaces,
            "delivery": delivery,
            "call": call,
            **({} if tools is None else {"tools": list(tools)}),
            "lead": _lead(skill, part, is_above=is_above),
            "text": part.text,
            "rest": "" if part.is_last else _rest(skill, part),
        },
    )


def text_of(data: Mapping[str, Any]) -> str:
    """What the model reads of a record of type `skill`: our own line, then the body as it is."""
    rest = marks.of_skill(data["rest"])
    if data["delivery"] == "tool_result":
        return f"{data['lead']}\n{marks.enclosed(data['id'], data['text'])}{rest}"
    return f"{data['lead']}\n\n{marks.of_skill(data['text'])}{rest}"


def gone(skill_id: str, why: Why, *, what: str = "text") -> str:
    """The line that stands where something of a skill was."""
    return f"{marks.NOTE}: the {what} of skill {skill_id} stood here: {_GONE[why]})"


def call_of(skill: Skill, file: str, offset: int = 0) -> str:
    """A call as the model would write it."""
    quoted = [json.dumps(skill.id, ensure_ascii=False), f"file={json.dumps(file, ensure_ascii=False)}"]
    return f"load_skill({', '.join(quoted + ([f'offset={offset}'] if offset else []))})"


def _lead(skill: Skill, part: Part, *, is_above: bool) -> str:
    """One paragraph about the skill. Its folder is the same on every machine, wherever the files lie there."""
    files = references.readable(skill)
    lead = f"{marks.GUIDANCE}: skill {skill.id} (tier {skill.tier}, folder skills/{skill.id}/)."
    if part.offset:
        lead += f" This part begins at character {part.offset} of {part.total}."
    if is_above:
        lead += " It takes the place of the older text of this skill above."
    if files:
        lead += (
            f" Its other files: list them with {call_of(skill, '.')}, read one with {call_of(skill, files[0].path)}."
        )
    if any(file.path.startswith("scripts/") for file in files):
        lead += " Its scripts can be read like that; run one only if you have a tool that runs programs."
    return lead


def _rest(skill: Skill, part: Part) -> str:
    lines = ["", "---", f"The text goes on from character {part.end} of {part.total}."]
    if part.remaining:
        lines += ["Headings that remain, and where they begin:", *_headings(part.remaining)]
    return "\n".join([*lines, f"The next part: {call_of(skill, document.NAME, part.end)}"])


def _headings(remaining: Sequence[Heading]) -> list[str]:
    lines = [f"- {heading.offset}: {heading.text[:120]}" for heading in remaining[:HEADINGS_SHOWN]]
    more = len(remaining) - HEADINGS_SHOWN
    return [*lines, f"- and {more} more"] if more > 0 else lines
