"""A platform for tests, as small as one can be: what was sent there, and files that people attached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from gateway.events import Attachment, Event
from gateway.platforms import (
    Address,
    Capabilities,
    Growing,
    NotDownloaded,
    Outbound,
    Outcome,
    Part,
    Plain,
    Sent,
    Stream,
)


class Room(Plain):
    """`can` has fields of `Capabilities`; `files` what a download gives, by name."""

    def __init__(self, files: Mapping[str, bytes] | None = None, stream: Stream | None = None, **can: Any) -> None:
        self.capabilities = Capabilities(**{"text_limit": 4_000, "file_max_bytes": 1_000_000, **can})
        self.files = dict(files or {})
        self.growing = stream or Stream()
        self.parts: list[tuple[str, Part]] = []
        """By key."""
        self.shown: list[str] = []
        self.signs: list[bool] = []
        self.pressed_as: list[tuple[str, str, bool]] = []
        """Value, what the person was told, and whether it is settled."""
        self.downloads: list[str] = []
        self.outcomes: list[Outcome] = []
        """What sends and shows meet first."""
        self.on_typing: Callable[[bool], Any] = lambda _: asyncio.sleep(0)

    @property
    def sent(self) -> list[str]:
        return [part.file.name if part.file else part.payload["text"] for _, part in self.parts]

    def render(self, outbound: Outbound) -> list[Part]:
        return [Part({"text": outbound.markdown}, only_for=outbound.only_for)]

    def stream(self, to: Address) -> Stream:
        del to
        return self.growing

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        del to
        if self.outcomes:
            return self.outcomes.pop(0)
        self.parts.append((key, part))
        return Outcome("ok", Sent(f"id of {key}"))

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        del to
        self.parts.append((sent.message_id, part))
        return Outcome("ok", sent)

    async def show(self, to: Address, growing: Growing, key: str, sent: Sent | None) -> Outcome:
        del to
        if self.outcomes:
            return self.outcomes.pop(0)
        self.shown.append(growing.markdown)
        return Outcome("ok", sent or Sent(f"id of {key}"))

    async def typing(self, to: Address, *, on: bool) -> None:
        del to
        self.signs.append(on)
        await self.on_typing(on)

    async def pressed(self, to: Address, event: Event, text: str, *, is_settled: bool) -> None:
        del to
        self.pressed_as.append((event.value, text, is_settled))

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        self.downloads.append(attachment.name)
        content = self.files.get(attachment.name)
        if content is None:
            raise NotDownloaded("the platform has it no more")
        if len(content) > max_bytes:
            raise NotDownloaded(f"it has {len(content)} bytes, allowed are {max_bytes}")
        return content
