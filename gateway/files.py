"""Files that people attached: apart from the history, for a day.

A record of a message holds a file's name and where it is, never its bytes. Each conversation has one hash of them; it
is gone a day after the last one was put there, and gives up its oldest ones when it holds too much.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.events import Attachment, Event
from gateway.platforms import NotDownloaded
from gateway.store import Script, Store, Unreachable, reading

KEEP_S: Final = 86_400
FILE_MAX_BYTES: Final = 2_097_152
CONVERSATION_MAX_BYTES: Final = 10 * FILE_MAX_BYTES

KEEP = Script(
    "keep file",
    """
    if ARGV[6] == '1' then redis.call('PERSIST', KEYS[1] .. ':full') end -- see GO_ON_WHEN_FULL
    local files, order = KEYS[1] .. ':c:' .. ARGV[1] .. ':files', KEYS[1] .. ':c:' .. ARGV[1] .. ':files:order'
    if redis.call('HSET', files, ARGV[2], ARGV[3]) == 1 then redis.call('RPUSH', order, ARGV[2]) end
    local held = 0
    local ids = redis.call('LRANGE', order, 0, -1)
    for _, id in ipairs(ids) do held = held + redis.call('HSTRLEN', files, id) end
    for _, id in ipairs(ids) do
        if held <= tonumber(ARGV[4]) then break end
        held = held - redis.call('HSTRLEN', files, id)
        redis.call('HDEL', files, id)
        redis.call('LREM', order, 1, id)
    end
    redis.call('EXPIRE', files, ARGV[5])
    redis.call('EXPIRE', order, ARGV[5])
    return 1
    """,
)


class Files:
    """The files of all conversations. One a process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, conversation: str, file: str, content: bytes, *, accepted: bool = False) -> None:
        """Put a file there; the same id once more replaces it. At most `FILE_MAX_BYTES`. Raises `Unreachable`.

        `accepted`: it belongs to what was accepted, and is kept although the server is full.
        """
        if len(content) > FILE_MAX_BYTES:
            raise ValueError(f"a file of {len(content)} bytes, allowed are {FILE_MAX_BYTES}")
        root = self._store.layout.root_of(conversation)
        await self._store.run(KEEP, root, conversation, file, content, CONVERSATION_MAX_BYTES, KEEP_S, int(accepted))

    async def sizes(self, conversation: str, files: Sequence[str]) -> list[int]:
        """In bytes; 0 for one that is not there. Raises `Unreachable`."""
        key = self._store.layout.key(conversation, "files")
        with reading():
            async with self._store.redis.pipeline(transaction=False) as pipeline:
                for file in files:
                    pipeline.hstrlen(key, file)
                return [int(size) for size in await pipeline.execute()]

    async def find(self, conversation: str, file: str) -> bytes | None:
        """None: it is not kept, or not any more. Raises `Unreachable`."""
        key = self._store.layout.key(conversation, "files")
        with reading():
            found: Any = await self._store.redis.hget(key, file)
        return None if found is None else bytes(found)

    async def read(self, fetch: Mapping[str, Any], max_bytes: int) -> bytes:
        """What `Attachment.fetch` of `kept` leads to. Raises `NotDownloaded`."""
        try:
            found = await self.find(str(fetch.get("conversation")), str(fetch.get("file")))
        except Unreachable as error:
            raise NotDownloaded(f"it can't be read at the moment ({error})") from error
        if found is None:
            raise NotDownloaded("it is not kept any more: attached files are kept for a day")
        if len(found) > max_bytes:
            raise NotDownloaded(f"it has {len(found)} bytes, allowed are {max_bytes}")
        return found

    async def put(self, conversation: str, file: Attachment) -> Attachment:
        """Keep the bytes of a file of ours under their hash; the file, with where they are. Raises `Unreachable`."""
        name = hashlib.sha256(file.content).hexdigest()[:32]
        await self.keep(conversation, name, file.content, accepted=True)
        return replace(file, content=b"", fetch=kept_at(conversation, name))

    async def put_away(self, event: Event) -> Event:
        """The event without the bytes that came inside it: they are kept here. Raises `Unreachable`.

        The same event that comes again puts the same files in the same places.
        """
        if not any(one.content for one in event.attachments):
            return event
        kept = []
        for number, one in enumerate(event.attachments):
            if one.content:
                file = hashlib.sha256(f"{event.dedupe_keys[0]} {number}".encode()).hexdigest()[:32]
                await self.keep(event.conversation.id, file, one.content)
                one = replace(one, content=b"", fetch=kept_at(event.conversation.id, file))  # noqa: PLW2901
            kept.append(one)
        return replace(event, attachments=tuple(kept))


def kept_at(conversation: str, file: str) -> dict[str, Any]:
    """`Attachment.fetch` of a file that `Files` keeps."""
    return {"conversation": conversation, "file": file}
