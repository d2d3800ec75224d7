"""`load_skill`: a skill's body as guidance for the task in hand, or one of the files beside it as data.

The body is delivered as a record that follows the results of the batch. What is loaded, and how much of the budget is
used, is read from such records alone: a text that looks like one counts for nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.conversation.records import Record
from skills import contents, document, parts, references
from skills.contents import Changed
from skills.folders import Skill
from skills.library import SkillNotFound
from skills.parts import Heading, Part
from workers.tools import Call, Effect, Outside, ToolError, ToolResult

HEADINGS_SHOWN: Final = 40


class Tool:
    """Loads skills. One batch's calls run one after the other, so that each sees what those before it delivered."""

    name: str = "load_skill"
    description: str = (
        "Load a skill from the list of skills: know-how for a kind of task. Its text comes as guidance after the "
        "results. With `file`, read a file that belongs to the skill (as data), or list a folder of it."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Id of the skill, as it stands in the list of skills."},
            "file": {
                "type": "string",
                "description": "Path of a file or folder of the skill, such as `references/x.md`. "
                "`.` lists all its files. Leave it out to load the skill's own text.",
            },
            "offset": {
                "type": "integer",
                "description": "Where to go on in a long text, in characters. 0 if left out.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    effect: Effect = "idempotent"

    def __init__(self, outside: Outside) -> None:
        self._settings = outside.settings.skills
        # A result that is longer would be cut again on its way, in the middle.
        self._page_bytes = min(self._settings.body_max_bytes, outside.settings.tools.result_max_characters * 9 // 10)

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        try:
            skill = call.catalogue.find(arguments["name"])
            file, offset = arguments.get("file") or document.NAME, arguments.get("offset", 0)
            if file.removeprefix("./").casefold() == document.NAME.casefold():
                body = await asyncio.to_thread(contents.body, skill)
                return self._load(skill, body, offset, call.history)
            found = await asyncio.to_thread(references.read, skill, file, offset, self._page_bytes)
        except (SkillNotFound, references.FileRefused, parts.OffsetOutside) as error:
            raise ToolError(str(error)) from error
        except Changed as error:
            text = f"{skill.id}: {error}. What is there now can be loaded from the next message on."
            raise ToolError(text) from error
        return ToolResult(_as_text(skill, file, found))

    def _load(self, skill: Skill, body: str, offset: int, history: Sequence[Record]) -> ToolResult:
        part = parts.part(body, offset, self._settings.body_max_bytes)
        loaded = _Loaded.read(skill.id, history)
        if loaded.hash == skill.body_hash and (end := loaded.end_of(offset)) is not None:
            return ToolResult(_still_here(skill, offset, end), untrusted=False)
        size = len(part.text.encode())
        self._charge(skill, size, history)
        replaces = loaded.hash if loaded.hash != skill.body_hash else None
        record = Record(
            "skill",
            time.time_ns() // 1_000_000,
            {
                "id": skill.id,
                "tier": skill.tier,
                "hash": skill.body_hash,
                "bundle": skill.hash,
                "offset": part.offset,
                "characters": len(part.text),
                "bytes": size,
                "replaces": replaces,
                "text": _guidance(skill, part, replaces=replaces is not None),
            },
        )
        of_total = "" if part.offset == 0 and part.is_last else f" of {part.total} (from {part.offset} on)"
        text = f"Loaded {skill.id}: {len(part.text)} characters{of_total}. The text follows after the results."
        return ToolResult(text, untrusted=False, records=(record,))

    def _charge(self, skill: Skill, size: int, history: Sequence[Record]) -> None:
        """Refuse what does not fit: nothing that is loaded goes away by itself."""
        used: dict[str, int] = {}
        for record in _skill_records(history):
            used[record.data["id"]] = used.get(record.data["id"], 0) + record.data["bytes"]
        left = self._settings.budget_bytes - sum(used.values())
        if size > left:
            loaded = ", ".join(f"{name} ({_kb(some)})" for name, some in used.items()) or "nothing"
            raise ToolError(
                f"{skill.id} needs {_kb(size)}, but of this conversation's {_kb(self._settings.budget_bytes)} for "
                f"skills {_kb(max(left, 0))} are left. Loaded: {loaded}. Go on with what is loaded."
            )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What the context holds of one skill: the version delivered last, and which stretches of it."""

    hash: str | None
    stretches: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, name: str, history: Sequence[Record]) -> _Loaded:
        mine = [record.data for record in _skill_records(history) if record.data["id"] == name]
        if not mine:
            return cls(None, ())
        newest = mine[-1]["hash"]
        # An older delivery of the same version counts only if no other version came in between.
        start = max((at + 1 for at, data in enumerate(mine) if data["hash"] != newest), default=0)
        stretches = ((data["offset"], data["offset"] + data["characters"]) for data in mine[start:])
        return cls(newest, tuple(sorted(stretches)))

    def end_of(self, offset: int) -> int | None:
        """How far the text is there without a gap from `offset` on, or none if it is not there at all."""
        end = None
        for begins, ends in self.stretches:
            if begins <= (offset if end is None else end) and (offset < ends or begins == ends == offset):
                end = max(ends, end or 0)
        return end


def _skill_records(history: Sequence[Record]) -> list[Record]:
    """What was delivered since the conversation was last cleared."""
    cleared = max((at for at, record in enumerate(history) if record.type == "cleared"), default=-1)
    return [record for record in history[cleared + 1 :] if record.type == "skill"]


def _still_here(skill: Skill, offset: int, end: int) -> str:
    total = skill.body_characters
    if end >= total:
        return f"{skill.id} is already in context{f' from {offset} on' if offset else ''}: nothing was added."
    rest = _call(skill, document.NAME, end)
    return f"{skill.id} is already in context up to character {end} of {total}: nothing was added. The rest: {rest}"


def _guidance(skill: Skill, part: Part, *, replaces: bool) -> str:
    """The record's text, as the model gets it: one paragraph about the skill, then its body."""
    files = references.readable(skill)
    lead = f"Guidance for the task in hand: skill {skill.id} (tier {skill.tier}, folder {_folder(skill)})."
    if part.offset:
        lead += f" This part begins at character {part.offset} of {part.total}."
    if replaces:
        lead += " It takes the place of the older text of this skill above."
    if files:
        lead += f" Its other files: list them with {_call(skill, '.')}, read one with {_call(skill, files[0].path)}."
    if any(file.path.startswith("scripts/") for file in files):
        lead += " Its scripts can be read like that; run one only if you have a tool that runs programs."
    return f"{lead}\n\n{part.text}" + ("" if part.is_last else _rest(skill, part))


def _rest(skill: Skill, part: Part) -> str:
    lines = ["", "---", f"The text goes on from character {part.end} of {part.total}."]
    if part.remaining:
        lines += ["Headings that remain, and where they begin:", *_headings(part.remaining)]
    return "\n".join([*lines, f"The next part: {_call(skill, document.NAME, part.end)}"])


def _headings(remaining: Sequence[Heading]) -> list[str]:
    lines = [f"- {heading.offset}: {heading.text[:120]}" for heading in remaining[:HEADINGS_SHOWN]]
    more = len(remaining) - HEADINGS_SHOWN
    return [*lines, f"- and {more} more"] if more > 0 else lines


def _as_text(skill: Skill, file: str, found: Part | references.Folder | references.Binary) -> str:
    if isinstance(found, references.Folder):
        lines = [f"{one.path} ({one.size_bytes} bytes)" for one in found.files]
        return "\n".join([f"Files of {skill.id} in {found.path}:", *lines])
    if isinstance(found, references.Binary):
        return f"{found.file.path} is no text: {found.mime}, {found.file.size_bytes} bytes. It can't be shown."
    if found.is_last:
        return found.text or f"{file} is empty."
    return f"{found.text}\n---\n{file} goes on from character {found.end} of {found.total}: {_call(skill, file, found.end)}"


def _folder(skill: Skill) -> str:
    """The same on every machine, wherever the files lie there."""
    return f"skills/{skill.id}/"


def _call(skill: Skill, file: str, offset: int = 0) -> str:
    """A call as the model would write it."""
    quoted = [json.dumps(skill.id, ensure_ascii=False), f"file={json.dumps(file, ensure_ascii=False)}"]
    return f"load_skill({', '.join(quoted + ([f'offset={offset}'] if offset else []))})"


def _kb(size_bytes: int) -> str:
    return f"{size_bytes / 1_024:.1f} KB"
