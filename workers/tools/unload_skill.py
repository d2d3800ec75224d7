"""`unload_skill`: put away a skill's text that is done with, so that there is room for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.rights.skill_tools import UNLOAD
from skills import ids
from skills.library import SkillNotFound
from workers.prompt.loaded import loaded, withheld
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`. Offered wherever `load_skill` is, and needs no place in a profile."""

    name: str = UNLOAD
    description: str = (
        "Put away a skill that is loaded and not needed any more: its text and what was read of its files leave the "
        "conversation, and their room is free again. It can be loaded again later."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Id of the skill, as it was loaded."}},
        "required": ["name"],
        "additionalProperties": False,
    }
    effect: Effect = "idempotent"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        del outside

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        there = loaded(call.history)
        wanted = ids.key(arguments["name"]).strip("/")
        by_key = {ids.key(name): name for name in there}
        name = by_key.get(wanted) or by_key.get(_meant(wanted, call))
        if name is None:
            raise ToolError(f"{arguments['name']!r} is not loaded. Loaded: {', '.join(there) or 'nothing'}.")
        freed = there[name].size_bytes / 1_024
        record = withheld([name], "unloaded", at_ms=call.at_ms)
        return ToolResult(f"Put away {name}: {freed:.1f} KB are free again.", untrusted=False, records=(record,))


def _meant(wanted: str, call: Call) -> str:
    """The key of the skill that has this alias or short name here; nothing if it is unknown."""
    try:
        return ids.key(call.here.catalogue.find(wanted).id)
    except SkillNotFound:
        return ""
