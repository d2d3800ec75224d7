"""/team TASK: as /plan, and a reviewer looks at what was done. Without a task, how it is said."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "waits"


async def run(said: Said) -> Done:
    return Done(say("command.team.usage", said.language))
