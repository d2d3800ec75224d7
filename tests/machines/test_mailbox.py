"""The mailbox: whatever is said, claimed, written, slept, crashed and lost, each message is in history once, in its order."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from gateway.conversation.claim import Behind, Claim, Fenced, Lost
from gateway.conversation.mailbox import Mailbox, event_of
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Event
from tests.gateway.conversation.world import World, key, now_ms, texts
from tests.machines.conftest import Run
from tests.machines.machine import Machine

THREADS = ("a", "b", "c")
NUMBERS = st.integers(0, 3)


@dataclass
class Conversation:
    """What a conversation must hold."""

    token: str = ""
    rev: int = 0
    inbox: list[str] = field(default_factory=list)
    control: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    replies: int = 0
    is_open: bool = False
    rows: dict[str, str] = field(default_factory=dict)

    @property
    def unsent(self) -> list[str]:
        return [name for name, state in self.rows.items() if state != "sent"]


class MailboxMachine(Machine):
    """Two processes on one partition. Holders are claims that somebody still believes in, dead or alive."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.world = World(url, self.layout)
        self.opened.push_async_callback(self.world.close)
        self.mailboxes = [self.do(self.world.mailbox()) for _ in range(2)]
        self.holders: list[Claim] = []
        self.model = {key(thread).id: Conversation() for thread in THREADS}
        self.keys = {key(thread).id: key(thread) for thread in THREADS}
        self.known: set[str] = set()
        self.number = 0

    @property
    def mailbox(self) -> Mailbox:
        return self.mailboxes[self.number % 2]

    def fresh(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    # ---- people ----

    async def say(self, thread: str, text: str, **more: Any) -> None:
        c = self.model[key(thread).id]
        answer = await self.world.say(self.mailbox, text, key(thread), **more)
        waits = c.control if more.get("control") else c.inbox
        if text in self.known:
            assert answer.state == "known"
        elif len(waits) >= self.world.settings.inbox_max:
            assert answer.state == "full"
        else:
            assert answer.state == "new"
            waits.append(text)
            self.known.add(text)

    @rule(thread=st.sampled_from(THREADS), control=st.booleans(), delay_ms=st.sampled_from([0, 0, 60_000]))
    def something_is_said(self, thread: str, control: bool, delay_ms: int) -> None:
        self.do(self.say(thread, self.fresh(f"{thread}-"), control=control, delay_ms=delay_ms))

    @precondition(lambda self: self.known)
    @rule(number=NUMBERS)
    def it_comes_again(self, number: int) -> None:
        known = sorted(self.known)
        text = known[number % len(known)]
        self.do(self.say(text[0], text))

    # ---- workers ----

    @rule(by_bell=st.booleans(), places=st.integers(1, 2))
    def somebody_claims(self, by_bell: bool, places: int) -> None:
        self._granted(self.do(self.mailbox.claim(0, f"w{self.number % 3}", places, by_bell=by_bell)).grants, places)

    def _granted(self, grants: Any, places: int) -> None:
        assert len(grants) <= places
        for claim in grants:
            c = self.model[claim.conversation]
            assert claim.token != c.token
            assert claim.rev == c.rev
            assert all(claim.token != one.token for one in self.holders), "a number was given twice"
            c.token = claim.token
            self.holders.append(claim)

    def holder(self, number: int) -> tuple[Claim, Conversation]:
        claim = self.holders[number % len(self.holders)]
        return claim, self.model[claim.conversation]

    async def write(self, claim: Claim, work: Any) -> bool:
        """Whether it was written, which it must be if and only if the writer holds it and nothing was lost."""
        c = self.model[claim.conversation]
        holds, up_to_date, late = claim.token == c.token, claim.rev == c.rev, claim.seconds_left() <= 0
        was: Lost | None = None
        try:
            await work
        except Lost as lost:
            was = lost
        if was is not None:
            assert claim.lost
            assert late or isinstance(was, Behind if holds else Fenced)
            assert late or not holds or not up_to_date
            self.holders.remove(claim)
            return False
        assert holds
        assert up_to_date
        assert not late
        return True

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, with_control=st.booleans(), most=st.integers(0, 3))
    def it_takes(self, number: int, with_control: bool, most: int) -> None:
        claim, c = self.holder(number)

        async def take() -> None:
            stored = await self.mailbox.load(claim.conversation)
            members, control = stored.inbox[:most], stored.control[: int(with_control)]
            if not members and not control:
                return
            taken = [Event.load(one).text for one in [*control, *map(event_of, members)]]
            turn = {"id": "turn", "start": 0, "to": {}}
            if await self.write(claim, self.mailbox.take(claim, turn, members=members, control=len(control))):
                c.rev, c.is_open = c.rev + 1, True
                c.history += taken
                c.inbox, c.control = (
                    [one for one in c.inbox if one not in taken],
                    [one for one in c.control if one not in taken],
                )

        self.do(take())

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, closes=st.booleans())
    def it_answers(self, number: int, closes: bool) -> None:
        claim, c = self.holder(number)
        row = Row(self.fresh("row"), "turn", 0, {"payload": {}}, {}, now_ms())
        records = [Record("reply", now_ms(), {"text": row.key})]
        work = self.mailbox.append(
            claim, records=records, rows=[row], turn="close" if closes else None, finished_step=closes
        )
        if self.do(self.write(claim, work)):
            c.rev, c.replies = c.rev + 1, c.replies + 1
            c.rows[row.key] = "pending"
            c.is_open = c.is_open and not closes

    @precondition(lambda self: self.holders)
    @rule(number=NUMBERS, which=NUMBERS, state=st.sampled_from(["sending", "sent"]))
    def it_marks(self, number: int, which: int, state: str) -> None:
        claim, c = self.holder(number)
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
    )
    def it_gives_back(self, number: int, how: str, places: int) -> None:
        claim, c = self.holder(number)
        if how == "settle":
            stays = c.is_open or bool(c.unsent)
            settle = partial(self.mailbox.settle, claim, "w", places)
            self._gives_back(claim, c, settle, places, stays=stays, parks=False)
        elif how.startswith("park"):
            missed = how.endswith("somebody")
            seq = self.do(self.mailbox.load(claim.conversation)).seq - missed
            park = partial(self.mailbox.park, claim, 60_000, seq, "w", places)
            self._gives_back(claim, c, park, places, stays=bool(c.control) or missed, parks=True)
        else:
            self.holders.remove(claim)
            self.do(self.mailbox.hand_over(claim, counts=how.endswith("try")))
            if claim.token == c.token:
                c.token = ""

    def _gives_back(self, claim: Claim, c: Conversation, ask: Any, places: int, *, stays: bool, parks: bool) -> None:
        answer: list[Any] = []

        async def work() -> None:
            answer.append(await ask())

        if not self.do(self.write(claim, work())):
            return
        assert (answer[0] is None) == stays
        if stays:
            return
        self.holders.remove(claim)
        c.rev, c.token = c.rev + 1, ""
        if not parks:
            c.rows.clear()
        self._granted(answer[0].grants, places)

    @precondition(lambda self: self.holders)
    @rule()
    def all_renew(self) -> None:
        for claim in self.holders:
            self.do(self.mailbox.renew([claim]))
            assert claim.lost == (claim.token != self.model[claim.conversation].token)
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

    @rule(what=st.sampled_from(["leases and waits end", "the server slept", "the bell is lost"]))
    def time_passes(self, what: str) -> None:
        async def passes() -> None:
            redis: Any = self.mailbox.store.redis
            root = self.layout.root(0)
            if what == "the bell is lost":
                await redis.delete(f"{root}:bell")
            else:
                await self.world.lapse()
            if what == "the server slept":
                await redis.decrby(f"{root}:pulse", 600_000)

        self.do(passes())

    @rule(number=NUMBERS, what=st.sampled_from(["say", "claim", "take", "answer", "settle"]))
    def redis_does_something_and_loses_it(self, number: int, what: str) -> None:
        stored, model, known = self.do(self.world.keys()), copy.deepcopy(self.model), set(self.known)
        if what == "say":
            self.do(self.say(THREADS[number % 3], self.fresh(f"{THREADS[number % 3]}-")))
        elif what == "claim":
            self.somebody_claims(by_bell=False, places=1)
        elif self.holders and what == "take":
            self.it_takes(number, with_control=True, most=3)
        elif self.holders and what == "answer":
            self.it_answers(number, closes=True)
        elif self.holders:
            self.it_gives_back(number, "settle", 1)
        self.model, self.known = model, known
        self.do(self.world.restore(stored))

    # ---- what must hold ----

    @invariant()
    def everything_is_where_it_must_be(self) -> None:
        self.do(self._look())

    async def _look(self) -> None:
        await self.world.check()
        for name, c in self.model.items():
            if not c.rev and not c.inbox and not c.control:
                continue
            stored = await self.mailbox.load(name)
            assert [Event.load(event_of(one)).text for one in stored.inbox] == c.inbox
            assert [Event.load(one).text for one in stored.control] == c.control
            assert texts(stored.history) == c.history
            assert sum(one.type == "reply" for one in stored.history) == c.replies
            assert {row.key: row.state for row in stored.rows} == c.rows
            assert (stored.turn is not None) == c.is_open

    async def end(self) -> None:
        """Everybody is gone. Whoever comes then finds all there is to do, and leaves nothing."""
        redis: Any = self.mailbox.store.redis
        root = self.layout.root(0)
        left = (f"{root}:ready:{key().channel_id}", f"{root}:due", f"{root}:running")
        for _ in range(40):
            if not await redis.exists(*left):
                break
            await self.world.lapse()
            for claim in (await self.mailbox.claim(0, "last", 5)).grants:
                stored = await self.mailbox.load(claim.conversation)
                if stored.inbox or stored.control:
                    await self.world.take_all(self.mailbox, claim)
                await self.mailbox.append(claim, turn="close")
                for row in stored.rows:
                    await self.mailbox.mark(claim, row, "sent")
                assert await self.mailbox.settle(claim, "last", 0) is not None
        assert not await redis.exists(*left)
        there = [name for name in self.model if await redis.exists(self.layout.key(name))]
        said = [text for name in there for text in texts((await self.mailbox.load(name)).history)]
        assert sorted(said) == sorted(self.known)


def test_the_mailbox(redis_url: str, run: Run) -> None:
    run(lambda: MailboxMachine(redis_url), examples=20, steps=25)
