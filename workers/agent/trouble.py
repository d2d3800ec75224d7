"""Trouble with the model: how long to wait, when to try again, when to ask the fallback model, what the person is told.

Everything that a turn asks a model for goes this way, a summary as well: with leave, and all workers hear what came of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from config.settings import ModelSettings
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Outbound
from workers.agent.borders import unless_called
from workers.agent.circuits import Circuits, Leave
from workers.models import Answer, Model, ModelError, Request, TextDelta
from workers.prompt.context import main_line
from workers.sending.cards import Cards
from workers.turn import Ended, Parked, Turn

logger = logging.getLogger(__name__)

BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 8.0
SILENT_RETRIES: Final = 1
"""A model that was silent for as long as we wait is asked once more: each time costs a minute."""
SPREAD: Final = 0.1
"""Those who were told to wait don't all come back at once, but up to so much later."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One a worker process. What a turn has gone through lies in its state, so that whoever goes on knows it.

    `model`: failures in a row, silent (of those), since_ms, asked_ms (when what failed was begun), not_before_ms, wait_ms.
    `fallback`: the model that is asked to the end of this turn. `told` (of the whole turn): the person knows.
    """

    settings: ModelSettings
    hold_s: float
    """A longer wait gives its place to others."""
    circuits: Circuits
    model: Model

    async def leave(self, turn: Turn, cards: Cards) -> Leave:
        """Which model to ask now, when all waiting is over. Raises `Parked`, `Ended`, `Called`, `Lost`, `Unreachable`."""
        while True:
            await self._wait(turn, cards)
            model = model_of(turn, self.settings)
            leave = await self.circuits.leave(model)
            if not leave.wait_s:
                await _note_switch(turn, model)
                return leave
            await self._put_off(turn, model, leave)

    async def soon(self, turn: Turn) -> Leave | None:
        """The same for who can do without: the turn's model or the one instead of it, after a short wait at most. None: later.
        Raises `Unreachable`.
        """
        first = model_of(turn, self.settings)
        for model in (first, instead) if (instead := self._instead(turn)) else (first,):
            leave = await self.circuits.leave(model)
            if 0 < leave.wait_s <= self.hold_s:
                await asyncio.sleep(leave.wait_s * _spread())
                leave = await self.circuits.leave(model)
            if not leave.wait_s:
                return leave
        return None

    async def ask(self, request: Request, leave: Leave, heard: Callable[[str], None] | None = None) -> Answer:
        """One request; its text is `heard` as it comes. Raises `ModelError`, `Unreachable`."""
        pieces = self.model.stream(request)
        del request
        try:
            answer = await self._whole(pieces, leave, heard)
        except ModelError as error:
            await self._note(leave.model, error)
            raise
        if leave.state == "noted":
            await self.circuits.answered(leave.model)
        return answer

    async def _whole(
        self, pieces: AsyncIterator[TextDelta | Answer], leave: Leave, heard: Callable[[str], None] | None
    ) -> Answer:
        has_begun = False
        async for piece in pieces:
            if not has_begun and leave.state == "noted" and await self.circuits.speaks(leave.model):
                log(logger, "model answers again", model=leave.model)
            has_begun = True
            if isinstance(piece, Answer):
                return piece
            if heard:
                heard(piece.text)
        raise ModelError("the stream ended without an answer", passing=True, kind="broken")

    async def failed(self, turn: Turn, model: str, error: ModelError) -> None:
        """Note when to try again, or whom to ask instead, or end the turn. Raises `Ended`, `Lost`, `Unreachable`."""
        state = _state(turn, next((one.at_ms for one in reversed(turn.records) if one.type == "call"), turn.now_ms()))
        state["failures"] += 1
        state["silent"] += error.kind == "stalled"
        wait_s = error.retry_after_s or 0.0 if error.passing else 0.0
        pause = wait_s * _spread() or random.uniform(
            0, min(BACKOFF_MAX_S, BACKOFF_S * 2 ** min(state["failures"] - 1, 10))
        )
        worth = error.passing and state["failures"] <= self.settings.max_retries and state["silent"] <= SILENT_RETRIES
        again = worth and pause <= self._left(turn, state, is_told=bool(wait_s))
        instead = self._instead(turn) if error.passing or error.kind == "not_found" else None
        level = logging.WARNING if again or instead else logging.ERROR
        _log(turn, model, error.detail, level, kind=error.kind, failures=state["failures"])
        if again:
            await _put_down(turn, state, pause, is_told=bool(wait_s))
        elif instead:
            await self._switch(turn, instead)
        elif error.kind == "context_too_long":
            raise Ended("turn.too_long")
        elif not error.passing:
            raise Ended("turn.model_refused", reference=turn.id[:8])
        else:
            raise _away(turn, wait_s, is_busy=error.kind == "rate_limited")

    async def answered(self, turn: Turn) -> None:
        """It is over. Raises `Lost`, `Unreachable`."""
        if turn.state.pop("model", None):
            await turn.write(state="save")

    def _instead(self, turn: Turn) -> str | None:
        """The fallback model, where there is one and it is not the one that failed."""
        fallback = turn.profile.fallback_model
        return fallback if fallback and fallback != model_of(turn, self.settings) else None

    async def _note(self, model: str, error: ModelError) -> None:
        """Tell all workers."""
        if error.passing and error.retry_after_s:
            await self.circuits.hold(model, error.retry_after_s)
        elif error.passing and error.kind != "rate_limited" and await self.circuits.failed(model):
            log(logger, "model is away", level=logging.ERROR, model=model, seconds=self.settings.breaker_open_s)

    def _left(self, turn: Turn, state: dict[str, Any], *, is_told: bool) -> float:
        """How long this turn may still wait. As long as the service says, unless there is somebody else to ask."""
        if is_told and not self._instead(turn):
            return turn.seconds_left
        tried_s = 0.0 if is_told else (turn.now_ms() - state["since_ms"]) / 1000
        return min(self.settings.retry_for_s - tried_s, turn.seconds_left)

    async def _put_off(self, turn: Turn, model: str, leave: Leave) -> None:
        """Others know that it can't be asked now."""
        state, instead = _state(turn, turn.now_ms()), self._instead(turn)
        is_told = leave.state == "held"
        wait_s = leave.wait_s * _spread()
        again = wait_s <= self._left(turn, state, is_told=is_told)
        if instead and not (is_told and again):
            await self._switch(turn, instead)
            return
        if not again:
            why = f"not asked: {'it wants to be left alone' if is_told else 'it is away'} for {leave.wait_s:.1f} s"
            _log(turn, model, why, logging.ERROR, kind=leave.state, failures=state["failures"])
            raise _away(turn, leave.wait_s, is_busy=is_told)
        await _put_down(turn, state, wait_s, is_told=is_told)

    async def _switch(self, turn: Turn, to: str) -> None:
        turn.state.pop("model", None)
        turn.state["fallback"] = to
        log(
            logger, "fallback model", level=logging.WARNING, conversation=turn.stored.key.id, turn=turn.id[:8], model=to
        )
        await turn.write(state="save")

    async def _wait(self, turn: Turn, cards: Cards) -> None:
        """A short wait holds its place, a long one gives it to others; who comes back early waits on."""
        while state := turn.state.get("model"):
            pause = (state["not_before_ms"] - turn.now_ms()) / 1000
            if pause > 2 * state.get("wait_ms", math.inf) / 1000:
                pause = 0.0  # the clock was put back since, by more than the wait
            if not turn.whole.state.get("told"):
                until_told = self.settings.tell_after_s - (turn.now_ms() - state["asked_ms"]) / 1000
                if until_told <= 0:
                    await _tell(turn, cards)
                    continue
                pause = min(pause, until_told)
            if pause <= 0:
                return
            if pause > self.hold_s:
                raise Parked(pause)
            await unless_called(turn, asyncio.sleep(pause), interrupts=False)


