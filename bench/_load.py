"""Posts over HTTP, as fast or as many at once as asked for, from requests that were written before."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench._world import SIGNING_SECRET, WEBHOOK_SECRET

BODY_BYTES = 1_024


def slack_events(seed: int, *, channels: int = 200, threads: int = 10) -> Iterator[bytes]:
    """Bodies of 1 KB: mentions in `channels` times `threads` threads, each event with ids of its own."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        channel = f"C{chance.randrange(channels):08d}"
        thread = f"1700000000.{chance.randrange(threads):06d}"
        body = {
            "token": "one-long-verification-token", "team_id": "T0001", "api_app_id": "A0001",
            "event": {
                "type": "app_mention", "user": f"U{chance.randrange(500):08d}", "text": "",
                "ts": f"{int(time.time())}.{number % 1_000_000:06d}", "thread_ts": thread,
                "client_msg_id": f"{chance.getrandbits(128):032x}", "team": "T0001", "channel": channel,
                "event_ts": f"{int(time.time())}.{number % 1_000_000:06d}",
            },
            "type": "event_callback", "event_id": f"Ev{seed:x}{number:08d}", "event_time": int(time.time()),
            "authorizations": [{"enterprise_id": None, "team_id": "T0001", "user_id": "UBENCH", "is_bot": True}],
            "is_ext_shared_channel": False, "event_context": "4-" + "c" * 60,
        }  # fmt: skip
        event = body["event"]
        assert isinstance(event, dict)
        event["text"] = "<@UBENCH> " + "x" * (BODY_BYTES - len(json.dumps(body)) - 10)
        yield json.dumps(body).encode()


def signed_post(path: str, body: bytes, now_s: int) -> bytes:
    """A whole HTTP request as Slack sends it."""
    signature = hmac.new(SIGNING_SECRET.encode(), b"v0:%d:%b" % (now_s, body), hashlib.sha256).hexdigest()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: Slackbot 1.0 (+https://api.slack.com/robots)\r\n"
        f"Accept: */*\r\nAccept-Encoding: gzip,deflate\r\nContent-Type: application/json\r\n"
        f"X-Slack-Request-Timestamp: {now_s}\r\nX-Slack-Signature: v0={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(slots=True)
class Tally:
    """What came back, and how long each took."""

    statuses: Counter[int] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.statuses.values())


class _Poster(asyncio.Protocol):
    """One connection: a request, its answer, the next request. Answers have a Content-Length or no body."""

    def __init__(self, give: Callable[[], bytes | None], tally: Tally, done: asyncio.Future[None]) -> None:
        self._give = give
        self._tally = tally
        self._done = done
        self._heard = b""
        self._sent_s = 0.0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._post()

    def data_received(self, data: bytes) -> None:
        heard = self._heard + data
        head, end, rest = heard.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0) if end else 0
        if not end or len(rest) < length:
            self._heard = heard
            return
        self._heard = b""
        self._tally.statuses[int(head[9:12])] += 1
        self._tally.took_s.append(time.perf_counter() - self._sent_s)
        self._post()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("the server hung up"))

    def _post(self) -> None:
        request = self._give()
        if request is not None:
            self._sent_s = time.perf_counter()
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)
            self._transport.close()


async def post_all(url: str, requests: list[bytes], *, connections: int) -> Tally:
    """Send all requests, each connection one at a time. Raises `OSError` if the server hangs up."""
    where = urlsplit(url)
    left = iter(requests)
    tally = Tally()
    loop = asyncio.get_running_loop()
    dones: list[asyncio.Future[None]] = []

    def poster() -> _Poster:
        dones.append(loop.create_future())
        return _Poster(lambda: next(left, None), tally, dones[-1])

    for _ in range(min(connections, len(requests))):
        await loop.create_connection(poster, where.hostname or "", where.port or 80)
    await asyncio.gather(*dones)
    return tally


def signed_webhook(mark: str, room: str) -> tuple[bytes, dict[str, str]]:
    """A message as Standard Webhooks has it, with a mark in its text: the body, and the headers that sign it."""
    data = {"conversation": room, "user": {"id": "u1", "name": "Ada"}, "message_id": mark, "direct": True}
    body = json.dumps({"type": "message.created", "data": {**data, "text": f"Hello, mark:{mark} it is."}}).encode()
    name, stamp = f"bench_{mark}", str(int(time.time()))
    key = base64.b64decode(WEBHOOK_SECRET.removeprefix("whsec_"))
    digest = hmac.digest(key, b"%b.%b.%b" % (name.encode(), stamp.encode(), body), "sha256")
    return body, {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
