"""/help: which commands there are."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy, names
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    lines = (f"- `/{name}` {say(f'command.{name}.summary', said.language)}" for name in names())
    return Done(say("command.help", said.language, commands="\n".join(lines)))
