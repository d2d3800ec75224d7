"""The mailbox on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from gateway.conversation.claim import Claim
from gateway.conversation.key import ConversationKey, of_parts
from gateway.conversation.mailbox import Cold, Mailbox, WrongPartitions
from gateway.conversation.outbox import Row
from gateway.store import Layout, Store, Unreachable, open_store
from tests.gateway.conversation.scenarios import SCENARIOS
from tests.gateway.conversation.world import PLAY, World, key, until


@pytest.fixture
async def world(redis_url: str, layout: Layout) -> AsyncIterator[World]:
    made = World(redis_url, layout)
    yield made
    await made.close()


@pytest.mark.parametrize("play", SCENARIOS)
async def test_scenario(play: str, world: World) -> None:
    await SCENARIOS[play](world)
    await world.check()


async def test_an_empty_redis_takes_and_gives_nothing_until_somebody_adopts_it(world: World) -> None:
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    await world.restore({})
    assert not await mailbox.is_warm()
    assert (await world.say(mailbox, "again")).state == "cold"
    with pytest.raises(Cold):
        await mailbox.claim(0, "w1", 1)
    newcomer = Mailbox(mailbox.store, PLAY)
    with pytest.raises(Cold, match="redis is empty"):  # a process that starts now begins nothing there
        await newcomer.open()
    assert not await mailbox.is_warm()
    await newcomer.adopt()
    assert await mailbox.is_warm()
    assert mailbox.epoch == newcomer.epoch
    assert (await world.say(mailbox, "again")).state == "new"


@pytest.mark.parametrize("asks", ["open", "renew", "beat", "accept", "claim"])
@pytest.mark.parametrize("off_s", [10_800, -10_800])
async def test_a_process_knows_the_servers_time_from_whatever_it_asks(world: World, asks: str, off_s: int) -> None:
    """A gateway never claims, and a process that a turn has for itself only renews before its first send."""
    settled = await world.mailbox()
    await world.say(settled, "hello")
    claim = await world.claim_one(settled)
    mailbox = await world.mailbox()
    mailbox._ahead_ms = off_s * 1_000
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "open": mailbox.open,
        "renew": partial(mailbox.renew, [claim]),
        "beat": partial(mailbox.beat, "w1"),
        "accept": partial(world.say, mailbox, "again"),
        "claim": partial(mailbox.claim, 0, "w1", 0),
    }
    await ways[asks]()
    assert abs(mailbox.now_ms() - await world.stores[0].now_ms()) < 60_000


async def test_the_first_process_on_an_empty_redis_says_so(store: Store) -> None:
    mailbox = Mailbox(store, PLAY)
    assert await mailbox.open()
    assert not await mailbox.open()


async def test_another_number_of_partitions_is_refused(redis_url: str, layout: Layout) -> None:
    one, two = World(redis_url, layout), World(redis_url, Layout(layout.prefix, 2))
    await one.mailbox()
    with pytest.raises(WrongPartitions, match=r"redis\.partitions is 2.* started with 1"):
        await two.mailbox()
    await one.close()
    await two.close()


def test_every_conversation_is_in_one_partition() -> None:
    layout = Layout("x", 7)
    found = {layout.partition(key(f"t{number}").id) for number in range(200)}
    assert found == set(range(7))


async def test_a_channel_under_a_cap_gets_no_more_places_than_that(redis_url: str, layout: Layout) -> None:
    world = World(redis_url, layout, PLAY.model_copy(update={"places_per_channel": 2}))
    mailbox = await world.mailbox()
    for number in range(4):
        await world.say(mailbox, "hello", key(f"t{number}"))
    await world.say(mailbox, "hello", key("t", "other room"))
    claimed = await mailbox.claim(0, "w1", 10)
    assert len(claimed.grants) == 3
    assert not (await mailbox.claim(0, "w2", 10)).grants
    first = next(grant for grant in claimed.grants if grant.conversation != key("t", "other room").id)
    await world.take_all(mailbox, first)
    await mailbox.append(first, turn="close")
    settled = await mailbox.settle(first, "w1", 10)
    assert settled is not None
    assert len(settled.grants) == 1
    await world.check()
    await world.close()


async def test_idle_conversations_expire_whole_and_busy_ones_never(redis_url: str, layout: Layout) -> None:
    world = World(redis_url, layout, PLAY.model_copy(update={"retention_s": 60}))
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    names = [layout.key(key().id, what) for what in ("", "history")]
    redis = mailbox.store.redis
    assert [await redis.ttl(name) for name in names[:1]] == [-1]
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, turn="close")
    await mailbox.settle(claim, "w1", 0)
    assert all(0 < left <= 60 for left in [await redis.ttl(name) for name in names])
    await world.say(mailbox, "again")
    assert [await redis.ttl(name) for name in names] == [-1, -1]
    await world.close()


async def test_what_is_remembered_of_messages_ends_with_dedupe_s(redis_url: str, layout: Layout) -> None:
    world = World(redis_url, layout, PLAY.model_copy(update={"dedupe_s": 1}))
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    assert (await world.say(mailbox, "hello")).state == "known"

    async def is_new() -> bool:
        return (await world.say(mailbox, "hello")).state == "new"

    await until(is_new)
    await world.close()


async def test_many_waiting_conversations_shed_newcomers(redis_url: str, layout: Layout) -> None:
    world = World(redis_url, layout, PLAY.model_copy(update={"waiting_max": 2}))
    mailbox = await world.mailbox()
    states = [(await world.say(mailbox, "hello", key(f"t{number}"))).state for number in range(3)]
    assert states == ["new", "new", "full"]
    await world.close()


async def test_no_key_holds_words_of_two_conversations(world: World) -> None:
    mailbox = await world.mailbox()
    for thread in ("a", "b"):
        await world.say(mailbox, f"secret-{thread}", key(thread))
        claim = await world.claim_one(mailbox)
        await world.take_all(mailbox, claim)
        await mailbox.bury(claim, "turn", "died", records=[], rows=[])
    for name, dumped in (await world.keys()).items():
        holds = [thread for thread in ("a", "b") if f"secret-{thread}".encode() in dumped]
        assert len(holds) <= 1
        assert not holds or key(holds[0]).id.encode() in name


async def test_dead_letters_that_there_is_no_room_for_are_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A turn that was given up must not be gone from the list without a word."""
    mailbox = await world.mailbox()
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    dead = f"{claim.root}:dead"
    redis: Any = mailbox.store.redis
    for letters, is_too_much in ((100, False), (10_500, True)):
        caplog.clear()
        async with redis.pipeline(transaction=False) as pipeline:
            for _ in range(letters):
                pipeline.xadd(dead, {"conversation": "c", "turn": "t", "reason": "r"})
            await pipeline.execute()
        before = await redis.xlen(dead)
        await mailbox.bury(claim, "turn", "died", records=[], rows=[])
        gone = before + 1 - await redis.xlen(dead)
        assert (gone > 0) is is_too_much
        told = [one for one in caplog.records if one.getMessage() == "dead letters forgotten"]
        assert [(one.levelname, one.__dict__["fields"]["entries"]) for one in told] == [("ERROR", gone)][:gone]


