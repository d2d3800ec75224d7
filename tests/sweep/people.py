"""The person of a trial: says things on either platform, until each is taken."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from tests.harness import slack_twin
from tests.harness.history import Posted, now_s
from tests.harness.slack_twin import sign as slack_sign
from tests.harness.telegram_twin import HEADERS, USERNAME
from tests.harness.webhook_twin import sign
from tests.sweep.lane import Lane, Running
from tests.sweep.plan import Plan

ANSWER_S: Final = 5.0
RETRY_S: Final = 0.1


@dataclass(slots=True)
class Person:
    """Of one conversation."""

    lane: Lane
    plan: Plan
    posted: list[str] = field(default_factory=list)
    """Messages that want an answer."""
    _chat: int = 0
    _mentions: dict[str, str] = field(default_factory=dict)

    def message(self, place: int) -> str:
        return f"{self.plan.conversation}.{place}"

    @property
    def room(self) -> str:
        """As it is called on the wires."""
        number = self._number
        match self.plan.platform:
            case "keyed":
                return self.plan.conversation
            case "searched":
                return f"C{number:0>9}"
            case _:
                return str(-(1_000_000 + number))

    @property
    def _number(self) -> int:
        return int(self.plan.conversation[1:])

    @property
    def canary(self) -> str:
        return f"QX{self.plan.conversation}Z"

    async def say(self, place: int, text: str, calls: int) -> None:
        """Until it is taken: what was not answered 2xx is delivered again, with the same id; to each gateway, if there are several."""
        message = self.message(place)
        is_yes = text.startswith("/approve")  # what it lets go on is its answer
        if not is_yes:
            self.posted.append(message)
        while True:
            gateways = [one for one in self.lane.of("gateway") if one.born.runs][-self.plan.gateways :]
            delivering = (self._deliver_to(gateway, message, text, calls, noted=not is_yes) for gateway in gateways)
            if any(200 <= status < 300 for status in await asyncio.gather(*delivering)):
                return
            await asyncio.sleep(RETRY_S)

    async def _deliver_to(self, gateway: Running, message: str, text: str, calls: int, *, noted: bool) -> int:
        begin_s = now_s()
        status = await self._deliver(gateway, message, text)
        if noted:
            self.lane.stands.book.pages["people"].write(
                Posted(
                    now_s(), conversation=self.plan.conversation, message=message, begin_s=begin_s,
                    status=status, place=int(message.rsplit(".", 1)[1]), delivery=f"d-{message}", process=gateway.name,
                    calls=calls, canary=self.canary, wants="notice" if text.startswith("/") else "reply",
                )
            )  # fmt: skip
        return status

    async def _deliver(self, gateway: Running, message: str, text: str) -> int:
        """The answer's status, 0 for none."""
        url, raw, headers = self._event(gateway, message, text)
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        try:
            async with self.lane.http.post(url, data=raw, headers=headers, timeout=timeout) as answer:
                return answer.status
        except (TimeoutError, aiohttp.ClientError):
            return 0

    def _event(self, gateway: Running, message: str, text: str) -> tuple[str, str, dict[str, str]]:
        if self.plan.platform in {"keyless", "skipping"}:
            connection = "tg" if self.plan.platform == "keyless" else "tgs"
            return f"{gateway.hook}/webhooks/{connection}", json.dumps(self._update(message, text)), HEADERS
        if self.plan.platform == "searched":
            raw = self._mention(message, text)
            return f"{gateway.hook}/webhooks/sl", raw, {**slack_sign(raw.encode()), "Content-Type": "application/json"}
        data: dict[str, Any] = {
            "conversation": self.plan.conversation, "thread": None, "message_id": message,
            "user": {"id": "u1", "name": "U1"}, "text": text, "attachments": [],
        }  # fmt: skip
        raw = json.dumps({"type": "message.created", "timestamp": "2026-01-01T00:00:00Z", "data": data})
        return f"{gateway.hook}/webhooks/hook", raw, sign(f"d-{message}", raw)

    def _mention(self, message: str, text: str) -> str:
        """The same event however often it is delivered."""
        if message in self._mentions:
            return self._mentions[message]
        twin = self.lane.stands.searched
        channel = self.room
        twin.channels.add(channel)
        twin.conversations[channel] = self.plan.conversation
        root = next((one.ts for one in twin.messages if one.channel == channel), None)
        said = slack_twin.Message(channel, twin.next_ts(), slack_twin.USER, f"<@{slack_twin.BOT_USER}> {text}", root)
        twin.messages.append(said)
        event = {"type": "app_mention", "user": said.user, "ts": said.ts, "event_ts": said.ts, "text": said.text}
        event |= {"channel": channel, **({"thread_ts": root} if root else {})}
        return self._mentions.setdefault(message, json.dumps(twin.envelope(event)))

    def _update(self, message: str, text: str) -> dict[str, Any]:
        twin = self.lane.stands.keyless
        if not self._chat:
            self._chat = int(self.room)
            twin.chats[self._chat] = {"id": self._chat, "type": "supergroup", "title": self.plan.conversation}
            twin.conversations[self._chat] = self.plan.conversation
        number = -self._chat * 10 + int(message.rsplit(".", 1)[1])
        word, blank, rest = text.partition(" ")
        text = f"{word}@{USERNAME}{blank}{rest}" if text.startswith("/") else f"@{USERNAME} {text}"
        kind = "bot_command" if text.startswith("/") else "mention"
        body = {
            "message_id": number, "chat": twin.chats[self._chat], "date": int(time.time()), "text": text,
            "from": {"id": 77, "is_bot": False, "first_name": "Test", "language_code": "en"},
            "entities": [{"type": kind, "offset": 0, "length": len(text.split()[0])}],
        }  # fmt: skip
        return {"update_id": number, "message": body}
