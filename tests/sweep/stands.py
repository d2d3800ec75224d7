"""The stand-ins of a sweep, each with its ledger: model, tools, platforms with and without a key on each send, and one that
can be asked what is there.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from gateway.phrases import say
from tests.harness import history
from tests.harness.fake_model import Asked, FakeModel
from tests.harness.history import Accepted, Effect, Ledger, Refused, now_s
from tests.harness.mcp_server import McpTwin, Session, said
from tests.harness.model_replies import Reply
from tests.harness.slack_twin import SlackTwin
from tests.harness.tap import Ends
from tests.harness.telegram_twin import TelegramTwin
from tests.harness.webhook_twin import Taken, WebhookTwin
from tests.sweep import kinds

STEP: Final = {"type": "object", "properties": {"step": {"type": "string"}}, "required": ["step"]}
MARK: Final = re.compile(r"mark:([\w.-]+)")
PART: Final = re.compile(r"part (\d)of(\d)")
END_OF_PART: Final = re.compile(rf"{kinds.END.pattern}\s*$")
SAID_YES: Final = " said yes. "
"""Stands in what people are told of a yes."""
GoesOn = Callable[[str, str], Awaitable[bool]]
CODE: Final = re.compile(r"\b([A-Z2-7]{6})\b")
STEP_SHOWN: Final = re.compile(r'"step": "([\w.-]+)"')
REMARKS: Final = tuple(say(name, "en")[:30] for name in ("turn.send_repeated", "turn.send_unclear"))
"""How what is said about another message begins."""


class Model(FakeModel):
    """The strict model. `whose`: the process behind a connection. `most_s`: each answer takes up to so long."""

    def __init__(self, ledger: Ledger, whose: Callable[[Ends], str], most_s: float = 0.0) -> None:
        def answer(asked: Asked) -> Reply:
            reply = kinds.answer(asked)
            return replace(reply, before_s=max(reply.before_s, random.uniform(0, most_s)))

        super().__init__(answer if most_s else kinds.answer)
        self._events = ledger
        self._whose = whose

    async def _receive(self, request: web.Request, *, counting: bool) -> tuple[Asked, dict[str, Any]]:
        process = request.match_info.get("who") or self._whose(ends_of(request))
        asked, parsed = await super()._receive(request, counting=counting)
        self.asked.clear()  # the ledger has them
        turn, wrong = None, asked.refused or ""
        with suppress(LookupError):
            turn = kinds.turn_of(asked) if parsed else None
        wrong = wrong or ("" if turn else "no person says anything in it")
        self._events.write(
            history.Asked(
                now_s(),
                conversation=turn.message.split(".")[0] if turn else "",
                problem=wrong,
                answer=kinds.name_of(asked) if not wrong else "",
                text=kinds.text_of(kinds.answer(asked)) if not wrong else "",
                receipts=kinds.receipts_in(asked) if not wrong else (),
                said=kinds.said_in(asked) if turn else (),
                unknown=kinds.unknown_in(asked) if turn else (),
                canaries=kinds.canaries_in(asked),
                tokens=len(asked.body) // 4,
                process=process,
                purpose="summary" if turn and kinds.is_summary(asked) else "turn",
            )
        )
        return asked, parsed


class Keyed(WebhookTwin):
    """The platform that knows a repetition by its key. `reply_url` is `url` with the process's name behind it."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(retry_s=())
        self._events = ledger
        self._known: dict[str, Taken] = {}
        self._grows: dict[str, bool] = {}
        """By the message that is answered: something of its answer is shown, or was until all of a part came."""

    async def _take(self, request: web.Request) -> web.StreamResponse:
        begin_s = now_s()
        refused = len(self.refused)
        self._now = (begin_s, request.match_info.get("more", ""))
        answer = await super()._take(request)
        if len(self.refused) > refused:
            self._events.write(
                Refused(now_s(), conversation="", status=400, why=self.refused[-1], process=request.match_info["more"])
            )
        return answer

    def _keep(self, taken: Taken) -> None:
        if taken.type not in {"reply.updated", "reply.completed", "reply.edited"}:
            return
        begin_s, process = self._now
        data = taken.data
        grows = Accepted(
            now_s(), conversation=str(data["conversation"]), id=f"growing {data['in_reply_to']}", what="growing",
            answers=(data["in_reply_to"],), text=taken.text, begin_s=begin_s, process=process,
        )  # fmt: skip
        if taken.type == "reply.updated":
            if self._grows.setdefault(data["in_reply_to"], True):
                self._events.write(grows)
            return
        if self._grows.get(data["in_reply_to"]):  # what was shown meanwhile makes place
            self._events.write(replace(grows, what="deleted", id="", edit_of=grows.id, text=""))
            self._grows[data["in_reply_to"]] = False
        self._events.write(
            Accepted(
                now_s(),
                conversation=str(data["conversation"]),
                key=taken.webhook_id,
                what=what_of(taken.text, notice=data["notice"], buttons=bool(data.get("buttons"))),
                answers=(data["in_reply_to"],) if data["in_reply_to"] and SAID_YES not in taken.text else (),
                part=data["part"],
                parts=data["parts"],
                **said_of(taken.text, buttons=bool(data.get("buttons"))),
                text=taken.text,
                edit_of=data.get("message_id", ""),
                repeated=taken.webhook_id in self._known,
                begin_s=begin_s,
                process=process,
            )
        )
        if taken.webhook_id not in self._known:
            self._known[taken.webhook_id] = taken
            self.taken.append(taken)


