"""A conversation whose holders died goes on alone: in a child process of its own, where it can harm nobody else.

Every turn that lived in a process that died has been counted, the innocent too. Alone, the innocent end well and the
guilty one takes only its own process with it; then it is buried, and the person is told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from config.loading import load
from gateway.children import start_child, stop_child
from gateway.connections import platform_settings
from gateway.conversation.claim import Claim, Lost, boot_clock_s
from gateway.embedded import redis_url
from gateway.logs import log, start_logging
from gateway.store import Unreachable
from workers.desk import Desk
from workers.opening import open_desk

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Children of one worker: each is a process with the model's SDK in it. The others wait, their leases are kept."""
LOST = 3
"""Exit code of a child that lost the claim: somebody else goes on."""


def attend_alone(desk: Desk, config: Path) -> Callable[[Claim], Awaitable[None]]:
    """For the runner: attend to a claim in a child process; bury what it dies of. Raises `Lost`."""
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
        child = await start_child([sys.executable, "-P", "-m", "workers.alone", str(config), desk.worker, told])
        try:
            code = await child.wait()
        finally:
            await stop_child(child, within_s=1.0)
        if code == 0:
            return
        if code == LOST:
            raise Lost(claim.conversation)
        log(logger, "died alone", level=logging.ERROR, conversation=claim.conversation, code=code)
        await desk.mailbox.catch_up(claim)
        await desk.bury(claim, f"died alone with {code}")
        await desk.attend(claim, lambda: 0)

    return attend


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
    async with open_desk(loaded, redis_url(loaded.settings), worker) as desk:
        keeping = asyncio.create_task(_keep(desk, claim))
        try:
            await desk.mailbox.renew([claim])
            await desk.attend(claim, lambda: 0)
        except (Lost, Unreachable):
            return LOST
        finally:
            keeping.cancel()
    return 0


async def _keep(desk: Desk, claim: Claim) -> None:
    while True:
        await asyncio.sleep(desk.mailbox.settings.lease_s / 4)
        with suppress(Unreachable):
            await desk.mailbox.renew([claim])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))))
