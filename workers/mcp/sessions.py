"""Sessions: one open way to a server, held by a task of its own, until it is not used any more or can't be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp import Client, Implementation
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
)
from pydantic import ValidationError

from config.settings import McpServerSettings
from gateway.logs import log
from workers.mcp.http import BEFORE_SENDING, http
from workers.mcp.listed import Listed, listed
from workers.mcp.stdio import Life, stdio

logger = logging.getLogger(__name__)

CLOSE_S: Final = 15.0
"""After this, a session that does not end by itself is cancelled. The processes end meanwhile."""
US: Final = Implementation(name="deskmate", version="1")
PAGES_MAX: Final = 20
TOOLS_MAX: Final = 1_000
ERROR_MAX: Final = 4_000
"""Characters of what a server says is wrong."""


class NotOpened(Exception):
    """`str()` goes on from the server's name: `ended at its start: no such file`."""


class Interrupted(Exception):
    """The session ended while a call was under way. `str()` goes on from the server's name."""


class NotRun(Exception):
    """The call did not begin, as the session was over before."""


class TooSlow(Exception):
    """The call took longer than it may. The server was told to stop."""


class ServerError(Exception):
    """The server's answer is an error of the protocol. `str()` is its word, or says what is wrong with its answer."""


class Session:
    """One conversation with one server. It begins to open when it is made."""

    def __init__(self, name: str, server: McpServerSettings) -> None:
        self.name = name
        self.tools: Listed = Listed()
        self.busy = 0
        """Calls under way."""
        self.answered = False
        """Whether it was ever of use."""
        self.used_s = asyncio.get_running_loop().time()
        self._called = False
        self._server = server
        self._life = Life(name)
        self._client: Client | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"mcp {name}")
        self._watchdog = asyncio.get_running_loop().call_later(server.start_timeout_s, self._too_slow)

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self.is_over

    @property
    def is_over(self) -> bool:
        return self._life.over.is_set()

    @property
    def why(self) -> str:
        """Why it is over, as it goes on from the server's name."""
        said = f"; the last that it printed: {self._life.said}" if self._life.said and not self._called else ""
        return f"{self._life.why}{said}"  # later, what it prints may be what people wrote

    async def ready(self) -> None:
        """Wait until it is open. Raises `NotOpened`. Who is cancelled here leaves it to open."""
        await asyncio.shield(self._opened)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], still_ours: Callable[[], None] | None = None
    ) -> CallToolResult:
        """Raises `Interrupted`, `NotRun`, `TooSlow`, `ServerError`, and what `still_ours` does: it is asked right before the
        server hears of the call. Cancelled, it tells the server.
        """
        if self._client is None or self.is_over:
            raise NotRun
        if still_ours:
            still_ours()
        asked = BEFORE_SENDING.set(still_ours)
        self.busy += 1
        self._called = True
        try:
            result = await self._client.session.send_request(
                CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments))),
                CallToolResult,
                request_read_timeout_seconds=self._server.timeout_s,
            )
        except MCPError as error:
            raise self._meant(error) from None
        except ValidationError:
            raise ServerError("its answer is not what the protocol wants") from None
        finally:
            BEFORE_SENDING.reset(asked)
            self.busy -= 1
            self.used_s = asyncio.get_running_loop().time()
        self.answered = True
        return result

    async def close(self) -> None:
        """End it, and all processes of it."""
        begun = self._opened.done()  # else it is not worth waiting for
        self._life.is_asked_to_end = self.is_open
        self._life.end("was put away")
        if begun:
            await asyncio.wait([self._task], timeout=CLOSE_S)
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_S)

    async def _live(self) -> None:
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it quotes what servers send; what matters we tell
        try:
            way = stdio(self._server, self._life) if self._server.command else http(self._server)
            start_s = self._server.start_timeout_s
            async with Client(way, read_timeout_seconds=start_s, client_info=US) as client:
                self.tools = await self._list(client)
                self._client = client
                self._watchdog.cancel()
                self._opened.set_result(None)
                log(logger, "mcp session opened", server=self.name, tools=len(self.tools.definitions))
                await self._life.over.wait()
        except Exception as error:  # noqa: BLE001  # whatever the way breaks by, its users hear of it
            self._life.broke(error)
        finally:
            self._client = None
            self._watchdog.cancel()
            self._life.end("ended")
            why = self.why
            if not self._opened.done():
                self._opened.set_exception(NotOpened(why))
                self._opened.exception()  # perhaps nobody waits any more
            log(logger, "mcp session over", server=self.name, reason=why)

    async def _list(self, client: Client) -> Listed:
        found: list[tuple[str, str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found += [(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor or len(found) > TOOLS_MAX:
                break
        return listed(self.name, found[:TOOLS_MAX])

    def _too_slow(self) -> None:
        self._life.end(f"was not ready within {self._server.start_timeout_s:g} s")
        self._task.cancel()

    def _meant(self, error: MCPError) -> Exception:
        match error.code:
            case int(code) if code == REQUEST_TIMEOUT:
                return TooSlow()
            case int(code) if code == CONNECTION_CLOSED:
                self._life.end("closed the connection")
                return Interrupted(self.why)
            case int(code) if code == INVALID_REQUEST and error.message == "Session terminated":
                self._life.end("does not know the session any more")
                return NotRun()
        return ServerError(error.message[:ERROR_MAX])
