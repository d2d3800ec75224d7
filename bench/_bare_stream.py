"""What a turn is compared with: bare `messages.stream()` calls of the SDK on its default transport, same request.

    python -m bench._bare_stream URL REQUEST.json CALLS AT_ONCE

Prints milliseconds of CPU a call.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

from tests.harness.fake_model import KEY


async def measure(url: str, request: dict[str, Any], calls: int, at_once: int) -> float:
    async with AsyncAnthropic(api_key=KEY, base_url=url) as client:

        async def some(count: int) -> None:
            for _ in range(count):
                async with client.messages.stream(**request) as stream:
                    async for _ in stream.text_stream:
                        pass
                    await stream.get_final_message()

        await asyncio.gather(*(some(2) for _ in range(at_once)))  # connections, and what is imported when first used
        began = time.process_time()
        await asyncio.gather(*(some(calls // at_once) for _ in range(at_once)))
        return (time.process_time() - began) / (calls // at_once * at_once) * 1_000


if __name__ == "__main__":
    url, file, calls, at_once = sys.argv[1:]
    asked = json.loads(Path(file).read_text(encoding="utf-8"))
    asked.pop("stream", None)
    print(asyncio.run(measure(url, asked, int(calls), int(at_once))), flush=True)
