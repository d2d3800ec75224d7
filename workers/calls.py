"""Tool calls of a turn: what is allowed, intent before, result after, what a crash left half done."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from config.settings import ToolsSettings
from gateway.access import Here, SkillUse, ToolUse, Verdict, may
from gateway.conversation.claim import Lost
from gateway.conversation.records import Record
from gateway.logs import log
from skills import ids
from skills.arguments import Fitted, fit
from workers.cards import Cards
from workers.context import in_context
from workers.live import Live
from workers.loaded import narrowing
from workers.mending import NO_NAME
from workers.moves import Pending
from workers.programs import ProgramTool
from workers.rights import Rights
from workers.tools import SKILL_TOOLS, Call, Tool, ToolError, ToolResult
from workers.turn import Turn, stable_key

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calls:
    """Runs the calls of one turn. What was not offered is refused here, and what is not allowed any more."""

    settings: ToolsSettings
    offered: Mapping[str, Tool]
    turn: Turn
    rights: Rights
    live: Live
    cards: Cards

    async def run(self, calls: Sequence[Pending]) -> None:
        """Run all, in their order: neighbours that only read side by side, the others one by one. Raises `Lost`."""
        for reads, group in itertools.groupby(calls, key=self._only_reads):
            if reads:
                await self._together(list(group))
            else:
                for call in group:
                    await self._together([call])

    def _only_reads(self, call: Pending) -> bool:
        tool = self.offered.get(call.name)
        return tool is not None and tool.effect == "read"

    async def _together(self, calls: Sequence[Pending]) -> None:
        here = await self.rights.now()
        starts = [
            Record("tool_start", self.turn.now_ms(), {"step": call.step, "id": call.id, "name": call.name})
            for call in calls
            if self._why_not(call, here) is None and not call.was_started
        ]
        if starts:
            await self.turn.write(*starts)
        self.turn.claim.check()
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(self._one(call, here))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the first says why the others were cancelled

    async def _one(self, call: Pending, here: Here) -> None:
        shown = self._shown_name(call)
        line = self.live.step("skill" if call.name == "load_skill" else "tool", shown)
        begun_s = asyncio.get_running_loop().time()
        result, error = await self._result(call, here)
        log(
            logger,
            "tool",
            conversation=self.turn.stored.key.id,
            turn=self.turn.id[:8],
            name=call.name,
            failed=error,
            ms=int((asyncio.get_running_loop().time() - begun_s) * 1000),
            characters=len(result.text),
        )
        data: dict[str, Any] = {
            "step": call.step,
            "id": call.id,
            "name": call.name,
            "text": cut(result.text, self.settings.result_max_characters),
            "shown": shown,
        }
        if error:
            data["error"] = True
        if result.untrusted and not error:
            data |= {"untrusted": True, "mark": secrets.token_hex(4)}
        if result.note:
            data["note"] = result.note
        if result.skill:
            data |= {"skill": result.skill.id, "bundle": result.skill.hash}
        cards, rows = self.cards.made(call.id, result.cards)
        await self.turn.write(
            Record("tool_result", self.turn.now_ms(), data), *result.records, *cards, rows=rows, finished_step=True
        )
        self.live.step_done(line, failed=error)
        self._warn(result.records)
        await self.cards.send(rows)

    async def _result(self, call: Pending, here: Here) -> tuple[ToolResult, bool]:
        """What the model gets, and whether it is an error."""
        if why := self._why_not(call, here):
            asked = call.bad_input if call.name == NO_NAME and call.bad_input else call.name
            await self.rights.refused(self.turn.actor, here, asked)
            return ToolResult(why, untrusted=False), True
        tool = self.offered[call.name]
        fitted = self._fitted(tool, call)
        for change in fitted.changes:
            log(logger, f"argument {change}", name=self._shown_name(call), turn=self.turn.id[:8])
        context = Call(
            conversation=self.turn.stored.key.id,
            channel=self.turn.stored.key.channel_id,
            key=stable_key(self.turn.id, str(call.step), call.id),
            here=here,
            at_hand=self.rights.at_hand,
            history=tuple(in_context(self.turn.stored.history)),
            id=call.id,
            delivery=self.turn.profile.delivery,
            actor=self.turn.actor,
            language=self.turn.language,
            notes=self.rights.notes,
        )
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return await tool.run(fitted.values, context), False
        except ToolError as why_not:
            return ToolResult(str(why_not), untrusted=False), True
        except TimeoutError:
            unsure = " It is not known whether it had its effect." if tool.effect == "once" else ""
            text = f"{call.name} took longer than {self.settings.timeout_s:g} s.{unsure}"
            return ToolResult(text, untrusted=False), True
        except Lost:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._broke(call, error)  # it cancelled itself
        except Exception as error:  # noqa: BLE001  # a broken tool must not take the turn with it
            return self._broke(call, error)

    def _broke(self, call: Pending, error: BaseException) -> tuple[ToolResult, bool]:
        log(logger, "tool broke", level=logging.ERROR, error=error, name=call.name)
        return ToolResult(f"{call.name} failed inside; nothing is known of its outcome.", untrusted=False), True

    def _why_not(self, call: Pending, here: Here) -> str | None:
        """Why a call does not run: not allowed, arguments wrong, or begun before by somebody who died."""
        tool = self.offered.get(call.name)
        if tool is None or not allowed(here, tool).allowed:
            there = sorted(name for name, one in self.offered.items() if allowed(here, one).allowed)
            return f"There is no tool {call.name!r} here. Tools: {', '.join(there) or 'none'}."
        if narrower := self._narrower(tool):
            return narrower
        if call.bad_input:
            return f"The arguments could not be read: {call.bad_input}. Send them again as one JSON object."
        if faults := self._fitted(tool, call).faults:
            return f"Nothing was run. The arguments do not fit: {'; '.join(faults)}."
        if call.was_started and tool.effect == "once":
            return (
                "Interrupted: it is not known whether this ran, and it was not run again. "
                "Tell the person, and let them decide."
            )
        return None

    def _narrower(self, tool: Tool) -> str | None:
        """What a loaded skill has against this tool. Skills only take away: what is not offered was refused before."""
        if tool.name in SKILL_TOOLS:
            return None
        names = _names(tool)
        for skill, allowed in narrowing(self.turn.stored.history).items():
            if names.isdisjoint(map(ids.key, allowed)):
                few = (
                    ", ".join(one for one in allowed if ids.key(one) in self._all_names())
                    or "none but those for skills"
                )
                return (
                    f"{tool.name} can't be used while the skill {skill} is loaded, which names the tools that may be: "
                    f"{few}. When it is done with, put it away with unload_skill."
                )
        return None

    def _warn(self, records: Sequence[Record]) -> None:
        """Names of tools in a skill that say nothing here."""
        for record in records:
            tools = record.data.get("tools") if record.type == "skill" else None
            if unknown := [one for one in tools or () if ids.key(one) not in self._all_names()]:
                log(
                    logger,
                    "allowed-tools names no tool of ours",
                    level=logging.WARNING,
                    id=record.data["id"],
                    names=", ".join(unknown)[:400],
                )

    def _all_names(self) -> set[str]:
        return set().union(*map(_names, self.offered.values()))

    def _fitted(self, tool: Tool, call: Pending) -> Fitted:
        return fit(tool.input_schema, call.input, ZoneInfo(self.turn.profile.timezone))

    def _shown_name(self, call: Pending) -> str:
        """The name that people see: of the skill, when one is loaded or runs."""
        tool = self.offered.get(call.name)
        if isinstance(tool, ProgramTool):
            return tool.skill.id
        wanted = call.input.get("name") if call.name == "load_skill" else None
        return str(wanted)[:80] if wanted else call.name


def allowed(here: Here, tool: Tool) -> Verdict:
    """May the model call this tool here now?"""
    return may(None, here, SkillUse(tool.skill, "run") if isinstance(tool, ProgramTool) else ToolUse(tool.name))


def _names(tool: Tool) -> set[str]:
    """What a skill may call this tool by: its name, and of a program the id of its skill; case makes no difference."""
    return {ids.key(tool.name), *([ids.key(tool.skill.id)] if isinstance(tool, ProgramTool) else [])}


def cut(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long, and how much was left out."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(text) <= limit:
        return text
    head = limit * 3 // 4
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[-(limit - head) :]}"
