"""A conversation whose holders died goes on alone: in a child process of its own, where it can harm nobody else.

Every turn that lived in a process that died has been counted, the innocent too. Alone, the innocent end well and the
guilty one takes only its own process with it; then it is buried, and the person is told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from config.loading import load
from gateway.connections import platform_settings
from gateway.conversation.claim import Claim, Lost, boot_clock_s
from gateway.logs import log, start_logging
from gateway.running.children import Child, start_child, stop_child
from gateway.running.embedded import redis_url
from gateway.running.serving import cancelled
from gateway.store import Refused, Unreachable
from workers.desk import Desk
from workers.opening import open_desk

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Children of one worker: each is a process with the model's SDK in it. The others wait, their leases are kept."""
LOST, AWAY = 3, 4
"""Exit codes of a child that lost the claim, and of one that could not reach Redis: somebody else goes on."""
BEGINS_WITHIN_S = 60.0
"""From the start of a child to its first sign of life: what it imports takes its time on a busy machine."""
ENDS_WITHIN_S = 15.0
"""From the end of its work to its own: what it has opened is closed, servers of tools too, and nobody waits for that."""
ALIVE, SETTLED = b".", b"!"
"""What a child tells: that its loop goes round, and that the conversation is given back."""


def attend_alone(desk: Desk, config: Path) -> Callable[[Claim], Awaitable[None]]:
    """For the runner: attend to a claim in a child process; bury what it dies of. Raises `Lost`, `Unreachable`."""
    places = asyncio.Semaphore(AT_ONCE)

    async def attend(claim: Claim) -> None:
        async with places:
            claim.check()
            await in_a_child(claim)

    async def in_a_child(claim: Claim) -> None:
        told = json.dumps(
            {
                "conversation": claim.conversation,
                "root": claim.root,
                "token": claim.token,
                "rev": claim.rev,
                "begin": claim.begin,
            }
        )
        log(logger, "alone", conversation=claim.conversation, tries=claim.tries)
        command = [sys.executable, "-P", "-m", "workers.alone", str(config), desk.worker, told]
        child = await start_child(command, stdout=asyncio.subprocess.PIPE)
        try:
            code = await _end_of(child, silent_s=desk.mailbox.settings.lease_s)
        finally:
            await stop_child(child, within_s=1.0)
        if code == 0:
            return
        if code is None:
            log(logger, "stuck alone", level=logging.ERROR, conversation=claim.conversation)
        if code is None or code == LOST:
            raise Lost(claim.conversation)
        if code == AWAY:
            raise Unreachable("a child could not reach Redis")
        log(logger, "died alone", level=logging.ERROR, conversation=claim.conversation, code=code)
        await desk.mailbox.catch_up(claim)
        await desk.bury(claim, f"died alone with {code}")
        await desk.attend(claim, lambda: 0)

    return attend


async def _end_of(child: Child, *, silent_s: float) -> int | None:
    """Its exit code, 0 also where it is slow to end after its work. None: it gave no sign of life for so long. We keep
    its lease, so nobody else would ever end it.
    """
    ended = asyncio.create_task(child.wait())
    signs, wait_s = asyncio.create_task(_sign(child)), BEGINS_WITHIN_S
    try:
        while True:
            await asyncio.wait({ended, signs}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            if not signs.done():
                return None
            if SETTLED in signs.result():
                await asyncio.wait({ended}, timeout=ENDS_WITHIN_S)
                return ended.result() if ended.done() else 0
            signs, wait_s = asyncio.create_task(_sign(child)), silent_s
    finally:
        await cancelled((ended, signs))


async def _sign(child: Child) -> bytes:
    """Returns with its next signs of life."""
    if child.stdout and (told := await child.stdout.read(100)):
        return told
    await asyncio.Event().wait()  # there will be none any more
    raise AssertionError


async def main(config: Path, worker: str, told: dict[str, object]) -> int:
    """The child: hold the claim that the parent gave, until it is settled."""
    loaded = load(config, platforms=platform_settings)
    start_logging(loaded.settings.log, process="alone", secrets=loaded.secret_values)
    claim = Claim(
        conversation=str(told["conversation"]),
        root=str(told["root"]),
        token=str(told["token"]),
        rev=int(str(told["rev"])),
        tries=0,
        begin=int(str(told["begin"])),
        deadline_s=boot_clock_s() + loaded.settings.mailbox.lease_s,
    )
    signs = os.dup(1)  # what we start gets neither: it would hold the pipe open
    os.dup2(2, 1)
    living = asyncio.create_task(_give_signs(signs, loaded.settings.mailbox.lease_s / 4))
    async with open_desk(loaded, redis_url(loaded.settings), worker) as desk:
        keeping = asyncio.create_task(_keep(desk, claim))
        try:
            await desk.mailbox.renew([claim])
            await desk.attend(claim, lambda: 0)
            _tell(signs, SETTLED)
        except (Lost, Refused):
            return LOST
        except Unreachable:
            return AWAY
        finally:
            keeping.cancel()
            living.cancel()
    return 0


async def _give_signs(to: int, every_s: float) -> None:
    """That the loop goes round: whoever computes without end gives none."""
    while True:
        _tell(to, ALIVE)
        await asyncio.sleep(every_s)


def _tell(to: int, what: bytes) -> None:
    with suppress(OSError):  # with the parent gone we end anyway
        os.write(to, what)


async def _keep(desk: Desk, claim: Claim) -> None:
    while True:
        await asyncio.sleep(desk.mailbox.settings.lease_s / 4)
        with suppress(Unreachable):
            await desk.mailbox.renew([claim])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))))
