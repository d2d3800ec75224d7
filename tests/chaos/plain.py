"""The plain way's own processes, whole: what many bots are.

python -m tests.chaos.plain gateway PORT REDIS MODEL REPLIES
python -m tests.chaos.plain worker REDIS
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from redis import Redis
from rq import Queue, Worker

from tests.harness.fake_model import KEY
from tests.harness.webhook_twin import REPLY_SECRET, sign

ANSWER = "tests.chaos.plain.answer"


def serve(port: int, redis_url: str, model: str, replies: str) -> None:
    """Each event becomes a job, then it is answered 200."""
    queue = Queue(connection=Redis.from_url(redis_url))

    async def take(request: web.Request) -> web.Response:
        event = await request.json()
        await asyncio.to_thread(queue.enqueue, ANSWER, event["data"], redis_url, model, replies)
        return web.Response()

    app = web.Application()
    app.router.add_post("/webhooks/hook", take)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


def answer(said: dict[str, Any], redis_url: str, model: str, replies: str) -> None:
    """The job: what was said so far and this, to the model; its answer, to the platform."""
    asyncio.run(_answer(said, Redis.from_url(redis_url), model, replies))


async def _answer(said: dict[str, Any], redis: Redis, model: str, replies: str) -> None:
    history = f"history:{said['conversation']}"
    before = [json.loads(line) for line in redis.lrange(history, 0, -1)]
    mine = {"role": "user", "content": said["text"]}
    request = {"model": "naive", "max_tokens": 1_000, "messages": [*before, mine]}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{model}/v1/messages", json=request, headers={"x-api-key": KEY}) as answered:
            answered.raise_for_status()
            text = "".join(block["text"] for block in (await answered.json())["content"])
        data = {
            "conversation": said["conversation"], "thread": None, "user": said["user"]["id"],
            "in_reply_to": said["message_id"], "text": text, "part": 1, "parts": 1, "notice": False,
        }  # fmt: skip
        raw = json.dumps({"type": "reply.completed", "timestamp": datetime.now(UTC).isoformat(), "data": data})
        async with http.post(replies, data=raw, headers=sign(uuid.uuid4().hex, raw, secret=REPLY_SECRET)) as taken:
            taken.raise_for_status()
    redis.rpush(history, json.dumps(mine), json.dumps({"role": "assistant", "content": text}))


def work(redis_url: str) -> None:
    """As `rq worker` does it."""
    connection = Redis.from_url(redis_url)
    Worker([Queue(connection=connection)], connection=connection).work(logging_level="ERROR")


def main(role: str, *given: str) -> None:
    if role == "gateway":
        serve(int(given[0]), *given[1:])
    else:
        work(*given)


if __name__ == "__main__":
    main(*sys.argv[1:])
