"""Delivery: rows of the outbox to the platform, each until its fate is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from config.settings import MailboxSettings
from gateway import pace
from gateway.conversation.claim import Lost
from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Capabilities, Outbound, Outcome, Sent
from workers.turn import Parked, Turn, address, part_of, rows_for, without_handle

logger = logging.getLogger(__name__)

BACKOFF_MAX_S: Final = 60.0
REPEATS_MAX: Final = 2
"""So often a part is sent again where nobody can tell whether it is there: people would get each."""
FILE_SEND_S: Final = 30.0
"""The longest that one send of a file may take; the lease is lengthened meanwhile."""
NOTICE: Final = "-notice"
"""What a notice about a row has behind that row's key."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Sends rows for one claim. `mailbox` settings give the waits."""

    turn: Turn
    adapter: Adapter
    settings: MailboxSettings

    async def send_all(self, rows: Sequence[Row]) -> None:
        """Send what is open, in order; to a room that is gone nothing more. Raises `Lost`, and `Parked` where the platform
        wants to be left alone.
        """
        gone: Outcome | None = None
        for row in rows:
            if row.is_open and gone:
                await self._give_up(row, gone, None)
            elif row.is_open:
                outcome = await self._send(row)
                gone = outcome if outcome and outcome.kind == "target_gone" else None

    async def _send(self, row: Row) -> Outcome | None:
        """One part until its fate is known: the outcome that it was given up for."""
        left, again = await self._begin(row)
        tries, repeats = 0, int(again)
        while left is not None:
            row = left
            await self._keep_pace()
            outcome = await self._attempt(row)
            tries += 1
            match outcome.kind:
                case "ok":
                    await self._mark_sent(row, sent_ref(outcome) or row.ref)
                    log(logger, "sent", conversation=self.turn.stored.key.id, part=row.order, tries=tries)
                    if repeats:
                        await self._tell(row, "turn.send_repeated")
                    return None
                case "rejected" | "too_long" | "target_gone" if row.ref:
                    left = await self._let_go(row, outcome)
                case "rate_limited" | "transient" if self._age_s(row) < self.settings.send_for_s:
                    await self._wait(row, tries, outcome)
                case "bad_format" | "too_long" if row.part.get("fallback"):
                    log(logger, "sent again as plain text", level=logging.WARNING, reason=outcome.detail)
                    left = replace(row, part={**row.part, "payload": row.part["fallback"], "fallback": None})
                case "ambiguous" if self._age_s(row) < self.settings.send_for_s:
                    left, again = await self._settle_unclear(replace(row, state="sending", since_ms=self.turn.now_ms()))
                    repeats += again
                    if left is not None and repeats > REPEATS_MAX:
                        await self._give_up(left, outcome, "turn.send_repeated")
                        return outcome
                case kind:
                    refused = kind in {"bad_format", "too_long", "rejected"}
                    notice = None if kind == "target_gone" else f"turn.send_{'refused' if refused else 'failed'}"
                    await self._give_up(row, outcome, notice)
                    return outcome
        return None

    async def _begin(self, row: Row) -> tuple[Row | None, bool]:
        """What is to be sent of a row as it was found; and whether the person may get it twice."""
        if row.state == "sending":
            return await self._settle_unclear(row)
        if row.state == "pending":
            wait_s = (row.since_ms - self.turn.now_ms()) / 1000
            if wait_s <= self.settings.send_for_s:  # longer: the clock was put back since
                await self._pause(wait_s)  # whoever comes back early waits on
        return row, False

    async def _keep_pace(self) -> None:
        turn = self.turn
        while (wait_s := await pace.take(turn.mailbox.store, turn.stored.key, self.adapter.capabilities.pace)) > 0:
            await self._pause(wait_s)

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
        part = part_of(row.part)
        to = address(turn.stored, row.to)
        try:
            async with asyncio.timeout(FILE_SEND_S if part.file else self.settings.send_timeout_s):
                if row.ref:
                    return await self.adapter.edit(to, sent_of(row.ref), part)
                return await self.adapter.send(to, part, row.key)
        except TimeoutError:
            return Outcome("ambiguous", detail="timeout")

    async def _let_go(self, row: Row, outcome: Outcome) -> Row:
        """The growing message can't become the reply: it is taken back, and the reply is sent like any other."""
        log(
            logger,
            "growing message given up",
            level=logging.WARNING,
            part=row.order,
            reason=outcome.detail or outcome.kind,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.send_timeout_s):
                await self.adapter.delete(address(self.turn.stored, row.to), sent_of(row.ref or {}))
        return replace(row, ref=None)

    async def _settle_unclear(self, row: Row) -> tuple[Row | None, bool]:
        """A send whose end nobody saw: the row to send again, or None when its fate is settled; and whether the person
        may get it twice.
        """
        waited_s = max(0.0, (self.turn.now_ms() - row.since_ms) / 1000)
        await asyncio.sleep(max(0.0, self.settings.send_timeout_s - waited_s))
        turn, can = self.turn, self.adapter.capabilities
        if can.ephemeral and row.part.get("only_for"):
            how = "again"  # it can't be looked for, is gone soon, and twice is better than never
        elif row.ref or key_is_known(can, row, turn.now_ms()):
            how = "key"
        else:
            how = "look back" if can.look_back else self._at_a_guess(row)
        found = await self._look_back(row) if how == "look back" else None
        if found and found.kind not in {"ok", "target_gone"}:
            how = self._at_a_guess(row)  # it can't be known
        log(
            logger,
            "send unclear",
            level=logging.WARNING,
            conversation=turn.stored.key.id,
            part=row.order,
            settled_by=how,
        )
        if found and found.kind == "ok":
            if self.adapter.stream(address(turn.stored, row.to)).kind == "message":
                return replace(row, state="pending", ref=sent_ref(found)), False  # make the growing one whole
            await self._mark_sent(row, sent_ref(found))
            return None, False
        if how == "skip":
            await self._give_up(row, Outcome("ambiguous", detail="skipped"), "turn.send_unclear")
            return None, False
        return replace(row, state="pending"), how == "repeat"

    def _at_a_guess(self, row: Row) -> str:
        """What is done where nobody can know. A question comes twice rather than never: the turn waits for its answer."""
        return "repeat" if row.is_card and not row.part.get("file") else self.turn.profile.unclear_send

    async def _mark_sent(self, row: Row, ref: dict[str, Any] | None) -> None:
        known_as = ref["message_id"] if ref and self.adapter.capabilities.names_parents else ""
        await self.turn.mailbox.mark(self.turn.claim, row, "sent", ref, known_as=known_as)

    async def _look_back(self, row: Row) -> Outcome:
        """Is the message there? A platform that can't say now is asked again: only a final answer decides."""
        tries = 0
        while True:
            found = await self.adapter.find(address(self.turn.stored, row.to), row.key, row.since_ms)
            passing = found.kind in {"rate_limited", "transient", "ambiguous"}
            if not passing or self._age_s(row) >= self.settings.send_for_s:
                return found
            tries += 1
            await self._pause(self._backoff_s(row, tries, found))

    def _age_s(self, row: Row) -> float:
        return (self.turn.now_ms() - row.made_ms) / 1000

    def _backoff_s(self, row: Row, tries: int, outcome: Outcome) -> float:
        if outcome.retry_after_s is not None:
            return outcome.retry_after_s
        return min(BACKOFF_MAX_S, max(2.0 ** (tries - 2), self._age_s(row) / 4))

    async def _wait(self, row: Row, tries: int, outcome: Outcome) -> None:
        pause = self._backoff_s(row, tries, outcome)
        if outcome.kind == "rate_limited":
            await pace.hold(self.turn.mailbox.store, self.turn.stored.key, outcome, pause)
        await self.turn.mailbox.mark(self.turn.claim, row, "pending", row.ref, in_ms=int(pause * 1000))
        log(logger, "send delayed", level=logging.WARNING, reason=outcome.kind, detail=outcome.detail, pause_s=pause)
        await self._pause(pause)

    async def _pause(self, pause: float) -> None:
        """A short wait holds its place, a long one gives it to others."""
        if pause > self.settings.send_hold_s:
            raise Parked(pause)
        await asyncio.sleep(max(0.0, pause))

    async def _give_up(self, row: Row, outcome: Outcome, notice: str | None) -> None:
        """This part will not arrive: a dead letter for the operator, and a notice where one may help the person."""
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
        reason = f"send {outcome.kind}"
        record = Record("failed", turn.now_ms(), {"turn": turn.id, "reason": reason, "part": row.order})
        notices = self._notice(row, notice) if notice else []
        rows = [replace(row, state="given_up", since_ms=turn.now_ms()), *notices]
        await turn.mailbox.bury(turn.claim, turn.id, reason, records=[record], rows=rows, closes=False)
        turn.stored.history.extend([record])
        await self.send_all(notices)

    async def _tell(self, row: Row, phrase: str) -> None:
        notices = self._notice(row, phrase)
        await self.turn.write(rows=notices)
        await self.send_all(notices)

    def _notice(self, row: Row, phrase: str) -> list[Row]:
        """A row of the product's own about another row; about a notice there is none."""
        if row.key.endswith(NOTICE):
            return []
        text = say(phrase, self.turn.language)
        parts = self.adapter.render(Outbound(text, is_notice=True, only_for=row.part.get("only_for")))[:1]
        return [
            replace(
                one,
                key=row.key + NOTICE,
                order=row.order,
                to=without_handle(row.to),
                made_ms=row.made_ms,  # where a platform stays away, it is not waited for once more
                state="pending",  # it is no growing message, whatever became of that
                since_ms=0,
                ref=None,
            )
            for one in rows_for(self.turn, parts)
        ]


