"""Words of the chat in a terminal."""

from __future__ import annotations

from typing import Final

from gateway.text.unmarked import unmarked

_IN_CHAT: Final = "/skill "


def typed(markdown: str, channel: str | None) -> str:
    """Without marks, with commands of the chat as they are typed here for that channel."""
    place = f" --channel {channel}" if channel else ""
    return unmarked(
        markdown,
        lambda code: f"`deskmate skills {code.removeprefix(_IN_CHAT)}{place}`" if code.startswith(_IN_CHAT) else code,
    )
