"""Unsaid: our own secrets are taken out of what tools say. A service may repeat the key that it was sent in its error, an MCP
server what it was started with; from a tool's result that would go to the model, into Redis and to the chat.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import Mask
from workers.tools import Call, Tool, ToolError, ToolResult

if TYPE_CHECKING:
    from workers.calling.calls import RunTool

MIN_CHARACTERS: Final = 8
"""What is shorter may stand in any text, and the model would be told something else than there was."""


def unsaid(run: RunTool, secrets: Collection[str]) -> RunTool:
    """`run`, without the `secrets` that are known now in what comes of it."""
    mask = Mask([one for one in secrets if len(one) >= MIN_CHARACTERS and not _is_path(one)], passwords=False)

    async def run_masked(tool: Tool, arguments: dict[str, Any], call: Call) -> ToolResult:
        try:
            result = await run(tool, arguments, call)
        except ToolError as error:
            text, note = mask(str(error)), mask(error.note)
            raise ToolError(text, untrusted=error.untrusted, own=error.own, note=note) from None
        addresses = tuple(map(mask, result.addresses))
        return replace(result, text=mask(result.text), note=mask(result.note), addresses=addresses)

    return run_masked


def _is_path(value: str) -> bool:
    """`HOME: $HOME` of a server is no secret, and its tools tell of files there."""
    with suppress(OSError, ValueError):  # too long for a path, or none at all
        return value.startswith("/") and Path(value).exists()
    return False
