"""Workers that die at a write of theirs, and others that go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from tests.workers.at_desk import AtDesk


class Died(BaseException):
    """The process is no more."""


class Mortal(Mailbox):
    """The mailbox of a process that dies at its n-th write, right before it or right after it."""

    dies_at = 0
    before = True
    writes = 0
    dead = False

    async def _insist(self, claim: Claim, name: str, *arguments: Any) -> Any:
        if self.dead:
            raise Died
        self.writes += 1
        self.dead = self.writes == self.dies_at
        if self.dead and self.before:
            raise Died
        answer = await super()._insist(claim, name, *arguments)
        if self.dead:
            raise Died
        return answer


async def turn_with_deaths(
    world: AtDesk, where: ConversationKey, text: str, deaths: Sequence[tuple[int, bool]]
) -> list[Record]:
    """One turn, begun by a worker and gone on with by others; its records."""
    desk, clean = world.desk, world.desk.mailbox
    await world.say(text, where)
    for dies_at, before in [*deaths, (0, True)]:
        mortal = Mortal(clean.store, clean.settings)
        await mortal.open()
        mortal.dies_at, mortal.before = dies_at, before
        grants = (await mortal.claim(0, "w1", 1)).grants
        if not grants:
            break
        try:
            await replace(desk, mailbox=mortal).attend(grants[0], lambda: 0)
        except Died:
            await clean.hand_over(grants[0])
    return list((await clean.load(where.id)).history)