def _state(turn: Turn, asked_ms: int) -> dict[str, Any]:
    fresh = {"failures": 0, "silent": 0, "since_ms": turn.now_ms(), "asked_ms": asked_ms}
    return turn.state.get("model") or fresh


def model_of(turn: Turn, settings: ModelSettings) -> str:
    """The model that this turn asks."""
    return turn.state.get("fallback") or turn.model or settings.name


async def _put_down(turn: Turn, state: dict[str, Any], pause: float, *, is_told: bool) -> None:
    pause_ms = math.ceil(pause * 1000)
    state["not_before_ms"], state["wait_ms"] = turn.now_ms() + pause_ms, pause_ms
    state["since_ms"] += pause_ms if is_told else 0
    turn.state["model"] = state
    await turn.write(state="save")


async def _note_switch(turn: Turn, model: str) -> None:
    """Another model than last time: what it is sent does not begin with the same bytes."""
    here = reversed(main_line(turn.stored.history))
    last = next((one.data.get("model") for one in here if one.type in {"call", "switched"}), None)
    if last is not None and last != model:
        await turn.write(Record("switched", turn.now_ms(), {"turn": turn.id, "model": model}))


async def _tell(turn: Turn, cards: Cards) -> None:
    """Once a turn, however many branches of it wait."""
    turn.whole.state["told"] = True
    records, rows = cards.made("waiting", [Outbound(say("turn.waiting", turn.language), is_notice=True)])
    await turn.write(*records, rows=rows, state="save")
    await cards.send(rows)


def _spread() -> float:
    return random.uniform(1, 1 + SPREAD)


def _away(turn: Turn, wait_s: float, *, is_busy: bool) -> Ended:
    if is_busy:
        return Ended("turn.model_busy", minutes=max(1, math.ceil(wait_s / 60)), reference=turn.id[:8])
    return Ended("turn.model_away", reference=turn.id[:8])


def _log(turn: Turn, model: str, reason: str, level: int, *, kind: str, failures: int) -> None:
    """One line for operators, under the reference that the person gets."""
    log(
        logger,
        "model failed",
        level=level,
        reference=turn.id[:8],
        conversation=turn.stored.key.id,
        model=model,
        reason=reason,
        kind=kind,
        failures=failures,
    )
