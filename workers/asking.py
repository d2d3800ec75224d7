"""Asking: one call of the model, with what goes before it and what its failures come to."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from config.settings import Settings
from gateway import counts
from gateway.conversation.records import Record
from gateway.events import is_blank
from gateway.logs import log
from gateway.phrases import say
from gateway.skill_tools import LOAD
from gateway.store import Unreachable
from skills.library import Catalogue
from workers.attached import Attached
from workers.borders import Called, take_messages, unless_called
from workers.breaks import breaks
from workers.calls import Calls
from workers.context import main_line
from workers.hints import due
from workers.live import Telling
from workers.models import Answer, Model, ModelError, Request, TextDelta, text_of
from workers.rendering import Prompt
from workers.turn import Ended, Parked, Turn
from workers.window import Window

logger = logging.getLogger(__name__)

BACKOFF_MAX_S: Final = 8.0


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

    def __init__(self, settings: Settings, model: Model) -> None:
        self._settings = settings.model
        self._hold_s = settings.mailbox.send_hold_s
        self._model = model
        self.window = Window(settings.model, model)

    async def note_prompt(self, turn: Turn, asked: Prompt) -> None:
        """Whether what stands before the messages is as it was: if not, the provider's cache is of no use once."""
        last = next((one for one in reversed(main_line(turn.stored.history)) if one.type == "prompt"), None)
        if last is None or last.data["hash"] != asked.hash:
            await turn.write(Record("prompt", turn.now_ms(), {"hash": asked.hash, "turn": turn.id}))
            log(logger, "prompt changed", conversation=turn.stored.key.id, hash=asked.hash, first=last is None)

    async def ask(self, work: Work, step: int) -> Answer | None:
        """One model call. None: no answer this time, look again what to do. Raises `Ended`, `Parked`, `Called`, `Lost`."""
        turn, live = work.turn, work.calls.live
        await self._wait_for_model(turn)
        pictures = await work.attached.pictures()
        hints = due(turn.records, work.catalogue, turn.now_ms()) if LOAD in turn.profile.tools else []
        if hints:
            await turn.write(*hints)
        sent = await unless_called(turn, self.window.fitted(turn, work.prompt, pictures), interrupts=False)
        broken = breaks(turn.stored.history)
        is_first = not any(record.type == "call" for record in turn.records)
        await turn.write(
            Record("call", turn.now_ms(), {"step": step, "turn": turn.id}),
            state="save" if is_first else "keep",  # which skills it works with
        )
        if broken:
            with suppress(Unreachable):  # a figure is not worth a turn
                await counts.add(turn.mailbox.store, counts.BREAK, *(f"{counts.BREAK}:{why}" for why in broken))
        request = Request(
            model=turn.profile.model or self._settings.name,
            system=[{"type": "text", "text": work.prompt.system}],
            messages=sent,
            tools=list(work.prompt.tools),
            max_tokens=self._settings.answer_max_tokens,
            occasion=turn.occasion(step),
        )
        answering = self._stream(request, live)
        turn.stored.history.rest()
        del request, sent  # nobody needs it once it is on its way, and many turns wait at once
        try:
            answer = await unless_called(turn, answering, interrupts=True)
        except ModelError as error:
            live.drop()
            if error.kind != "context_too_long" or not await self.window.refused(turn, work.prompt, pictures):
                await self._failed(turn, error)
            return None
        except Called as called:
            if called.stop:
                raise
            live.drop()
            await take_messages(turn, Record("dropped", turn.now_ms(), {"step": step, "why": "interrupt"}))
            return None
        if turn.state.pop("model", None):
            await turn.write(state="save")
        return answer

    async def _stream(self, request: Request, live: Telling) -> Answer:
        pieces = self._model.stream(request)
        del request
        async for piece in pieces:
            if isinstance(piece, TextDelta):
                live.add(piece.text)
            else:
                return piece
        raise ModelError("the stream ended without an answer", passing=True, kind="broken")

    async def _failed(self, turn: Turn, error: ModelError) -> None:
        """Note when to try again, or end the turn."""
        reference = turn.id[:8]
        trouble = turn.state.get("model") or {"failures": 0, "since_ms": turn.now_ms()}
        failures, since = trouble["failures"] + 1, trouble["since_ms"]
        backoff = min(BACKOFF_MAX_S, 0.5 * 2 ** min(failures - 1, 6)) * random.uniform(0.5, 1)
        pause = backoff if error.retry_after_s is None else error.retry_after_s
        left = min(self._settings.retry_for_s - (turn.now_ms() - since) / 1000, turn.seconds_left)
        log(
            logger,
            "model failed",
            level=logging.WARNING if error.passing and pause <= left else logging.ERROR,
            reference=reference,
            conversation=turn.stored.key.id,
            reason=error.detail,
            kind=error.kind,
            failures=failures,
        )
        if error.kind == "context_too_long":
            raise Ended("turn.too_long")
        if not error.passing:
            refused = error.kind in {"unauthorized", "not_found", "bad_request"}
            raise Ended("turn.model_refused" if refused else "turn.failed", reference=reference)
        if pause > left:
            raise Ended("turn.model_away", reference=reference)
        turn.state["model"] = {
            "failures": failures,
            "since_ms": since,
            "not_before_ms": turn.now_ms() + int(pause * 1000),
        }
        await turn.write(state="save")

    async def _wait_for_model(self, turn: Turn) -> None:
        """After a failure: a short wait holds its place, a long one gives it to others; who comes back early waits on."""
        pause = (turn.state.get("model", {}).get("not_before_ms", 0) - turn.now_ms()) / 1000
        if pause > self._hold_s:
            raise Parked(pause)
        if pause > 0:
            await unless_called(turn, asyncio.sleep(pause), interrupts=False)


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
