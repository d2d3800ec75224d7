"""The person of a trial: says things on either platform, until each is taken."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from tests.harness.history import Posted, now_s
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

    def message(self, place: int) -> str:
        return f"{self.plan.conversation}.{place}"

    @property
    def canary(self) -> str:
        return f"QX{self.plan.conversation}Z"

    async def say(self, place: int, text: str, calls: int) -> None:
        """Until it is taken: what was not answered 2xx is delivered again, with the same id."""
        message = self.message(place)
        is_word = text.startswith("/")
        if not is_word:
            self.posted.append(message)
        while True:
            if gateways := self.lane.of("gateway"):
                begin_s = now_s()
                status = await self._deliver(gateways[-1], message, text)
                if not is_word:  # a yes is answered by what it lets go on
                    self.lane.stands.book.pages["people"].write(
                        Posted(
                            now_s(), conversation=self.plan.conversation, message=message, begin_s=begin_s,
                            status=status, place=place, delivery=f"d-{message}", process=gateways[-1].name,
                            calls=calls, canary=self.canary,
                        )
                    )  # fmt: skip
                if 200 <= status < 300:
                    return
            await asyncio.sleep(RETRY_S)

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
        if self.plan.platform == "keyless":
            return f"{gateway.hook}/webhooks/tg", json.dumps(self._update(message, text)), HEADERS
        data: dict[str, Any] = {
            "conversation": self.plan.conversation, "thread": None, "message_id": message,
            "user": {"id": "u1", "name": "U1"}, "text": text, "attachments": [],
        }  # fmt: skip
        raw = json.dumps({"type": "message.created", "timestamp": "2026-01-01T00:00:00Z", "data": data})
        return f"{gateway.hook}/webhooks/hook", raw, sign(f"d-{message}", raw)

    def _update(self, message: str, text: str) -> dict[str, Any]:
        twin = self.lane.stands.keyless
        if not self._chat:
            self._chat = -(1_000_000 + int(re.sub(r"\D", "", self.plan.conversation)))
            twin.chats[self._chat] = {"id": self._chat, "type": "supergroup", "title": self.plan.conversation}
            twin.conversations[self._chat] = self.plan.conversation
        number = -self._chat * 10 + int(message.rsplit(".", 1)[1])
        text = text.replace("/approve", f"/approve@{USERNAME}") if text.startswith("/") else f"@{USERNAME} {text}"
        kind = "bot_command" if text.startswith("/") else "mention"
        body = {
            "message_id": number, "chat": twin.chats[self._chat], "date": int(time.time()), "text": text,
            "from": {"id": 77, "is_bot": False, "first_name": "Test", "language_code": "en"},
            "entities": [{"type": kind, "offset": 0, "length": len(text.split()[0])}],
        }  # fmt: skip
        return {"update_id": number, "message": body}
