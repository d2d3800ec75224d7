"""Pages: the first of a long result now, the rest when the model asks for it (`workers/tools/read_result.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.conversation.records import Record
from gateway.skill_tools import READ_ON
from skills import parts
from workers.tools import Call, ToolResult


@dataclass(frozen=True, slots=True)
class Pages:
    """As long as results may be."""

    result_max_characters: int

    def first(self, text: str, call: Call, origin: str, note: str = "") -> ToolResult:
        """The first page, with a record that holds the whole where there is more. `origin`: what it came from."""
        first = parts.part(text, 0, self.result_max_characters * 9 // 10)  # longer ones would be cut in the middle
        if first.is_last:
            return ToolResult(text, note=note)
        name = call.key[:12]
        record = Record("result", call.at_ms, {"id": name, "from": origin, "text": text})
        rest = f'{READ_ON}(result="{name}", offset={first.end})'
        return ToolResult(
            f"{first.text}\n---\nThe result goes on from character {first.end} of {first.total}: {rest}",
            note=note,
            records=(record,),
        )
