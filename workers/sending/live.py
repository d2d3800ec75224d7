"""Live: the growing answer of a turn, while it grows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from gateway import pace
from gateway.conversation.claim import Lost
from gateway.conversation.outbox import Row
from gateway.events import is_blank
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Growing, Outbound, Outcome, StepLine
from gateway.text.quoting import quoted
from workers.sending.cards import ABOVE
from workers.sending.delivery import sent_of, sent_ref
from workers.sending.links import Links
from workers.turn import Turn, part_body, rows_for

logger = logging.getLogger(__name__)

TAKE_BACK_S: Final = 1.5
"""The longest that a reply waits for the end of the typing sign."""

Ending = Literal["done", "failed", "refused"]
"""How a step ends. `refused`: a person said no."""


class Telling(Protocol):
    """What is told of the work on a turn, or on a branch of it, while it goes on."""

    def add(self, text: str) -> None:
        """More of the answer."""

    def drop(self) -> None:
        """What was shown of this answer does not count: it begins anew."""

    def next_step(self) -> None:
        """Another answer begins."""

    def step(self, kind: str, name: str) -> int:
        """A skill is being loaded, or a tool runs. Returns the line's number for `step_done`."""
        ...

    def step_done(self, line: int, state: Ending) -> None:
        """That has ended."""


