"""What we use of RQ, held against RQ itself: when one of these breaks, `pyproject.toml` may not take that version."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from redis.asyncio import Redis

from config.settings import RqSettings, environment
from gateway.bell import FUNCTION, Foreign, open_bell, read, write
from tests.harness.processes import until

LOOK = """
import json, sys
from redis import Redis
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer
redis = Redis.from_url(sys.argv[1])
queue = Queue("bells", connection=redis, serializer=JSONSerializer)
job = Job.fetch(queue.job_ids[0], connection=redis, serializer=JSONSerializer)
print(json.dumps([len(queue), job.func_name, job.args, job.kwargs, job.get_status(), job.origin, job.timeout]))
"""
RING = """
import sys
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer
queue = Queue("bells", connection=Redis.from_url(sys.argv[1]), serializer=JSONSerializer)
queue.enqueue(sys.argv[2], *map(int, sys.argv[3:]))
"""


@pytest.fixture
def names(layout: Any) -> RqSettings:
    return RqSettings(key_prefix=f"{layout.prefix}:rq")


def in_rq(script: str, names: RqSettings, *arguments: str) -> str:
    """Run a script with RQ in a process of its own: it reads its key prefix when it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**environment(), "RQ_KEY_PREFIX": names.key_prefix},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout


async def test_rq_reads_our_bell_as_a_job_of_its_own(redis_url: str, names: RqSettings) -> None:
    bell = open_bell(redis_url, names, wait_s=1)
    bell.ring(3)
    async with Redis.from_url(redis_url) as redis, asyncio.timeout(30):
        while not await redis.exists(bell.queue_key):
            await asyncio.sleep(0.01)
    assert in_rq(LOOK, names, redis_url).strip() == f'[1, "{FUNCTION}", [3], {{}}, "queued", "bells", 60]'
    assert await bell.pop(1) == 3
    assert await bell.pop(0.1) is None
    await bell.close()


async def test_we_read_a_bell_that_rq_wrote_and_refuse_what_is_none(redis_url: str, names: RqSettings) -> None:
    bell = open_bell(redis_url, names, wait_s=1)
    in_rq(RING, names, redis_url, FUNCTION, "5")
    assert await bell.pop(1) == 5
    for function in ("os.system", "workers.runner.other"):
        in_rq(RING, names, redis_url, function, "5")
        with pytest.raises(Foreign, match=function.split(".")[0]):
            await bell.pop(1)
    await bell.close()


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\x80\x04K\x05.", write(1, "q")["data"][:20]],
    ids=["empty", "no zlib", "pickle", "cut"],
)
def test_data_that_is_no_bell_is_foreign(data: bytes) -> None:
    with pytest.raises(Foreign):
        read(data)


async def test_many_rings_in_one_tick_are_one_bell_a_partition(redis_url: str, names: RqSettings) -> None:
    bell = open_bell(redis_url, names, wait_s=1)
    for _ in range(10):
        bell.ring(0)
        bell.ring(1)
    assert {await bell.pop(1), await bell.pop(1)} == {0, 1}
    assert await bell.pop(0.1) is None
    await bell.close()


async def test_an_old_bell_whose_record_is_gone_is_nothing(redis_url: str, names: RqSettings) -> None:
    bell = open_bell(redis_url, names, wait_s=1)
    async with Redis.from_url(redis_url) as redis:
        await redis.rpush(bell.queue_key, "long-ago")
    assert await bell.pop(1) is None
    await bell.close()


async def test_a_ring_that_fails_is_counted_and_harms_nobody(names: RqSettings) -> None:
    bell = open_bell("redis://127.0.0.1:1", names, wait_s=1)
    bell.ring(0)
    await until(lambda: bell.failed == 1)
    await bell.close()


async def test_what_rings_while_a_ring_is_written_is_rung_as_well(redis_url: str, names: RqSettings) -> None:
    bell = open_bell(redis_url, names, wait_s=1)
    bell.ring(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bell.ring(1)
    assert {await bell.pop(1), await bell.pop(1)} == {0, 1}
    await bell.push_back(2)
    assert await bell.pop(1) == 2
    await bell.close()


LEAVE = """
import asyncio, sys
from workers.registration import Registration

async def main():
    registration = Registration(sys.argv[1], "bells", "w1")
    await registration.look(busy=False, draining=False)
    worker = registration._worker
    heard = []
    try:
        raise TypeError("its connection was taken away")
    except TypeError as error:
        try:
            worker._pubsub_exception_handler(error, worker.pubsub, worker.pubsub_thread)
        except TypeError:
            heard.append("told while it works")
        worker.is_leaving = True
        worker._pubsub_exception_handler(error, worker.pubsub, worker.pubsub_thread)
        heard.append("running" if worker.pubsub_thread._running.is_set() else "quiet when it leaves")
    await registration.leave()
    print(", ".join(heard))

asyncio.run(main())
"""


def test_what_rqs_thread_meets_when_we_leave_is_no_error(redis_url: str, names: RqSettings) -> None:
    assert in_rq(LEAVE, names, redis_url).splitlines()[-1] == "told while it works, quiet when it leaves"


BROKEN_OFF = """
import asyncio, sys, threading
from redis import Redis
from workers.registration import LoopWorker, Registration

async def main():
    registration = Registration(sys.argv[1], "bells", "w1")
    enters, goes_on, bootstrap = threading.Event(), threading.Event(), LoopWorker.bootstrap

    def slowly(self, **given):
        bootstrap(self, **given)
        enters.set()
        goes_on.wait(10)

    LoopWorker.bootstrap = slowly
    look = asyncio.create_task(registration.look(busy=False, draining=False))
    await asyncio.to_thread(enters.wait, 10)
    look.cancel()
    leave = asyncio.create_task(registration.leave())
    await asyncio.sleep(0.1)
    goes_on.set()
    await leave
    await registration.look(busy=False, draining=False)
    with Redis.from_url(sys.argv[1]) as redis:
        there = [worker.name for worker in LoopWorker.all(connection=redis)]
    print(there)

asyncio.run(main())
"""


def test_who_leaves_while_it_enters_is_in_no_list(redis_url: str, names: RqSettings) -> None:
    assert in_rq(BROKEN_OFF, names, redis_url).splitlines()[-1] == "[]"
