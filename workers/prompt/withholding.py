"""Withholding: what a conversation holds of skills leaves what is sent when it may no longer be shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gateway.rights.access import HeldText, Here, Reason, may
from workers.calling.rights import Rights
from workers.prompt.loaded import Held, Why, withhold
from workers.turn import Turn

_WHY: Final[Mapping[Reason, Why]] = {
    "unreadable": "unsure",
    "untrusted": "untrusted",
    "changed": "changed",
    "gone": "gone",
}
"""What else there is amounts to the skill being off."""


async def withhold_now(turn: Turn, here: Here) -> None:
    """Write down what is no longer sent, before the turn's first call. Raises `Lost`."""
    held_back = withhold(turn.stored.history, partial(why_withheld, here), turn=turn.id, at_ms=turn.now_ms())
    if held_back:
        await turn.write(*held_back)


async def withhold_as_of_now(turn: Turn, rights: Rights) -> None:
    """The same before a message joins a turn that runs: it is the next message. Raises `Lost`, `Unreachable`."""
    await withhold_now(turn, await rights.now())


def why_withheld(here: Here, held: Held) -> Why | None:
    """Why something of a skill that is in context may no longer be sent, if it may not."""
    verdict = may(None, here, HeldText(held.id, held.tier, held.bundle, held.is_guidance))
    return None if verdict.allowed else _WHY.get(verdict.reason, "off")
