"""Tool calls of a turn: what is allowed, intent before, result after, what a crash left half done."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from config.settings import ToolsSettings
from gateway.conversation.claim import Lost
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.rights.access import Here
from gateway.rights.roles import person_of
from gateway.rights.skill_tools import LOAD
from gateway.store import Unreachable
from gateway.workspace import Workspace
from skills.library import SkillNotFound
from skills.programs import tool_name
from workers.agent.moves import Pending
from workers.calling.judging import Barred, Judge, Runs, Waits
from workers.calling.looked_at import look, look_again
from workers.calling.persons import Persons, said_again
from workers.calling.programs import ProgramTool
from workers.calling.rights import Rights
from workers.prompt.context import in_context
from workers.sending.cards import Cards
from workers.sending.live import Ending, Telling
from workers.tools import Call, NeedsPerson, Tool, ToolError, ToolResult
from workers.turn import Turn

logger = logging.getLogger(__name__)

RunTool = Callable[[Tool, dict[str, Any], Call], Awaitable[ToolResult]]


async def run_tool(tool: Tool, arguments: dict[str, Any], call: Call) -> ToolResult:
    """What a call comes to. A replay has another one in its place, which runs nothing. Raises `ToolError`, `NeedsPerson`."""
    return await tool.run(arguments, call)


@dataclass(frozen=True, slots=True)
class Calls:
    """Runs the calls of one turn. What was not offered is refused here, and what is not allowed any more."""

    settings: ToolsSettings
    offered: Mapping[str, Tool]
    turn: Turn
    rights: Rights
    live: Telling
    cards: Cards
    withheld: Mapping[str, str] = field(default_factory=dict)
    """See `Offer.withheld`."""
    run_tool: RunTool = run_tool

    @property
    def _judge(self) -> Judge:
        zone = ZoneInfo(self.turn.profile.timezone)
        whole = self.turn.whole
        return Judge(self.offered, zone, whole.memo, whole.stored.history, self.withheld, whole.actors)

    async def run(self, calls: Sequence[Pending]) -> None:
        """Run all, in their order: neighbours that only read side by side, the others one by one. One that waits for a
        person's word holds up those behind it. Raises `Lost`, `Parked`.
        """
        await self._persons.expire()
        for reads, group in itertools.groupby(calls, key=self._only_reads):
            if reads:
                await self._together(list(group))
            else:
                for call in group:
                    await self._together([call])
                    self._persons.wait()
            self._persons.wait()

    @property
    def _persons(self) -> Persons:
        return Persons(self.turn, self.cards)

    def _only_reads(self, call: Pending) -> bool:
        tool = self.offered.get(call.name)
        return tool is not None and tool.effect == "read"

    async def _together(self, calls: Sequence[Pending]) -> None:
        here = await self.rights.now()
        judged = [await self._judged(call, here) for call in calls]
        starts = [
            Record("tool_start", self.turn.now_ms(), self._about(call, here))
            for one, call in zip(judged, calls, strict=True)
            if isinstance(one, Runs) and not call.was_started
        ]
        if starts:
            await self.turn.write(*starts)
        self.turn.claim.check()
        try:
            async with asyncio.TaskGroup() as group:
                for one in judged:
                    group.create_task(self._one(one, here))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None  # the first says why the others were cancelled

    def _about(self, call: Pending, here: Here) -> dict[str, Any]:
        tool = self.offered.get(call.name)
        about = {"step": call.step, "id": call.id, "name": call.name, "shown": self._shown_name(call, here)}
        return {**about, "program": tool.skill.id} if isinstance(tool, ProgramTool) else about

    async def _judged(self, call: Pending, here: Here) -> Runs | Waits | Barred:
        judged = self._judge.judge(call, here, self.turn.stored.history)
        if isinstance(judged, Waits) and self._persons.asks_too_often(call.id):
            why = (
                "So many yeses were asked for in this turn that nobody looks any more. It did not run. Tell the person."
            )
            return Barred(call, why, here.rule("approvals.turn_max", ""), call.name)
        return await look_again(judged, self._workspace(here)) if isinstance(judged, Runs) else judged

    async def _one(self, judged: Runs | Waits | Barred, here: Here) -> None:
        call = judged.call
        if isinstance(judged, Waits):
            if not self._persons.has_asked("approval", call.id):
                looked = await look(self.offered[call.name], judged, self._workspace(here))
                await self._note_asked(looked, here)
                await self._persons.approve(looked)
            return
        shown = self._shown_name(call, here)
        line = self.live.step("skill" if call.name == LOAD else "tool", shown)
        begun_s = asyncio.get_running_loop().time()
        if isinstance(judged, Runs):
            try:
                result, failed = await self._run(judged, here)
            except NeedsPerson as needs:
                await self._persons.question(call, needs)
                return
        else:
            result, failed = await self._refuse(judged, here), True
        ending = _ending(judged, failed=failed)
        log(
            logger,
            "tool",
            conversation=self.turn.stored.key.id,
            turn=self.turn.id[:8],
            name=call.name,
            shown=shown,
            failed=failed,
            ms=int((asyncio.get_running_loop().time() - begun_s) * 1000),
            characters=len(result.text),
        )
        word = self._persons.said(call.id)
        again = said_again(self.turn, word) if word else []
        files = [await self.cards.keep(file) for file in result.files]
        cards, rows = self.cards.made(call.id, result.cards, files)
        await self.turn.write(
            self._told(judged, result, ending, shown),
            *result.records,
            *again,
            *cards,
            rows=rows,
            finished_step=True,
        )
        self.live.step_done(line, ending)
        self._warn(result.records)
        await self.cards.send(rows)

    def _told(self, judged: Runs | Barred, result: ToolResult, ending: Ending, shown: str) -> Record:
        """What the model is told of a call, and people who look."""
        call = judged.call
        data: dict[str, Any] = {
            "step": call.step,
            "id": call.id,
            "name": call.name,
            "text": cut(result.text, self.settings.result_max_characters),
            "shown": shown,
        }
        data |= {"done": {}, "failed": {"error": True}, "refused": {"error": True, "refused": True}}[ending]
        if isinstance(judged, Barred) and judged.rule:
            data |= {"rule": judged.rule, "reason": judged.reason}
        if result.untrusted:
            data |= {"untrusted": True, "mark": secrets.token_hex(4)} | ({"own": True} if result.own else {})
        if result.addresses:
            data["addresses"] = list(result.addresses)
        if result.note:
            data["note"] = result.note
        if result.skill:
            data |= {"skill": result.skill.id, "bundle": result.skill.hash}
        return Record("tool_result", self.turn.now_ms(), data)

    async def _note_asked(self, waits: Waits, here: Here) -> None:
        call, persons = waits.call, self._persons
        thing = f"{persons.code(call.id)} {waits.shown} {waits.bound[:12]}"
        id_ = f"asked {self.turn.key('approval', call.id)}"
        await self.rights.noted(self.turn.actor, here, id_, ("approval asked", thing, waits.why))

    async def _note_run(self, runs: Runs, here: Here) -> None:
        """Before it runs: nothing that a person said yes to runs without its line."""
        if word := self._persons.approved(runs.call.id):
            code, bound, rule = word.code, word.bound, f"{person_of(here.room, word.who)} said yes"
        elif runs.always:
            code, bound, rule = "always", runs.bound, f"{runs.always} said always"
        else:
            return
        id_ = f"run {self.turn.key('run', runs.call.id)}"
        thing = f"{code} {self._shown_name(runs.call, here)} {bound[:12]}"
        await self.rights.noted(self.turn.actor, here, id_, ("approval run", thing, rule))

    async def _refuse(self, refusal: Barred, here: Here) -> ToolResult:
        if refusal.rule:
            await self.rights.refused(self.turn.actor, here, _known_as(refusal.named, here), refusal.rule)
        if refusal.names:
            return ToolResult(refusal.names, note=refusal.why)
        return ToolResult(refusal.why, untrusted=False)

    async def _run(self, judged: Runs, here: Here) -> tuple[ToolResult, bool]:
        """What the model gets, and whether it is an error."""
        call, tool = judged.call, judged.tool
        await self._note_run(judged, here)
        for change in judged.changes:
            log(logger, f"argument {change}", name=self._shown_name(call, here), turn=self.turn.id[:8])
        context = Call(
            conversation=self.turn.stored.key.id,
            key=self.turn.key(str(call.step), call.id),
            at_ms=self.turn.now_ms(),
            id=call.id,
            actor=self.turn.actor,
            language=self.turn.language,
            delivery=self.turn.profile.delivery,
            here=here,
            history=tuple(in_context(self.turn.stored.history)),
            at_hand=self.rights.at_hand,
            notes=self.rights.notes,
            workspace=judged.workspace or self._workspace(here),
            still_ours=self.turn.claim.check,
            word=self._persons.said(call.id),
            file_max_bytes=self.cards.adapter.capabilities.file_max_bytes,
        )
        context.still_ours()
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                result = await self.run_tool(tool, judged.arguments, context)
            if not isinstance(result.text, str):
                raise TypeError(f"a result without a text: {type(result.text).__name__}")
        except ToolError as why_not:
            return ToolResult(str(why_not), untrusted=why_not.untrusted, own=why_not.own, note=why_not.note), True
        except TimeoutError:
            unsure = " It is not known whether it had its effect." if tool.effect == "once" else ""
            text = f"{call.name} took longer than {self.settings.timeout_s:g} s.{unsure}"
            return ToolResult(text, untrusted=False), True
        except (Lost, NeedsPerson, Unreachable):
            raise  # that Redis is away is no answer of the tool
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._broke(call, error)  # it cancelled itself
        except Exception as error:  # noqa: BLE001  # a broken tool must not take the turn with it
            return self._broke(call, error)
        else:
            return result, False

    def _workspace(self, here: Here) -> Workspace:
        mailbox = self.turn.mailbox
        keep_s = here.profile.kept_s(mailbox.settings.retention_s)
        return Workspace(mailbox.store, here.channel_id, self.settings.workspace, keep_s)

    def _broke(self, call: Pending, error: BaseException) -> tuple[ToolResult, bool]:
        log(logger, "tool broke", level=logging.ERROR, error=error, name=call.name)
        return ToolResult(f"{call.name} failed inside; nothing is known of its outcome.", untrusted=False), True

    def _warn(self, records: Sequence[Record]) -> None:
        for record in records:
            tools = record.data.get("tools") if record.type == "skill" else None
            if unknown := self._judge.unknown(tools or ()):
                about = {"id": record.data["id"], "names": ", ".join(unknown)[:400]}
                log(logger, "allowed-tools names no tool of ours", level=logging.WARNING, **about)

    def _shown_name(self, call: Pending, here: Here) -> str:
        """The name that people see: of a skill that is loaded or runs its whole id, whatever the model called it."""
        tool = self.offered.get(call.name)
        if isinstance(tool, ProgramTool):
            return tool.skill.id
        wanted = call.input.get("name") if call.name == LOAD else None
        if not isinstance(wanted, str):
            return call.name
        try:
            return here.find(wanted).id
        except SkillNotFound:
            return wanted[:80] or call.name


def _known_as(name: str, here: Here) -> str:
    """What people call a tool that the model names, whether it is offered or not: of a program the id of its skill."""
    programs = (one.id for one in here.library.skills.values() if one.program and tool_name(one.id) == name)
    return next(programs, name)


def cut(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long, and how much was left out."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(text) <= limit:
        return text
    head = limit * 3 // 4
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[-(limit - head) :]}"


def _ending(judged: Runs | Barred, *, failed: bool) -> Ending:
    if isinstance(judged, Barred) and judged.by_person:
        return "refused"
    return "failed" if failed else "done"
