"""A stand-in for a chat platform that speaks Standard Webhooks: sends signed events, takes signed replies, keeps a ledger.

    async with WebhookTwin() as chat:
        said = await chat.say(f"{gateway}/webhooks/bridge", "hi", conversation="room-1")
        reply = await chat.reply_to(said)
        chat.next(status=503, retry_after=2)                  # the next reply; `on="reply.updated"` for one type

Connect deskmate with `secret: SECRET`, `reply_secret: REPLY_SECRET`, `reply_url: <chat.url>`. `Bridge` is the same as
every other stand-in is (`tests.harness.twins.Twin`).
Alone: `python -m tests.harness.webhook_twin --port 9200 --ledger took.jsonl`; then `POST /twin/say` and `POST /twin/next`
take the same arguments as JSON, and `GET /twin/ledger` gives what was taken.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

import aiohttp
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.harness import twins
from tests.harness.faults import Fault, Faults

SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
REPLY_SECRET: Final = "whsec_cmVwbHktc2VjcmV0LWZvci10ZXN0cw=="

_ADDRESS: Final = {"conversation", "thread", "user", "in_reply_to"}
_SHAPES: Final = {
    "reply.completed": _ADDRESS | {"text", "part", "parts", "notice"},
    "reply.updated": _ADDRESS | {"text", "steps"},
    "reply.edited": _ADDRESS | {"message_id", "text", "part", "parts", "notice"},
    "action.settled": _ADDRESS | {"message_id", "text"},
}
_SOMETIMES: Final = {"reply.completed": {"buttons", "attachments"}, "reply.edited": {"buttons"}}
"""What may be there beside that."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One event of the gateway's side that was new to us, in order."""

    at_s: float
    webhook_id: str
    type: str
    data: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.data["text"])


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said through `say`. `statuses` are the gateway's answers, 0 for none in time."""

    conversation: str | None
    thread: str | None
    message_id: str
    statuses: list[int] = field(default_factory=list)


