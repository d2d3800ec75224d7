"""/new, /clear: go on without what was said so far. Neither that nor a summary or skill of it is sent any more."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy, misused
from gateway.conversation.records import Record, carry
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "waits"


async def run(said: Said) -> Done:
    if said.rest:  # a question behind it would get lost
        return misused("new", said.language)
    return Done(
        say("conversation.new", said.language), (Record("cleared", said.now_ms, {"carried": carry(said.history)}),)
    )
