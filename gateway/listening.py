"""Listening: events of platforms that don't send all of them to a webhook, but over a connection that we hold.

Any number of processes may run; for each connection one of them listens and the others stand by. Who listens is told by a
lease in Redis, and so is how far it got: when a process dies the next one goes on from there, and the platform sends again
what was not stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.app import Parts, introduce
from gateway.events import Event
from gateway.logs import log
from gateway.phrases import language_of, say
from gateway.platforms import Adapter, Address, ConnectionRefused, Outbound
from gateway.running.serving import cancelled, meet
from gateway.store import Script, Store, Unreachable, reading

logger = logging.getLogger(__name__)

LEASE_MS: Final = 6_000
"""After this somebody else listens in the place of a process that died."""
RENEW_S: Final = LEASE_MS / 4 / 1_000
REMEMBERED_MS: Final = 3_600_000
PAUSE_S: Final = (0.5, 5.0)
"""Between two tries to store what can't be stored now: at first, and at most."""
FULL_S: Final = 8.0
"""So long what comes waits for a conversation that has too much waiting."""
REFUSED_PAUSE_S: Final = 60.0
"""Until credentials that were refused are tried again: somebody may have put them right at the platform."""

HOLD = Script(
    "listen hold",
    """
    local holder = redis.call('GET', KEYS[1] .. ':' .. ARGV[1])
    if holder and holder ~= ARGV[2] then return 0 end
    redis.call('SET', KEYS[1] .. ':' .. ARGV[1], ARGV[2], 'PX', ARGV[3])
    return 1
    """,
)
RELEASE = Script(
    "listen release",
    """
    if redis.call('GET', KEYS[1] .. ':' .. ARGV[1]) == ARGV[2] then redis.call('DEL', KEYS[1] .. ':' .. ARGV[1]) end
    return 1
    """,
)
NOTE = Script(
    "listen note",
    """
    redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':trouble', ARGV[2], 'PX', ARGV[3])
    return 1
    """,
)
REMEMBER = Script(
    "listen remember",
    """
    if redis.call('GET', KEYS[1] .. ':' .. ARGV[1]) ~= ARGV[2] then return 0 end
    redis.call('SET', KEYS[1] .. ':' .. ARGV[1] .. ':place', ARGV[3], 'PX', ARGV[4])
    return 1
    """,
)


async def how_it_stands(store: Store, name: str) -> tuple[bool, str]:
    """Whether somebody listens for a connection, and what keeps it from hearing. Raises `Unreachable`."""
    root = store.layout.listen_root
    with reading():
        found: Any = await store.redis.mget(f"{root}:{name}", f"{root}:{name}:trouble")
    return found[0] is not None, (found[1] or b"").decode()


async def listen(parts: Parts, names: Sequence[str], stop: asyncio.Event) -> None:
    """Listen for these connections, or stand by, until told to stop. Raises `Unfit` or `WrongPartitions`."""
    opening = asyncio.create_task(meet(parts.store, parts.mailbox, parts.settings), name="open")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        await opening
    finally:
        await cancelled([opening, stopping])
    tasks = [asyncio.create_task(parts.watched.follow(), name="watch")]
    for name in names:
        adapter = parts.adapters[name]
        tasks.append(asyncio.create_task(Listener(parts, name, adapter).run(), name=f"listen {name}"))
    try:
        await stop.wait()
    finally:
        await cancelled(tasks)


