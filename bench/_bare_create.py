"""What a step is compared with: bare `messages.create(stream=True)` calls of the SDK on its aiohttp transport.

    python -m bench._bare_create URL LEDGER REQUESTS TURNS AT_ONCE

The first REQUESTS of the ledger are made one after the other, as a turn makes them. Prints milliseconds of CPU a call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic, DefaultAioHttpClient

from tests.harness.fake_model import KEY


async def measure(url: str, requests: list[dict[str, Any]], turns: int, at_once: int) -> float:
    async with AsyncAnthropic(api_key=KEY, base_url=url, http_client=DefaultAioHttpClient()) as client:

        async def some(count: int) -> None:
            for _ in range(count):
                for request in requests:
                    async for _ in await client.messages.create(**request):
                        pass

        await asyncio.gather(*(some(1) for _ in range(at_once)))  # connections, and what is imported when first used
        began = time.process_time()
        await asyncio.gather(*(some(turns // at_once) for _ in range(at_once)))
        return (time.process_time() - began) / (turns // at_once * at_once * len(requests)) * 1_000


if __name__ == "__main__":
    url, ledger, requests, turns, at_once = sys.argv[1:]
    with Path(ledger).open(encoding="utf-8") as lines:
        asked = [json.loads(json.loads(line)["body"]) for line in itertools.islice(lines, int(requests))]
    print(asyncio.run(measure(url, asked, int(turns), int(at_once))), flush=True)
