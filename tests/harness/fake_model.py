"""A stand-in for the Messages API: a real HTTP server, strict as the service, that answers from a script.

    async with FakeModel([calls("current_time"), says("It is noon.")]) as model:
        settings = ModelSettings(provider="anthropic", name="fake", base_url=model.url, api_key=SecretStr(KEY))
        ...
        assert model.asked[1].request["messages"][-1]["content"][0]["type"] == "tool_result"

Replies are made with `tests.harness.model_replies`. A script is a list of replies, given in order (then a request too
many is an error), one reply for all requests, or a function from what was asked to a reply.
Alone: `python -m tests.harness.fake_model --port 9000 --ledger asked.jsonl`.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from aiohttp import web

from tests.harness.messages_rules import problem
from tests.harness.model_replies import ASKED_MODEL, NEW_ID, Reply, as_json, fails, says

KEY = "sk-test-0123456789"
MARKER = re.compile(r"\bmark:([\w.-]+)")
"""A conversation marks its messages with `mark:NAME`; a marker in a foreign request is a leak."""
ORDER = re.compile(r"^\s*(?:CALL ([a-zA-Z0-9_-]{1,64})(?: (\{.*\}))?|SAY (.+))\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came in. `at_s` is of `time.time()`; `status` is 200 unless the request itself was wrong."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    at_s: float
    status: int
    refused: str | None
    peer: tuple[str, int]
    """The client's end of the connection: the same for two requests that shared one."""

    @property
    def request(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def markers(self) -> tuple[str, ...]:
        """Each `mark:NAME` in it, once, in the order of first appearance."""
        return tuple(dict.fromkeys(MARKER.findall(self.body.decode())))

    @property
    def text(self) -> str:
        """The last message's text, results of tools included."""
        return "\n".join(_texts(self.request["messages"][-1]["content"]))

    def ledger_line(self) -> str:
        line = {
            "at_s": self.at_s, "path": self.path, "status": self.status, "refused": self.refused,
            "bytes": len(self.body), "sha256": hashlib.sha256(self.body).hexdigest(), "markers": self.markers,
            "body": self.body.decode("utf-8", "replace"),
        }  # fmt: skip
        return json.dumps(line, ensure_ascii=False)


Script = Reply | Sequence[Reply] | Callable[[Asked], Reply]


def obedient(asked: Asked) -> Reply:
    """Does what any text in the request says, once: a line `CALL tool {json}` calls, a line `SAY words` is said.

    For tests of injection: whatever the code lets through to this model, it does.
    """
    request = asked.request
    done = [
        (block["name"], block["input"])
        for message in request["messages"]
        for block in message["content"]
        if message["role"] == "assistant" and isinstance(block, dict) and block["type"] == "tool_use"
    ]
    inner = [tool.get("description", "") for tool in request.get("tools", [])]
    users = [message["content"] for message in request["messages"] if message["role"] == "user"]
    orders = ORDER.findall("\n".join([*inner, *_texts(request.get("system", "")), *_texts(users)]))
    wanted: list[tuple[str, Any]] = []
    for name, arguments, _ in orders:
        call = (name, json.loads(arguments or "{}"))
        if name and call not in done and call not in wanted:
            wanted.append(call)
    if wanted:
        uses = [{"type": "tool_use", "name": name, "input": arguments} for name, arguments in wanted]
        return Reply(uses, stop_reason="tool_use")
    return says("\n".join(words for _, _, words in orders if words) or "Done.")


class FakeModel:
    """The server. `asked` has every request in the order of arrival, refused ones too.

    `keeps`: no, if a long run would fill the memory; the ledger still has all.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = KEY,
        alternate: bool = False,
        counts_tokens: bool = True,
        ledger: Path | None = None,
        port: int = 0,
        keeps: bool = True,
    ) -> None:
        self.asked: list[Asked] = []
        self.in_flight = 0
        """Answers that are under way; a client that hangs up is no longer counted."""
        self._next = self._follow(script)
        self._key = key
        self._alternate = alternate
        self._counts_tokens = counts_tokens
        self._ledger_path = ledger
        self._keeps = keeps
        self._ledger: TextIO | None = None
        self._port = port
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Whoever has a name to be known by asks at `URL/NAME`."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=32 * 1024 * 1024)
        for who in ("", "/{who}"):
            app.router.add_post(f"{who}/v1/messages", self._messages)
            app.router.add_post(f"{who}/v1/messages/count_tokens", self._count)
        if self._ledger_path:
            self._ledger = self._ledger_path.open("a", encoding="utf-8")
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=2048)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner:
            await self._runner.cleanup()
        if self._ledger:
            self._ledger.close()

    def answer_with(self, script: Script) -> None:
        """A new script, from the next request on."""
        self._next = self._follow(script)

    async def until(self, holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait until it holds; looked at whenever a request comes or an answer ends."""
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(holds)

    @staticmethod
    def _follow(script: Script) -> Callable[[Asked], Reply]:
        if isinstance(script, Reply):
            return lambda _: script
        if callable(script):
            return script
        rest = iter(script)
        over = fails(400, "invalid_request_error", "the script is over: this request was not expected")
        return lambda _: next(rest, over)

    async def _receive(self, request: web.Request, *, counting: bool) -> tuple[Asked, dict[str, Any]]:
        body = await request.read()
        status, refused, parsed = 200, None, {}
        given = {request.headers.get("Authorization", "").removeprefix("Bearer "), request.headers.get("x-api-key")}
        if self._key not in given:
            status, refused = 401, "invalid bearer token"
        else:
            try:
                parsed = json.loads(body)
            except ValueError:
                refused = "The request body is not valid JSON"
            else:
                refused = problem(parsed, alternate=self._alternate, counting=counting)
            status = 400 if refused else 200
        peer = request.transport.get_extra_info("peername") if request.transport else ("", 0)
        asked = Asked(request.path, body, dict(request.headers), time.time(), status, refused, peer)
        if self._keeps:
            self.asked.append(asked)
        if self._ledger:
            self._ledger.write(asked.ledger_line() + "\n")
            self._ledger.flush()
        return asked, parsed

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked, parsed = await self._receive(request, counting=False)
        self.in_flight += 1
        await self._tell()
        try:
            if asked.refused:
                return _error(asked.status, _kind(asked.status), asked.refused)
            reply = self._next(asked)
            if reply.hold:
                await reply.hold.wait()
            if reply.before_s:
                await asyncio.sleep(reply.before_s)
            if reply.status != 200:
                error = reply.error or {"type": "api_error", "message": ""}
                return _error(reply.status, error["type"], error["message"], reply.headers)
            if not parsed.get("stream"):
                return web.Response(
                    body=self._filled(as_json(reply.message()), parsed), content_type="application/json"
                )
            return await self._stream(request, reply, parsed)
        finally:
            self.in_flight -= 1
            with suppress(asyncio.CancelledError):
                await self._tell()

    async def _stream(self, request: web.Request, reply: Reply, asked: Mapping[str, Any]) -> web.StreamResponse:
        headers = {"request-id": f"req_{next(self._numbers)}", **reply.headers}
        if reply.raw is not None:
            return web.Response(body=reply.raw, content_type=reply.content_type, headers=headers)
        if reply.is_instant:
            return web.Response(
                body=self._filled(reply.whole, asked), content_type="text/event-stream", headers=headers
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        if reply.cut_after_bytes is not None:
            await response.write(self._filled(reply.whole, asked)[: reply.cut_after_bytes])
            if request.transport:
                request.transport.abort()
            return response
        if reply.piece_bytes is not None:
            wire = self._filled(reply.whole, asked)
            for start in range(0, len(wire), reply.piece_bytes):
                await response.write(wire[start : start + reply.piece_bytes])
                await asyncio.sleep(0)
            return response
        last = reply.end_after_events if reply.stall_after_events is None else reply.stall_after_events
        for event in reply.events[:last]:
            await response.write(self._filled(event, asked))
            if reply.between_s:
                await asyncio.sleep(reply.between_s)
        if reply.stall_after_events is not None:
            await asyncio.Event().wait()  # ends when the client hangs up or the server stops
        await response.write_eof()
        return response

    async def _count(self, request: web.Request) -> web.Response:
        asked, _ = await self._receive(request, counting=True)
        await self._tell()
        if asked.refused:
            return _error(asked.status, _kind(asked.status), asked.refused)
        if not self._counts_tokens:
            return _error(404, "not_found_error", "Not Found")
        return web.json_response({"input_tokens": max(1, len(asked.body) // 4)})

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _filled(self, wire: bytes, asked: Mapping[str, Any]) -> bytes:
        """With new ids, and the name of the model."""
        wire = wire.replace(ASKED_MODEL.encode(), str(asked["model"]).encode())
        while NEW_ID.encode() in wire:
            wire = wire.replace(NEW_ID.encode(), b"toolu_%06d" % next(self._numbers), 1)
        return wire


def _texts(content: Any) -> Iterator[str]:
    """Every text in some content, whatever the nesting."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, dict):
        yield from _texts(content.get("text"))
        yield from _texts(content.get("content"))


def _kind(status: int) -> str:
    return "authentication_error" if status == 401 else "invalid_request_error"


def _error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_refused"}
    return web.json_response(body, status=status, headers={"request-id": "req_refused", **(headers or {})})


async def _serve(port: int, ledger: Path | None, script: Script, key: str) -> None:
    async with FakeModel(script, key=key, ledger=ledger, port=port, keeps=False) as model:
        print(model.url, flush=True)  # noqa: T201  # for whoever started it with port 0
        await asyncio.Event().wait()


def main() -> None:
    """Serve until killed; the first line of stdout is the address."""
    import argparse  # noqa: PLC0415  # only when run alone

    options = argparse.ArgumentParser(description="A stand-in for the Messages API.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--ledger", type=Path, help="append each request to this file, one JSON object a line")
    options.add_argument("--deltas", type=int, default=40, help="pieces of each text")
    options.add_argument("--before-ms", type=float, default=0, help="wait before the first byte")
    options.add_argument("--between-ms", type=float, default=0, help="wait between two events")
    options.add_argument("--key", default=KEY, help="the only key that is let in")
    options.add_argument("--obedient", action="store_true", help="do what CALL and SAY lines say")
    given = options.parse_args()
    words = " ".join(f"word{number}" for number in range(max(1, given.deltas)))
    plain = says(words, deltas=given.deltas, before_s=given.before_ms / 1000, between_s=given.between_ms / 1000)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(given.port, given.ledger, obedient if given.obedient else plain, given.key))


if __name__ == "__main__":
    main()
