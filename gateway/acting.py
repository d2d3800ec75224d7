"""Acting: what a person who said a command may do to the channel, each time with the rights of now."""

from __future__ import annotations

from functools import partial

from gateway.commands import Said
from gateway.shelf.acts import Acts, By


def acts_of(said: Said, number: int = 0) -> Acts:
    """What the person who said this may do. One message can do several things of a kind: each has its `number`."""
    event, outside = said.event, said.outside
    here = partial(outside.shelf.here, event.conversation, outside.loaded)
    made = f"{said.turn} {number}" if number else said.turn
    return Acts(outside.shelf, outside.loaded.settings.skills, By(made, said.now_ms, event.actor, here=here))