class Keyless(TelegramTwin):
    """The platform that takes the same message as often as it is sent. Each conversation is a group of its own."""

    def __init__(self, ledger: Ledger, whose: Callable[[Ends], str]) -> None:
        super().__init__(retry_s=())
        self._events = ledger
        self._whose = whose
        self.conversations: dict[int, str] = {}
        """By the chat's id."""

    def called(self, room: str) -> str:
        """The conversation of a room, here or elsewhere."""
        return self.conversations.get(int(room), room) if room.lstrip("-").isdigit() else room

    async def _answer(self, request: web.Request, method: str) -> Any:
        begin_s, process = now_s(), self._whose(ends_of(request))
        result = await super()._answer(request, method)
        if method in {"sendMessage", "editMessageText"}:
            text, keyboard = result["text"], result.get("reply_markup")
            # its own marks say which message it answers: the platform does not
            answers = tuple(dict.fromkeys(MARK.findall(text)))
            part = PART.search(text)
            self._events.write(
                Accepted(
                    now_s(),
                    conversation=self.conversations.get(result["chat"]["id"], ""),
                    id=str(result["message_id"]),
                    what=what_of(text, notice=not answers, buttons=bool(keyboard)),
                    answers=answers,
                    part=int(part[1]) if part else 1,
                    parts=int(part[2]) if part else 1,
                    **said_of(text, buttons=bool(keyboard)),
                    text=text,
                    edit_of=str(result["message_id"]) if method == "editMessageText" else "",
                    begin_s=begin_s,
                    process=process,
                )
            )
        return result


class Searched(SlackTwin):
    """The platform that knows no key, and shows what stands there. Each conversation is a channel of its own, in one thread."""

    def __init__(self, ledger: Ledger, whose: Callable[[Ends], str]) -> None:
        super().__init__(retry_s=())
        self._events = ledger
        self._whose = whose
        self.conversations: dict[str, str] = {}
        """By the channel."""

    async def _answer(self, request: web.Request, method: str) -> dict[str, Any]:
        begin_s, process, before = now_s(), self._whose(ends_of(request)), len(self.taken)
        result = await super()._answer(request, method)
        for taken in self.taken[before:]:
            there = self._message(taken.channel, taken.ts)
            answers = tuple(dict.fromkeys(MARK.findall(taken.text)))
            part = PART.search(taken.text)
            what = what_of(taken.text, notice=not answers, buttons=bool(there and there.buttons))
            self._events.write(
                Accepted(
                    now_s(),
                    conversation=self.conversations.get(taken.channel, ""),
                    id=taken.ts,
                    what="deleted" if there is None else what,
                    answers=answers,
                    part=int(part[1]) if part else 1,
                    parts=int(part[2]) if part else 1,
                    **said_of(taken.text, buttons=bool(there and there.buttons)),
                    text=taken.text,
                    edit_of="" if method in {"chat.postMessage", "chat.startStream"} else taken.ts,
                    begin_s=begin_s,
                    process=process,
                )
            )
        return result


def ends_of(request: web.Request) -> Ends:
    """Of the connection that it came by."""
    if request.transport is None:  # its sender has hung up
        return 0, 0
    return request.transport.get_extra_info("peername")[1], request.transport.get_extra_info("sockname")[1]


def what_of(text: str, *, notice: bool, buttons: bool) -> Any:
    """Of a text that the model says in a sweep: it ends with its end."""
    if buttons:
        return "card"
    if notice and SAID_YES in text:
        return "note"
    if notice:
        return "remark" if text.startswith(REMARKS) else "notice"
    return "reply" if END_OF_PART.search(text) else "growing"


def said_of(text: str, *, buttons: bool) -> dict[str, Any]:
    """What a card asks about and by which code, and which card's code a note tells of: fields of `Accepted`."""
    code, step = CODE.search(text), STEP_SHOWN.search(text)
    if buttons and code and step:
        return {"step": step[1], "code": code[1]}
    return {"step": code[1]} if code and SAID_YES in text else {}


async def _always(process: str, step: str) -> bool:
    del process, step
    return True


class Desk(Session):
    """The tools: each writes its effect down before it answers."""

    events: Ledger
    tools: Tools
    process = ""

    def _page(self, cursor: str | None) -> dict[str, Any]:
        del cursor
        return {
            "tools": [
                {"name": name, "description": f"Does {name}.", "inputSchema": STEP} for name in ("look", "pay", "sign")
            ]
        }

    async def tool_look(self, step: str) -> dict[str, Any]:
        return await self._do(step, "read")

    async def tool_pay(self, step: str) -> dict[str, Any]:
        return await self._do(step, "once")

    async def tool_sign(self, step: str) -> dict[str, Any]:
        return await self._do(step, "once")

    async def _do(self, step: str, policy: Any) -> dict[str, Any]:
        conversation = step.split(".", maxsplit=1)[0]
        process, receipt = self.process, secrets.token_hex(4)
        begun = Effect(now_s(), conversation, step, "begun", policy, process=process)
        self.events.write(begun)
        if await self.tools.within(process, step):
            self.events.write(replace(begun, at_s=now_s(), phase="done", receipt=receipt))
        return said(f"did {step} receipt:{receipt}")

    def note(self, event: str, **more: Any) -> None:
        """Nothing: the effects are what counts here."""


class Tools(McpTwin):
    """The server of them."""

    def __init__(self, folder: Path, ledger: Ledger, within: GoesOn = _always) -> None:
        """`within`: when a tool has begun, with the process that asked and the step; whether it then does it."""
        self.within = within

        class Noting(Desk):
            events = ledger
            tools = self

        super().__init__(folder, session=Noting)

    async def _take(self, request: Any) -> Any:
        if session := self.sessions.get(request.headers.get("Mcp-Session-Id", "")):
            assert isinstance(session, Desk)
            session.process = request.headers.get("X-Process", "")
        return await super()._take(request)
