"""Circuits: whether a model may be asked now, known by all workers together.

A service that says "too many" is left alone for as long as it asks. One that failed several times in a row is away: its
circuit is open, and only one request at a time finds out whether it is back. What is noted of a model ends by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from config.settings import ModelSettings
from gateway.store import GO_ON_WHEN_FULL, Script, Store
from workers.turn import stable_key

HOLD_MAX_S: Final = 3_600.0
"""However long a service wants to be left alone: after this somebody looks again."""

_BEGIN: Final = """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local key = KEYS[1] .. ':' .. ARGV[1]
    local found = redis.call('HMGET', key, 'held', 'open', 'failures', 'since')
    local held, open, since = tonumber(found[1]) or 0, tonumber(found[2]), tonumber(found[4]) or 0
    local function keep(ms)
        if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, math.ceil(ms)) end
    end
"""
LEAVE: Final = Script(
    "circuit leave",
    GO_ON_WHEN_FULL
    + _BEGIN
    + """
    if not found[1] and not found[2] and not found[3] then return {0, 'closed'} end
    -- A time that is further ahead than any that is written: the clock was put back since.
    if open and open > now + ARGV[2] then open = now end
    if held > now + ARGV[4] then held = 0 end
    if open and open > now then return {math.ceil(open - now), 'away'} end
    if held > now then return {math.ceil(held - now), 'held'} end
    if open then -- one goes ahead; if nothing is heard of it by then, another
        redis.call('HSET', key, 'open', string.format('%.0f', now + ARGV[2]))
        keep(ARGV[2] + ARGV[3])
    end
    return {0, 'noted'}
    """,
)
FAILED: Final = Script(
    "circuit failed",
    GO_ON_WHEN_FULL
    + _BEGIN
    + """
    local opened = 0
    if not open then
        if now - since > ARGV[3] + 0 then redis.call('HSET', key, 'since', string.format('%.0f', now), 'failures', 0) end
        if redis.call('HINCRBY', key, 'failures', 1) >= ARGV[4] + 0 then opened = 1 end
    end
    if open or opened == 1 then redis.call('HSET', key, 'open', string.format('%.0f', now + ARGV[2])) end
    keep(ARGV[2] + ARGV[3])
    return opened
    """,
)
HOLD: Final = Script(
    "circuit hold",
    GO_ON_WHEN_FULL
    + _BEGIN
    + """
    local to = now + ARGV[2]
    if held < to then redis.call('HSET', key, 'held', string.format('%.0f', to)) end
    keep(ARGV[2] + 0)
    return 1
    """,
)
SPEAKS: Final = Script(
    "circuit speaks",
    GO_ON_WHEN_FULL
    + _BEGIN
    + """
    if not open then return 0 end
    redis.call('HDEL', key, 'open')
    redis.call('HSET', key, 'since', string.format('%.0f', now), 'failures', ARGV[2] - 1) -- one more, and it is away again
    keep(ARGV[3] + 0)
    return 1
    """,
)
ANSWERED: Final = Script(
    "circuit answered",
    GO_ON_WHEN_FULL + _BEGIN + "return redis.call('HDEL', key, 'open', 'failures', 'since')",
)


@dataclass(frozen=True, slots=True)
class Leave:
    """What a circuit says to one who wants to ask."""

    model: str
    wait_s: float
    """0: ask now."""
    state: Literal["closed", "noted", "held", "away"]
    """Nothing is known against it · it had trouble: tell `answered` if it answers · it asked for quiet · it is away."""


class Circuits:
    """Of one model service, one circuit a model. Each method raises `Unreachable`."""

    def __init__(self, store: Store, settings: ModelSettings) -> None:
        self._store = store
        self._settings = settings

    async def leave(self, model: str) -> Leave:
        """May it be asked? Whoever gets leave of one that was away asks at once: the others wait for what comes of it."""
        wait_ms, state = await self._run(LEAVE, model, *self._times(), HOLD_MAX_S * 1000)
        return Leave(model, wait_ms / 1000, state.decode())

    async def failed(self, model: str) -> bool:
        """A request came to nothing. Whether that opened the circuit."""
        return bool(await self._run(FAILED, model, *self._times(), self._settings.breaker_failures))

    async def hold(self, model: str, wait_s: float) -> None:
        """It wants to be left alone for so long."""
        await self._run(HOLD, model, min(wait_s, HOLD_MAX_S) * 1000)

    async def speaks(self, model: str) -> bool:
        """An answer of it has begun: the others may ask. Whether it was away until now."""
        window_ms = self._settings.breaker_window_s * 1000
        return bool(await self._run(SPEAKS, model, self._settings.breaker_failures, window_ms))

    async def answered(self, model: str) -> None:
        """An answer of it is whole: nothing is held against it any more."""
        await self._run(ANSWERED, model)

    def _times(self) -> tuple[float, float]:
        return self._settings.breaker_open_s * 1000, self._settings.breaker_window_s * 1000

    async def _run(self, script: Script, model: str, *arguments: float) -> Any:
        place = stable_key(self._settings.base_url or "", model)
        return await self._store.run(script, self._store.layout.models_root, place, *arguments)
