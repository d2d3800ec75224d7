"""`read_result`: the rest of a result that was too long for one page. What came is kept as a record of type `result`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.rights.skill_tools import READ_ON
from gateway.running.calm import calmly
from skills import parts
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`. Offered wherever there are programs or tools of servers, and needs no place in a profile."""

    name: str = READ_ON
    description: str = (
        "Read on in a long result of a skill or a tool that ran before. The result itself says when there is more, and the call "
        "that reads it."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "result": {"type": "string", "description": "The result's id, as the first page gave it."},
            "offset": {"type": "integer", "description": "Where to go on, in characters. 0 if left out."},
        },
        "required": ["result"],
        "additionalProperties": False,
    }
    effect: Effect = "read"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        self._page_bytes = outside.settings.tools.result_max_characters * 9 // 10

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        kept = {record.data["id"]: record.data["text"] for record in call.history if record.type == "result"}
        name, offset = arguments["result"], arguments.get("offset", 0)
        if name not in kept:
            raise ToolError(
                f"There is no result {name!r} in this conversation. There are: {', '.join(kept) or 'none'}."
            )
        try:
            part = await calmly(parts.part, kept[name], offset, self._page_bytes)
        except parts.OffsetOutside as error:
            raise ToolError(str(error)) from error
        if part.is_last:
            return ToolResult(part.text)
        rest = f'{self.name}(result="{name}", offset={part.end})'
        return ToolResult(f"{part.text}\n---\nIt goes on from character {part.end} of {part.total}: {rest}")
