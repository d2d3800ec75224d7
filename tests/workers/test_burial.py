"""A turn that is given up: what killed its readers is not read once more, and the person and the operator are told."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation.claim import Claim, Lost
from gateway.conversation.deaths import ERRORS_MAX
from gateway.conversation.letters import letters
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Actor
from gateway.platforms import Adapter, Address, Outcome, Part, Sent, Stream
from gateway.store import Layout, Unreachable
from tests.harness.model_replies import says
from tests.workers.at_desk import WHERE, AtDesk, at_desk
from tests.workers.room import Room
from workers.alone import _Alone
from workers.course import Course
from workers.turn import Turn

MB = 1_000_000
READ_MAX = 4 * MB
"""What a burial may take of memory, whatever there is."""


class House(Room):
    """Keeps to whom a part went."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.to: list[Address] = []
        self.edited: list[str] = []

    async def send(self, to: Address, part: Part, key: str) -> Outcome:
        self.to.append(to)
        return await super().send(to, part, key)

    async def edit(self, to: Address, sent: Sent, part: Part) -> Outcome:
        self.edited.append(sent.message_id)
        return await super().edit(to, sent, part)


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, layout: Layout) -> AsyncIterator[AtDesk]:
    async with at_desk(tmp_path, redis_url, layout.prefix, room=House()) as made:
        yield made


@contextmanager
def little_is_read(monkeypatch: pytest.MonkeyPatch, world: AtDesk) -> Iterator[None]:
    """Else this process would die of it."""

    async def dies(*_: object) -> Any:
        raise AssertionError("it was read")

    with monkeypatch.context() as patched:
        patched.setattr(world.desk.mailbox, "load", dies)
        tracemalloc.start()
        try:
            yield
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < READ_MAX


@contextmanager
def nothing_is_rendered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The platform's part breaks, whatever it is given."""

    def breaks(*_: object) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(House, "render", breaks)
        yield


async def claimed(world: AtDesk) -> Claim:
    [claim] = (await world.desk.mailbox.claim(0, world.desk.worker, 1)).grants
    return claim


async def long_ago(world: AtDesk, mb: int) -> None:
    """So much was said before."""
    store = world.desk.mailbox.store
    for _ in range(mb):
        line = Record("reply", 1, {"turn": "old", "text": "x" * MB}).dump()
        await store.redis.rpush(store.layout.key(WHERE.id, "history"), line)


async def state(world: AtDesk) -> dict[str, str]:
    store = world.desk.mailbox.store
    found: Any = await store.redis.hgetall(store.layout.key(WHERE.id))
    return {name.decode(): value.decode() for name, value in found.items()}


async def reasons(world: AtDesk) -> list[tuple[str, ...]]:
    return [one.reasons for one in await letters(world.desk.mailbox.store, 10)]


async def taken(world: AtDesk, text: str, **changed: Any) -> Claim:
    """A turn in the hands of a worker that died."""
    hold = asyncio.Event()
    world.model.answer_with(says("Late.", hold=hold))
    async with world.busy(text, **changed) as claim:
        await world.model.until(lambda: world.model.in_flight == 1)
    hold.set()
    return claim


async def died(world: AtDesk, claim: Claim, how: str) -> None:
    """Each way in which a turn is given up that killed whoever had it."""
    if how == "alone":
        await _Alone(world.desk, Path("unused"))._judge(claim, -9)
    else:
        await world.desk.bury(claim, how)


