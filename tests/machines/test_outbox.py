"""The outbox: whatever the platform answers and whenever a worker dies, each message is answered once, or given up and told."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from gateway.platforms import Address, Outcome, Part, Sent
from gateway.store import Script
from tests.machines.conftest import Run
from tests.machines.machine import Machine
from tests.workers.at_desk import AtDesk, at_desk
from tests.workers.room import Room

ARRIVES: Final = "arrives, and nobody hears of it"
ANSWERS: Final = ("transient", "rate_limited", "ambiguous", ARRIVES, "rejected", "bad_format", "too_long")
"""What a platform may answer; the last three are for good."""
MAILBOX: Final = {"send_timeout_s": 0.01, "send_hold_s": 0.01, "lease_s": 60}
SCRIPTS: Final = frozenset({"take", "append", "mark", "settle", "park", "bury"})


class Died(BaseException):
    """Nobody catches it, as nobody catches a signal."""


class Chat(Room):
    """A platform with keys, or one that can be asked, or neither; people see `seen`."""

    def __init__(self, how: str) -> None:
        super().__init__(idempotent_send=how == "key", look_back=how == "look")
        self.how = how
        self.plans: list[str] = []
        self.seen: list[tuple[str, str]] = []
        """Keys and texts, as often as people see them."""
        self.unclear = 0
        """Sends of which nobody can know whether they are there."""
        self.last = ""

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        del to
        plan = self.plans.pop(0) if self.plans else "ok"
        self.last = key
        if plan in {"ok", ARRIVES} and not (self.how == "key" and key in dict(self.seen)):
            self.seen.append((key, part.payload["text"]))
        if plan in {ARRIVES, "ambiguous"}:
            self.unclear += 1
            return Outcome("ambiguous")
        return Outcome("ok", Sent(f"id of {key}")) if plan == "ok" else Outcome(plan)  # type: ignore[arg-type]

    async def find(self, to: Address, key: str, since_ms: int) -> Outcome:
        del to, since_ms
        return Outcome("ok", Sent(f"id of {key}")) if key in dict(self.seen) else Outcome("target_gone")


class OutboxMachine(Machine):
    """People mention us and are greeted: turns without a model, so that all that happens is sending."""

    def __init__(self, url: str, how: str) -> None:
        super().__init__()
        folder = self.opened.enter_context(tempfile.TemporaryDirectory())
        self.chat = Chat(how)
        profile = {"unclear_send": how} if how in {"repeat", "skip"} else {}
        self.world: AtDesk = self.do(
            self.opened.enter_async_context(
                at_desk(
                    Path(folder),
                    url,
                    self.layout.prefix,
                    room=self.chat,
                    profile=profile,
                    settings={"mailbox": MAILBOX},
                )
            )
        )
        self.said = 0
        self.refused = 0
        self.died = 0
        self.asked = 0

    @property
    def redis(self) -> Any:
        return self.world.desk.mailbox.store.redis

    @precondition(lambda self: self.said < 6)
    @rule()
    def somebody_mentions_us(self) -> None:
        assert self.do(self.world.say("")) == "new"
        self.said += 1

    @rule(plan=st.sampled_from(ANSWERS))
    def the_platform_will_answer(self, plan: str) -> None:
        self.chat.plans.append(plan)
        self.refused += plan in {"rejected", "bad_format", "too_long"}

    @rule(dies_after=st.sampled_from([None, None, 0, 1, 2, 3, 4, 5]))
    def a_worker_works(self, dies_after: int | None) -> None:
        self.do(self._work(dies_after))

    @rule()
    def time_passes(self) -> None:
        self.do(self._time())

    async def _work(self, dies_after: int | None = None) -> None:
        store = self.world.desk.mailbox.store
        run = store.run
        left = [10_000 if dies_after is None else dies_after]

        async def mortal(script: Script, root: str, *arguments: Any) -> Any:
            if script.name in SCRIPTS:
                if not left[0]:
                    raise Died
                left[0] -= 1
            return await run(script, root, *arguments)

        store.run = mortal  # type: ignore[method-assign]
        try:
            with suppress(Died):
                await self.world.work()
        finally:
            store.run = run  # type: ignore[method-assign]
        self.died += not left[0]

    async def _time(self) -> None:
        """All leases and waits are over, those of rows as well."""
        root = self.layout.root(0)
        for conversation in await self.redis.zrange(f"{root}:due", 0, -1):
            await self.redis.zadd(f"{root}:due", {conversation: 0}, xx=True)
            states = f"{root}:c:{conversation.decode()}:states"
            for row, state in (await self.redis.hgetall(states)).items():
                await self.redis.hset(states, row, re.sub(rb"^pending \d+", b"pending 0", state))
            await self.redis.hdel(f"{root}:c:{conversation.decode()}", "tries")  # dying is not what is looked at here
        await self.redis.delete(*[key async for key in self.redis.scan_iter(f"{self.layout.pace_root}:*")], "none")

    async def end(self) -> None:
        """The platform is well again: everybody has an answer, or a dead letter says why not."""
        self.chat.plans.clear()
        root = self.layout.root(0)
        for _ in range(20):
            await self._time()
            await self._work()
        assert not await self.redis.exists(f"{root}:due", f"{root}:running"), "it never ends"
        dead = await self.redis.xlen(f"{root}:dead")
        answers = [key for key, text in self.chat.seen if not key.endswith("-notice")]
        if self.chat.how != "repeat":
            assert len(set(answers)) == len(answers), "people got an answer twice"
        else:
            assert len(answers) - len(set(answers)) <= self.chat.unclear + self.died
        given_up = self.said - len(set(answers))
        assert given_up <= dead
        if self.chat.how != "skip":
            assert dead <= self.refused


@pytest.mark.parametrize("how", ["key", "look", "repeat", "skip"])
def test_the_outbox(how: str, redis_url: str, run: Run) -> None:
    run(lambda: OutboxMachine(redis_url, how), examples=6, steps=15)
