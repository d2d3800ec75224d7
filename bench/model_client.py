"""CPU of one model call: ours against a bare `messages.stream()` on the SDK's default transport.

    python -m bench.model_client [--calls 300] [--at-once 20] [--rounds 3]

One loopback server in a process of its own answers both, 40 deltas at once in one write. The request has 21 messages
and 10 tools. The figure is the ratio, taken within one run; rounds alternate, the median counts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from anthropic import AsyncAnthropic
from pydantic import SecretStr

from config.settings import ModelSettings
from tests.harness.fake_model import KEY
from workers.models import Answer, Request
from workers.models.anthropic import open_model

DELTAS = 40
WORDS = "the quick brown fox jumps over the lazy dog and writes what it saw "


def request() -> Request:
    messages = [
        {"role": ("user", "assistant")[turn % 2], "content": [{"type": "text", "text": f"{turn} {WORDS * 10}"}]}
        for turn in range(21)
    ]
    properties = {f"argument_{n}": {"type": "string", "description": WORDS} for n in range(5)}
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    tools = [{"name": f"tool_{n}", "description": WORDS * 4, "input_schema": schema} for n in range(10)]
    return Request("fake", [{"type": "text", "text": WORDS * 20}], messages, tools, 1_000)


async def cpu_ms(call: Callable[[], Awaitable[None]], calls: int, at_once: int) -> float:
    async def some() -> None:
        for _ in range(calls // at_once):
            await call()

    await call()
    began = time.process_time()
    await asyncio.gather(*(some() for _ in range(at_once)))
    return (time.process_time() - began) / (calls // at_once * at_once) * 1_000


async def compare(url: str, calls: int, at_once: int, rounds: int) -> None:
    asked = request()
    model = open_model(ModelSettings(provider="anthropic", name="fake", base_url=url, api_key=SecretStr(KEY)))
    bare = AsyncAnthropic(api_key=KEY, base_url=url)

    async def ours() -> None:
        pieces = [piece async for piece in model.stream(asked)]
        assert isinstance(pieces[-1], Answer)

    async def theirs() -> None:
        given: dict[str, Any] = {"system": asked.system, "messages": asked.messages, "tools": asked.tools}
        async with bare.messages.stream(model=asked.model, max_tokens=asked.max_tokens, **given) as stream:
            async for _ in stream.text_stream:
                pass
            await stream.get_final_message()

    figures: dict[str, list[float]] = {"ours": [], "messages.stream()": []}
    for _ in range(rounds):
        figures["ours"].append(await cpu_ms(ours, calls, at_once))
        figures["messages.stream()"].append(await cpu_ms(theirs, calls, at_once))
    await model.close()
    await bare.close()
    for name, values in figures.items():
        print(f"{name:20} {statistics.median(values):6.2f} ms CPU a call   ({', '.join(f'{v:.2f}' for v in values)})")
    ratio = statistics.median(figures["ours"]) / statistics.median(figures["messages.stream()"])
    print(f"ratio                {ratio:6.2f}   goal <= 0.50: {'met' if ratio <= 0.5 else 'MISSED'}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=300)
    options.add_argument("--at-once", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.fake_model", "--deltas", str(DELTAS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        asyncio.run(compare(server.stdout.readline().strip(), given.calls, given.at_once, given.rounds))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
