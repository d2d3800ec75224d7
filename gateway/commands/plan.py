"""/plan TASK: the task is carried out in steps, those that can be at the same time. Without a task, how it is said."""

from __future__ import annotations

from gateway.commands import Done, Said
from gateway.phrases import say

CONTROL = False
ASIDE = False


async def run(said: Said) -> Done:
    return Done(say("command.plan.usage", said.language))