@pytest.mark.parametrize("how", ["8 holders died", "alone"])
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "waiting"])
async def test_a_history_that_kills_its_reader_is_not_read_for_it(
    world: AtDesk, monkeypatch: pytest.MonkeyPatch, how: str, is_open: bool
) -> None:
    """In a process that has others beside it; and what is said and written is as ever."""
    await long_ago(world, 12)
    zh: dict[str, Any] = {"actor": Actor("U-MAX", "Max", language="zh-CN"), "extra": {"thread": 7}}
    if is_open:
        claim = await taken(world, "what is up?", **zh)
    else:
        assert await world.say("what is up?", **zh) == "new"
        claim = await claimed(world)
    with little_is_read(monkeypatch, world):
        await died(world, claim, how)
    assert isinstance(world.room, House)
    [told] = world.room.sent
    [one] = await letters(world.desk.mailbox.store, 10)
    assert told.startswith("多次尝试后仍未完成")
    assert one.turn[:8] in told
    assert [(to.conversation, to.extra) for to in world.room.to] == [(WHERE, {"thread": 7})]
    assert one.reason == ("died alone with -9" if how == "alone" else how)
    history = [record for record in await world.history() if record.data.get("turn") == one.turn]
    assert [record.type for record in history if record.type in {"event", "failed", "reply"}] == [
        "event",
        "failed",
        "reply",
    ]
    assert history[0].data["event"]["text"] == "what is up?"
    assert history[-2].data["reason"] == one.reason
    assert (history[-1].data["text"], history[-1].data["notice"]) == (told, True)
    left = await state(world)
    assert not {"turn", "tries", "waits", "token"} & set(left)
    assert "idle" in left, "nothing is left to be done, and nobody has to read it"