class WebhookTwin:
    """One chat platform. `retry_s`: the pauses before an event that got no 2xx is sent again."""

    def __init__(
        self, *, port: int = 0, ledger: Path | None = None, retry_s: tuple[float, ...] = (0.05, 0.5, 2.0)
    ) -> None:
        self.taken: list[Taken] = []
        """Replies, completed parts and edits alike, each `webhook-id` once."""
        self.updates: list[Taken] = []
        """What was shown while answers grew."""
        self.settled: list[str] = []
        """Ids of replies whose buttons have nothing left to decide."""
        self.upload_s = 0.0
        """How long a reply with a file takes."""
        self.repeated: list[str] = []
        """Ids that came again: known, and answered 2xx."""
        self.refused: list[str] = []
        """Why requests were refused."""
        self.faults = Faults()
        self.origin = ""
        self._port = port
        self._retry_s = retry_s
        self._ledger_path = ledger
        self._ledger: TextIO | None = None
        self._count = itertools.count(1)
        self._changed = asyncio.Condition()
        app = web.Application()
        app.add_routes(
            [
                web.post("/replies", self._take),
                web.post("/replies/{more}", self._take),
                web.post("/twin/say", self._say),
                web.post("/twin/next", self._next),
                web.get("/twin/ledger", self._give_ledger),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        if self._ledger_path:
            self._ledger = self._ledger_path.open("a", encoding="utf-8")
        self._http = aiohttp.ClientSession()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.origin = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.end()
        await self._runner.cleanup()
        await self._http.close()
        if self._ledger:
            self._ledger.close()

    @property
    def url(self) -> str:
        """For `reply_url`."""
        return f"{self.origin}/replies"

    # on order

    def next(self, *, retry_after: int | None = None, times: int = 1, **fault: Any) -> None:
        """The next reply is met as told: a `status`, `hang` or `close`, `taken`, `on` an event's type."""
        headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
        self.faults.order(Fault(**{"headers": headers, **fault}), times)

    # people

    async def say(
        self, url: str, text: str, *, conversation: str | None = "room-1", thread: str | None = None,
        user: str = "u1", kind: str = "message.created", message_id: str | None = None, **data: Any,
    ) -> Said:  # fmt: skip
        """A person says something: one signed event, sent again with the same id until it is taken."""
        said = Said(conversation, thread, message_id or f"m{next(self._count)}")
        whole = {
            "conversation": conversation,
            "thread": thread,
            "message_id": said.message_id,
            "user": {"id": user, "name": user.upper()},
            "text": text,
            "attachments": [],
            **data,
        }
        said.statuses.extend(await self.deliver(url, kind, whole))
        return said

    async def deliver(
        self, url: str, kind: str, data: Mapping[str, Any], *, webhook_id: str | None = None
    ) -> list[int]:
        """Send an event until it is taken, at most once more than there are pauses; the answers' statuses."""
        now = datetime.now(UTC)
        raw = json.dumps({"type": kind, "timestamp": now.isoformat(), "data": data})
        webhook_id = webhook_id or f"msg_{time.time_ns()}_{next(self._count)}"
        statuses: list[int] = []
        for pause_s in (0.0, *self._retry_s):
            await asyncio.sleep(pause_s)
            timeout = aiohttp.ClientTimeout(total=15)
            try:
                async with self._http.post(url, data=raw, headers=sign(webhook_id, raw), timeout=timeout) as answer:
                    statuses.append(answer.status)
            except (TimeoutError, aiohttp.ClientError):
                statuses.append(0)
            if 200 <= statuses[-1] < 300 or statuses[-1] == 410:
                break
        return statuses

    async def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Wait until the condition holds; it is looked at whenever something came in."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def reply_to(self, said: Said, timeout_s: float = 60.0) -> Taken:
        """The first part of the reply to what was said."""

        def found() -> Taken | None:
            ours = (one for one in self.taken if one.type == "reply.completed")
            return next((one for one in ours if one.data["in_reply_to"] == said.message_id), None)

        reply = await self.until(found, timeout_s)
        assert isinstance(reply, Taken)
        return reply

    # replies

    async def _take(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        if b'"attachments"' in raw:
            await asyncio.sleep(self.upload_s)
        try:
            kind, taken = self._read(request, raw)
        except (ValueError, WebhookVerificationError) as error:
            self.refused.append(str(error))
            status = 401 if isinstance(error, WebhookVerificationError) else 400
            return web.json_response({"error": str(error)}, status=status)
        fault = self.faults.take(kind)
        if fault is None or fault.taken:
            self._keep(taken)
        async with self._changed:
            self._changed.notify_all()
        return await self.faults.show(request, fault) if fault else web.json_response({"ok": True})

    def _read(self, request: web.Request, raw: bytes) -> tuple[str, Taken]:
        """A reply, checked by the reference library and against the documented shapes, no key more or less."""
        Webhook(REPLY_SECRET).verify(raw, dict(request.headers))
        if request.content_type != "application/json":
            raise ValueError("Content-Type is not application/json")
        body = json.loads(raw)
        kind = body["type"]
        if set(body) != {"type", "timestamp", "data"} or kind not in _SHAPES:
            raise ValueError(f"not a reply: {sorted(body)} {kind}")
        datetime.fromisoformat(body["timestamp"])
        if set(body["data"]) - _SOMETIMES.get(kind, set()) != _SHAPES[kind] or not isinstance(
            body["data"]["text"], str
        ):
            raise ValueError(f"{kind} with {sorted(body['data'])}")
        return kind, Taken(time.time(), request.headers["webhook-id"], kind, body["data"])

    def _keep(self, taken: Taken) -> None:
        if taken.type == "reply.updated":
            self.updates.append(taken)
            return
        if taken.type == "action.settled":
            self.settled.append(taken.data["message_id"])
            return
        if any(one.webhook_id == taken.webhook_id for one in self.taken):
            self.repeated.append(taken.webhook_id)
            return
        self.taken.append(taken)
        if self._ledger:
            self._ledger.write(json.dumps(asdict(taken), ensure_ascii=False) + "\n")
            self._ledger.flush()
            os.fsync(self._ledger.fileno())

    # alone

    async def _say(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(await self.say(**await request.json())))

    async def _next(self, request: web.Request) -> web.Response:
        self.next(**await request.json())
        return web.json_response({"ok": True})

    async def _give_ledger(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(one) for one in self.taken])


def sign(webhook_id: str, raw: str, *, secret: str = SECRET, at_s: float | None = None) -> dict[str, str]:
    """The headers of an event, signed by the reference library."""
    at = datetime.fromtimestamp(int(time.time() if at_s is None else at_s), UTC)
    return {
        "Content-Type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, at, raw),
    }


class Bridge:
    """The stand-in for the play that is given on all platforms: one room, and each person's own conversation."""

    platform = "standard_webhooks"
    environment: Mapping[str, str] = {"BRIDGE_SECRET": SECRET, "BRIDGE_REPLY_SECRET": REPLY_SECRET}

    def __init__(self) -> None:
        self.chat = WebhookTwin()

    async def __aenter__(self) -> Self:
        await self.chat.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.chat.__aexit__(kind, error, trace)

    @property
    def connection(self) -> dict[str, Any]:
        secrets = {"secret": "$BRIDGE_SECRET", "reply_secret": "$BRIDGE_REPLY_SECRET"}
        return {"platform": "standard_webhooks", "reply_url": self.chat.url, **secrets}

    @property
    def shown(self) -> list[twins.Shown]:
        found = {one.webhook_id: self._show(one) for one in self.chat.taken if one.type == "reply.completed"}
        for edit in self.chat.taken:
            if edit.type == "reply.edited":
                found[edit.data["message_id"]].text = edit.text
        return list(found.values())

    def _show(self, taken: Taken) -> twins.Shown:
        data = taken.data
        buttons = data.get("buttons", []) if taken.webhook_id not in self.chat.settled else []
        files = [base64.b64decode(one["content"]) for one in data.get("attachments", [])]
        return twins.Shown(
            room=data["conversation"] or data["user"],
            id=taken.webhook_id,
            text=taken.text,
            thread=data["thread"],
            buttons=[one["label"] for one in buttons],
            file=files[0] if files else None,
        )

    async def mention(self, hook: str, text: str) -> twins.Said:
        """It begins a thread: without one, nobody would know what goes on from it."""
        return _said(await self.chat.say(hook, text, thread=f"t{time.time_ns()}"))

    async def follow_up(self, hook: str, before: twins.Said, text: str) -> twins.Said:
        said = await self.chat.say(hook, text, conversation=before.room, thread=before.thread, addressed=False)
        return _said(said)

    async def direct(self, hook: str, text: str) -> twins.Said:
        return _said(await self.chat.say(hook, text, conversation=None, direct=True))

    async def picture(self, hook: str, text: str, png: bytes) -> twins.Said:
        files = [{"name": "picture.png", "mime": "image/png", "content": base64.b64encode(png).decode()}]
        return _said(await self.chat.say(hook, text, conversation=None, direct=True, attachments=files))

    async def command(self, hook: str, line: str) -> twins.Said:
        return await self.direct(hook, line)

    async def press(self, hook: str, shown: twins.Shown, label: str) -> twins.Said:
        [taken] = [one for one in self.chat.taken if one.webhook_id == shown.id]
        [button] = [one for one in taken.data["buttons"] if one["label"] == label]
        pressed = {"kind": "action.pressed", "action": "button", "value": button["command"], "message_id": shown.id}
        room = taken.data["conversation"]
        return _said(await self.chat.say(hook, "", conversation=room, thread=shown.thread, direct=not room, **pressed))

    async def reply_to(self, said: twins.Said, timeout_s: float = 60.0) -> twins.Shown:
        return self._show(await self.chat.reply_to(Said(said.room, said.thread, said.id), timeout_s))


def _said(said: Said) -> twins.Said:
    return twins.Said(said.conversation or "u1", said.message_id, said.thread, said.statuses)


async def _alone(port: int, ledger: Path | None) -> None:
    async with WebhookTwin(port=port, ledger=ledger) as twin:
        sys.stdout.write(f"{twin.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A stand-in for a chat platform that speaks Standard Webhooks.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--ledger", type=Path)
    given = options.parse_args()
    try:
        asyncio.run(_alone(given.port, given.ledger))
    except KeyboardInterrupt:
        sys.exit(0)
