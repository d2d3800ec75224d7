"""A worker dies in the midst, and the next one goes on: people see one answer."""

from __future__ import annotations

from pathlib import Path

from gateway.platforms import Stream
from gateway.store import Layout
from tests.harness.model_replies import says
from tests.harness.processes import until
from tests.workers.at_desk import WHERE, at_desk
from tests.workers.room import Room


async def test_what_a_dead_worker_showed_becomes_the_reply_of_the_next(
    tmp_path: Path, redis_url: str, layout: Layout
) -> None:
    room = Room(stream=Stream("message", 0.02))
    async with at_desk(tmp_path, redis_url, layout.prefix, room=room) as world:
        world.model.answer_with(says("one two three four five six seven", deltas=7, between_s=0.3))
        async with world.busy("hello"):
            await until(lambda: bool(room.shown))
        store = world.desk.mailbox.store
        await store.redis.zadd(f"{store.layout.root(0)}:due", {WHERE.id: 0})
        world.model.answer_with(says("The whole answer."))
        await world.work()
        [(key, _)] = room.parts
        assert key.startswith("id of "), "the message that grew, and no second one"
        assert room.sent == ["The whole answer."]
