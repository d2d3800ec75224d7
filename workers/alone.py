"""A conversation whose holders died goes on alone: in a child process of its own, where it can harm nobody else.

Every turn that lived in a process that died has been counted, the innocent too. Alone, the innocent end well and the
guilty one takes only its own process with it; then it is buried, and the person is told. Where we die as well, or somebody
ended the child, nobody knows who was to blame: that is one more try. A process that came to a good end goes on with the
next one: never with two at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from config.loading import load
from gateway.connections import platform_settings
from gateway.conversation.claim import Claim, Lost, boot_clock_s
from gateway.conversation.deaths import COUNTS_AS, End, place_after
from gateway.logs import log, start_logging
from gateway.running.children import Child, start_child, stop_child
from gateway.running.embedded import redis_url
from gateway.store import Refused, Unreachable
from workers.desk import Desk
from workers.opening import open_desk

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Children of one worker: each is a process with the model's SDK in it, some 90 MB that it shares with nobody. The rest waits."""
BEGINS_WITHIN_S = 60.0
"""From the start of a child until it is ready: what it imports takes its time on a busy machine."""
IDLE_S = 20.0
"""A child that came to a good end waits so long for the next conversation: to start one costs seconds of computing, and
where much died there is much to go on with.
"""
ENDED_BY_SOMEBODY = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}
"""Whoever ends all processes of a service, or of a machine, sends these to a child as well as to its parent."""
LATER_MS = 500
"""A conversation for which no child is free comes back after this."""
ALIVE, READY, BEGUN, SETTLED, LOST, AWAY = ".", "r", "b", "!", "L", "A"
"""What a child tells: that its loop goes round; that it can be used; of a conversation, that it begins, that it is given
back, that somebody else has it, or that Redis could not be reached.
"""
NOT_BEGUN = "-"
"""What it did not live to tell: it died, or stood still, before the conversation began in it. That is nobody's fault."""
WORDS: Mapping[str, End] = {SETTLED: "settled", LOST: "lost", AWAY: "away", NOT_BEGUN: "not begun"}
ENDS_TOLD: Mapping[End, tuple[str, int]] = {
    "not begun": ("died idle", logging.WARNING),
    "ended": ("ended alone", logging.WARNING),
    "silent": ("stuck alone", logging.ERROR),
    "died": ("died alone", logging.ERROR),
}
"""How the log tells of an end."""


def attend_alone(desk: Desk, config: Path) -> Callable[[Claim], Awaitable[None]]:
    """For the runner: attend to a claim in a child process; bury what it dies of. Raises `Lost`, `Unreachable`."""
    return _Alone(desk, config).attend


class _Alone:
    """The children of one worker."""

    def __init__(self, desk: Desk, config: Path) -> None:
        self._desk = desk
        self._config = config
        self._idle: list[_Child] = []
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        """Each is a child that begins, or waits to be used."""
        self._one_begins = False
        """One after the other: several that begin at once would all be late, and the first may do for all."""

    async def attend(self, claim: Claim) -> None:
        """See `attend_alone`. Where no child is free the conversation is not held meanwhile: else we might die of another one, and
        that would be counted against it.
        """
        claim.check()
        child = await self._child(claim)
        if child is None:
            await self._later(claim)
            return
        child.taken.set()
        log(logger, "alone", conversation=claim.conversation, tries=claim.tries)
        self._busy += 1
        ended: str | int | None = None
        try:
            ended = await child.attend(claim, silent_s=self._desk.mailbox.settings.lease_s)
        finally:
            self._busy -= 1
            if isinstance(ended, str) and ended != NOT_BEGUN and child.lives:
                self._keep(self._rest(child))
            else:
                await child.end()
        await self._judge(claim, ended)

    async def _later(self, claim: Claim) -> None:
        await self._desk.mailbox.park(claim, LATER_MS, None, self._desk.worker, 0)

    async def _child(self, claim: Claim) -> _Child | None:
        """One that is free. None: there will be, later."""
        self._idle = [child for child in self._idle if child.lives]
        if self._idle:
            return self._idle.pop()
        if place_after(claim.tries) == "sole":  # nothing is beside it that we could die of
            return await self._started()
        if not self._one_begins and len(self._tasks) + self._busy < AT_ONCE:
            self._one_begins = True
            self._keep(self._begin())
        return None

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="alone")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self) -> None:
        try:
            child = await self._started()
        finally:
            self._one_begins = False
        if child:
            await self._rest(child)

    async def _started(self) -> _Child | None:
        is_ready = False
        child = await _Child.start(self._config, self._desk.worker)
        try:
            is_ready = await child.is_ready()
        finally:
            if not is_ready:
                await child.end()
        if not is_ready:
            log(logger, "no process to go on alone in", level=logging.ERROR)
        return child if is_ready else None

    async def _rest(self, child: _Child) -> None:
        child.taken.clear()
        self._idle.append(child)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await child.taken.wait()
        finally:
            if not child.taken.is_set():
                if child in self._idle:
                    self._idle.remove(child)
                await child.end()

    async def _judge(self, claim: Claim, ended: str | int | None) -> None:
        end = _end(ended)
        if told := ENDS_TOLD.get(end):
            event, level = told
            log(logger, event, level=level, conversation=claim.conversation, code=ended)
        if end == "away":
            raise Unreachable("a child could not reach Redis")
        if end == "not begun":
            await self._later(claim)
        if COUNTS_AS[end] == "try":
            raise Lost(claim.conversation)
        if COUNTS_AS[end] != "burial":
            return
        await self._desk.mailbox.catch_up(claim)
        await self._desk.bury(claim, f"died alone with {ended}")


