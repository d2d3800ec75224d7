"""/approve CODE: go on with what waits for a yes."""

from __future__ import annotations

from gateway.approvals.deciding import decide
from gateway.commands import Done, Said, WhenBusy

WHEN_BUSY: WhenBusy = "beside"


async def run(said: Said) -> Done:
    return await decide(said, "yes")
