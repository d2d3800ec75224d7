"""/stop: end what is running. A running turn takes it at once; this is the answer when nothing runs (yet)."""

from __future__ import annotations

from gateway.commands import Done, Said, WhenBusy
from gateway.phrases import say

WHEN_BUSY: WhenBusy = "overtakes"


async def run(said: Said) -> Done:
    return Done(say("turn.stopped" if said.waited else "turn.nothing_to_stop", said.language))
