"""`send_file`: a text file for the people in the chat."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath
from typing import Any, Final

from gateway.events import Attachment
from gateway.files import FILE_MAX_BYTES
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult

NAME_MAX: Final = 100


class Tool:
    """A file with the text that the model wrote: a table as CSV, a draft, a configuration."""

    name = "send_file"
    description = (
        "Send the people in this chat a text file that you write, such as a CSV table, a long draft or a script. Say in your "
        "answer what it is. Only for what is better kept as a file than read in the chat."
    )
    input_schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The file's name with its ending, such as `figures.csv`."},
            "content": {"type": "string", "description": "The whole text of the file."},
        },
        "required": ["name", "content"],
        "additionalProperties": False,
    }
    effect: Effect = "idempotent"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        """It needs nothing of the world: what it makes goes out as a reply does."""

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        name = _checked(arguments["name"])
        content = arguments["content"].encode("utf-8", "replace")
        most = min(call.file_max_bytes, FILE_MAX_BYTES)
        if not most:
            raise ToolError("This chat takes no files. Put the text into your answer.")
        if not content:
            raise ToolError("The file would be empty: write its text in `content`.")
        if len(content) > most:
            raise ToolError(f"The file has {len(content):,} bytes, this chat takes {most:,}. Send less, or several.")
        mime = mimetypes.guess_type(name)[0] or "text/plain"
        file = Attachment(kind="file", name=name, mime=mime, size_bytes=len(content), content=content)
        return ToolResult(f"{name} goes to the chat.", untrusted=False, files=(file,))


def _checked(name: str) -> str:
    if name != PurePosixPath(name).name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise ToolError(f"{name!r} is no file's name: without folders, beginning with a letter or a digit.")
    if not 0 < len(name.encode()) <= NAME_MAX:
        raise ToolError(f"A file's name has 1 to {NAME_MAX} bytes.")
    return name
