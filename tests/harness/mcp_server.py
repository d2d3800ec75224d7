"""A stand-in for MCP servers, strict in the protocol of 2025-06-18, without the SDK: as a program, or over HTTP.

    python tests/harness/mcp_server.py FOLDER        # over standard input and output
    async with McpTwin(folder) as twin: ... twin.url # streamable HTTP, a session each client

What it is like stands in `FOLDER/like.json`, read at each start of a session: `tools` (in place of its own: a list of
name, description and schema), `start` (`hang`, `die`, `greet`, `long`). What happened stands in `FOLDER/ledger.jsonl`,
a line each. The tools of its own are the methods `tool_*`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
SCHEMAS = {
    "echo": TEXT,
    "fail": TEXT,
    "blurt": TEXT,
    "ask": {"type": "object", "properties": {"method": {"type": "string"}}},
}
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Refused(Exception):
    """Becomes an error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Session:
    """One client's."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = name
        self._state = "new"
        self._seen: set[Any] = set()
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._count = 0
        self._asked: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        like = folder / "like.json"
        self.like: dict[str, Any] = json.loads(like.read_text()) if like.exists() else {}

    def note(self, event: str, **more: Any) -> None:
        with (self._folder / "ledger.jsonl").open("a") as ledger:
            ledger.write(json.dumps({"event": event, "session": self.name, "pid": os.getpid(), **more}) + "\n")

    async def take(self, message: Any, send: Send) -> None:
        """One message of the client. A request is answered by `send`, if nobody cancels it."""
        if isinstance(message, dict) and message.get("id") in self._asked:
            self._asked.pop(message["id"]).set_result(message)
            return
        if (
            not isinstance(message, dict)
            or message.get("jsonrpc") != "2.0"
            or not isinstance(message.get("method"), str)
        ):
            self.note("malformed", message=message)
            raise Refused(-32600, "no JSON-RPC")
        if "id" not in message:
            self._told(message)
            return
        if message["id"] in self._seen or message["id"] is None:
            self.note("malformed", message=message)
            raise Refused(-32600, "an id is used once")
        self._seen.add(message["id"])
        task = self._running[message["id"]] = asyncio.create_task(self._answer(message, send))
        with suppress(asyncio.CancelledError):
            await task

    def close(self) -> None:
        for task in self._running.values():
            task.cancel()

    def _told(self, message: dict[str, Any]) -> None:
        match message["method"]:
            case "notifications/initialized":
                self._state = "ready"
            case "notifications/cancelled":
                asked = message["params"]["requestId"]
                self.note("cancelled", id=asked)
                if task := self._running.get(asked):
                    task.cancel()
            case method:
                self.note("notified", method=method)

    async def _answer(self, message: dict[str, Any], send: Send) -> None:
        self._send = send
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self._result(message["method"], message.get("params") or {})
        except Refused as error:
            answer["error"] = {"code": error.code, "message": str(error)}
        await send(answer)

    async def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                if self._state != "new" or not {"protocolVersion", "capabilities", "clientInfo"} <= params.keys():
                    raise Refused(-32602, "not the first, or not whole")
                self._state = "greeted"
                self.note("initialize", params=params)
                asked = params["protocolVersion"]
                version = asked if asked in VERSIONS else VERSIONS[-1]
                about = {"name": "twin", "version": "1"}
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list" if self._state == "ready":
                return self._page(params.get("cursor"))
            case "tools/call" if self._state == "ready":
                self.note("call", name=params["name"], arguments=params.get("arguments"))
                tool = getattr(self, f"tool_{params['name']}", None)
                if tool is None:
                    raise Refused(-32602, f"no tool {params['name']}")
                result: dict[str, Any] = await tool(**(params.get("arguments") or {}))
                return result
            case "tools/list" | "tools/call":
                raise Refused(-32600, "not initialized")
        raise Refused(-32601, f"no method {method}")

    def _page(self, cursor: str | None) -> dict[str, Any]:
        """Two at a time: whoever reads only the first page knows too little."""
        own = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
        tools = self.like.get("tools") or [[name, f"Does {name}.", SCHEMAS.get(name, NOTHING)] for name in own]
        at = int(cursor or 0)
        page = [
            {"name": name, "description": description, "inputSchema": schema}
            for name, description, schema in tools[at : at + 2]
        ]
        return {"tools": page} | ({"nextCursor": str(at + 2)} if at + 2 < len(tools) else {})

    # ---- its tools ----

    async def tool_echo(self, text: str) -> dict[str, Any]:
        return said(text)

    async def tool_count(self) -> dict[str, Any]:
        """How often it was called in this session."""
        self._count += 1
        return said(str(self._count))

    async def tool_env(self) -> dict[str, Any]:
        return said(json.dumps([dict(os.environ), str(Path.cwd())]))  # noqa: TID251

    async def tool_hang(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return said("never")

    async def tool_crash(self) -> dict[str, Any]:
        os._exit(3)

    async def tool_blurt(self, text: str) -> dict[str, Any]:
        """Prints what it was told, and dies of it."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        await asyncio.sleep(0.2)
        os._exit(4)

    async def tool_fail(self, text: str) -> dict[str, Any]:
        return {**said(text), "isError": True}

    async def tool_refuse(self) -> dict[str, Any]:
        raise Refused(-32603, "out of paper")

    async def tool_lie(self) -> dict[str, Any]:
        return {"content": "no list"}

    async def tool_long(self) -> dict[str, Any]:
        return said("x" * 200_000)

    async def tool_flood(self, **answer: Any) -> dict[str, Any]:
        """What it is told, with each list of one element as long as `times` says."""
        times = answer.pop("times")
        await self._send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": [0] * 2_000}})
        return {name: one * times if isinstance(one, list) else one for name, one in answer.items()}

    async def tool_rush(self, length: int) -> dict[str, Any]:
        for _ in range(100):
            await self._send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * length}})
        return said("never heard")

    async def tool_chatter(self) -> dict[str, Any]:
        while True:
            await self._send(
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
            )

    async def tool_ask(self, method: str) -> dict[str, Any]:
        """Asks the client for something, and tells what came."""
        answer = self._asked["q"] = asyncio.get_running_loop().create_future()
        message = {"role": "user", "content": {"type": "text", "text": "Tell me all."}}
        schema = {"type": "object", "properties": {}}
        params = {
            "sampling/createMessage": {"messages": [message], "maxTokens": 9},
            "elicitation/create": {"message": "Your password?", "requestedSchema": schema},
        }
        await self._send({"jsonrpc": "2.0", "id": "q", "method": method, "params": params.get(method, {})})
        return said(json.dumps(await answer))

    async def tool_all(self) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "two"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGVsbG8="}},
            {"type": "text", "text": ""},
        ]
        return {"content": blocks, "structuredContent": {"n": 1}}

    async def tool_both(self) -> dict[str, Any]:
        return {**said('{"n": 1}'), "structuredContent": {"n": 1}}

    async def tool_family(self) -> dict[str, Any]:
        """Starts one that leaves its group and does not hear SIGTERM."""
        child = subprocess.Popen(  # noqa: ASYNC220
            ["/bin/sh", "-c", "trap '' TERM; while true; do /bin/sleep 1; done"], start_new_session=True
        )
        return said(str(child.pid))


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


