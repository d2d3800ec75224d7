"""Boards: texts that a platform comes for, so that any gateway can show what any worker writes.

A board belongs to a message that somebody sent. It is open until its text is whole, or until it was closed because the
platform will not come any more; then whoever writes has to send in another way. It is gone a quarter of an hour later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.store import GO_ON_WHEN_FULL, Script, Store, reading

KEEP_MS: Final = 900_000

WRITE = Script(
    "board write",
    GO_ON_WHEN_FULL
    + """
    local board = KEYS[1] .. ':c:' .. ARGV[1] .. ':board:' .. ARGV[2]
    local state = redis.call('HGET', board, 'state')
    if state == 'closed' then return 0 end
    if state == 'whole' and ARGV[4] ~= 'whole' then return 1 end
    redis.call('HSET', board, 'text', ARGV[3], 'state', ARGV[4])
    redis.call('PEXPIRE', board, ARGV[5])
    return 1
    """,
)
CLOSE = Script(
    "board close",
    GO_ON_WHEN_FULL
    + """
    local board = KEYS[1] .. ':c:' .. ARGV[1] .. ':board:' .. ARGV[2]
    if redis.call('HGET', board, 'state') == 'whole' then return 0 end
    redis.call('HSET', board, 'state', 'closed')
    redis.call('PEXPIRE', board, ARGV[3])
    return 1
    """,
)


@dataclass(frozen=True, slots=True)
class Board:
    """What stands on one."""

    text: str = ""
    is_whole: bool = False
    is_closed: bool = False


class Boards:
    """All boards. One a process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, conversation: str, board: str, text: str, *, whole: bool) -> bool:
        """Put the text there, whole or growing. False: it is closed, nobody will read it. Raises `Unreachable`.

        The same whole text once more is no harm; a growing one does not replace a whole one.
        """
        root = self._store.layout.root_of(conversation)
        state = "whole" if whole else "growing"
        return bool(await self._store.run(WRITE, root, conversation, board, text, state, KEEP_MS))

    async def read(self, conversation: str, board: str) -> Board:
        """Raises `Unreachable`."""
        key = self._store.layout.key(conversation, f"board:{board}")
        with reading():
            found: Any = await self._store.redis.hmget(key, "text", "state")
        text, state = found
        return Board((text or b"").decode(), state == b"whole", state == b"closed")

    async def close(self, conversation: str, board: str) -> bool:
        """Nobody will come for it any more. False: its text is whole, and still to be read. Raises `Unreachable`."""
        root = self._store.layout.root_of(conversation)
        return bool(await self._store.run(CLOSE, root, conversation, board, KEEP_MS))
