"""Memory of one worker process that holds 1,000 turns, each waiting on a slow model.

Each conversation has 20 messages of history. The idle figure is taken after some turns, so that what is imported or
connected when first used is in it; what a turn takes is the difference, divided.

    python -m bench.concurrency [--turns 1000] [--model-s 12]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time

import aiohttp

from bench._talk import CONNECTION, conversation, put, remember, replies, until_replies
from bench._world import Verdicts, allow_files, model, other_core, server, until, webhooks, world

TOTAL_MIB = 220.0
TURN_KIB = 100.0
WARM_UP = 20
WITHIN_S = 120.0


async def hold(turns: int, model_s: float) -> None:
    verdicts = Verdicts()
    slow = ["tests.harness.fake_model", "--before-ms", str(model_s * 1_000)]
    async with world() as here, aiohttp.ClientSession() as http:
        with (
            server("sink", "bench._sink", core=other_core()) as (_, sink),
            server("model", *slow, core=other_core()) as (_, url),
        ):
            here.configure(connections={CONNECTION: webhooks(sink)}, model=model(url))
            with here.deskmate("worker", "--concurrency", str(turns)) as worker:
                await here.logged("worker", "worker ready")
                few = [conversation() for _ in range(WARM_UP)]
                await remember(here, few)
                await put(here, few)
                await until_replies(http, sink, WARM_UP, WITHIN_S)
                await here.until_settled(WITHIN_S)
                _, idle_kib = worker.memory_kib()
                keys = [conversation() for _ in range(turns)]
                await remember(here, keys)
                began = time.monotonic()
                await put(here, keys)
                most = [0, 0]
                asking = 0

                async def asked() -> bool:
                    nonlocal asking, most
                    asking = max(asking, worker.connections_to(url))
                    most = [max(pair) for pair in zip(most, worker.memory_kib(), strict=True)]
                    return asking >= turns

                await until(asked, model_s, every_s=0.2)
                print(f"  {asking} turns wait on the model {time.monotonic() - began:.1f} s after their messages came")
                await until_replies(http, sink, WARM_UP + turns, WITHIN_S)
                await here.until_settled(WITHIN_S)
                given = await replies(http, sink) - WARM_UP
                rss_kib, pss_kib = most
        verdicts.tell("memory, RSS at most", rss_kib / 1024, TOTAL_MIB, "MiB")
        print(f"{'  PSS at most':44} {pss_kib / 1024:9.2f} MiB")
        print(f"{'  PSS idle':44} {idle_kib / 1024:9.2f} MiB")
        verdicts.tell("memory a turn", (pss_kib - idle_kib) / turns, TURN_KIB, "KiB")
        verdicts.tell("turns without a reply", turns - given, 0)
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=1_000)
    options.add_argument("--model-s", type=float, default=12.0, help="how long the model takes to begin its answer")
    given = options.parse_args()
    print(f"{given.turns} turns, a model that takes {given.model_s:g} s, no seed: nothing is random")
    allow_files()
    os.sched_setaffinity(0, {other_core()})
    asyncio.run(hold(given.turns, given.model_s))


if __name__ == "__main__":
    main()
