"""`list_files`: what lies in the channel's own workspace."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.store import Unreachable
from gateway.workspace import path_fault
from skills import ids
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`."""

    name: str = "list_files"
    description: str = (
        "List the files in this channel's workspace, those in folders included: path, size, and when each was last "
        "written. All conversations of the channel share them."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "folder": {
                "type": "string",
                "description": "Only what lies in this folder, such as `notes`. All if left out.",
            },
        },
        "additionalProperties": False,
    }
    effect: Effect = "read"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        # A result that is longer would be cut again on its way, in the middle.
        self._room = outside.settings.tools.result_max_characters * 9 // 10

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        folder = arguments.get("folder", "").removeprefix("./").rstrip("/")
        folder = "" if folder == "." else folder
        if folder and (fault := path_fault(folder)):
            raise ToolError(f"{fault}.")
        try:
            there = await call.workspace.list()
        except Unreachable as error:
            raise ToolError("The workspace can't be read at the moment; try again later.") from error
        files = [file for file in there if not folder or ids.key(file.path).startswith(f"{ids.key(folder)}/")]
        if not files:
            what = f"There is no folder {folder!r}" if folder else "There are no files"
            return ToolResult(f"{what} in this channel's workspace; it has {len(there)} files.", untrusted=False)
        lines: list[str] = []
        left = self._room
        for file in files:
            at = datetime.fromtimestamp(file.at_ms / 1_000, UTC)
            line = f"{file.path}  {file.size_bytes:,} bytes  {at:%Y-%m-%d %H:%M} UTC"
            left -= len(line) + 1
            if left < 0:
                lines.append(f"({len(lines)} of {len(files)} files; name a folder to see the others.)")
                break
            lines.append(line)
        return ToolResult("\n".join(lines))
