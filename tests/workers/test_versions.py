"""F29: two versions at work side by side. What only a newer one understands is left to it; what nobody knows is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.conversation import records
from gateway.conversation.outbox import Row
from gateway.platforms import Outcome
from gateway.store import Layout
from tests.harness.fake_model import Asked
from tests.harness.model_replies import Reply, calls, says
from tests.workers.at_desk import WHERE, AtDesk, at_desk


async def with_key(world: AtDesk, what: str = "") -> tuple[Any, str]:
    store = world.desk.mailbox.store
    return store.redis, store.layout.key(WHERE.id, what)


async def a_newer_event(world: AtDesk) -> None:
    """Written by a gateway that is newer already."""
    event = world.event("hello")
    dumped = json.dumps({**json.loads(event.dump()), "v": 2, "way": "unheard of"})
    await world.desk.mailbox.accept(WHERE, dumped, dedupe_keys=event.dedupe_keys, at_ms=event.at_ms)


async def a_newer_command(world: AtDesk) -> None:
    event = world.event("/stop")
    dumped = json.dumps({**json.loads(event.dump()), "v": 2})
    await world.desk.mailbox.accept(WHERE, dumped, dedupe_keys=event.dedupe_keys, at_ms=event.at_ms, control=True)


async def a_newer_record(world: AtDesk) -> None:
    """Written by a worker that is newer already, and died."""
    redis, history = await with_key(world, "history")
    await world.say("hello")
    await redis.rpush(history, json.dumps({"v": 2, "type": "reply", "at": 0, "said": {"in": "another form"}}))


NEWER = {"event": a_newer_event, "command": a_newer_command, "record": a_newer_record}


@pytest.mark.parametrize("what", NEWER)
async def test_what_a_newer_version_wrote_is_left_for_a_newer_worker(
    tmp_path: Path, redis_url: str, layout: Layout, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        await NEWER[what](world)
        before = await held(world)
        await world.work()
        assert not world.model.asked
        assert not world.room.sent
        assert await held(world) == before, "nothing was taken, nothing was buried"
        redis, _ = await with_key(world)
        due = await redis.zrange(f"{world.desk.mailbox.store.layout.root(0)}:due", 0, -1)
        assert due == [WHERE.id.encode()], "it waits for whoever comes"
        monkeypatch.setattr(records, "VERSION", 2)
        await redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {WHERE.id: 0})
        await world.work()
        assert world.room.sent, "the newer one goes on"


async def held(world: AtDesk) -> list[Any]:
    redis, _ = await with_key(world)
    key = world.desk.mailbox.store.layout.key
    return [
        await redis.zrange(key(WHERE.id, "inbox"), 0, -1),
        await redis.lrange(key(WHERE.id, "control"), 0, -1),
        await redis.lrange(key(WHERE.id, "history"), 0, -1),
        await redis.hmget(key(WHERE.id), "turn", "tries"),
    ]


async def test_who_died_with_it_does_not_make_an_older_worker_bury_it(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        await a_newer_record(world)
        before = await held(world)
        [claim] = (await world.desk.mailbox.claim(0, "w1", 1)).grants
        await world.desk.bury(claim, "6 holders died")
        assert await held(world) == before
        redis, _ = await with_key(world)
        due = await redis.zrange(f"{world.desk.mailbox.store.layout.root(0)}:due", 0, -1)
        assert due == [WHERE.id.encode()], "it waits for whoever comes"
        assert not world.room.sent


async def test_fields_and_types_of_a_newer_version_are_kept_and_do_no_harm(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    """An older worker in the midst of a turn that a newer one began: what it does not know is there at the end."""
    async with at_desk(tmp_path, redis_url, layout.prefix, profile={"tools": ["current_time"]}) as world:
        redis, name = await with_key(world)
        event = world.event("hello")
        dumped = json.dumps({**json.loads(event.dump()), "mood": "fine"})
        await world.desk.mailbox.accept(WHERE, dumped, dedupe_keys=event.dedupe_keys, at_ms=event.at_ms)
        [claim] = (await world.desk.mailbox.claim(0, "w1", 1)).grants
        stored = await world.desk.mailbox.load(WHERE.id)
        turn = {"id": "t", "start": 0, "at_ms": event.at_ms, "to": {}, "weather": {"rain": True}}
        await world.desk.mailbox.take(claim, turn, members=stored.inbox)
        await redis.rpush(
            f"{name}:history", json.dumps({"v": 1, "type": "weather", "at": 0, "turn": "t", "rain": True})
        )
        await world.desk.mailbox.hand_over(claim)
        seen: list[Asked] = []

        def during(asked: Asked) -> Reply:
            seen.append(asked)
            return calls("current_time") if len(seen) == 1 else says("Well.")

        world.model.answer_with(during)
        await world.work()
        assert world.room.sent == ["Well."]
        history = [json.loads(line) for line in await redis.lrange(f"{name}:history", 0, -1)]
        assert [one["event"]["mood"] for one in history if one["type"] == "event"] == ["fine"]
        assert [one["rain"] for one in history if one["type"] == "weather"] == [True]


async def test_a_part_with_fields_of_a_newer_version_is_sent_and_keeps_them(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        world.room.outcomes = [Outcome("rate_limited", retry_after_s=60.0)]
        await world.ask("hello")
        redis, outbox = await with_key(world, "outbox")
        [(key, body)] = (await redis.hgetall(outbox)).items()
        newer = {**json.loads(body), "scent": "pine"}
        await redis.hset(outbox, key, json.dumps(newer))
        row = Row.load(key.decode(), json.dumps(newer).encode(), b"pending 0 null")
        assert json.loads(row.body()) == newer
        async for pace in redis.scan_iter(f"{world.desk.mailbox.store.layout.pace_root}*"):
            await redis.delete(pace)
        await redis.hset(world.desk.mailbox.store.layout.key(WHERE.id, "states"), key, "pending 0 null")
        await redis.zadd(f"{world.desk.mailbox.store.layout.root(0)}:due", {WHERE.id: 0})
        await world.work()
        assert world.room.sent == ["Well."]


async def test_a_redis_of_a_newer_schema_is_not_touched(tmp_path: Path, redis_url: str, layout: Layout) -> None:
    async with at_desk(tmp_path, redis_url, layout.prefix) as world:
        mailbox = world.desk.mailbox
        redis: Any = mailbox.store.redis
        await redis.hset(f"{mailbox.store.layout.root(0)}:meta", "schema", "2")
        with pytest.raises(Exception, match="this version knows 1: start a newer one"):
            await mailbox.open()
