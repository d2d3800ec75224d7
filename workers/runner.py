"""The runner: answers bells, claims conversations, keeps their leases, and ends without losing any.

A bell is a hint; each worker with a free place looks by itself about once a second. A full worker neither pops bells nor
claims: the script that gives back one conversation gives it the next.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from config.settings import MailboxSettings
from gateway.bell import Bell, Foreign
from gateway.conversation.claim import Claim, Claimed, Leaving, Lost
from gateway.conversation.deaths import COUNTS_AS, End, place_after
from gateway.conversation.mailbox import COLD_ADVICE, Cold, Mailbox
from gateway.logs import log
from gateway.running.serving import cancelled
from gateway.running.standstill import tell_standstills
from gateway.store import Refused, Unreachable
from workers.registration import Registration

logger = logging.getLogger(__name__)

SOLE_AGAIN_MS = 500
"""Where another one goes on with nothing beside it, this one looks again after so long."""
BELL_WAIT_S = 2.0
LAG_STEP_S = 0.05
LAG_AGAIN_S = 0.2
WATCH_S = 1.0
HAND_OVER_S = 3.0
"""How long the end of a worker waits for a Redis that is away, to give back what it holds."""

Attend = Callable[[Claim, Callable[[], int]], Awaitable[Claimed]]


class Runner:
    """The life of one worker process. `run` it; `drain` ends it."""

    def __init__(
        self,
        *,
        mailbox: Mailbox,
        bell: Bell,
        registration: Registration,
        attend: Attend,
        attend_alone: Callable[[Claim], Awaitable[None]],
        bury: Callable[[Claim, str], Awaitable[Claimed]],
        concurrency: int,
        grace_s: float,
        show: Callable[[int], None] = lambda held: None,  # noqa: ARG005
    ) -> None:
        self._mailbox = mailbox
        self._bell = bell
        self._registration = registration
        self._attend = attend
        self._attend_alone = attend_alone
        self._bury = bury
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._show = show
        self._settings: MailboxSettings = mailbox.settings
        # Nobody having asked for half a lease is taken for a sleep of the server, and lengthens all leases.
        self._poll_s = min(self._settings.poll_s, self._settings.lease_s / 4)
        self._held: dict[str, Claim] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._freed = asyncio.Event()
        self._look_at_s = 0.0
        self._sooner = asyncio.Event()
        self._lag_s = 0.0
        self._suspended = False
        self._cold = False
        self._unheard_until_s = 0.0
        """Until then we look for what was granted to us in an answer that never came: Redis may also do late what it was asked."""
        self._draining = asyncio.Event()
        self._sole: Claim | None = None
        """What is to have this worker for itself, or has it."""

    @property
    def name(self) -> str:
        return self._registration.name

    @property
    def is_open(self) -> bool:
        """May it take new work?"""
        return not (self._suspended or self._draining.is_set() or self._cold or self._sole)

    def places(self) -> int:
        """How many conversations it may still claim."""
        return self._concurrency - len(self._held) - self._asked if self.is_open else 0

    def drain(self) -> None:
        """Take no more; end when what is held has ended, or at the end of the grace time."""
        self._draining.set()
        self._freed.set()

    async def run(self) -> None:
        """Work until `drain`. Returns when nothing is held any more."""
        tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(work(), name=work.__name__.strip("_"))
            for work in (
                *(self._answer_bells, self._poll, self._renew, self._listen, self._watch, self._measure_lag),
                tell_standstills,
            )
        ]
        draining: asyncio.Task[Any] = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait([draining, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            await self._end_turns()
        finally:
            await cancelled((*tasks, draining))
            with suppress(Unreachable):
                await self._mailbox.leave(self.name)

    # ---- getting work ----

    async def _answer_bells(self) -> None:
        while True:
            if self.places() <= 0:
                await self._freed_or(WATCH_S)
                continue
            try:
                partition = await self._bell.pop(BELL_WAIT_S)
            except Foreign as foreign:
                log(logger, "foreign job refused", level=logging.ERROR, reason=str(foreign))
                continue
            except (RedisError, OSError) as error:
                log(logger, "no bells", level=logging.WARNING, reason=str(error))
                await asyncio.sleep(WATCH_S)  # the poll goes on meanwhile
                continue
            if partition is None or partition >= self._mailbox.store.layout.partitions:
                continue
            if self.is_open:
                await self._pull(partition, by_bell=True)
            else:
                with suppress(RedisError, OSError):
                    await self._bell.push_back(partition)

    async def _freed_or(self, wait_s: float) -> None:
        self._freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):  # not wait_for: it may swallow a cancellation
                await self._freed.wait()

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while (left_s := self._look_at_s - loop.time()) > 0:
                self._sooner.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._sooner.wait()
            # before the looks: their answers may name a sooner time, such as the end of a dead worker's lease
            self._look_at_s = loop.time() + self._poll_s * random.uniform(0.8, 1.2)
            for partition in range(self._mailbox.store.layout.partitions):
                await self._pull(partition)

    def _look_in(self, wait_s: float) -> None:
        """The next look comes then, if not before."""
        look_at_s = asyncio.get_running_loop().time() + wait_s
        if look_at_s < self._look_at_s:
            self._look_at_s = look_at_s
            self._sooner.set()

    async def _pull(self, partition: int, *, by_bell: bool = False) -> None:
        """Claim a few at a time, a turn of the loop between: a busy loop takes less and an idle one more."""
        while True:
            if self._lag_s * 1000 > self._settings.lag_ms and not by_bell:
                self._look_in(LAG_AGAIN_S)  # what is due now is not left for a whole poll
                return
            places = max(0, min(self._settings.batch, self.places()))
            self._asked += places
            try:
                claimed = await self._mailbox.claim(partition, self.name, places, by_bell=by_bell)
            except Cold:
                self._cold = True
                return
            except Unreachable as error:
                log(logger, "no claim", level=logging.WARNING, reason=str(error))
                self._missed_an_answer()
                return
            finally:
                self._asked -= places
            by_bell = False
            self._absorb(partition, claimed)
            await asyncio.sleep(0)
            if not claimed.grants:
                return

    def _absorb(self, partition: int, claimed: Claimed) -> None:
        if claimed.ring:
            self._bell.ring(partition)
        if claimed.wait_ms is not None:
            self._look_in(claimed.wait_ms / 1000)
        for claim in claimed.grants:
            self._held[claim.conversation] = claim
            task = asyncio.create_task(self._hold(claim), name=f"turn {claim.conversation[:8]}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _hold(self, claim: Claim) -> None:
        """One claim, from the grant to its end."""
        partition = self._mailbox.store.layout.partition(claim.conversation)
        claimed = Claimed()
        try:
            claimed = await self._go_on(claim)
        except Lost as lost:  # Leaving as well: it is still ours to give
            log(logger, "claim lost", level=logging.WARNING, conversation=claim.conversation, why=type(lost).__name__)
            self._missed_an_answer()  # maybe the one that it was given back, and what was claimed with that
            is_leaving = isinstance(lost, Leaving) or self._draining.is_set()
            await self._hand_over(claim, "leaving" if is_leaving else "away" if claim.cut_off else "lost")
        except Refused as error:
            log(logger, "claim broke", level=logging.ERROR, error=error, conversation=claim.conversation)
        except Unreachable as error:
            log(logger, "redis away during a turn", level=logging.WARNING, reason=str(error))
            await asyncio.sleep(WATCH_S)
            await self._hand_over(claim, "away")
        except Exception as error:  # noqa: BLE001  # not handed over: its lease runs out, which counts as a try
            log(logger, "claim broke", level=logging.ERROR, error=error, conversation=claim.conversation)
        finally:
            if self._held.get(claim.conversation) is claim:
                del self._held[claim.conversation]
            self._absorb(partition, claimed)
            self._freed.set()

    async def _go_on(self, claim: Claim) -> Claimed:
        """Where its tries say."""
        match place_after(claim.tries):
            case "beside":
                return await self._attend(claim, self._places_with_mine)
            case "alone":
                await self._attend_alone(claim)
            case "sole":
                return await self._with_nothing_beside(claim, partial(self._attend_alone, claim))
            case "given up":  # where that kills, too, nobody else dies of it, and it is counted
                bury = partial(self._bury, claim, f"{claim.tries} holders died")
                return await self._with_nothing_beside(claim, bury)
        return Claimed()

    async def _with_nothing_beside(self, claim: Claim, work: Callable[[], Awaitable[Claimed | None]]) -> Claimed:
        """What kills us then is this one. What else we hold ends first, or goes on elsewhere from its next step; that may take
        as long as a turn, and the others go on taking what comes. Where another one has nothing beside it, it comes later.
        """
        if self._sole or not await self._mailbox.sole(claim, begins=False):
            return await self._sole_later(claim)
        self._sole = claim
        log(logger, "to be attended to alone", conversation=claim.conversation, tries=claim.tries, held=len(self._held))
        try:
            while self._asked or len(self._held) > 1:
                for other in self._held.values():
                    other.leaving = other.leaving or other is not claim
                if claim.leaving:
                    raise Leaving(claim.conversation)
                claim.check()
                await self._freed_or(WATCH_S)
            if not await self._mailbox.sole(claim, begins=True):  # Redis has lost that it was our turn
                return await self._sole_later(claim)
            return await work() or Claimed()
        finally:
            self._sole = None

    async def _sole_later(self, claim: Claim) -> Claimed:
        return await self._mailbox.park(claim, SOLE_AGAIN_MS, None, self.name, 0) or Claimed()

    def _places_with_mine(self) -> int:
        """For the script that gives back a claim: the place that gets free is one more."""
        return max(0, min(1, self.places() + 1)) if self.is_open else 0

    async def _hand_over(self, claim: Claim, end: End) -> None:
        """Give back what we may still hold, as soon as Redis is there: until then it stays among what we hold, and is renewed."""
        if await self._mailbox.hand_over(claim, counts=COUNTS_AS[end] == "try"):
            self._bell.ring(self._mailbox.store.layout.partition(claim.conversation))

    # ---- keeping it ----

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_s / 4)
            try:
                await self._mailbox.renew(list(self._held.values()))
                if asyncio.get_running_loop().time() < self._unheard_until_s:
                    await self._give_back_unheard()
            except Unreachable as error:
                log(logger, "leases not renewed", level=logging.WARNING, reason=str(error))
                self._missed_an_answer()

    def _missed_an_answer(self) -> None:
        self._unheard_until_s = asyncio.get_running_loop().time() + self._settings.lease_s

    async def _give_back_unheard(self) -> None:
        for partition in range(self._mailbox.store.layout.partitions):
            if await self._mailbox.give_back_unheard(partition, self.name, list(self._held.values())):
                self._bell.ring(partition)

    async def _listen(self) -> None:
        """Nudges: somebody wrote to a conversation that we hold. What is missed, the answer of `renew` tells."""
        while True:
            try:
                async for conversation in self._mailbox.nudges(self.name):
                    if claim := self._held.get(conversation):
                        claim.news.set()
            except (Unreachable, RedisError, OSError) as error:
                log(logger, "no nudges", level=logging.WARNING, reason=str(error))
            await asyncio.sleep(WATCH_S)

    async def _watch(self) -> None:
        """What others decide: suspended by an operator, data gone; and what others want to know of us."""
        while True:
            try:
                lost_ms = await self._mailbox.beat(self.name)
                why = await self._mailbox.why_cold()
                warm = not why
                if lost_ms and warm:
                    advice = "what was accepted in that time may be lost: see redis.durability, and replicas that lag"
                    log(logger, "redis lost its last writes", logging.ERROR, at_least_ms=lost_ms, advice=advice)
                if warm == self._cold:
                    if warm:
                        log(logger, "data known again", logging.WARNING)
                    else:
                        log(logger, "data unknown", logging.ERROR, reason=why, advice=COLD_ADVICE)
                self._cold = not warm
            except Unreachable as error:
                log(logger, "redis away", level=logging.WARNING, reason=str(error))
            self._suspended = await self._registration.look(busy=bool(self._held), draining=self._draining.is_set())
            self._show(len(self._held))
            await asyncio.sleep(WATCH_S)

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_s = loop.time()
            await asyncio.sleep(LAG_STEP_S)
            self._lag_s = loop.time() - asked_s - LAG_STEP_S

    # ---- ending ----

    async def _end_turns(self) -> None:
        """Let turns end, or stop at a step's border; at the end of the grace time give back what is left as it is."""
        for claim in self._held.values():
            claim.leaving = True
        log(logger, "draining", held=len(self._held), grace_s=self._grace_s)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._grace_s)
        left = list(self._held.values())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        handing = {asyncio.create_task(self._hand_over(claim, "leaving")) for claim in left}
        if handing:
            await asyncio.wait(handing, timeout=HAND_OVER_S)
        await cancelled(handing)
        log(logger, "drained", handed_over=len(left))
