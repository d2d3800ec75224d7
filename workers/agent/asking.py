"""Asking: one call of the model, with what goes before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from config.settings import Settings
from gateway import counts
from gateway.conversation.records import Record
from gateway.events import is_blank
from gateway.logs import log
from gateway.phrases import say
from gateway.rights.skill_tools import LOAD
from gateway.running.serving import cancelled
from gateway.store import Unreachable
from skills.library import Catalogue
from workers.agent.borders import Called, take_messages, unless_called
from workers.agent.breaks import breaks
from workers.agent.circuits import Circuits
from workers.agent.hints import due
from workers.agent.trouble import Trouble
from workers.calling.calls import Calls
from workers.calling.tabs import Tab, Tabs
from workers.models import Answer, Model, ModelError, Request, text_of
from workers.prompt.context import main_line
from workers.prompt.rendering import Prompt
from workers.prompt.window import Window
from workers.reading.attached import Attached
from workers.turn import Ended, Turn

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of a turn has in hand."""

    turn: Turn
    catalogue: Catalogue
    prompt: Prompt
    calls: Calls
    attached: Attached


class Asking:
    """One a worker process; what belongs to a turn stays with the turn."""

    def __init__(self, settings: Settings, model: Model, circuits: Circuits) -> None:
        self._settings = settings.model
        self._trouble = Trouble(settings.model, settings.mailbox.send_hold_s, circuits, model)
        self._tabs = Tabs(settings.model)
        self.window = Window(settings.model, self._trouble, self._tabs)

    async def note_prompt(self, turn: Turn, asked: Prompt) -> None:
        """Whether what stands before the messages is as it was: if not, the provider's cache is of no use once."""
        last = next((one for one in reversed(main_line(turn.stored.history)) if one.type == "prompt"), None)
        if last is None or last.data["hash"] != asked.hash:
            await turn.write(Record("prompt", turn.now_ms(), {"hash": asked.hash, "turn": turn.id}))
            log(logger, "prompt changed", conversation=turn.stored.key.id, hash=asked.hash, first=last is None)

    async def ask(self, work: Work, step: int) -> Answer | None:
        """One model call. None: no answer this time, look again what to do. Raises `Ended`, `Parked`, `Called`, `Lost`."""
        turn, live = work.turn, work.calls.live
        leave = await self._trouble.leave(turn, work.attached.cards)
        pictures = await work.attached.pictures()
        hints = due(turn.records, work.catalogue, turn.now_ms()) if LOAD in work.calls.offered else []
        if hints:
            await turn.write(*hints)
        end = turn.stored.history.end
        fitting = self.window.fitted(turn, work.prompt, pictures, leave)
        sent, size = await unless_called(turn, fitting, interrupts=False)
        if any(record.type == "summary" for record in turn.stored.history.since(end)):
            return None  # it was asked for that, with this leave: what came of it counts first
        broken = breaks(turn.stored.history)
        call = Record("call", turn.now_ms(), {"step": step, "turn": turn.id, "model": leave.model})
        tab = self._tabs.open(turn, leave.model, size)
        async with self._reserved(tab, work, step):
            before = turn.records
            if [(one.type, one.data) for one in before[-1:]] != [
                ("call", call.data)
            ]:  # one that failed is not another one
                is_first = not any(record.type == "call" for record in before)
                await turn.write(call, state="save" if is_first else "keep")  # which skills it works with
        if broken:
            with suppress(Unreachable):  # a figure is not worth a turn
                await counts.add(turn.mailbox.store, counts.BREAK, *(f"{counts.BREAK}:{why}" for why in broken))
        request = Request(
            model=leave.model,
            system=[{"type": "text", "text": work.prompt.system}],
            messages=sent,
            tools=list(work.prompt.tools),
            max_tokens=self._settings.answer_max_tokens,
            occasion=turn.occasion(step),
            meter=tab.meter,
        )
        answering = self._trouble.ask(request, leave, live.add)
        turn.stored.history.rest()
        del request, sent  # nobody needs it once it is on its way, and many turns wait at once
        try:
            answer = await tab.of(unless_called(turn, answering, interrupts=True))
        except ModelError as error:
            live.drop()
            is_mended = (error.kind == "picture" and await self._without_pictures(work, error)) or (
                error.kind == "context_too_long"
                and await unless_called(turn, self.window.refused(turn, work.prompt, pictures), interrupts=False)
            )
            if not is_mended:
                await self._trouble.failed(turn, leave.model, error)
            return None
        except Called as called:
            if called.stop:
                raise
            live.drop()
            await take_messages(turn, Record("dropped", turn.now_ms(), {"step": step, "why": "interrupt"}))
            return None
        await self._trouble.answered(turn)
        return answer

    @asynccontextmanager
    async def _reserved(self, tab: Tab, work: Work, step: int) -> AsyncIterator[None]:
        """What the call may cost, on the same way to the server as the write within. Raises as `Tab.reserve`."""
        if not tab.limits:
            yield
            return
        turn = work.turn
        reserving = asyncio.create_task(self._beside(tab))
        try:
            yield
            await reserving
        except BaseException as error:
            try:
                await cancelled([reserving])
            finally:
                tab.give_back()
            if isinstance(error, Ended) and error.phrase.startswith("turn.budget"):
                await turn.write(Record("dropped", turn.now_ms(), {"step": step, "why": "budget"}))
            raise

    async def _beside(self, tab: Tab) -> None:
        await asyncio.sleep(0)  # a write begins two tasks before it asks Redis: so both go out in one tick
        await tab.reserve(self._settings.answer_max_tokens)

    async def _without_pictures(self, work: Work, error: ModelError) -> bool:
        """The service refused one: it gets the conversation without. False: there was none."""
        turn = work.turn
        log(
            logger,
            "picture refused",
            level=logging.WARNING,
            reference=turn.id[:8],
            conversation=turn.stored.key.id,
            reason=error.detail,
        )
        return await work.attached.take_out()


async def reply_of(turn: Turn, answer: Answer) -> str:
    """The text of a final answer, empty where the model should be asked again. Raises `Ended`, `Lost`."""
    text = text_of(answer).strip()
    text = "" if is_blank(text) else text
    if answer.stop_reason == "refusal" and not text:
        raise Ended("turn.empty")
    if answer.stop_reason == "model_context_window_exceeded" and not text:
        raise Ended("turn.too_long")
    if text:
        return text if answer.stop_reason != "max_tokens" else f"{text}\n\n{say('turn.cut', turn.language)}"
    if any(record.type == "dropped" and record.data["why"] == "empty" for record in turn.records):
        raise Ended("turn.empty")
    await turn.write(Record("dropped", turn.now_ms(), {"step": 0, "why": "empty"}))
    return ""
