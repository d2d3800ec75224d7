"""Pressed: a button of ours was pressed, what it says is done, and the platform is told so."""

from __future__ import annotations

import asyncio
import logging

from gateway.commands import Done
from gateway.events import Event
from gateway.logs import log
from gateway.platforms import Adapter, Address

logger = logging.getLogger(__name__)

TEXT_MAX = 200
"""Characters: the tightest place for such a word (Telegram's)."""


async def tell_pressed(adapter: Adapter, event: Event, done: Done, timeout_s: float) -> None:
    """End the waiting sign under the button, and take the buttons away if there is nothing to decide any more. What
    fails here is no matter: the answer follows, and whoever presses again is told how it stands.
    """
    to = Address(event.conversation, event.extra, event.reply_handle)
    text = done.text.strip().partition("\n")[0][:TEXT_MAX]
    try:
        async with asyncio.timeout(timeout_s):
            await adapter.pressed(to, event, text, is_settled=done.is_settled)
    except Exception as error:  # noqa: BLE001  # whatever it is, the answer must go out
        log(logger, "press not told", level=logging.WARNING, reason=f"{type(error).__name__}: {error}")
