"""CPU of a whole turn without tools at the worker, against one bare `messages.stream()` of the model's SDK.

A message waits in a conversation with 20 messages of history; a real `deskmate worker` claims it, asks the model (40
deltas, at once), shows the growing answer, writes records, sends the reply to a platform of the kind `standard_webhooks`
and settles. The bare call sends the same bytes to the same server and reads the answer, on the SDK's default transport.

    python -m bench.turn [--turns 300] [--at-once 100] [--rounds 3] [--loop stock]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from bench._talk import CONNECTION, conversation, put, remember, replies, until_replies
from bench._world import (
    Process,
    Verdicts,
    World,
    allow_files,
    first_line,
    measured_core,
    model,
    other_core,
    process,
    rounds_of,
    server,
    told,
    webhooks,
    world,
)

GOAL = 1.0
WITHIN_S = 90.0


async def some_turns(here: World, worker: Process, sink: str, turns: int) -> tuple[float, float, float]:
    """CPU ms of the worker and of Redis a turn, and turns a second."""
    keys = [conversation() for _ in range(turns)]
    await remember(here, keys)
    async with aiohttp.ClientSession() as http:
        before = await replies(http, sink)
        worker_s, redis_s, began = worker.cpu_s(), here.redis.cpu_s(), time.perf_counter()
        await put(here, keys)
        await until_replies(http, sink, before + turns, WITHIN_S)
    await here.until_settled(WITHIN_S)
    took_s = time.perf_counter() - began
    worker.demand_alive()
    return (worker.cpu_s() - worker_s) / turns * 1_000, (here.redis.cpu_s() - redis_s) / turns * 1_000, turns / took_s


async def bare_calls(url: str, request: Path, turns: int, at_once: int) -> float:
    """CPU ms of a bare call, in a process of its own."""
    command = [sys.executable, "-m", "bench._bare_stream", url, str(request), str(turns), str(at_once)]
    with process("messages.stream()", command, core=measured_core(), stdout=subprocess.PIPE) as running:
        assert running.started.stdout
        return float(await asyncio.to_thread(running.started.stdout.readline))


async def compare(turns: int, at_once: int, rounds: int, *, stock: bool) -> None:
    verdicts = Verdicts()
    ours: list[tuple[float, float, float]] = []
    theirs: list[float] = []
    async with world() as here:
        ledger = here.folder / "asked.jsonl"
        with (
            server("sink", "bench._sink", core=other_core()) as (_, sink),
            server("model", "tests.harness.fake_model", "--ledger", str(ledger), core=other_core()) as (_, url),
        ):
            here.configure(connections={CONNECTION: webhooks(sink)}, model=model(url))
            with here.deskmate("worker", "--concurrency", str(at_once), stock_loop=stock) as worker:
                await here.logged("worker", "worker ready")
                await some_turns(here, worker, sink, turns)  # warms up
                asked = first_line(ledger)["body"]
                request = here.folder / "request.json"
                request.write_text(asked, encoding="utf-8")
                print(f"  each request has {len(asked.encode())} bytes, {len(json.loads(asked)['messages'])} messages")
                for name in rounds_of("ours", "theirs", rounds=rounds):
                    if name == "ours":
                        ours.append(await some_turns(here, worker, sink, turns))
                    else:
                        theirs.append(await bare_calls(url, request, turns, at_once))
    turn_ms = told("turn, CPU of the worker", [one[0] for one in ours], "ms")
    bare_ms = told("messages.stream(), CPU", theirs, "ms")
    told("redis, CPU a turn, accept included", [one[1] for one in ours], "ms")
    told("turns a second, wall", [one[2] for one in ours], "/s")
    verdicts.tell("ratio", turn_ms / bare_ms, GOAL)
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=300, help="of each round")
    options.add_argument("--at-once", type=int, default=100)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--loop", choices=["stock", "uvloop"], default="stock", help="of the worker")
    given = options.parse_args()
    print(f"{given.rounds} rounds of {given.turns} turns, {given.at_once} at once, no seed: nothing is random")
    allow_files()
    os.sched_setaffinity(0, {other_core()})
    asyncio.run(compare(given.turns, given.at_once, given.rounds, stock=given.loop == "stock"))


if __name__ == "__main__":
    main()
