"""Files that people attach on the page: each comes by a request of its own, before the message that names it."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from gateway.content_types import media_type
from gateway.events import Event
from gateway.files import FILE_MAX_BYTES, Files
from gateway.web.door import Refused

WITHIN_S: Final = 60.0
"""The longest that one file may take on its way here."""


class Uploads:
    """What stands between the page and `Files`. Raises `Refused` and `store.Unreachable`."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def take(self, request: web.Request, conversation: str) -> dict[str, Any]:
        """Keep the request's body as a file of this conversation; what a message says of it."""
        if media_type(request.headers.get("Content-Type", "")) != "application/octet-stream":
            raise Refused(415, "chat.not_understood", "the content type is not application/octet-stream")
        content = await _body(request)
        file = secrets.token_hex(16)
        await self._files.keep(conversation, file, content)
        return {"file": file, "size_bytes": len(content)}

    async def checked(self, event: Event) -> Event:
        """The event with the sizes that its files really have; all must be there, in this very conversation."""
        if not event.attachments:
            return event
        sizes = await self._files.sizes(event.conversation.id, [one.fetch["file"] for one in event.attachments])
        if not all(sizes):
            raise Refused(410, "chat.file_gone", "an attached file is not there")
        files = zip(event.attachments, sizes, strict=True)
        return replace(event, attachments=tuple(replace(one, size_bytes=size) for one, size in files))


async def _body(request: web.Request) -> bytes:
    received = bytearray()
    try:
        async with asyncio.timeout(WITHIN_S):
            async for piece in request.content.iter_chunked(65_536):
                received += piece
                if len(received) > FILE_MAX_BYTES:
                    raise Refused(413, "chat.file_limit", "the file is too large", limit=FILE_MAX_BYTES >> 20)
    except TimeoutError as error:
        raise Refused(408, "chat.not_understood", "the file did not come in time") from error
    if not received:
        raise Refused(400, "chat.file_empty", "the file is empty")
    return bytes(received)