def test_no_two_keys_share_an_id() -> None:
    pairs: list[tuple[ConversationKey, ConversationKey]] = [
        (ConversationKey("web", "x:1", "2"), ConversationKey("web", "x", "1:2")),
        (ConversationKey("web", "", None, "u1"), ConversationKey("web", "", None, "u2")),
        (ConversationKey("a", "bc"), ConversationKey("ab", "c")),
        (ConversationKey("s", "c", None), ConversationKey("s", "c", "")),
        (ConversationKey("s", "c", "t", None), ConversationKey("s", "c", None, "t")),
        (ConversationKey("s", "A"), ConversationKey("s", "a")),
        (ConversationKey("s", "c", "-"), ConversationKey("s", "c")),
    ]
    for one, other in pairs:
        assert one.id != other.id
        assert of_parts(one.parts()) == one


@pytest.mark.parametrize(
    "parts", [("", "c"), ("s", ""), ("s", "c\nd"), ("s", "x" * 1_025), ("s", "c", "\x00")], ids=repr
)
def test_what_is_no_key_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"key|needs"):
        ConversationKey(*parts)


async def test_a_long_memory_does_not_take_the_new_for_known(redis_url: str, layout: Layout) -> None:
    world = World(redis_url, layout, PLAY.model_copy(update={"dedupe_s": 2_000_000_000}))
    mailbox = await world.mailbox()
    assert [(await world.say(mailbox, "hello")).state for _ in range(2)] == ["new", "known"]
    await world.close()