class Live:
    """The growing answer of one turn, shown at the platform's pace. What fails here is no matter: the reply follows."""

    def __init__(self, turn: Turn, adapter: Adapter) -> None:
        self._send_timeout_s = turn.mailbox.settings.send_timeout_s
        self._turn = turn
        self._adapter = adapter
        self._stream = adapter.stream(turn.address)
        self._links = Links(turn, adapter.capabilities)
        self._text = ""
        self._plan: tuple[StepLine, ...] = ()
        self._steps: list[StepLine] = []
        self._above = 0
        """So many of these stand in a message that is finished."""
        self._rests = False
        self._resting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._shown_s = asyncio.get_running_loop().time()  # an answer that is quick comes as one message
        self._is_seen = False
        self._showing: asyncio.Task[None] | None = None
        self._tasks = [asyncio.create_task(self._show_on(), name="live")] if self._stream.kind != "none" else []
        if adapter.capabilities.typing_s:
            self._tasks.append(asyncio.create_task(self._type_on(adapter.capabilities.typing_s), name="typing"))

    @property
    def grows(self) -> bool:
        """Can people see anything before the reply?"""
        return self._stream.kind != "none"

    def add(self, text: str) -> None:
        self._text += text
        self._changed.set()

    def drop(self) -> None:
        self._text = ""
        self._changed.set()

    next_step = drop

    def step(self, kind: str, name: str) -> int:
        self._steps.append(StepLine("skill" if kind == "skill" else "tool", name, "running"))
        self._changed.set()
        return len(self._steps) - 1

    def step_done(self, line: int, state: Ending) -> None:
        self._steps[line] = replace(self._steps[line], state=state)
        self._changed.set()

    def plan(self, lines: Sequence[StepLine]) -> None:
        """How far a plan has come. It stands above what is done for it."""
        if self._plan != (now := tuple(lines)):
            self._plan = now
            self._changed.set()

    async def end(self) -> None:
        """The answer is whole. As `close`, and steps that were too quick to be seen are shown before the reply."""
        await self.close()
        is_unseen = (self._plan or self._steps) and self._changed.is_set()
        if is_unseen and self._stream.kind == "passing" and not self._turn.claim.lost:
            self._changed.clear()
            await self._show()

    async def close(self) -> None:
        """No more is shown; what is on its way is waited for, so that the reply comes after it."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *([self._showing] if self._showing else []), return_exceptions=True)

    @asynccontextmanager
    async def rest(self) -> AsyncIterator[Sequence[Row]]:
        """See `Turn.rest`. What is shown later stands in a message of its own."""
        async with self._resting:  # steps of a plan may ask at the same time
            self._rests = True
            try:
                if self._showing:
                    await asyncio.wait({self._showing})
                rows = self._finished()
                yield rows
                if rows:
                    self._turn.live_rows.pop(rows[0].key, None)
                    self._text, self._above = "", len(self._steps)
                    self._changed.clear()
            finally:
                self._rests = False

    def _finished(self) -> list[Row]:
        """The message that grows, as it is to stand; none where there is none."""
        there = self._turn.live_rows.get(self._turn.row_key(0))
        if there is None:
            return []
        done = [line for line in self._steps[self._above :] if line.state != "running"]
        growing = self._growing((*self._plan, *done))
        if (
            not growing.markdown or there.ref is None
        ):  # another worker's, or nobody knows where: it stands as it was left
            return [replace(there, state="sent" if there.ref else "given_up")]
        part = part_body(self._adapter.render(Outbound(growing.markdown))[0])
        return [replace(there, part=part, order=ABOVE, state="pending", since_ms=0)]

    async def _type_on(self, lasts_s: float) -> None:
        """Until something of the answer is seen, or it is whole."""
        to = self._turn.address
        try:
            while not self._is_seen:
                async with asyncio.timeout(self._send_timeout_s):
                    await self._adapter.typing(to, on=True)
                await asyncio.sleep(lasts_s * 0.8)
        except TimeoutError:
            return  # the platform has other worries
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(TAKE_BACK_S, self._send_timeout_s)):
                    await self._adapter.typing(to, on=False)

    async def _show_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            await asyncio.sleep(max(0.0, self._shown_s + self._stream.interval_s - loop.time()))
            self._changed.clear()
            self._shown_s = loop.time()
            self._showing = asyncio.create_task(
                self._show(), name="show"
            )  # goes on to its end if the turn ends meanwhile
            await asyncio.shield(self._showing)

    async def _show(self) -> None:
        if self._rests:
            self._changed.set()
            return
        if self._turn.claim.seconds_left() <= self._send_timeout_s:
            return  # past the lease somebody else may have finished the message: it is not ours to touch
        growing = self._growing((*self._plan, *self._steps[self._above :]))
        turn, rules = self._turn, self._adapter.capabilities.pace
        try:
            if self._stream.kind == "message" and not growing.markdown:
                return
            if rules and await pace.take(turn.mailbox.store, turn.stored.key, rules) > 0:
                self._changed.set()  # with the next look
                return
            outcome = await (self._show_message(growing) if self._stream.kind == "message" else self._pass(growing))
            if outcome.kind == "rate_limited":
                wait_s = outcome.retry_after_s or 1.0
                self._shown_s += wait_s
                await pace.hold(turn.mailbox.store, turn.stored.key, outcome, wait_s)
            self._is_seen = self._is_seen or outcome.kind == "ok"
        except Lost:
            self._turn.claim.news.set()
        except Exception as error:  # noqa: BLE001  # a picture of the answer must not cost the answer
            log(logger, "live text not shown", level=logging.WARNING, reason=f"{type(error).__name__}: {error}")

    def _growing(self, lines: tuple[StepLine, ...]) -> Growing:
        text = "" if is_blank(self._text) else self._links.growing(self._text).strip()
        steps = self._links.harmless("\n".join(self._line(line) for line in lines))
        return Growing(text, lines, "\n\n".join(part for part in (steps, text) if part))

    def _line(self, line: StepLine) -> str:
        name = quoted(line.name) if line.kind == "step" else line.name
        return f"_{say(f'step.{line.kind}_{line.state}', self._turn.language, name=name)}_"

    async def _pass(self, growing: Growing) -> Outcome:
        return await self._in_time(self._adapter.show(self._turn.address, growing, self._turn.row_key(0), None))

    async def _show_message(self, growing: Growing) -> Outcome:
        """One message of ours that grows. Its row is written before it is sent, so that nobody loses track of it."""
        turn, adapter = self._turn, self._adapter
        key = turn.row_key(0)
        there = turn.live_rows.get(key)
        if there is None:
            part = adapter.render(Outbound(growing.markdown))[0]
            row = replace(rows_for(turn, [part])[0], state="sending", since_ms=turn.now_ms())
            await turn.write(rows=[row])
            outcome = await self._in_time(adapter.show(turn.address, growing, key, None))
            ref = sent_ref(outcome)
            turn.live_rows[key] = replace(row, state="live", ref=ref)
            await turn.mailbox.mark(turn.claim, row, "live" if ref else "sending", ref)
        elif there.ref:
            outcome = await self._in_time(adapter.show(turn.address, growing, key, sent_of(there.ref)))
            if outcome.sent:
                turn.live_rows[key] = replace(there, ref=sent_ref(outcome))
        else:
            outcome = Outcome("ambiguous", detail="nobody knows whether it is there")
        return outcome

    async def _in_time(self, sending: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                return await sending
        except TimeoutError:
            return Outcome("ambiguous", detail="timeout")


@dataclass(frozen=True, slots=True)
class Lines:
    """Of a branch: what it does is shown, and what it says is not."""

    live: Live

    def add(self, text: str) -> None:
        """It is said to others of the turn."""

    def drop(self) -> None:
        """Nothing was shown."""

    def next_step(self) -> None:
        """Nothing was shown."""

    def step(self, kind: str, name: str) -> int:
        return self.live.step(kind, name)

    def step_done(self, line: int, state: Ending) -> None:
        self.live.step_done(line, state)
