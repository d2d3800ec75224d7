"""Pages: the first of a long result now, the rest when the model asks for it (`workers/tools/read_result.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.conversation.records import Record
from gateway.rights.skill_tools import READ_ON
from gateway.running.calm import calmly
from skills import marks, parts
from workers.tools import Call, ToolResult

KEPT_CHARACTERS: Final = 4_000_000
"""Of all long results together that are in context: each turn reads the whole history anew."""


@dataclass(frozen=True, slots=True)
class Pages:
    """As long as results may be."""

    result_max_characters: int
    kept_max_characters: int = KEPT_CHARACTERS
    """Of one result."""

    async def first(self, text: str, call: Call, origin: str, note: str = "") -> ToolResult:
        """The first page, with a record that holds the rest as well where there is more. `origin`: what it came from."""
        page_bytes = self.result_max_characters * 9 // 10  # longer ones would be cut in the middle
        if len(text) <= page_bytes and len(text.encode()) <= page_bytes:
            return ToolResult(text, note=note)
        most = max(page_bytes, min(self.kept_max_characters, KEPT_CHARACTERS - _kept(call)))
        if len(text) > most:
            left_out = f"[... {len(text) - most} characters left out ...]"
            told = (
                f"{marks.NOTE}: of the {len(text)} characters of this result only the first {most} are kept. The rest can't be "
                "read: ask for less at once if it matters)"
            )
            text, note = f"{text[:most]}\n{left_out}", f"{note}\n{told}".strip()
        first = await calmly(parts.part, text, 0, page_bytes)
        name = call.key[:12]
        record = Record("result", call.at_ms, {"id": name, "from": origin, "text": text})
        rest = f'{READ_ON}(result="{name}", offset={first.end})'
        return ToolResult(
            f"{first.text}\n---\nThe result goes on from character {first.end} of {first.total}: {rest}",
            note=note,
            records=(record,),
        )


def _kept(call: Call) -> int:
    """Characters of results that were too long for one page."""
    return sum(len(record.data["text"]) for record in call.history if record.type == "result")
