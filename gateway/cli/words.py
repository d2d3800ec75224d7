"""Words of the chat in a terminal."""

from __future__ import annotations

from typing import Final

from gateway.text.unmarked import unmarked

_GROUPS: Final = {"/skill": "skills", "/tool": "tools"}
"""Commands of the chat that are groups here."""


def typed(markdown: str, channel: str | None) -> str:
    """Without marks, with commands of the chat as they are typed here for that channel."""
    place = f" --channel {channel}" if channel else ""

    def here(code: str) -> str:
        name, _, rest = code.partition(" ")
        return f"`deskmate {_GROUPS[name]} {rest or 'list'}{place}`" if name in _GROUPS else code

    return unmarked(markdown, here)
