"""CPU of one event at the gateway against an aiohttp echo of the same body.

A signed 1 KB Slack event is verified, deduplicated, put into Redis, and answered 200 after that; the bell is rung where
it is due. Event ids are unique, 200 channels with 10 threads each; no worker runs, so the limits of the inboxes are
raised. At last, posts over 1,000 connections at once: none may be refused.

    python -m bench.ingress [--events 4000] [--rounds 3] [--connections 32] [--loop stock] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import time

from bench._load import post_all, signed_post, slack_events
from bench._world import (
    Verdicts,
    allow_files,
    measured_core,
    other_core,
    quantile,
    rounds_of,
    server,
    slack,
    told,
    world,
)

MANY = 1_000
GOAL = 2.0


async def compare(events: int, rounds: int, connections: int, seed: int, *, stock: bool) -> None:
    verdicts = Verdicts()
    bodies = slack_events(seed)

    def requests(path: str, count: int) -> list[bytes]:
        return [signed_post(path, body, int(time.time())) for body in itertools.islice(bodies, count)]

    figures: dict[str, list[float]] = {"gateway": [], "echo": []}
    redis_us: list[float] = []
    with (
        server("sink", "bench._sink", core=other_core()) as (_, sink),
        server("echo", "bench._echo", *([] if stock else ["--uvloop"]), core=measured_core()) as (echo, echo_url),
    ):
        async with world() as here:
            here.configure(connections={"slack-main": slack(sink)})
            with here.deskmate("gateway", stock_loop=stock) as gateway:
                line = await here.logged("gateway", "gateway ready")
                url = "http://" + line.partition("http://")[2].split()[0]
                for name in ["gateway", "echo", *rounds_of("gateway", "echo", rounds=rounds)]:
                    process, where, path = {
                        "gateway": (gateway, url, "/webhooks/slack-main"),
                        "echo": (echo, echo_url, "/echo"),
                    }[name]
                    some = requests(path, events)
                    began, redis_began = process.cpu_s(), here.redis.cpu_s()
                    tally = await post_all(where, some, connections=connections)
                    assert tally.statuses == {200: events}, tally.statuses
                    figures[name].append((process.cpu_s() - began) / events * 1e6)
                    if name == "gateway":
                        redis_us.append((here.redis.cpu_s() - redis_began) / events * 1e6)
                for values in (*figures.values(), redis_us):
                    values.remove(values[0])  # the first round warms up
                ours = told("gateway, CPU an event", figures["gateway"], "us")
                theirs = told("echo, CPU a request", figures["echo"], "us")
                told("redis, CPU an event", redis_us, "us")
                verdicts.tell("ratio", ours / theirs, GOAL)
                tally = await post_all(url, requests("/webhooks/slack-main", 5 * MANY), connections=MANY)
                refused = sum(count for status, count in tally.statuses.items() if status != 200)
                verdicts.tell(f"refused of {tally.count} over {MANY} connections", refused, 0)
                print(f"  the slowest of them took {quantile(tally.took_s, 1.0) * 1000:.0f} ms")
                stored = sum(
                    [
                        await here.store.redis.zcard(key)
                        async for key in here.store.redis.scan_iter("dm:{0}:c:*:inbox", count=1_000)
                    ]
                )
                sent = events * (rounds + 1) + 5 * MANY
                assert stored == sent, f"{sent} were answered 200, {stored} are stored"
                print(f"  all {stored} events that were answered 200 are in Redis")
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=4_000, help="of each round")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--loop", choices=["stock", "uvloop"], default="stock", help="of gateway and echo alike")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    given = options.parse_args()
    print(f"{given.rounds} rounds of {given.events} events, {given.connections} connections, seed {given.seed}")
    allow_files()
    os.sched_setaffinity(0, {other_core()})
    asyncio.run(compare(given.events, given.rounds, given.connections, given.seed, stock=given.loop == "stock"))


if __name__ == "__main__":
    main()