@dataclass(slots=True)
class Listener:
    """Of one connection. It is the `Inlet` of its platform's `listen`."""

    parts: Parts
    name: str
    adapter: Adapter
    _me: str = field(default_factory=lambda: secrets.token_hex(8))

    async def run(self) -> None:
        """Listen whenever nobody else does, until cancelled."""
        while True:
            if await self._holds():
                await self._while_it_is_ours()
            await asyncio.sleep(RENEW_S)

    async def _while_it_is_ours(self) -> None:
        log(logger, "listens", connection=self.name)
        listening = asyncio.create_task(self._listen(), name=f"listening {self.name}")
        try:
            while await self._holds(unless=True):  # noqa: ASYNC110  # a lease that is lost gives no event
                await asyncio.sleep(RENEW_S)
            log(logger, "somebody else listens", level=logging.WARNING, connection=self.name)
        finally:
            await cancelled([listening])
            with suppress(Unreachable):
                await self.parts.store.run(RELEASE, self.parts.store.layout.listen_root, self.name, self._me)

    async def _listen(self) -> None:
        broken_s = PAUSE_S[0]
        while True:
            await introduce(self.name, self.adapter)  # what is heard before that could not be told from other talk
            try:
                await self.adapter.listen(self)
            except ConnectionRefused as why:
                log(logger, "connection refused", level=logging.ERROR, connection=self.name, reason=str(why))
                await self._note(str(why))
                await asyncio.sleep(REFUSED_PAUSE_S)
            except Exception as error:  # noqa: BLE001  # a fault in one connection must not end the others
                log(logger, "listening broke", level=logging.ERROR, error=error, connection=self.name)
                await asyncio.sleep(broken_s)
                broken_s = min(broken_s * 2, REFUSED_PAUSE_S)

    async def _holds(self, *, unless: bool = False) -> bool:
        """Take the lease, or lengthen it. `unless`: what is said where Redis does not answer, and nobody can take it."""
        try:
            root = self.parts.store.layout.listen_root
            return bool(await self.parts.store.run(HOLD, root, self.name, self._me, LEASE_MS))
        except Unreachable:
            return unless

    async def _note(self, trouble: str) -> None:
        """For `deskmate doctor`: the lease alone would say that all is well."""
        root = self.parts.store.layout.listen_root
        with suppress(Unreachable):
            kept_ms = round(2_000 * REFUSED_PAUSE_S)
            await self.parts.store.run(NOTE, root, self.name, trouble[:300], kept_ms)

    async def receive(self, events: Sequence[Event]) -> None:
        """Until all of them are in Redis: nobody sends them again. What waits behind them waits, too; but not long for one
        conversation that has too much waiting: there the person is told to say it again.
        """
        for event in events:
            pause_s, told, begun_s = PAUSE_S[0], False, asyncio.get_running_loop().time()
            while state := await self._not_stored(event):
                if state == "full" and asyncio.get_running_loop().time() - begun_s > FULL_S:
                    await self._turn_away(event)
                    break
                if not told:
                    log(logger, "not stored yet, held back", level=logging.ERROR, connection=self.name, reason=state)
                    told = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S[1])

    async def _turn_away(self, event: Event) -> None:
        key = event.conversation
        log(logger, "turned away", level=logging.ERROR, connection=self.name, conversation=key.id, reason="full")
        profile = self.parts.watched.latest().profile_for(key.connection, key.channel)
        text = say("message.full", language_of(profile.language, event.actor.language))
        to = Address(key, event.extra, event.reply_handle)
        name = hashlib.sha256(f"{key.id} {event.dedupe_keys[0]} full".encode()).hexdigest()[:24]
        outcome = await self.adapter.send(to, self.adapter.render(Outbound(text, is_notice=True))[0], name)
        if outcome.kind != "ok":
            log(logger, "not told", level=logging.WARNING, connection=self.name, reason=outcome.detail or outcome.kind)

    async def _not_stored(self, event: Event) -> str:
        """Why; empty if it is stored."""
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(self.parts.settings.gateway.accept_timeout_s):
                [received] = await self.parts.intake.receive([event])
            return received.state if received.comes_again else ""
        return "away"

    async def recall(self) -> dict[str, Any]:
        try:
            with reading():
                found: Any = await self.parts.store.redis.get(self._place)
            words = json.loads(found or b"{}")
        except (Unreachable, ValueError):
            return {}
        return words if isinstance(words, dict) else {}

    async def remember(self, words: dict[str, Any]) -> None:
        """What can't be remembered now is heard once more by whoever listens next, and known then."""
        root = self.parts.store.layout.listen_root
        with suppress(Unreachable):
            await self.parts.store.run(REMEMBER, root, self.name, self._me, json.dumps(words), REMEMBERED_MS)

    @property
    def _place(self) -> str:
        return f"{self.parts.store.layout.listen_root}:{self.name}:place"
