"""From the gateway's 2xx to the first request at the model, on an idle system: a message each 50 ms.

Gateway and worker are real processes on one core; the model and this load run on the other. A message's text is marked,
and the model's ledger says when the request that holds the mark came in.

    python -m bench.pickup [--messages 200] [--every-ms 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from pathlib import Path

import aiohttp

from bench._load import signed_webhook
from bench._talk import CONNECTION, until_replies
from bench._world import Verdicts, allow_files, model, other_core, quantile, server, webhooks, world

GOALS_MS = {0.5: 10.0, 0.99: 40.0}
WARM_UP = 20


async def listen(messages: int, every_s: float, seed: int) -> None:
    verdicts = Verdicts()
    chance = random.Random(seed)
    answered: dict[str, tuple[float, float]] = {}
    async with world() as here, aiohttp.ClientSession() as http:
        ledger = here.folder / "asked.jsonl"
        with (
            server("sink", "bench._sink", core=other_core()) as (_, sink),
            server("model", "tests.harness.fake_model", "--ledger", str(ledger), core=other_core()) as (_, url),
        ):
            here.configure(connections={CONNECTION: webhooks(sink)}, model=model(url))
            with here.deskmate("gateway"), here.deskmate("worker"):
                line = await here.logged("gateway", "gateway ready")
                door = "http://" + line.partition("http://")[2].split()[0] + f"/webhooks/{CONNECTION}"
                await here.logged("worker", "worker ready")

                async def say(mark: str) -> None:
                    body, headers = signed_webhook(mark, f"room-{chance.randrange(1_000_000)}")
                    sent_s = time.time()
                    async with http.post(door, data=body, headers=headers) as response:
                        assert response.status == 200, response.status
                        answered[mark] = (sent_s, time.time())

                for number in range(WARM_UP + messages):
                    at_s = time.perf_counter()
                    await say(f"n{number}")
                    # A little off the beat, so that nothing falls into step with the product's own clocks.
                    await asyncio.sleep(max(0.0, at_s + every_s * chance.uniform(0.9, 1.1) - time.perf_counter()))
                await until_replies(http, sink, WARM_UP + messages, 30.0)
        asked = first_asked(ledger)
    marks = [f"n{number}" for number in range(WARM_UP, WARM_UP + messages)]
    from_answer = [(asked[mark] - answered[mark][1]) * 1_000 for mark in marks]
    from_post = [(asked[mark] - answered[mark][0]) * 1_000 for mark in marks]
    for share, goal in GOALS_MS.items():
        verdicts.tell(f"2xx to the model's first request, p{share * 100:g}", quantile(from_answer, share), goal, "ms")
    for share in GOALS_MS:
        print(f"{f'  post to the same, p{share * 100:g}':44} {quantile(from_post, share):9.2f} ms")
    verdicts.end()


def first_asked(ledger: Path) -> dict[str, float]:
    """When each mark was first seen at the model."""
    seen: dict[str, float] = {}
    with ledger.open(encoding="utf-8") as lines:
        for line in lines:
            asked = json.loads(line)
            for mark in asked["markers"]:
                seen.setdefault(mark, asked["at_s"])
    return seen


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=200)
    options.add_argument("--every-ms", type=float, default=50.0)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    given = options.parse_args()
    print(f"{given.messages} messages, one each {given.every_ms:g} ms, seed {given.seed}")
    allow_files()
    os.sched_setaffinity(0, {other_core()})
    asyncio.run(listen(given.messages, given.every_ms / 1_000, given.seed))


if __name__ == "__main__":
    main()
