"""/new: go on without what was said so far."""

from __future__ import annotations

from gateway.commands import Done, Said
from gateway.conversation.records import Record, carry
from gateway.phrases import say

CONTROL = False
ASIDE = False


async def run(said: Said) -> Done:
    return Done(
        say("conversation.new", said.language), (Record("cleared", said.now_ms, {"carried": carry(said.history)}),)
    )
