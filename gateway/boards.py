"""Boards: texts that a platform comes for, so that any gateway shows what any worker writes.

A board belongs to a message that somebody sent. Its text grows, is whole, and is served once the platform came for the
whole one; or the board is closed, and whoever has a text has to send it in another way. It is kept for an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from gateway.store import GO_ON_WHEN_FULL, Script, Store, reading

KEEP_MS: Final = 3_600_000
"""As long as anybody may try again to send what stood there, or looks for who has used what."""

State = Literal["empty", "growing", "whole", "served", "closed"]
_STATES: Final[dict[bytes, State]] = {one.encode(): one for one in get_args(State)}

_HERE: Final = GO_ON_WHEN_FULL + "local board = KEYS[1] .. ':c:' .. ARGV[1] .. ':board:' .. ARGV[2]\n"
_BOARD: Final = (
    _HERE
    + """
    redis.call('HSETNX', board, 'state', 'empty')
    redis.call('PEXPIRE', board, ARGV[3])
    local state = redis.call('HGET', board, 'state')
    """
)
_SHOWN: Final = "return redis.call('HMGET', board, 'state', 'text', 'above', 'first_ms', 'last_ms')"

WRITE = Script(
    "board write",
    _BOARD
    + """
    if state == 'empty' or state == 'growing' then
        if ARGV[4] ~= 'above' then redis.call('HSET', board, 'state', ARGV[4]) end
        redis.call('HSET', board, ARGV[4] == 'above' and 'above' or 'text', ARGV[5])
    end
    """
    + _SHOWN,
)
TAKE = Script(
    "board take",
    _BOARD
    + """
    redis.call('HSETNX', board, 'first_ms', ARGV[4])
    redis.call('HSET', board, 'last_ms', ARGV[4])
    if state == 'whole' then redis.call('HSET', board, 'state', 'served') end
    """
    + _SHOWN,
)
CLOSE = Script(
    "board close",
    _BOARD
    + """
    if state == 'empty' or state == 'growing' or (state == 'whole' and ARGV[4] == 'whole') then
        redis.call('HSET', board, 'state', 'closed')
        if ARGV[5] ~= '' then redis.call('HSET', board, 'text', ARGV[5]) end
    end
    """
    + _SHOWN,
)
CLAIM = Script(
    "board claim",
    _HERE
    + """
    local holder = redis.call('HGET', board, 'holder')
    if not holder then
        redis.call('HSET', board, 'holder', ARGV[4])
        redis.call('PEXPIRE', board, ARGV[3])
    end
    return holder
    """,
)
FREE = Script("board free", _HERE + "return redis.call('DEL', board)")


@dataclass(frozen=True, slots=True)
class Board:
    """What stands on one."""

    state: State = "empty"
    text: str = ""
    above: str = ""
    """What was said before the text, and stays above it."""
    first_ms: int = 0
    """When the platform came for it first, by its own clock; 0: it never did."""
    last_ms: int = 0

    @property
    def is_over(self) -> bool:
        """What the platform sees now is the last of it."""
        return self.state in {"served", "closed"}


class Boards:
    """All boards. One a process. Each method raises `Unreachable`; those that give a board give it as it is then."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, conversation: str, board: str) -> Board:
        with reading():
            key = self._store.layout.key(conversation, f"board:{board}")
            return _board(await self._store.redis.hmget(key, "state", "text", "above", "first_ms", "last_ms"))

    async def write(self, conversation: str, board: str, text: str, *, whole: bool) -> Board:
        """Put the text there, whole or growing. A whole one stays as it is, and on a closed board nothing is written."""
        return _board(await self._run(WRITE, conversation, board, "whole" if whole else "growing", text))

    async def write_above(self, conversation: str, board: str, text: str) -> Board:
        """Put it above the text. It is there if the board says so: not where its text is whole, or it is closed."""
        return _board(await self._run(WRITE, conversation, board, "above", text))

    async def take(self, conversation: str, board: str, at_ms: int) -> Board:
        """The platform came for it: what it is shown. A whole text is served with that."""
        return _board(await self._run(TAKE, conversation, board, at_ms))

    async def close(self, conversation: str, board: str, text: str = "", *, even_whole: bool = False) -> Board:
        """No text is written any more, and `text` takes the place of what grew. A served one stays; so does a whole one
        that is still to be served, unless it goes another way.
        """
        return _board(await self._run(CLOSE, conversation, board, "whole" if even_whole else "", text))

    async def claim(self, conversation: str, what: str, holder: str) -> str:
        """Who has claimed it within the last hour; empty: nobody, and it is this holder's from now on."""
        return (await self._run(CLAIM, conversation, what, holder) or b"").decode()

    async def free(self, conversation: str, what: str) -> None:
        """What was claimed was not used."""
        await self._run(FREE, conversation, what)

    async def _run(self, script: Script, conversation: str, board: str, *given: Any) -> Any:
        root = self._store.layout.root_of(conversation)
        return await self._store.run(script, root, conversation, board, KEEP_MS, *given)


def _board(found: Sequence[Any]) -> Board:
    state, text, above, first_ms, last_ms = (one or b"" for one in found)
    return Board(_STATES.get(state, "empty"), text.decode(), above.decode(), int(first_ms or 0), int(last_ms or 0))
