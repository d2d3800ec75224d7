"""Whose death it was: where a conversation goes on after so many tries, and what the end of an attempt counts for.

In words: docs/reliability.md. The scripts count: `sweep` (in `prelude.lua`) a holder that is gone, `hand_over` one that says
so; a finished step, a burial and the end of all work clear the tries, and of what has not begun (`sole`) nobody died.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

ALONE_AFTER: Final = 2
"""A conversation whose holders died this often goes on in a child process of its own."""
SOLE_AFTER: Final = 6
"""This often: in one with nothing beside it, see `Mailbox.sole`."""
BURY_AFTER: Final = SOLE_AFTER + 2
"""And this often, without one finished step, the last times with nothing beside it: it is given up."""
ERRORS_MAX: Final = 3
"""What nobody understands is tried so often by one holder, before it is given up."""

Place = Literal["beside", "alone", "sole", "given up"]
"""Beside others in a worker; in a process of its own; in such a process with nothing beside it."""
End = Literal["settled", "not begun", "leaving", "away", "lost", "ended", "silent", "died"]
"""How an attempt ended: well; before it had begun; its worker ends; Redis was away; it was not its holder's any more, or its holder was
held up for longer than the lease. Of a child: somebody ended it; it gave no sign of life; it died, and its parent did not.
"""

COUNTS_AS: Final[Mapping[End, Literal["nothing", "try", "burial"]]] = {
    "settled": "nothing",
    "not begun": "nothing",
    "leaving": "nothing",
    "away": "nothing",
    "lost": "try",  # what does not finish, again and again, must not go round for ever, whatever the reason
    "ended": "try",  # nobody knows what for
    "silent": "try",
    "died": "burial",
}


def place_after(tries: int) -> Place:
    """Where it goes on whose holders died so often since its last finished step."""
    if tries >= BURY_AFTER:
        return "given up"
    if tries >= SOLE_AFTER:
        return "sole"
    return "alone" if tries >= ALONE_AFTER else "beside"
