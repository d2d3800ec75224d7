"""Rooms: which one somebody means who types `connection/channel`, on a page or on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from config.checks import nearest
from config.loading import Loaded
from gateway.connections import PAGE, connection_names
from gateway.conversation.key import ConversationKey, named
from gateway.platforms import webchat


class NoConnection(Exception):
    """There is none of that name."""

    def __init__(self, name: str, there: Sequence[str]) -> None:
        super().__init__(name)
        self.name, self.there = name, there
        self.closest = nearest(name, there)


class NoRoom(Exception):
    """What follows the connection is no channel of it."""


def room_named(loaded: Loaded, text: str) -> ConversationKey:
    """The room that somebody means who types `connection/channel`. Raises `NoConnection`, `NoRoom`."""
    connection, _, name = text.partition("/")
    there = connection_names(loaded.settings)
    if connection not in there:
        raise NoConnection(connection, there)
    if connection == PAGE[0] and name != webchat.CHANNEL:
        raise NoRoom(text)
    try:
        return named(connection, name)
    except ValueError:
        raise NoRoom(text) from None
