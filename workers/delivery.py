"""Delivery: rows of the outbox to the platform, and the growing answer while it grows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from config.settings import MailboxSettings
from gateway.conversation.mailbox import Lost, Row, now_ms
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Outbound, Outcome, Part, Sent, StepLine
from workers.turn import Parked, Turn, address, rows_for

logger = logging.getLogger(__name__)

BACKOFF_MAX_S: Final = 60.0


class Live:
    """The growing answer of one turn, shown at the platform's pace. What fails here is no matter: the reply follows."""

    def __init__(self, turn: Turn, adapter: Adapter) -> None:
        self._turn = turn
        self._adapter = adapter
        self._text = ""
        self._steps: list[StepLine] = []
        self._changed = asyncio.Event()
        self._shown_s = asyncio.get_running_loop().time()  # an answer that is quick comes as one message
        self._showing: asyncio.Task[None] | None = None
        self._pump = (
            asyncio.create_task(self._show_on(), name="live") if adapter.capabilities.stream != "none" else None
        )

    def add(self, text: str) -> None:
        """More of the answer."""
        self._text += text
        self._changed.set()

    def drop(self) -> None:
        """What was shown of this answer does not count: it begins anew."""
        self._text = ""
        self._changed.set()

    next_step = drop

    def step(self, kind: str, name: str) -> int:
        """A skill is being loaded, or a tool runs. Returns the line's number for `step_done`."""
        self._steps.append(StepLine("skill" if kind == "skill" else "tool", name, "running"))
        self._changed.set()
        return len(self._steps) - 1

    def step_done(self, line: int, *, failed: bool) -> None:
        self._steps[line] = replace(self._steps[line], state="failed" if failed else "done")
        self._changed.set()

    async def end(self) -> None:
        """The answer is whole. As `close`, and steps that were too quick to be seen are shown before the reply."""
        await self.close()
        is_unseen = self._steps and self._changed.is_set()
        if is_unseen and self._adapter.capabilities.stream == "snapshot" and not self._turn.claim.lost:
            self._changed.clear()
            await self._show()

    async def close(self) -> None:
        """No more is shown; what is on its way is waited for, so that the reply comes after it."""
        if self._pump:
            self._pump.cancel()
            await asyncio.gather(self._pump, *([self._showing] if self._showing else []), return_exceptions=True)

    async def _show_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            pace_s = self._adapter.capabilities.stream_interval_s
            await asyncio.sleep(max(0.0, self._shown_s + pace_s - loop.time()))
            self._changed.clear()
            self._shown_s = loop.time()
            self._showing = asyncio.create_task(
                self._show(), name="show"
            )  # goes on to its end if the turn ends meanwhile
            await asyncio.shield(self._showing)

    async def _show(self) -> None:
        try:
            if self._adapter.capabilities.stream == "snapshot":
                await self._adapter.show(self._turn.address, self._text, list(self._steps))
            elif self._text or self._steps:
                await self._show_by_edit()
        except Lost:
            self._turn.claim.news.set()
        except Exception as error:  # noqa: BLE001  # a picture of the answer must not cost the answer
            log(logger, "live text not shown", level=logging.WARNING, reason=f"{type(error).__name__}: {error}")

    async def _show_by_edit(self) -> None:
        """One message of ours that grows. Its row is written before it is sent, so that nobody loses track of it."""
        turn = self._turn
        key = turn.row_key(0)
        lines = [say(f"step.{line.kind}_{line.state}", turn.language, name=line.name) for line in self._steps]
        markdown = "\n".join(f"_{line}_" for line in lines) + ("\n\n" if lines and self._text else "") + self._text
        part = self._adapter.render(Outbound(markdown))[0]
        there = turn.live_rows.get(key)
        if there is None:
            row = replace(rows_for(turn, [part])[0], state="sending")
            await turn.write(rows=[row])
            turn.claim.check()
            outcome = await self._adapter.send(turn.address, part, key)
            ref = sent_ref(outcome)
            turn.live_rows[key] = replace(row, state="live", ref=ref)
            await turn.mailbox.mark(turn.claim, row, "live" if ref else "sending", ref)
        elif there.ref:
            outcome = await self._adapter.edit(turn.address, sent_of(there.ref), part)
            self._shown_s += outcome.retry_after_s or 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """Sends rows for one claim. `mailbox` settings give the waits."""

    turn: Turn
    adapter: Adapter
    settings: MailboxSettings

    async def send_all(self, rows: Sequence[Row]) -> None:
        """Send what is open, in order. Raises `Lost`, and `Parked` where the platform wants to be left alone."""
        for row in rows:
            if row.is_open:
                await self._send(row)

    async def _send(self, row: Row) -> None:
        """One part until its fate is known."""
        if row.state == "sending":
            found = await self._settle_unclear(row)
            if found is None:
                return
            row = found
        elif row.state == "pending":
            await self._pause((row.since_ms - now_ms()) / 1000)  # whoever comes back early waits on
        tries = 0
        while True:
            outcome = await self._attempt(row)
            tries += 1
            match outcome.kind:
                case "ok":
                    await self.turn.mailbox.mark(self.turn.claim, row, "sent", sent_ref(outcome) or row.ref)
                    log(logger, "sent", conversation=self.turn.stored.key.id, part=row.order, tries=tries)
                    return
                case "rate_limited" | "transient" if self._age_s(row) < self.settings.send_for_s:
                    await self._wait(row, tries, outcome)
                case "bad_format" | "too_long" if row.part.get("fallback"):
                    log(logger, "sent again as plain text", level=logging.WARNING, reason=outcome.detail)
                    row = replace(row, part={"payload": row.part["fallback"], "fallback": None})
                case "ambiguous" if self._age_s(row) < self.settings.send_for_s:
                    found = await self._settle_unclear(replace(row, state="sending", since_ms=now_ms()))
                    if found is None:
                        return
                    row = found
                case _:
                    await self._give_up(row, outcome)
                    return

    async def _attempt(self, row: Row) -> Outcome:
        """Mark, look at the own clock, send. Past the lease nothing is sent: somebody else may be at it."""
        turn, claim = self.turn, self.turn.claim
        if not await turn.mailbox.mark(claim, row, "sending", row.ref):
            return Outcome("ok")  # somebody before us has sent it
        if claim.seconds_left() <= self.settings.send_timeout_s:
            await turn.mailbox.renew([claim])
        claim.check()
        if claim.seconds_left() <= self.settings.send_timeout_s:
            raise Lost(claim.conversation)
        part = Part(row.part["payload"], row.part.get("fallback"))
        to = address(turn.stored, row.to)
        try:
            async with asyncio.timeout(self.settings.send_timeout_s):
                if row.ref:
                    edited = await self.adapter.edit(to, sent_of(row.ref), part)
                    if edited.kind not in {"rejected", "too_long"}:
                        return edited
                return await self.adapter.send(to, part, row.key)
        except TimeoutError:
            return Outcome("ambiguous", detail="timeout")

    async def _settle_unclear(self, row: Row) -> Row | None:
        """A send whose end nobody saw. The row to send again, or None: its fate is settled."""
        await asyncio.sleep(max(0.0, self.settings.send_timeout_s - (now_ms() - row.since_ms) / 1000))
        turn, can = self.turn, self.adapter.capabilities
        how = "key" if can.idempotent_send or row.ref else "look back" if can.look_back else turn.profile.unclear_send
        log(
            logger,
            "send unclear",
            level=logging.WARNING,
            conversation=turn.stored.key.id,
            part=row.order,
            settled_by=how,
        )
        if how == "look back":
            found = await self.adapter.find(address(turn.stored, row.to), row.key, row.since_ms)
            if found.kind == "ok" and can.stream == "edit":
                return replace(row, state="pending", ref=sent_ref(found))  # it may be the growing one: make it whole
            if found.kind == "ok":
                await turn.mailbox.mark(turn.claim, row, "sent", sent_ref(found))
                return None
            if found.kind != "target_gone":
                how = turn.profile.unclear_send
        if how == "skip":
            await self._give_up(row, Outcome("ambiguous", detail="skipped"), notice="turn.send_unclear")
            return None
        return replace(row, state="pending")

    def _age_s(self, row: Row) -> float:
        return (now_ms() - row.made_ms) / 1000

    async def _wait(self, row: Row, tries: int, outcome: Outcome) -> None:
        pause = outcome.retry_after_s
        if pause is None:
            pause = min(BACKOFF_MAX_S, max(0.5 * 2 ** (tries - 1), self._age_s(row) / 4))
        await self.turn.mailbox.mark(self.turn.claim, row, "pending", row.ref, in_ms=int(pause * 1000))
        log(logger, "send delayed", level=logging.WARNING, reason=outcome.kind, detail=outcome.detail, pause_s=pause)
        await self._pause(pause)

    async def _pause(self, pause: float) -> None:
        """A short wait holds its place, a long one gives it to others."""
        if pause > self.settings.send_hold_s:
            raise Parked(pause)
        await asyncio.sleep(max(0.0, pause))

    async def _give_up(self, row: Row, outcome: Outcome, notice: str | None = None) -> None:
        """This part will not arrive; the operator sees it in the dead letters, the person by a notice where one may help."""
        turn = self.turn
        log(
            logger,
            "send given up",
            level=logging.ERROR,
            conversation=turn.stored.key.id,
            part=row.order,
            reason=outcome.kind,
            detail=outcome.detail,
        )
        rows: list[Row] = []
        if notice:
            text = say(notice, turn.language)
            rows = [
                replace(one, key=f"{row.key}-notice", order=row.order)
                for one in rows_for(turn, self.adapter.render(Outbound(text, is_notice=True))[:1])
            ]
        await turn.mailbox.mark(turn.claim, row, "given_up", None)
        reason = f"send {outcome.kind}"
        record = Record("failed", now_ms(), {"turn": turn.id, "reason": reason, "part": row.order})
        await turn.mailbox.bury(turn.claim, turn.id, reason, records=[record], rows=rows)
        turn.stored.history.append(record)
        for one in rows:
            await self._send(one)


def sent_ref(outcome: Outcome) -> dict[str, Any] | None:
    return {"message_id": outcome.sent.message_id, "ref": outcome.sent.ref} if outcome.sent else None


def sent_of(ref: dict[str, Any]) -> Sent:
    return Sent(ref["message_id"], ref["ref"])
