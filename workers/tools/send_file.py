"""`send_file`: a file for the people in the chat, written for them or from the channel's workspace."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from gateway.events import Attachment
from gateway.files import FILE_MAX_BYTES
from gateway.store import Unreachable
from gateway.workspace import path_fault
from workers.tools import Call, Effect, Outside, Reach, ToolError, ToolResult

NAME_MAX: Final = 100


class Tool:
    """A file with the text that the model wrote: a table as CSV, a draft, a configuration. Or one of the workspace."""

    name = "send_file"
    description = (
        "Send the people in this chat a file: a text that you write, such as a CSV table, a long draft or a script, or with "
        "`path` one from this channel's workspace, of any kind. Say in your answer what it is. Only for what is better kept "
        "as a file than read in the chat."
    )
    input_schema = {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "The file's name with its ending, such as `figures.csv`. With `path` its own if left out.",
            },
            "content": {"type": "string", "description": "The whole text of the file. Not together with `path`."},
            "path": {"type": "string", "description": "A file of the workspace, as `list_files` shows it."},
        },
        "additionalProperties": False,
    }
    effect: Effect = "idempotent"
    reach: Reach = "inside"

    def __init__(self, outside: Outside) -> None:
        """It needs nothing of the world: what it makes goes out as a reply does."""

    def used(self, arguments: Mapping[str, Any]) -> str | None:
        path = arguments.get("path", "").removeprefix("./")
        return None if path_fault(path) else path

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        most = min(call.file_max_bytes, FILE_MAX_BYTES)
        if not most:
            raise ToolError("This chat takes no files. Put the text into your answer.")
        if ("content" in arguments) == ("path" in arguments):
            raise ToolError("A file has either `content`, which you write, or a `path` in the workspace.")
        if "path" in arguments:
            path, content = await _found(arguments["path"].removeprefix("./"), call)
            name, mime = _checked(arguments.get("name") or PurePosixPath(path).name), "application/octet-stream"
        else:
            name, mime = _checked(arguments.get("name", "")), "text/plain"
            content = arguments["content"].encode("utf-8", "replace")
        if not content:
            raise ToolError("The file would be empty: there is nothing to send.")
        if len(content) > most:
            raise ToolError(f"The file has {len(content):,} bytes, this chat takes {most:,}. Send less, or several.")
        mime = mimetypes.guess_type(name)[0] or mime
        file = Attachment(kind="file", name=name, mime=mime, size_bytes=len(content), content=content)
        return ToolResult(f"{name} goes to the chat.", untrusted=False, files=(file,))


async def _found(path: str, call: Call) -> tuple[str, bytes]:
    """The path of a file in the workspace, as it stands there, and its bytes."""
    if fault := path_fault(path):
        raise ToolError(f"{fault}.")
    try:
        file = await call.workspace.find(path)
    except Unreachable as error:
        raise ToolError("The workspace can't be read at the moment; try again later.") from error
    if file is None:
        raise ToolError(f"There is no file {path!r} in the workspace; `list_files` shows what there is.")
    return file.path, file.content


def _checked(name: str) -> str:
    if name != PurePosixPath(name).name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise ToolError(f"{name!r} is no file's name: without folders, beginning with a letter or a digit.")
    if not 0 < len(name.encode()) <= NAME_MAX:
        raise ToolError(f"A file's name has 1 to {NAME_MAX} bytes.")
    return name