def _end(ended: str | int | None) -> End:
    """Of what `_Child.attend` tells."""
    if ended in ENDED_BY_SOMEBODY:
        return "ended"
    return WORDS[ended] if isinstance(ended, str) else "silent" if ended is None else "died"


class _Child:
    """A process that attends to one conversation at a time, and to the next one if that came to a good end."""

    def __init__(self, process: Child, orders: asyncio.StreamWriter, signs: asyncio.StreamReader) -> None:
        self._process = process
        self._orders = orders
        self._signs = signs
        self.taken = asyncio.Event()

    @classmethod
    async def start(cls, config: Path, worker: str) -> _Child:
        command = [sys.executable, "-P", "-m", "workers.alone", str(config), worker]
        process = await start_child(command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        return cls(process, cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout))

    @property
    def lives(self) -> bool:
        return self._process.returncode is None

    async def is_ready(self) -> bool:
        """Wait until it is; not if it dies before, or takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGINS_WITHIN_S):
                return await self._word(BEGINS_WITHIN_S) == READY
        return False

    async def attend(self, claim: Claim, *, silent_s: float) -> str | int | None:
        """What it tells at the end, or `NOT_BEGUN`; its exit code if it died of it. None: it gave no sign of life for so long.
        We keep its lease, so nobody else would ever end it.
        """
        told = {
            "conversation": claim.conversation,
            "root": claim.root,
            "token": claim.token,
            "rev": claim.rev,
            "begin": claim.begin,
            "tries": claim.tries,
        }
        self._orders.write(json.dumps(told).encode() + b"\n")
        has_begun = False
        with suppress(TimeoutError):
            while word := await self._word(silent_s):
                has_begun = has_begun or BEGUN in word
                if word := word.replace(BEGUN, ""):
                    return word
            code = await self._process.wait()
            return code if has_begun else NOT_BEGUN
        return None if has_begun else NOT_BEGUN

    async def end(self) -> None:
        await stop_child(self._process, within_s=1.0)

    async def _word(self, silent_s: float) -> str:
        """The next word; empty when it is gone. Raises `TimeoutError` when it gives no sign of life for so long."""
        while True:
            async with asyncio.timeout(silent_s):
                signs = await self._signs.read(100)
            if not signs:
                return ""
            if words := signs.decode().replace(ALIVE, ""):
                return words


async def main(config: Path, worker: str) -> None:
    """The child: hold each claim that the parent gives, one after the other, until it is settled."""
    loaded = load(config, platforms=platform_settings)
    start_logging(loaded.settings.log, process="alone", secrets=loaded.secret_values)
    signs = os.dup(1)  # what we start gets neither: it would hold the pipe open
    os.dup2(2, 1)
    living = asyncio.create_task(_give_signs(signs, loaded.settings.mailbox.lease_s / 4))
    orders = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(orders)
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb"))
    try:
        async with open_desk(loaded, redis_url(loaded.settings), worker) as desk:
            _tell(signs, READY)
            while told := await orders.readline():
                _tell(signs, BEGUN)
                _tell(signs, await _attend(desk, json.loads(told)))
    finally:
        pipe.close()
        living.cancel()


async def _attend(desk: Desk, told: dict[str, object]) -> str:
    claim = Claim(
        conversation=str(told["conversation"]),
        root=str(told["root"]),
        token=str(told["token"]),
        rev=int(str(told["rev"])),
        tries=int(str(told["tries"])),
        begin=int(str(told["begin"])),
        deadline_s=boot_clock_s() + desk.mailbox.settings.lease_s,
    )
    keeping = asyncio.create_task(_keep(desk, claim))
    try:
        await desk.mailbox.renew([claim])
        await desk.attend(claim, lambda: 0)
    except (Lost, Refused):
        return AWAY if claim.cut_off else LOST
    except Unreachable:
        return AWAY
    finally:
        keeping.cancel()
    return SETTLED


async def _give_signs(to: int, every_s: float) -> None:
    """That the loop goes round: whoever computes without end gives none."""
    while True:
        _tell(to, ALIVE)
        await asyncio.sleep(every_s)


def _tell(to: int, what: str) -> None:
    with suppress(OSError):  # with the parent gone we end anyway
        os.write(to, what.encode())


async def _keep(desk: Desk, claim: Claim) -> None:
    while True:
        await asyncio.sleep(desk.mailbox.settings.lease_s / 4)
        with suppress(Unreachable):
            await desk.mailbox.renew([claim])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
