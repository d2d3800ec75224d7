"""Looked at: the files of the channel that a yes is about beside a call's arguments, as they were when it was asked for.

Anybody in the channel may change them while a call waits. What is compared is what runs: they are read once for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.workspace import Held, Workspace
from workers.calling.judging import Barred, Runs, Waits
from workers.tools import OverFiles, Tool

NAMED_MAX: Final = 20
"""Files in a refusal."""


async def look(tool: Tool, judged: Waits, workspace: Workspace) -> Waits:
    """What it would use is part of what is asked. Raises `Unreachable`."""
    held = await _held(tool, judged.arguments, workspace)
    return replace(judged, files=held.hashes()) if held else judged


async def look_again(judged: Runs, workspace: Workspace) -> Runs | Barred:
    """It runs with what was said yes to, or not at all. Raises `Unreachable`."""
    held = await _held(judged.tool, judged.arguments, workspace) if judged.yes else None
    if not held or not judged.yes:
        return judged
    if changed := _changed(judged.yes.files, held.hashes()):
        why = (
            "The files that it would use are not those that were there when it was asked for. It did not run. Changed:"
        )
        more = [f"and {len(changed) - NAMED_MAX} more"] if len(changed) > NAMED_MAX else []
        return Barred(judged.call, why, names="\n".join([*changed[:NAMED_MAX], *more]))
    return replace(judged, workspace=held)


async def _held(tool: Tool, arguments: Mapping[str, Any], workspace: Workspace) -> Held | None:
    path = tool.used(arguments) if isinstance(tool, OverFiles) else None
    return None if path is None else await workspace.held(path)


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    how = {
        path: "changed" if path in then and path in now else "new" if path in now else "gone" for path in {*then, *now}
    }
    return [f"{path}: {how[path]}" for path in sorted(how) if then.get(path) != now.get(path)]
