"""`write_file`: a text file in the channel's own workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.store import Unreachable
from gateway.workspace import Change, Full, Op, path_fault
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult


class Tool:
    """See `workers.tools.Tool`. The same call once more changes nothing, an appending one neither."""

    name: str = "write_file"
    description: str = (
        "Write a text file in this channel's workspace, where every conversation of the channel finds it later, with "
        "`read_file` and `list_files`. It takes the place of what was there; with `append` it is added at the end. Empty "
        "`content` takes the file away. People do not see these files; `send_file` sends them one."
    )
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "Where, such as `notes/plan.md`: letters, digits, `.`, `_` and `-`, folders parted by `/`.",
            },
            "content": {"type": "string", "description": "The text. Empty, without `append`: away with the file."},
            "append": {"type": "boolean", "description": "true: add it at the end of the file. false if left out."},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }
    effect: Effect = "idempotent"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        """It needs nothing of the world: what it writes to comes with the call."""

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        path, appends = arguments["path"].removeprefix("./"), arguments.get("append", False)
        if fault := path_fault(path):
            raise ToolError(f"Nothing was written. {fault}.")
        content = arguments["content"].encode("utf-8", "replace")
        if not content and appends:
            raise ToolError("Nothing was written: there is nothing in `content` to add.")
        try:
            op: Op = "append" if appends else "put" if content else "take"
            await call.workspace.change(call.key, Change(path, op, content))
        except Full as error:
            raise ToolError(f"Nothing was written. {error}") from error
        except Unreachable as error:
            raise ToolError("The workspace can't be written to at the moment; try again later.") from error
        done = f"Added to {path}" if appends else f"Wrote {path}"
        return ToolResult(
            f"{done}: {len(content):,} bytes." if content else f"{path} is not there any more.", untrusted=False
        )
