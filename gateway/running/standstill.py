"""Standstill: something in a process computes, or waits, without giving way, and nothing else of it goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gateway.logs import log

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.25
STANDSTILL_S: Final = 1.0
"""What is longer is told: leases are renewed, and platforms wait, for a few seconds only."""


async def tell_standstills() -> None:
    """Say in the log when the loop stood still, and for how long; the whole process was stopped, perhaps. Does not return."""
    loop = asyncio.get_running_loop()
    while True:
        asked_s = loop.time()
        await asyncio.sleep(LOOK_S)
        if (late_s := loop.time() - asked_s - LOOK_S) > STANDSTILL_S:
            log(logger, "stood still", level=logging.ERROR, ms=int(late_s * 1_000))
