"""A gateway as its process serves it, within the test's own; and requests as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from redis.asyncio import Redis

from config.loading import load
from gateway.app import Gateway, Parts, open_parts
from gateway.events import Event
from gateway.server import Runner
from tests.harness import slack_twin, webhook_twin

VARIABLES = {
    "SLACK_SECRET": slack_twin.SIGNING_SECRET,
    "SLACK_TOKEN": slack_twin.BOT_TOKEN,
    "BRIDGE_SECRET": webhook_twin.SECRET,
}
NOWHERE = "http://127.0.0.1:9"
SLACK = {
    "platform": "slack",
    "api_base": f"{NOWHERE}/api",
    "signing_secret": "$SLACK_SECRET",
    "bot_token": "$SLACK_TOKEN",
    "bot_user_id": slack_twin.BOT_USER,
}
BRIDGE = {"platform": "standard_webhooks", "secret": "$BRIDGE_SECRET", "reply_url": f"{NOWHERE}/replies"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over a raw connection until it was closed, or complete."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


@dataclass(slots=True)
class Served:
    """One gateway, and what a sender does to it."""

    gateway: Gateway
    runner: Runner
    parts: Parts
    port: int
    redis_url: str
    log: list[logging.LogRecord] = field(default_factory=list)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The fields of what it logged."""
        return [record.__dict__.get("fields", {}) for record in self.log if record.getMessage() == event]

    def outcomes(self) -> list[str]:
        return [line["outcome"] for line in self.lines("message")]

    async def ask(self, raw: bytes, *, within_s: float = 5.0) -> Answer:
        """Send bytes over a connection of its own, and read one answer."""
        async with self.connection() as (reader, writer):
            writer.write(raw)
            return await answer_of(reader, within_s)

    async def deliver(self, connection: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        return await self.ask(post(f"/webhooks/{connection}", body, headers))

    async def say(self, event: Mapping[str, Any], event_id: str = "Ev1") -> Answer:
        """An event of Slack's, signed."""
        body = json.dumps(envelope(event, event_id)).encode()
        return await self.deliver("slack-main", body, slack_twin.sign(body))

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def waiting(self) -> list[Event]:
        """All events in all inboxes."""
        found: list[Event] = []
        async with Redis.from_url(self.redis_url) as redis:
            async for inbox in redis.scan_iter(match=self.parts.store.layout.key("*", "inbox")):
                members: list[Any] = await redis.zrange(inbox, 0, -1)
                found += [Event.load(member.partition(b":")[2]) for member in members]
        return found


@contextlib.asynccontextmanager
async def served(
    folder: Path, redis_url: str, prefix: str, settings: Mapping[str, Any] | None = None, *, ready: bool = True
) -> AsyncIterator[Served]:
    """A gateway with the connections `slack-main` and `bridge`; `ready`: it has seen Redis."""
    whole: dict[str, Any] = {
        "data": str(folder / "data"),
        "redis": {"key_prefix": prefix},
        "rq": {"key_prefix": f"{prefix}:rq"},
        "chat": {"enabled": False},
        "connections": {"slack-main": SLACK, "bridge": BRIDGE},
    }
    for name, part in (settings or {}).items():
        whole[name] = {**whole.get(name, {}), **part}
    file = folder / "deskmate.yaml"
    file.write_text(yaml.safe_dump(whole))
    parts = await open_parts(load(file, variables=VARIABLES), redis_url, redis_url)
    gateway = Gateway(parts)
    runner = Runner(gateway, parts.settings.gateway.shutdown_s)
    with _kept_log() as kept:
        await runner.listen("127.0.0.1", 0)
        started = Served(gateway, runner, parts, runner.addresses[0][1], redis_url, kept)
        try:
            if ready:
                async with asyncio.timeout(30):
                    while not (await started.ask(b"GET /readyz HTTP/1.0\r\n\r\n")).json["data"]:
                        await asyncio.sleep(0.01)
            yield started
        finally:
            await runner.stop()


@contextlib.contextmanager
def _kept_log() -> Any:
    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    kept: list[logging.LogRecord] = []
    handler, logger = Kept(), logging.getLogger("gateway")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield kept
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def post(path: str, body: bytes, headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> bytes:
    """A POST as it goes over the wire, whole. A length or an encoding among the headers takes the place of ours."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in pairs}
    if "content-type" not in names:
        pairs.append(("Content-Type", "application/json"))
    if not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    head = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body


async def answer_of(reader: asyncio.StreamReader, within_s: float = 5.0) -> Answer:
    """The next answer on a connection."""
    async with asyncio.timeout(within_s):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(first.split()[1]), headers, body)


def envelope(event: Mapping[str, Any], event_id: str = "Ev1") -> dict[str, Any]:
    """An event as Slack wraps it."""
    return {
        "type": "event_callback",
        "team_id": slack_twin.TEAM,
        "api_app_id": slack_twin.APP,
        "event": {"ts": f"{time.time():.6f}", "user": slack_twin.USER, "channel": slack_twin.CHANNEL, **event},
        "event_id": event_id,
        "authorizations": [{"team_id": slack_twin.TEAM, "user_id": slack_twin.BOT_USER, "is_bot": True}],
    }
