"""What every stand-in for a platform offers, so that one play is given on all of them (`test_platforms.py`).

A stand-in speaks the platform's documented wire format and refuses what the real one refuses. `hook` is the address that
it calls. Where the platform brings messages over a connection that deskmate holds, `hook` is not used for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self


@dataclass(slots=True)
class Said:
    """What a person did there. `statuses` are the answers to its deliveries, 0 for none in time."""

    room: str
    """Where: a channel, a chat, a direct chat."""
    id: str
    """Of the message, in the platform's words."""
    thread: str | None = None
    """The thread that it stands in, where there are threads."""
    statuses: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Shown:
    """A message of ours as people see it now, in the order of sending."""

    room: str
    id: str
    text: str
    thread: str | None = None
    buttons: list[str] = field(default_factory=list)
    """Their labels."""
    file: bytes | None = None
    is_growing: bool = False
    """It is still a growing answer: a draft, an open stream."""


class Twin(Protocol):
    """One platform, with one account of ours."""

    platform: str
    """The module's name."""
    environment: Mapping[str, str]
    """The secrets that `connection` names."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def connection(self) -> dict[str, Any]:
        """The keys of a connection to it, secrets as `$NAME`."""
        ...

    @property
    def shown(self) -> list[Shown]:
        """What we said, everywhere, without what was deleted."""
        ...

    async def mention(self, hook: str, text: str) -> Said:
        """In a group, with a mention of us in front."""
        ...

    async def follow_up(self, hook: str, before: Said, text: str) -> Said:
        """In the same thread (where there are none: the same group, as a reply to our last message) without a mention.
        A platform that calls bots for mentions only mentions us again.
        """
        ...

    async def direct(self, hook: str, text: str) -> Said:
        """In the direct chat with us."""
        ...

    async def picture(self, hook: str, text: str, png: bytes) -> Said:
        """In the direct chat, with a picture."""
        ...

    async def command(self, hook: str, line: str) -> Said:
        """A slash command, as the platform has it (`/help` where there is none but text), in the direct chat or the group."""
        ...

    async def press(self, hook: str, shown: Shown, label: str) -> Said:
        """A button of a message of ours."""
        ...

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Shown:
        """The first message of ours after it, where it belongs, once that is whole (no `is_growing`)."""
        ...
