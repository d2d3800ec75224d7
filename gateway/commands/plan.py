"""/plan TASK: the task is carried out in steps, those that can be at the same time. Without a task, how it is said."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "waits"


async def run(said: Said) -> Done:
    return Done(say("command.plan.usage", said.language))
