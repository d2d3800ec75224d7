"""The mailbox: whatever is said, claimed, written twice, slept, crashed and lost, each message is in history once, in its order.

Nothing in an example hangs on the time of day or on how quick the machine is: the scripts are told the time by the example.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from gateway.conversation.claim import Behind, Claim, Fenced, Lost
from gateway.conversation.deaths import SOLE_AFTER
from gateway.conversation.mailbox import Mailbox, event_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.store import Script
from tests.gateway.conversation.model.states import CLOCK
from tests.gateway.conversation.world import PLAY, World, event, key, texts
from tests.machines.conftest import Run
from tests.machines.machine import Machine

WHERE: Final = {thread: key(thread, channel) for thread, channel in (("a", "room"), ("b", "room"), ("c", "hall"))}
NUMBERS: Final = st.integers(0, 3)
BEGIN_MS: Final = 1_700_000_000_000
LEASE_MS: Final = 3_600_000
"""By the clock of the machine that runs this no lease ends: who is late is late because the example says so."""
WAIT_MS: Final = 60_000
PASSES_MS: Final = {
    "a moment": 1,
    "a wait": WAIT_MS,
    "a third of a lease": LEASE_MS // 3,
    "more than half a lease": LEASE_MS * 2 // 3,
    "a lease": LEASE_MS,
    "the clock is put back a moment": -1,
    "the clock is put back": -2 * LEASE_MS,
}
INBOX_MAX: Final = 3
CAP: Final = 1
WRITES: Final = {"take": "DONE", "append": "DONE", "mark": "DONE", "settle": "FENCED", "park": "FENCED"}
"""What is said of one that was written already: it is known, or whoever wrote it has given the conversation back."""


@dataclass
class Conversation:
    """What a conversation must hold."""

    id: str
    channel: str
    token: str = ""
    worker: str = ""
    tries: int = 0
    waits: bool = False
    """It was granted after many deaths, and has not begun with nothing beside it."""
    rev: int = 0
    seq: int = 0
    inbox: list[tuple[int, int, str]] = field(default_factory=list)
    """When it was said, its number, the text."""
    control: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    replies: int = 0
    is_open: bool = False
    rows: dict[str, str] = field(default_factory=dict)
    ready_ms: int | None = None
    """Since when it waits for a worker."""
    due_ms: int | None = None
    """When its holder's lease, or its own wait, ends."""
    spared_ms: int | None = None
    """When its lease ended as it was lengthened last because nobody was there."""

    @property
    def unsent(self) -> list[str]:
        return [name for name, state in self.rows.items() if state != "sent"]

    def put(self, now_ms: int) -> None:
        self.due_ms = None
        self.ready_ms = now_ms if self.ready_ms is None else self.ready_ms


@dataclass
class Plain:
    """All that the server must hold."""

    conversations: dict[str, Conversation]
    known: set[str] = field(default_factory=set)
    pulse_ms: int | None = None
    """When somebody claimed last."""
    sole: tuple[str, str] | None = None
    """Which conversation has nothing beside it, or waits for that, and its token."""

    def free(self, c: Conversation, *, died: bool = False) -> None:
        """Nobody holds it any more. Of what has not begun nobody dies."""
        c.tries += died and not c.waits
        c.token, c.worker, c.waits = "", "", False
        if self.sole and self.sole[0] == c.id:
            self.sole = None

    def held(self, channel: str) -> int:
        return sum(bool(c.token) for c in self.conversations.values() if c.channel == channel)

    def ready(self, channel: str) -> list[Conversation]:
        there = [c for c in self.conversations.values() if c.channel == channel and c.ready_ms is not None]
        return sorted(there, key=lambda c: (c.ready_ms, c.id))

    def sweep(self, now_ms: int) -> None:
        """Whose lease or wait is over is ready; but who held something while nobody at all was there has a moment left, and one
        more only after it has renewed.
        """
        if self.pulse_ms is not None and self.pulse_ms > now_ms:
            self.step_back(self.pulse_ms - now_ms, now_ms)
        slept = self.pulse_ms is not None and now_ms - self.pulse_ms > LEASE_MS / 2
        self.pulse_ms = now_ms
        for c in self.conversations.values():
            if c.due_ms is not None:
                if slept and c.token and c.due_ms < now_ms + LEASE_MS // 2 and c.due_ms != c.spared_ms:
                    c.due_ms = c.spared_ms = now_ms + LEASE_MS // 2
                if c.due_ms <= now_ms:
                    if c.token:
                        self.free(c, died=True)
                    c.put(now_ms)

    def step_back(self, by_ms: int, now_ms: int) -> None:
        """The clock was put back by so much since somebody claimed last."""
        for c in self.conversations.values():
            if c.due_ms is not None:
                c.due_ms = min(c.due_ms, now_ms + LEASE_MS) if c.token else c.due_ms - by_ms
            if c.ready_ms is not None and c.ready_ms > now_ms:
                c.ready_ms -= by_ms

    def grantable(self, places: int) -> int:
        channels = {c.channel for c in self.conversations.values()}
        return min(places, sum(min(CAP - self.held(one), len(self.ready(one))) for one in channels))


