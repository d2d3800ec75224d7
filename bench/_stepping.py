"""A model at once: it says something and calls a tool, step after step, and at last only says something. Prints its address.

python -m bench._stepping STEPS PIECES [LEDGER]
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from bench._talk import WORDS
from tests.harness.fake_model import Asked, FakeModel
from tests.harness.model_replies import Reply, calls, says


async def serve(steps: int, pieces: int, ledger: Path | None) -> None:
    call = calls("current_time", text=WORDS * 2, deltas=pieces)
    answer = says(WORDS * 2, deltas=pieces)

    def reply(asked: Asked) -> Reply:
        done = sum(
            block["type"] == "tool_result" for message in asked.request["messages"] for block in message["content"]
        )
        return answer if done % steps == steps - 1 else call

    async with FakeModel(reply, ledger=ledger, keeps=False) as model:
        print(model.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None))
