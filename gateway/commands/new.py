"""/new: go on without what was said so far."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy
from gateway.conversation.records import Record, carry
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "waits"


async def run(said: Said) -> Done:
    return Done(
        say("conversation.new", said.language), (Record("cleared", said.now_ms, {"carried": carry(said.history)}),)
    )