@pytest.mark.parametrize("control", [False, True])
async def test_a_message_that_kills_its_reader_is_not_read_and_the_next_one_is_answered(
    world: AtDesk, monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    event = world.event("x" * 8 * MB, actor=Actor("U-MAX", language="zh"), extra={"thread": 7})
    await world.desk.mailbox.accept(
        WHERE, event.dump(), dedupe_keys=event.dedupe_keys, at_ms=event.at_ms, control=control
    )
    await world.say("and then?")
    claim = await claimed(world)
    del event
    with little_is_read(monkeypatch, world):
        await died(world, claim, "8 holders died")
    assert isinstance(world.room, House)
    assert [to.extra for to in world.room.to] == [{"thread": 7}]
    await world.work()
    assert world.room.sent[0].startswith("多次尝试后仍未完成")
    assert world.room.sent[1:] == ["Well."]
    assert [record.data["event"]["text"][:9] for record in await world.history() if record.type == "event"] == [
        "x" * 9,
        "and then?",
    ]
    assert await reasons(world) == [("8 holders died",)]


@pytest.mark.parametrize("raw", ["no JSON", '{"v": 1, "kind": ' + "[" * 100_000, '{"at_ms": ' + "9" * 10_000, "[]"])
async def test_what_is_no_event_is_given_up_as_well(world: AtDesk, raw: str) -> None:
    await world.desk.mailbox.accept(WHERE, raw, dedupe_keys=("x",), at_ms=1)
    await world.desk.bury(await claimed(world), "8 holders died")
    assert len(world.room.sent) == 1
    assert await reasons(world) == [("8 holders died",)]
    assert not (await world.desk.mailbox.load(WHERE.id)).inbox


async def test_a_turn_of_which_nobody_can_read_where_it_is_to_be_answered_is_given_up(world: AtDesk) -> None:
    claim = await taken(world, "hello")
    store = world.desk.mailbox.store
    await store.redis.hset(store.layout.key(WHERE.id), "turn", '{"id": "t1", "start": 0, "to": {"ex')
    await world.desk.bury(claim, "test")
    assert [one.turn for one in await letters(store, 10)] == ["t1"]
    assert "t1" in world.room.sent[0]


async def test_where_nobody_knows_what_conversation_it_is_a_letter_is_left(world: AtDesk) -> None:
    """As an older version left it behind; else it would go round for ever."""
    await world.say("hello")
    store = world.desk.mailbox.store
    await store.redis.hdel(store.layout.key(WHERE.id), "parts")
    await world.desk.bury(await claimed(world), "test")
    assert await reasons(world) == [("test",)]
    assert world.room.sent == []
    assert "idle" in await state(world)


async def test_where_the_connection_is_gone_nothing_is_given_up_and_whoever_has_it_does(world: AtDesk) -> None:
    await world.say("hello")
    claim = await claimed(world)
    elsewhere = replace(world.desk, adapters={})
    await elsewhere.bury(claim, "8 holders died")
    assert await reasons(world) == []
    left = await state(world)
    assert "token" not in left, "it is not held meanwhile, and no death is counted"
    assert "tries" not in left
    redis: Any = world.desk.mailbox.store.redis
    assert await redis.zscore(f"{claim.root}:due", WHERE.id) > world.desk.mailbox.now_ms() + 5_000, (
        "and it does not spin"
    )
    await redis.zadd(f"{claim.root}:due", {WHERE.id: 0})
    await world.desk.bury(await claimed(world), "8 holders died")
    assert len(world.room.sent) == 1
    assert await reasons(world) == [("8 holders died",)]


async def test_rows_that_kill_whoever_sends_them_are_given_up_and_what_waits_is_answered(
    world: AtDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their turn is closed: nothing else is in hand."""
    mailbox = world.desk.mailbox
    redis: Any = mailbox.store.redis
    world.room.outcomes = [Outcome("rate_limited", retry_after_s=60.0)]
    await world.ask("hello")
    outbox = mailbox.store.layout.key(WHERE.id, "outbox")
    [(name, body)] = (await redis.hgetall(outbox)).items()
    row = Row.load(name.decode(), body, b"pending 0 null")
    huge = replace(row, part={"payload": {"text": "x" * 8 * MB}}).body()
    await redis.hset(outbox, name, huge)
    async for held in redis.scan_iter(f"{mailbox.store.layout.pace_root}*"):
        await redis.delete(held)
    await world.say("and then?")
    claim = await claimed(world)
    with little_is_read(monkeypatch, world):
        await died(world, claim, "8 holders died")
    [told] = world.room.sent
    assert row.turn[:8] in told
    assert [(one.turn, one.reasons) for one in await letters(mailbox.store, 10)] == [(row.turn, ("8 holders died",))]
    await world.work()
    assert world.room.sent[1:] == ["Well."]


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "waiting"])
async def test_where_no_notice_can_be_made_a_letter_is_left_and_what_waits_is_answered(
    world: AtDesk, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    if is_open:
        claim = await taken(world, "hello")
    else:
        await world.say("hello")
        claim = await claimed(world)
    with nothing_is_rendered(monkeypatch):
        await world.desk.bury(claim, "8 holders died")
    assert await reasons(world) == [("8 holders died",)]
    assert "token" not in await state(world)
    history = await world.history()
    assert [record.type for record in history if record.type in {"failed", "reply"}] == ["failed"], (
        "nobody has been told anything"
    )
    assert len(await world.ask("and then?")) == 1
    assert await reasons(world) == [("8 holders died",)]


async def test_a_notice_that_kills_whoever_sends_it_is_not_followed_by_another(world: AtDesk) -> None:
    await world.say("hello")
    world.room.outcomes = [Outcome("rate_limited", retry_after_s=60.0)]
    await world.desk.bury(await claimed(world), "8 holders died")
    redis: Any = world.desk.mailbox.store.redis
    await redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {WHERE.id: 0})
    await world.desk.bury(await claimed(world), "8 holders died")
    assert world.room.sent == []
    assert await reasons(world) == [("8 holders died",) * 2]
    assert "idle" in await state(world)


@pytest.mark.parametrize("can_render", [True, False])
async def test_the_message_that_grew_becomes_the_notice(
    tmp_path: Path, redis_url: str, layout: Layout, monkeypatch: pytest.MonkeyPatch, can_render: bool
) -> None:
    """Where no notice can be made it stays as it was, and nobody comes back to it."""
    async with at_desk(tmp_path, redis_url, layout.prefix, room=House(stream=Stream("message", 0.01))) as world:
        hold = asyncio.Event()
        world.model.answer_with(says("A long answer.", deltas=6, between_s=0.02, hold=hold))
        store = world.desk.mailbox.store
        redis: Any = store.redis

        async def grown() -> list[bytes]:
            return [one for one in await redis.hvals(store.layout.key(WHERE.id, "states")) if b"live" in one]

        async with world.busy("go on") as claim:
            hold.set()
            async with asyncio.timeout(30):
                while not await grown():
                    await asyncio.sleep(0.01)
                hold.clear()
        assert await grown()
        if can_render:
            await world.desk.bury(claim, "test")
            assert isinstance(world.room, House)
            assert len(world.room.edited) == 1, "no second message"
            assert "several attempts" in world.room.sent[-1]
        else:
            with nothing_is_rendered(monkeypatch):
                await world.desk.bury(claim, "test")
            assert world.room.sent == []
            assert await reasons(world) == [("test",)]
        assert "idle" in await state(world)


# what breaks, and nobody understands


@pytest.fixture
def breaks(world: AtDesk, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[type[Exception]]]:
    """What turns that answer a text meet, one after the other, before they go well."""
    ahead: dict[str, list[type[Exception]]] = {}
    work = type(world.desk.course).go_on

    async def go_on(self: Course, turn: Turn, adapter: Adapter) -> None:
        text = turn.said[-1].text
        if faults := ahead.get(text):
            if text == "poison" and len(faults) == 1:
                await world.say("and then?")
            raise faults.pop(0)
        await work(self, turn, adapter)

    monkeypatch.setattr("workers.desk.ERROR_PAUSE_S", 0.0)
    monkeypatch.setattr(Course, "go_on", go_on)
    return ahead


async def test_errors_of_one_turn_are_not_counted_against_the_next(
    world: AtDesk, breaks: dict[str, list[type[Exception]]]
) -> None:
    breaks |= {"poison": [ZeroDivisionError] * ERRORS_MAX, "and then?": [ZeroDivisionError] * (ERRORS_MAX - 1)}
    assert len(await world.ask("poison")) == 2, "a notice, and an answer"
    assert world.room.sent[-1] == "Well."
    assert await reasons(world) == [("ZeroDivisionError",)]


@pytest.mark.parametrize("why", [Lost, Unreachable])
async def test_errors_are_forgotten_where_the_conversation_is_lost(
    world: AtDesk, breaks: dict[str, list[type[Exception]]], why: type[Exception]
) -> None:
    """Weeks later one more would be the last."""
    few = [ZeroDivisionError] * (ERRORS_MAX - 1)
    breaks["hello"] = [*few, why, *few]
    await world.say("hello")
    with pytest.raises(why):
        await world.work()
    redis: Any = world.desk.mailbox.store.redis
    await redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {WHERE.id: 0})
    await world.work()
    assert world.room.sent == ["Well."]
    assert await reasons(world) == []


async def test_a_reply_is_not_given_up_for_what_broke_its_turn(
    world: AtDesk, breaks: dict[str, list[type[Exception]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent for the first time when its turn has broken almost too often."""
    breaks["hello"] = [ZeroDivisionError] * (ERRORS_MAX - 1)
    send = House.send
    faults = [ZeroDivisionError]

    async def breaking(self: House, to: Address, part: Part, key: str) -> Outcome:
        if faults:
            raise faults.pop()
        return await send(self, to, part, key)

    monkeypatch.setattr(House, "send", breaking)
    assert (await world.ask("hello"))[0] == "Well."
    assert await reasons(world) == []


async def test_what_breaks_the_look_at_what_is_stored_is_given_up_until_nothing_is_left(
    world: AtDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that nobody can read, of a turn that is closed."""
    monkeypatch.setattr("workers.desk.ERROR_PAUSE_S", 0.0)
    store = world.desk.mailbox.store
    await world.say("hello")
    await store.redis.hset(store.layout.key(WHERE.id, "outbox"), "r1", '{"turn": "t1", "order": 0, "part": ')
    await store.redis.hset(store.layout.key(WHERE.id, "states"), "r1", "pending 0 null")
    async with asyncio.timeout(30):
        await world.work()
    assert "several attempts" in world.room.sent[0]
    assert [one.turn for one in await letters(store, 10)][-1] == "t1"
    assert "idle" in await state(world)
