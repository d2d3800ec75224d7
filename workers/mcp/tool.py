"""One tool of a server, as it was approved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from config.settings import McpToolSettings, ToolsSettings
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.rights.pins import Definition, Pin, Pins
from gateway.store import Unreachable
from skills import marks
from skills.foreign_schemas import usable
from workers.mcp.results import text_of
from workers.mcp.sessions import ERROR_MAX, Interrupted, NotRun, ServerError, Session, TooSlow
from workers.prompt.paging import Pages
from workers.tools import Call, Effect, Reach, ToolError, ToolResult

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from workers.mcp.servers import Server

logger = logging.getLogger(__name__)

AGAIN_S: Final = 0.2
AFRESH: Final = f"{marks.NOTE}: this is a new session with {{server}}: what earlier calls had opened there is gone)"


class McpTool:
    """See `workers.tools.Tool`. Raises `BrokenSchema` when it is made."""

    def __init__(self, server: Server, pins: Pins, definition: Definition, settings: ToolsSettings) -> None:
        self.definition = definition
        self.name = definition.name
        self.description = definition.description
        self.input_schema: Mapping[str, Any] = usable(definition.schema)
        self._own_name = definition.name.removeprefix(f"{server.name}__")
        said = server.settings.tools.get(self._own_name, McpToolSettings())
        self.effect: Effect = said.effect
        self.reach: Reach = said.reach
        self._server = server
        self._pins = pins
        self._pages = Pages(settings.result_max_characters, server.settings.result_max_characters)

    async def run(self, arguments: dict[str, Any], call: Call) -> ToolResult:
        """Approved still, by whoever may, and described as it was then: both are looked at before the server is asked."""
        pin = await self._pin(call)
        if pin is None or not pin.holds or pin.definition.hash != self.definition.hash:
            raise ToolError(f"{self.name} is not approved any more. Go on without it.")
        result, note = await self._called(arguments, call)
        text = text_of(result)
        if result.is_error:
            raise ToolError(text[:ERROR_MAX] or f"{self.name} failed and did not say why.", untrusted=True, note=note)
        return await self._pages.first(text, call, self.name, note)

    async def _pin(self, call: Call) -> Pin | None:
        """Asked for until Redis answers: nothing has begun, and a short outage is no answer of the tool. Raises `Lost`."""
        while True:
            try:
                return (await self._pins.of([self.name])).get(self.name)
            except Unreachable:
                call.still_ours()
                await asyncio.sleep(AGAIN_S)

    async def _called(self, arguments: dict[str, Any], call: Call) -> tuple[CallToolResult, str]:
        """The server's answer, and what is to be said of the session. Tried twice where that does no harm."""
        for is_last in (False, True):
            session = await self._server.session(call.conversation)
            await self._check(session)
            note = (
                "" if session.answered or not self._was_used(call.history) else AFRESH.format(server=self._server.name)
            )
            try:
                return await session.call(self._own_name, arguments, call.still_ours), note
            except NotRun:
                if is_last:
                    raise ToolError(f"The server {self._server.name} could not be asked. Go on without it.") from None
            except Interrupted as error:
                if is_last or self.effect == "once":
                    text = f"The server {self._server.name} {error}."
                    raise ToolError(text, untrusted=True, note=self._unsure().strip()) from None
            except TooSlow:
                took = f"{self.name} took longer than {self._server.settings.timeout_s:g} s."
                raise ToolError(f"{took}{self._unsure()}") from None
            except ServerError as error:
                raise ToolError(f"{self.name} was refused: {error}", untrusted=True, note=note) from None
        raise AssertionError

    async def _check(self, session: Session) -> None:
        """What the server says of itself in this session: it must be what was approved."""
        now = session.tools.definitions.get(self.name)
        if now is not None and now.hash == self.definition.hash:
            return
        if await self._pins.note_change(self.definition, now.hash if now else ""):
            reason = session.tools.faults.get(self.name) or ("described otherwise" if now else "gone")
            log(logger, "mcp tool changed", level=logging.WARNING, name=self.name, reason=reason)
        what = "describes it otherwise than what was approved" if now else "has no such tool any more"
        raise ToolError(
            f"{self.name} can't be used: its server {what}. An operator has to look at it (`deskmate mcp show`). "
            "Go on without it."
        )

    def _was_used(self, history: tuple[Record, ...]) -> bool:
        """Whether the conversation, as far as it counts, has used this server before, on this worker or another."""
        begins = f"{self._server.name}__"
        return any(record.type == "tool_result" and str(record.data["name"]).startswith(begins) for record in history)

    def _unsure(self) -> str:
        return " It is not known whether it had its effect." if self.effect == "once" else ""