class MailboxMachine(Machine):
    """Two processes on one partition. Holders are claims that somebody still believes in, dead or alive."""

    def __init__(self, url: str) -> None:
        super().__init__()
        settings = PLAY.model_copy(
            update={
                "lease_s": LEASE_MS / 1_000,
                "dedupe_s": 30 * 86_400,
                "inbox_max": INBOX_MAX,
                "places_per_channel": CAP,
            }
        )
        self.world = World(url, self.layout, settings, timeout_s=60.0)
        self.opened.push_async_callback(self.world.close)
        self.opened.push_async_callback(self.world.restore, {})  # others' scans walk over all that there is
        self.mailboxes = [self.do(self._mailbox()) for _ in range(2)]
        self.clock = f"clock of {self.layout.root(0)}"
        self.now_ms = BEGIN_MS
        self.do(self._pass(0))
        self.holders: list[Claim] = []
        self.plain = Plain({one.id: Conversation(one.id, one.channel_id) for one in WHERE.values()})
        self.said: list[str] = []
        self.saved: tuple[dict[bytes, bytes], Plain] | None = None
        self.number = 0
        self.twice = False
        """Whether what is written now arrives twice."""
        self.told: list[str] = []
        """All tokens: two runs of one example have the same."""

    async def _mailbox(self) -> Mailbox:
        mailbox = await self.world.mailbox()
        run = mailbox.store.run

        async def run_at(script: Script, root: str, *arguments: Any) -> Any:
            told = told_the_time(script)
            answer = await run(told, root, *arguments)
            if self.twice and (gone := WRITES.get(script.name)):
                verdicts = [_verdict(answer), _verdict(await run(told, root, *arguments))]
                assert verdicts[0] == verdicts[1] != "OK" or verdicts == ["OK", gone], "it counts once"
            return answer

        mailbox.store.run = run_at  # type: ignore[method-assign]
        return mailbox

    @property
    def redis(self) -> Any:
        return self.world.stores[0].redis

    async def _pass(self, for_ms: int) -> None:
        self.now_ms += for_ms
        await self.redis.set(self.clock, self.now_ms * 1_000, px=600_000)

    @property
    def mailbox(self) -> Mailbox:
        return self.mailboxes[self.number % 2]

    def fresh(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    @initialize(texts=st.lists(st.sampled_from(sorted(WHERE)), min_size=1, max_size=4), places=st.integers(0, 2))
    def there_is_something_to_do(self, texts: list[str], places: int) -> None:
        for thread in texts:
            self.something_is_said(thread, age_ms=0, control=False, delay_ms=0, later=True)
        self.somebody_claims(by_bell=False, places=places)

    # ---- people ----

    async def say(self, text: str, *, age_ms: int = 0, control: bool = False, delay_ms: int = 0) -> None:
        where = WHERE[text[0]]
        c = self.plain.conversations[where.id]
        at_ms = self.now_ms - age_ms
        said = dataclasses.replace(event(text, where), at_ms=at_ms)
        answer = await self.mailbox.accept(
            where, said.dump(), dedupe_keys=said.dedupe_keys, at_ms=at_ms, control=control, delay_ms=delay_ms
        )
        if text in self.plain.known:
            assert answer.state == "known"
            return
        if len(c.control if control else c.inbox) >= INBOX_MAX:
            assert answer.state == "full"
            return
        assert answer.state == "new"
        self.plain.known.add(text)
        c.seq += 1
        if control:
            c.control.append(text)
        else:
            last_ms = c.inbox[-1][0] if c.inbox else 0
            came_ms = last_ms if last_ms > self.now_ms else max(at_ms, self.now_ms - 5_000)
            c.inbox = sorted([*c.inbox, (came_ms, c.seq, text)])
        if c.token or c.ready_ms is not None:
            return
        if delay_ms:
            c.due_ms = min(c.due_ms or self.now_ms + delay_ms, self.now_ms + delay_ms)
        else:
            c.put(self.now_ms)

    @rule(
        thread=st.sampled_from(sorted(WHERE)),
        age_ms=st.sampled_from([0, 0, 2_000, 10_000]),
        control=st.sampled_from([False, False, True]),
        delay_ms=st.sampled_from([0, 0, WAIT_MS]),
        later=st.booleans(),
    )
    def something_is_said(self, thread: str, age_ms: int, control: bool, delay_ms: int, later: bool) -> None:
        self.do(self._pass(int(later)))
        self.said.append(self.fresh(f"{thread}-"))
        self.do(self.say(self.said[-1], age_ms=age_ms, control=control, delay_ms=delay_ms))

    @precondition(lambda self: self.said)
    @rule(number=st.integers(0, 9))
    def it_comes_again(self, number: int) -> None:
        self.do(self.say(self.said[number % len(self.said)]))

    # ---- workers ----

    @rule(by_bell=st.booleans(), places=st.integers(0, 3))
    def somebody_claims(self, by_bell: bool, places: int) -> None:
        worker = self.worker(self.number)
        claimed = self.do(self.mailbox.claim(0, worker, places, by_bell=by_bell))
        self._granted(claimed.grants, places, worker)

    @staticmethod
    def worker(number: int) -> str:
        return f"w{number % 3}"

    def _granted(self, grants: Iterable[Claim], places: int, worker: str) -> None:
        self.plain.sweep(self.now_ms)
        expected = self.plain.grantable(places)
        for claim in grants:
            c = self.plain.conversations[claim.conversation]
            assert c is self.plain.ready(c.channel)[0], "somebody else waits for longer"
            assert claim.rev == c.rev
            assert claim.tries == c.tries
            assert claim.token not in self.told, "a number was given twice"
            c.token, c.worker, c.ready_ms, c.due_ms = claim.token, worker, None, self.now_ms + LEASE_MS
            c.waits = c.tries >= SOLE_AFTER
            self.holders.append(claim)
            self.told.append(claim.token)
            expected -= 1
        assert not expected, "as many as there is room for"

    def holder(self, number: int) -> tuple[Claim, Conversation]:
        claim = self.holders[number % len(self.holders)]
        return claim, self.plain.conversations[claim.conversation]

    async def write(self, claim: Claim, work: Awaitable[Any], *, revises: bool = True) -> bool:
        """Whether it was written, which it must be if and only if the writer holds it and nothing was lost that it builds on."""
        c = self.plain.conversations[claim.conversation]
        right: type[Lost] | None = None
        if claim.seconds_left() <= 0 or claim.token != c.token:
            right = Fenced
        elif revises and claim.rev != c.rev:
            right = Behind
        came: type[Lost] | None = None
        try:
            await work
        except Lost as lost:
            came = type(lost)
        assert came == right
        if came:
            assert claim.lost
            self.holders.remove(claim)
        return came is None

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, with_control=st.booleans(), most=st.integers(0, 3), twice=st.booleans())
    def it_takes(self, number: int, with_control: bool, most: int, twice: bool) -> None:
        claim, c = self.holder(number)
        self.twice = twice
        self.do(self._take(claim, c, with_control=with_control, most=most))

    async def _take(self, claim: Claim, c: Conversation, *, with_control: bool, most: int) -> None:
        if not c.seq:  # Redis has lost all of it
            with pytest.raises(Behind):
                await self.mailbox.load(claim.conversation)
            return
        stored = await self.mailbox.load(claim.conversation)
        members, control = stored.inbox[:most], stored.control[: int(with_control)]
        if not members and not control:
            return
        taken = [Event.load(one).text for one in [*control, *map(event_of, members)]]
        turn = {"id": "turn", "start": 0, "to": {}}
        if await self.write(claim, self.mailbox.take(claim, turn, members=members, control=len(control))):
            c.rev, c.is_open = c.rev + 1, True
            c.history += taken
            c.inbox = [one for one in c.inbox if one[2] not in taken]
            c.control = [one for one in c.control if one not in taken]

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, closes=st.booleans(), twice=st.booleans())
    def it_answers(self, number: int, closes: bool, twice: bool) -> None:
        claim, c = self.holder(number)
        self.twice = twice
        row = Row(self.fresh("row"), "turn", 0, {"payload": {}}, {}, self.now_ms)
        records = [Record("reply", self.now_ms, {"text": row.key})]
        work = self.mailbox.append(
            claim, records=records, rows=[row], turn="close" if closes else None, finished_step=closes
        )
        if self.do(self.write(claim, work)):
            c.rev, c.replies = c.rev + 1, c.replies + 1
            c.rows[row.key] = "pending"
            c.is_open = c.is_open and not closes
            c.tries = 0 if closes else c.tries

    @precondition(lambda self: self.holders)
    @rule(
        number=NUMBERS,
        which=NUMBERS,
        states=st.sampled_from([["sending"], ["sending", "sent"], ["sent", "sending"], ["sent", "sent"]]),
        twice=st.booleans(),
    )
    def it_marks(self, number: int, which: int, states: list[str], twice: bool) -> None:
        claim, c = self.holder(number)
        self.twice = twice
        for state in states:
            if claim in self.holders:
                self._mark(claim, c, which, state)

    def _mark(self, claim: Claim, c: Conversation, which: int, state: str) -> None:
        rows = list(c.rows) or ["none"]
        name = rows[which % len(rows)]

        async def mark() -> None:
            marked: list[bool] = []

            async def work() -> None:
                marked.append(await self.mailbox.mark(claim, Row(name, "turn", 0, {}, {}, 0), state))

            if await self.write(claim, work()):
                assert marked == [c.rows.get(name, "sent") != "sent"]
                if marked[0]:
                    c.rev += 1
                    c.rows[name] = state

        self.do(mark())

    @precondition(lambda self: self.holders)
    @rule(
        number=NUMBERS,
        how=st.sampled_from(["settle", "park", "park and miss somebody", "hand over", "hand over as a try"]),
        places=st.integers(0, 1),
        twice=st.booleans(),
    )
    def it_gives_back(self, number: int, how: str, places: int, twice: bool) -> None:
        claim, c = self.holder(number)
        self.twice = twice
        if how == "settle":
            stays = c.is_open or bool(c.unsent)
            settle = partial(self.mailbox.settle, claim, "w", places)
            self._gives_back(claim, c, settle, places, stays=stays, parks=False)
        elif how.startswith("park"):
            missed = how.endswith("somebody")
            park = partial(self.mailbox.park, claim, WAIT_MS, c.seq - missed, "w", places)
            self._gives_back(claim, c, park, places, stays=bool(c.control) or missed, parks=True)
        else:
            self.holders.remove(claim)
            self.do(self.mailbox.hand_over(claim, counts=how.endswith("try")))
            if claim.token == c.token:
                self.plain.free(c, died=how.endswith("try"))
                c.put(self.now_ms)

    def _gives_back(
        self, claim: Claim, c: Conversation, ask: Callable[[], Any], places: int, *, stays: bool, parks: bool
    ) -> None:
        answer: list[Any] = []

        async def work() -> None:
            answer.append(await ask())

        if not self.do(self.write(claim, work())):
            return
        assert (answer[0] is None) == stays
        if stays:
            return
        self.holders.remove(claim)
        c.rev, c.due_ms = c.rev + 1, None
        self.plain.free(c)
        if parks:
            c.due_ms = self.now_ms + WAIT_MS
        else:
            c.rows.clear()
            c.tries = 0
            if c.inbox or c.control:
                c.put(self.now_ms)
        self._granted(answer[0].grants, places, "w")

    @precondition(lambda self: self.holders)
    @rule(
        number=NUMBERS,
        often=st.booleans(),
        begins=st.booleans(),
        ends=st.sampled_from(["", "it dies", "hand over as a try"]),
    )
    def it_wants_nothing_beside_it(self, number: int, often: bool, begins: bool, ends: str) -> None:
        """Many died with it; or one asks who need not. It may end right then."""
        claim, c = self.holder(number)
        if often and c.token == claim.token:
            self.do(self._has_killed_many(c))
        self._asks_to_have_it_alone(claim, c, begins=begins)
        if ends and claim in self.holders and c.token == claim.token:
            if ends == "it dies":
                self.holders.remove(claim)
                self.time_passes("a lease, and somebody looks")
            else:
                self.it_gives_back(self.holders.index(claim), ends, 0, twice=False)
            self.somebody_claims(by_bell=False, places=3)

    @precondition(lambda self: len(self.holders) > 1)
    @rule(begins=st.booleans())
    def two_want_nothing_beside_them(self, begins: bool) -> None:
        for claim in self.holders[-2:]:
            self._asks_to_have_it_alone(claim, self.plain.conversations[claim.conversation], begins=begins)

    def _asks_to_have_it_alone(self, claim: Claim, c: Conversation, *, begins: bool) -> None:
        other = self.plain.sole
        waits = other is not None and other[0] != c.id and self.plain.conversations[other[0]].token == other[1]
        may: list[bool] = []

        async def ask() -> None:
            may.append(await self.mailbox.sole(claim, begins=begins))

        if not self.do(self.write(claim, ask(), revises=False)):
            return
        assert may == [not waits], "one at a time"
        if not waits:
            self.plain.sole = (c.id, c.token)
            c.waits = c.waits and not begins

    async def _has_killed_many(self, c: Conversation) -> None:
        """As if it had been granted after that."""
        c.tries, c.waits = SOLE_AFTER, True
        await self.redis.hset(self.layout.key(c.id), mapping={"tries": c.tries, "waits": "1"})

    @rule(number=NUMBERS, forgets=st.booleans())
    def somebody_says_what_it_holds(self, number: int, forgets: bool) -> None:
        """The answer to its claim was lost, if it `forgets`: what was granted goes back, and nobody died of it."""
        name = self._holder_of(self.holders[number % len(self.holders)]) if self.holders else self.worker(number)
        if forgets:
            self.holders = [claim for claim in self.holders if self._holder_of(claim) != name]
        held = [claim for claim in self.holders if self._holder_of(claim) == name]
        self.do(self.mailbox.give_back_unheard(0, name, held))
        heard = {claim.token for claim in held}
        for c in self.plain.conversations.values():
            if c.token and c.worker == name and c.token not in heard:
                self.plain.free(c)
                c.put(self.now_ms)
        self.all_renew()
        self.somebody_claims(by_bell=False, places=3)

    def _holder_of(self, claim: Claim) -> str:
        return claim.token.partition("-")[2]

    @rule()
    def all_renew(self) -> None:
        for claim in self.holders:
            c = self.plain.conversations[claim.conversation]
            self.do(self.mailbox.renew([claim]))
            assert claim.lost == (claim.token != c.token)
            if not claim.lost:
                c.due_ms = self.now_ms + LEASE_MS
        self.holders = [claim for claim in self.holders if not claim.lost]

    # ---- what befalls them ----

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, sleeps=st.booleans())
    def one_dies_or_sleeps_past_its_lease(self, number: int, sleeps: bool) -> None:
        claim, _ = self.holder(number)
        if sleeps:
            claim.deadline_s = 0.0
        else:
            self.holders.remove(claim)

    @rule(what=st.sampled_from([*PASSES_MS, "a lease, and somebody looks", "the bell is lost"]))
    def time_passes(self, what: str) -> None:
        if what in PASSES_MS:
            self.do(self._pass(PASSES_MS[what]))
        elif what == "the bell is lost":
            self.do(self.redis.delete(f"{self.layout.root(0)}:bell"))
        else:
            for _ in range(3):
                self.do(self._pass(LEASE_MS // 3))
                self.somebody_claims(by_bell=False, places=0)

    @rule(number=NUMBERS, what=st.sampled_from(["say", "claim", "take", "answer", "settle"]))
    def redis_does_something_and_loses_it(self, number: int, what: str) -> None:
        self.redis_saves()
        if what == "say":
            self.something_is_said(sorted(WHERE)[number % 3], age_ms=0, control=False, delay_ms=0, later=False)
        elif what == "claim":
            self.somebody_claims(by_bell=False, places=2)
        elif self.holders and what == "take":
            self.it_takes(number, with_control=True, most=3, twice=False)
        elif self.holders and what == "answer":
            self.it_answers(number, closes=True, twice=False)
        elif self.holders:
            self.it_gives_back(number, "settle", 1, twice=False)
        self.redis_loses_what_it_has_not_saved()

    @rule()
    def redis_saves(self) -> None:
        self.saved = self.do(self.world.keys()), copy.deepcopy(self.plain)

    @precondition(lambda self: self.saved)
    @rule()
    def redis_loses_what_it_has_not_saved(self) -> None:
        assert self.saved
        stored, plain = self.saved
        self.plain = copy.deepcopy(plain)
        self.do(self.world.restore(stored))
        self.do(self._pass(1))  # it takes a moment

    # ---- what must hold ----

    @invariant()
    def everything_is_where_it_must_be(self) -> None:
        self.twice = False
        self.do(self._look())

    async def _look(self) -> None:
        await self.world.check()
        for name, c in self.plain.conversations.items():
            if not c.seq:
                continue
            stored = await self.mailbox.load(name)
            assert [Event.load(event_of(one)).text for one in stored.inbox] == [one[2] for one in c.inbox]
            assert [Event.load(one).text for one in stored.control] == c.control
            assert texts(stored.history) == c.history
            assert sum(one.type == "reply" for one in stored.history) == c.replies
            assert {row.key: row.state for row in stored.rows} == c.rows
            assert (stored.turn is not None) == c.is_open

    async def end(self) -> None:
        """Everybody is gone. Whoever comes then finds all there is to do, and leaves nothing."""
        self.twice = False
        root = self.layout.root(0)
        left = (*(f"{root}:ready:{one.channel_id}" for one in WHERE.values()), f"{root}:due", f"{root}:running")
        for _ in range(40):
            if not await self.redis.exists(*left):
                break
            await self._pass(LEASE_MS // 3)
            for claim in (await self.mailbox.claim(0, "last", 5)).grants:
                stored = await self.mailbox.load(claim.conversation)
                if stored.inbox or stored.control:
                    await self.world.take_all(self.mailbox, claim)
                await self.mailbox.append(claim, turn="close")
                for row in stored.rows:
                    await self.mailbox.mark(claim, row, "sent")
                assert await self.mailbox.settle(claim, "last", 0) is not None
        assert not await self.redis.exists(*left)
        there = [name for name in self.plain.conversations if await self.redis.exists(self.layout.key(name))]
        said = [text for name in there for text in texts((await self.mailbox.load(name)).history)]
        assert sorted(said) == sorted(self.plain.known)


def _verdict(answer: Any) -> str:
    said: bytes = answer[0] if isinstance(answer, list) else answer
    return said.decode()


_TOLD: Final[dict[str, Script]] = {}


def told_the_time(script: Script) -> Script:
    """A script that reads the example's clock in the place of the server's."""
    if script.sha not in _TOLD:
        assert script.text.count(CLOCK) == 1
        clock = "(function() local us = redis.call('GET', 'clock of ' .. KEYS[1]); return {us / 1000000, 0} end)()"
        _TOLD[script.sha] = Script(script.name, script.text.replace(CLOCK, clock))
    return _TOLD[script.sha]


def test_the_same_examples_go_the_same_way(redis_url: str, run: Run) -> None:
    ways: list[list[list[str]]] = []
    for _ in range(2):
        way: list[list[str]] = []

        class Heard(MailboxMachine):
            def __init__(self) -> None:
                super().__init__(redis_url)
                way.append(self.told)  # noqa: B023  # it is of this round

        run(Heard, examples=5, steps=15)
        ways.append(way)
    assert ways[0] == ways[1]
    assert any(ways[0])


def test_the_mailbox(redis_url: str, run: Run) -> None:
    run(lambda: MailboxMachine(redis_url), examples=40, steps=30)
