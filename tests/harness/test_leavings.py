"""What is left of a run is found, and what may stay is not."""

from __future__ import annotations

import re
from pathlib import Path

from redis.asyncio import Redis

from tests.harness.history import Found, Letter
from tests.harness.leavings import Leavings
from tests.harness.own_redis import own_redis

ROOT = "left:{0}"


async def test_open_work_letters_files_and_words_of_others_are_found(tmp_path: Path) -> None:
    log, data = tmp_path / "worker.log", tmp_path / "data"
    log.write_text("begun\nsaid QXc1Z\n")
    data.mkdir()
    (data / "epochs").mkdir()
    for file in ("half.tmp", "epochs/k1", "epochs/.half"):
        (data / file).write_text("")
    async with own_redis(tmp_path / "redis") as server:
        async with Redis.from_url(server.url) as redis:
            await redis.zadd(f"{ROOT}:due", {"aaa": 1})
            await redis.lpush(f"{ROOT}:ready:room", "aaa")
            await redis.set(f"{ROOT}:waiting", 1)
            await redis.set(f"{ROOT}:sole", "aaa")
            await redis.hset(f"{ROOT}:c:aaa", mapping={"token": "1-w", "said": "QXc1Z"})
            await redis.rpush(f"{ROOT}:c:bbb:history", "QXc1Z", "QXc2Z")
            await redis.xadd(f"{ROOT}:dead", {"conversation": "bbb", "turn": "t", "reason": "8 holders died"})
        leavings = Leavings({"aaa": "c1", "bbb": "c2"}, re.compile(r"QX\w+?Z"), lambda word: word[2:-1], [log], [data])
        seen = [one async for one in leavings.all(server.url)]
        found = {(one.place, one.name.removeprefix(f"{ROOT}:"), one.canary) for one in seen if isinstance(one, Found)}
        work = {("redis", name, "") for name in ("due", "ready:room", "waiting", "sole", "c:aaa")}
        assert found == work | {
            ("redis", "c:bbb:history", "QXc1Z"),
            ("log worker.log", "line 2", "QXc1Z"),
            ("files", str(data / "half.tmp"), ""),
            ("files", str(data / "epochs/.half"), ""),
        }
        assert [(one.conversation, one.reason) for one in seen if isinstance(one, Letter)] == [("c2", "8 holders died")]


async def test_what_is_at_rest_is_nothing(tmp_path: Path) -> None:
    async with own_redis(tmp_path / "redis") as server:
        async with Redis.from_url(server.url) as redis:
            await redis.set(f"{ROOT}:waiting", 0)
            await redis.hset(f"{ROOT}:c:aaa", mapping={"idle": "1", "said": "QXc1Z"})
            await redis.rpush(f"{ROOT}:c:aaa:history", "QXc1Z")
        leavings = Leavings({"aaa": "c1"}, re.compile(r"QX\w+?Z"), lambda word: word[2:-1], [], [tmp_path / "none"])
        assert not [one async for one in leavings.all(server.url)]
