"""CPU of one step of a turn with tools at the worker, against one bare call of the model's SDK with the same bytes.

A turn has ten steps. Each time the model says something, in 40 pieces as in the other benches and at once, and calls
`current_time`; at last it only says something. A real `deskmate worker` asks, runs the tool, shows what it does, and writes
each step down before and after. The bare calls are `messages.create(stream=True)` on the SDK's aiohttp transport: the ten
requests of such a turn, one after the other. The SDK's cost grows with the pieces, ours less so: with `--pieces 1`, the
other end, the goal is missed, and only told.

    python -m bench.steps [--turns 100] [--at-once 20] [--rounds 3] [--pieces 40] [--loop stock]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import yaml

from bench._talk import CONNECTION, conversation, put, replies, until_replies
from bench._world import (
    Process,
    Verdicts,
    World,
    allow_files,
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

GOAL = 1.5
STEPS = 10
PIECES = 40
WITHIN_S = 120.0


async def some_turns(here: World, worker: Process, sink: str, turns: int) -> tuple[float, float]:
    """CPU ms of the worker and of Redis a step."""
    async with aiohttp.ClientSession() as http:
        before = await replies(http, sink)
        worker_s, redis_s = worker.cpu_s(), here.redis.cpu_s()
        await put(here, [conversation() for _ in range(turns)])
        await until_replies(http, sink, before + turns, WITHIN_S)
    await here.until_settled(WITHIN_S)
    worker.demand_alive()
    steps = turns * STEPS
    return (worker.cpu_s() - worker_s) / steps * 1_000, (here.redis.cpu_s() - redis_s) / steps * 1_000


async def bare_calls(url: str, ledger: Path, turns: int, at_once: int) -> float:
    """CPU ms of a bare call, in a process of its own."""
    arguments = [url, str(ledger), str(STEPS), str(turns), str(at_once)]
    command = [sys.executable, "-m", "bench._bare_create", *arguments]
    with process("messages.create()", command, core=measured_core(), stdout=subprocess.PIPE) as running:
        assert running.started.stdout
        return float(await asyncio.to_thread(running.started.stdout.readline))


async def compare(turns: int, at_once: int, rounds: int, pieces: int, *, stock: bool) -> None:
    verdicts = Verdicts()
    ours: list[tuple[float, float]] = []
    theirs: list[float] = []
    stepping = [str(STEPS), str(pieces)]
    async with world() as here:
        ledger = here.folder / "asked.jsonl"
        (here.folder / "profiles").mkdir()
        (here.folder / "profiles/default.yaml").write_text(yaml.safe_dump({"tools": ["current_time"]}))
        with (
            server("sink", "bench._sink", core=other_core()) as (_, sink),
            server("model", "bench._stepping", *stepping, core=other_core()) as (_, url),
            server("model", "bench._stepping", *stepping, str(ledger), core=other_core()) as (_, noting),
        ):
            here.configure(connections={CONNECTION: webhooks(sink)}, model=model(noting))
            with here.deskmate("worker", "--concurrency", "1", stock_loop=stock) as worker:
                await here.logged("worker", "worker ready")
                await some_turns(here, worker, sink, 1)  # notes what is asked
            (here.folder / "worker.log").unlink()
            here.configure(connections={CONNECTION: webhooks(sink)}, model=model(url))
            with here.deskmate("worker", "--concurrency", str(at_once), stock_loop=stock) as worker:
                await here.logged("worker", "worker ready")
                await some_turns(here, worker, sink, turns)  # warms up
                for name in rounds_of("ours", "theirs", rounds=rounds):
                    if name == "ours":
                        ours.append(await some_turns(here, worker, sink, turns))
                    else:
                        theirs.append(await bare_calls(url, ledger, turns, at_once))
    step_ms = told("step, CPU of the worker", [one[0] for one in ours], "ms")
    bare_ms = told("messages.create(stream=True), CPU", theirs, "ms")
    told("redis, CPU a step", [one[1] for one in ours], "ms")
    if pieces == PIECES:
        verdicts.tell("ratio", step_ms / bare_ms, GOAL)
    else:
        print(f"ratio: {step_ms / bare_ms:.2f}")
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=100, help="of each round")
    options.add_argument("--at-once", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--pieces", type=int, default=PIECES, help="of each answer's text")
    options.add_argument("--loop", choices=["stock", "uvloop"], default="stock", help="of the worker")
    given = options.parse_args()
    print(f"{given.rounds} rounds of {given.turns} turns of {STEPS} steps, {given.at_once} at once, nothing is random")
    allow_files()
    os.sched_setaffinity(0, {other_core()})
    asyncio.run(compare(given.turns, given.at_once, given.rounds, given.pieces, stock=given.loop == "stock"))


if __name__ == "__main__":
    main()