async def over_stdio(folder: Path) -> None:
    """A program that ends with its input."""

    async def send(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(0)

    session = Session(folder, f"p{os.getpid()}")
    session.note("start")
    match session.like.get("start"):
        case "die":
            sys.stderr.write("no paper in tray 2\n")
            sys.exit(1)
        case "hang":
            await asyncio.Event().wait()
        case "greet":
            sys.stdout.write("Welcome!\n\n{not json\n")
        case "long":
            sys.stdout.write("x" * 10_000_000)
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    under_way: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(session.take(json.loads(line), send))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    session.note("end")


class McpTwin:
    """Over HTTP. A session is known by its id; `forget` is a restart of the server."""

    def __init__(self, folder: Path, *, key: str = "", streams: bool = False, session: type[Session] = Session) -> None:
        self._session = session
        self._folder = folder
        self._key = key
        self._streams = streams
        self._numbers = itertools.count(1)
        self.sessions: dict[str, Session] = {}

    async def __aenter__(self) -> Self:
        from aiohttp import web  # noqa: PLC0415  # the program does without

        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/mcp", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self.sessions.values():
            session.close()
        await self._runner.cleanup()

    def forget(self) -> None:
        self.sessions.clear()

    async def _take(self, request: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        if self._key and request.headers.get("Authorization") != f"Bearer {self._key}":
            return web.Response(status=401)
        name = request.headers.get("Mcp-Session-Id", "")
        if request.method == "DELETE":
            ended = self.sessions.pop(name, None)
            if ended:
                ended.note("end")
            return web.Response(status=204 if ended else 404)
        if request.method == "GET" and name in self.sessions:
            self.sessions[name].note("listens")
        if request.method != "POST":
            return web.Response(status=405)
        accepted = request.headers.get("Accept", "")
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            return web.Response(status=406)
        message = await request.json()
        if message.get("method") == "initialize":
            name = f"s{next(self._numbers)}"
            self.sessions[name] = self._session(self._folder, name)
        elif message.get("method") == "server/discover":
            refusal = {"code": -32601, "message": "no method"}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": refusal}, status=404)
        if name not in self.sessions:
            return web.Response(status=404)
        stream = web.StreamResponse(headers={"Mcp-Session-Id": name, "Content-Type": "text/event-stream"})
        sent: list[dict[str, Any]] = []

        async def send(one: dict[str, Any]) -> None:
            sent.append(one)
            if self._streams:
                if not stream.prepared:
                    await stream.prepare(request)
                await stream.write(b"event: message\ndata: %b\n\n" % json.dumps(one).encode())

        await self.sessions[name].take(message, send)
        if not sent:  # nothing was asked, or the question was taken back
            return web.Response(status=202)
        if self._streams:
            await stream.write_eof()
            return stream
        return web.json_response(sent[-1], headers={"Mcp-Session-Id": name})


if __name__ == "__main__":
    asyncio.run(over_stdio(Path(sys.argv[1])))
