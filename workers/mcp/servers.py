"""Servers: who has which session with them, when a new one may be begun, and which of their tools may be offered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from config.settings import McpServerSettings, Settings
from gateway.logs import log
from gateway.rights.pins import Definition, Pins, is_of_server, words_of
from gateway.running.serving import cancelled
from skills.schemas import BrokenSchema
from workers.mcp import Offered
from workers.mcp.sessions import NotOpened, Session
from workers.mcp.tool import McpTool
from workers.tools import ToolError

logger = logging.getLogger(__name__)

BACKOFF_MAX_S: Final = 60.0
LOOK_EVERY_S: Final = 5.0
"""How often sessions are looked for that nobody uses; more often where they may be idle for less."""


class Server:
    """One server, with all sessions that this worker has with it."""

    def __init__(self, name: str, settings: McpServerSettings) -> None:
        self.name = name
        self.settings = settings
        self._sessions: dict[str, Session] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before_s = 0.0
        self._why = ""
        self._looking: asyncio.Task[None] | None = None

    async def session(self, conversation: str) -> Session:
        """An open one, for a call of this conversation. Raises `ToolError` where there is none to be had now."""
        key = conversation if self.settings.per == "conversation" else ""
        session = self._sessions.get(key)
        if session is not None and session.is_over:
            self._drop(key, session)
            session = None
        if session is None:
            self._check_backoff()
            self._make_room()
            session = self._sessions[key] = Session(self.name, self.settings)
            self._looking = self._looking or asyncio.create_task(self._look(), name=f"mcp {self.name} idle")
        session.busy += 1  # who waits for it needs it
        try:
            await session.ready()
        except NotOpened as error:
            self._drop(key, session)
            text = f"The server {self.name} {error}. Go on without it, or try again later."
            raise ToolError(text, untrusted=True) from None  # it may end with the server's last words
        finally:
            session.busy -= 1
        return session

    async def close(self) -> None:
        """End all that runs."""
        if self._looking:
            await cancelled([self._looking])
        await asyncio.gather(*(session.close() for session in self._sessions.values()), *self._closing)
        self._sessions.clear()

    def _drop(self, key: str, session: Session) -> None:
        """It is over; what is left of it ends beside. One that was never of use counts as a failure."""
        if self._sessions.get(key) is not session:
            return  # somebody else has seen it
        del self._sessions[key]
        if session.answered:
            self._failures = 0
        else:
            self._failed(session.why)
        self._close_beside(session)

    def _failed(self, why: str) -> None:
        self._failures += 1
        self._why = why
        wait_s = min(BACKOFF_MAX_S, 2.0 ** (self._failures - 1))
        self._not_before_s = asyncio.get_running_loop().time() + wait_s
        log(logger, "mcp server failed", level=logging.WARNING, server=self.name, reason=why, wait_s=wait_s)

    def _check_backoff(self) -> None:
        left_s = self._not_before_s - asyncio.get_running_loop().time()
        if self._failures and left_s > 0:
            again = f"It is tried again in {left_s:.0f} s at the earliest"
            raise ToolError(f"The server {self.name} {self._why}. {again}; go on without it.", untrusted=True)

    def _make_room(self) -> None:
        """Raises `ToolError` where everybody is at work."""
        while len(self._sessions) >= self.settings.sessions_max:
            idle = [key for key, one in self._sessions.items() if not one.busy]
            if not idle:
                most = self.settings.sessions_max
                raise ToolError(f"All {most} sessions with {self.name} are in use. Try again in a moment.")
            key = min(idle, key=lambda one: self._sessions[one].used_s)
            self._close_beside(self._sessions.pop(key))

    def _close_beside(self, session: Session) -> None:
        task = asyncio.create_task(session.close(), name=f"mcp {self.name} end")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self.settings.idle_s))
            now_s = asyncio.get_running_loop().time()
            for key, one in list(self._sessions.items()):
                if one.is_over:
                    self._drop(key, one)
                elif not one.busy and now_s - one.used_s >= self.settings.idle_s:
                    del self._sessions[key]
                    self._close_beside(one)


class Servers:
    """All that the settings name. One a worker process; close it at the end."""

    def __init__(self, settings: Settings, pins: Pins) -> None:
        self._settings = settings
        self._pins = pins
        self._servers = {name: Server(name, one) for name, one in settings.mcp.servers.items()}
        self._made: dict[str, McpTool] = {}
        self._told: dict[str, str] = {}

    async def offered(self, names: Iterable[str]) -> Offered:
        """As they were approved: no server is asked for it. Raises `Unreachable`."""
        ours = [name for name in names if is_of_server(name) and name.partition("__")[0] in self._servers]
        pins = await self._pins.of(ours)
        tools: dict[str, McpTool] = {}
        withheld: dict[str, str] = {}
        for name in ours:
            words = words_of(name, pins)
            if words == "unapproved":
                withheld[name] = "nobody has approved it yet"
            elif words == "reworded":
                withheld[name] = "its server describes it otherwise than what was approved"
            elif (tool := self._tool(pins[name].definition)) is None:
                withheld[name] = "it can't be used"
            else:
                tools[name] = tool
        self._tell(tools, withheld)
        advice = "; an operator looks at it with `deskmate mcp show`, and allows it with `deskmate mcp approve`"
        return Offered(tools, {name: why + advice for name, why in withheld.items()})

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def _tool(self, definition: Definition) -> McpTool | None:
        """Made once: it keeps nothing of a turn."""
        made = self._made.get(definition.name)
        if made is None or made.definition.hash != definition.hash:
            with suppress(BrokenSchema):
                server = self._servers[definition.name.partition("__")[0]]
                made = self._made[definition.name] = McpTool(server, self._pins, definition, self._settings.tools)
        return made

    def _tell(self, tools: Iterable[str], withheld: Mapping[str, str]) -> None:
        """Once for each change."""
        for name in tools:
            self._told.pop(name, None)
        for name, why in withheld.items():
            if self._told.get(name) != why:
                self._told[name] = why
                log(logger, "mcp tool not offered", level=logging.WARNING, name=name, reason=why)