async def grown(turn: Turn, adapter: Adapter, rows: Sequence[Row]) -> dict[str, Row]:
    """Messages that a holder before us began to show, by key: they become the reply, so that none is left half."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.state == "live":
            found[row.key] = row
        elif row.state == "sending":
            if adapter.capabilities.look_back:
                seen = await adapter.find(turn.address, row.key, row.since_ms)
                found[row.key] = replace(row, state="live", ref=sent_ref(seen))
            elif not key_is_known(adapter.capabilities, row, turn.now_ms()):
                found[row.key] = replace(
                    row, state="live", ref=None
                )  # nobody can tell: no second one, the profile decides
    return found


def key_is_known(can: Capabilities, row: Row, now_ms: int) -> bool:
    """Whether the platform makes one message of a row that is sent once more."""
    age_ms = abs(now_ms - row.made_ms)  # far below 0: the clock was put back, and nobody knows how old it is
    return can.idempotent_send and age_ms < can.key_known_s * 1000


def sent_ref(outcome: Outcome) -> dict[str, Any] | None:
    return {"message_id": outcome.sent.message_id, "ref": outcome.sent.ref} if outcome.sent else None


def sent_of(ref: dict[str, Any]) -> Sent:
    return Sent(ref["message_id"], ref["ref"])