# whose message is answered, and whether there is anything left to do


def row(name: str) -> Row:
    return Row(key=name, turn="turn", order=0, part={"payload": {}, "fallback": None}, to={}, made_ms=0)


async def with_rows(world: World, mailbox: Mailbox, *names: str) -> Claim:
    """A turn whose parts are in the outbox."""
    await world.say(mailbox, "hello")
    claim = await world.claim_one(mailbox)
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, rows=[row(name) for name in names], turn="close")
    return claim


async def test_a_message_that_was_sent_is_known_as_ours_in_its_conversation_alone(world: World) -> None:
    mailbox = await world.mailbox()
    claim = await with_rows(world, mailbox, "a", "b", "c")
    for name, state, known_as in (("a", "sent", "m1"), ("b", "sending", "m2"), ("c", "sent", "")):
        await mailbox.mark(claim, row(name), state, {"message_id": name, "ref": {}}, known_as=known_as)
    assert [await mailbox.is_ours(key(), one) for one in ("m1", "m2", "c", "m", "")] == [True, *[False] * 4]
    assert not await mailbox.is_ours(key("t2"), "m1")
    assert await (await world.mailbox()).is_ours(key(), "m1"), "as another process sees it"
    assert await mailbox.settle(claim, "w1", 1) is None
    await mailbox.mark(claim, row("b"), "sent", known_as="m2")
    assert await mailbox.settle(claim, "w1", 1) is not None
    assert await mailbox.is_ours(key(), "m2"), "after the turn too"
    await world.check()


async def test_of_a_part_that_was_sent_before_no_other_id_is_learnt(world: World) -> None:
    mailbox = await world.mailbox()
    claim = await with_rows(world, mailbox, "a")
    assert await mailbox.mark(claim, row("a"), "sent", known_as="m1")
    assert not await mailbox.mark(claim, row("a"), "sent", known_as="m2")
    assert [await mailbox.is_ours(key(), one) for one in ("m1", "m2")] == [True, False]


async def test_the_last_hundred_are_known_and_they_end_with_retention(world: World) -> None:
    mailbox = await world.mailbox()
    names = [f"m{number:03}" for number in range(105)]
    claim = await with_rows(world, mailbox, *names)
    for name in names:
        await mailbox.mark(claim, row(name), "sent", known_as=name)
    known = [await mailbox.is_ours(key(), name) for name in names]
    assert sum(known) == 100
    assert known[-1]
    left_ms = await mailbox.store.redis.pttl(world.layout.key(key().id, "ours"))
    assert 0 < left_ms <= PLAY.retention_s * 1000


async def test_a_conversation_is_idle_only_when_all_is_sent_and_nothing_waits(world: World) -> None:
    mailbox = await world.mailbox()

    async def is_idle() -> bool:
        return await mailbox.is_idle(key())

    assert (await world.say(mailbox, "hello")).state == "new"
    assert not await is_idle(), "it waits"
    claim = await world.claim_one(mailbox)
    assert not await is_idle()
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, rows=[row("a")], turn="close")
    assert await mailbox.settle(claim, "w1", 1) is None
    assert not await is_idle(), "a part is not sent"
    await mailbox.mark(claim, row("a"), "sent")
    assert not await is_idle(), "somebody holds it"
    await mailbox.settle(claim, "w1", 1)
    assert await is_idle()
    assert (await world.say(mailbox, "hello")).state == "known"
    assert await is_idle(), "a repetition is no work"
    await world.say(mailbox, "again")
    assert not await is_idle()
    claim = await world.claim_one(mailbox)
    await world.say(mailbox, "and again")
    await world.take_all(mailbox, claim)
    await mailbox.append(claim, turn="close")
    await world.say(mailbox, "one more")
    await mailbox.settle(claim, "w1", 0)
    assert not await is_idle(), "one came meanwhile"


async def test_a_redis_that_is_away_is_told_to_whoever_asks_of_a_conversation(layout: Layout) -> None:
    away = open_store("redis://127.0.0.1:1", layout, timeout_s=0.5)
    try:
        for asked in (Mailbox(away, PLAY).is_ours(key(), "m"), Mailbox(away, PLAY).is_idle(key())):
            with pytest.raises(Unreachable):
                await asked
    finally:
        await away.close()
