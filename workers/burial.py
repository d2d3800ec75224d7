"""Burial: what a conversation has in hand is given up, with a dead letter for the operator and a notice for the person.

Whoever had it may have died of it. A burial is done in a process that has others beside it, so it reads nothing that could
kill once more (`gateway.conversation.in_hand`), and sends its notice itself: the next holder would have to read it all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from config.profiles import Profile
from gateway.conversation.claim import Claim
from gateway.conversation.in_hand import InHand
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox, Stored
from gateway.conversation.outbox import Row
from gateway.conversation.records import History, Record
from gateway.events import ReplyHandle
from gateway.logs import log
from gateway.phrases import say
from gateway.platforms import Adapter, Outbound
from workers.sending.delivery import NOTICE, Delivery, grown
from workers.turn import Turn, rows_for, stable_key, without_handle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Burial:
    """Of one claim."""

    mailbox: Mailbox
    claim: Claim
    left: InHand
    reason: str

    async def write(self) -> str:
        """The dead letter, where nobody can tell whom to tell. Whose turn it was; empty: there is nothing in hand. Raises `Lost`."""
        return await self._write(None, [])

    async def write_and_tell(self, key: ConversationKey, profile: Profile, adapter: Adapter) -> None:
        """The dead letter, and the notice, until its fate is known; without it where the platform's part breaks at it, else the
        conversation would come here again and again. Raises `Lost`, `Parked`.
        """
        turn = self._turn(key, profile)
        try:
            rows = await self._notice(turn, adapter)
        except Exception as error:  # noqa: BLE001  # whatever it is, the letter says what was given up
            c = self.claim.conversation
            log(
                logger, "no notice can be made", level=logging.ERROR, error=error, conversation=c, reference=turn.id[:8]
            )
            await self._write(None, [])
            return
        if await self._write(turn, rows):
            await Delivery(turn, adapter, self.mailbox.settings).send_all(rows)

    @property
    def _rows(self) -> Sequence[Row]:
        """Those that are given up themselves: with a turn open it is the turn."""
        return () if self.left.turn is not None else self.left.rows

    @property
    def _growing(self) -> Sequence[Row]:
        """Those that show the answer of the open turn, which never comes."""
        return [row for row in self.left.rows if self.left.turn is not None and _grows(row)]

    @property
    def _id(self) -> str:
        """Of the turn. One that is not begun has the id that it would have had."""
        left, c = self.left, self.claim.conversation
        if left.turn is not None:
            return str(left.turn.get("id") or stable_key(c, "turn"))
        if left.rows:
            return left.rows[0].turn or stable_key(c, left.rows[0].key)
        keys = left.event.get("dedupe_keys")
        return stable_key(str(keys[0]) if isinstance(keys, list) and keys else left.where, c)

    @property
    def _to(self) -> dict[str, Any]:
        """Where the notice goes; what of it nobody can read is left out."""
        left = self.left
        if left.turn is not None:
            to = left.turn.get("to")
        elif left.rows:
            to = without_handle(left.rows[0].to)
        else:
            actor = left.event.get("actor")
            locale = actor.get("language") if isinstance(actor, dict) else None
            to = {"extra": left.event.get("extra"), "handle": left.event.get("reply_handle"), "locale": locale}
        to = to if isinstance(to, dict) else {}
        extra, locale = to.get("extra"), to.get("locale")
        return {
            "extra": extra if isinstance(extra, dict) else {},
            "handle": _handle(to.get("handle")),
            "locale": locale if isinstance(locale, str) else None,
        }

    def _turn(self, key: ConversationKey, profile: Profile) -> Turn:
        """As much of it as a notice needs."""
        stored = Stored(key, 0, None, History(()), list(self.left.rows), [], [])
        state = {"id": self._id, "start": 0, "at_ms": self.mailbox.now_ms(), "to": self._to}
        return Turn(self.mailbox, self.claim, stored, profile, state)

    async def _notice(self, turn: Turn, adapter: Adapter) -> list[Row]:
        """What grew becomes it, so that none is left half. If nobody could be told before, nobody is told of that."""
        own = stable_key(self.claim.conversation, turn.id, "buried")
        if own in {row.key for row in self.left.rows}:
            return []
        growing = self._growing[:1]
        for row in (await grown(turn, adapter, growing)).values():
            turn.live_rows[turn.row_key(0)] = row
        text = say("turn.dead", turn.language, reference=turn.id[:8])
        rows = rows_for(turn, adapter.render(Outbound(text, is_notice=True)))
        keys = [growing[0].key if growing else own, *(f"{own}{number}" for number in range(1, len(rows)))]
        return [replace(row, key=key) for row, key in zip(rows, keys, strict=True)]

    async def _write(self, turn: Turn | None, rows: Sequence[Row]) -> str:
        left, now_ms, id_ = self.left, self.mailbox.now_ms(), self._id
        if left.turn is None and not left.rows and not left.where:
            return ""
        c = self.claim.conversation
        log(logger, "buried", level=logging.ERROR, conversation=c, reference=id_[:8], reason=self.reason)
        failed = {"turn": id_, "reason": self.reason}
        records = [Record("failed", now_ms, {**failed, "part": row.order}) for row in self._rows]
        if not self._rows:
            text = say("turn.dead", turn.language, reference=id_[:8]) if turn else ""
            told = [Record("reply", now_ms, {"turn": id_, "text": text, "notice": True})] if turn else []
            records = [Record("failed", now_ms, failed), *told]
        await self.mailbox.bury(
            self.claim,
            id_,
            self.reason,
            records=records,
            rows=rows,
            closes=left.turn is not None,
            takes="" if left.turn is not None or left.rows else left.where,
            given_up=[row.key for row in (self._rows if turn else [*self._rows, *self._growing])],
            used=left.used,
        )
        return id_


def _grows(row: Row) -> bool:
    """Does it show the answer of the open turn?"""
    return row.order == 0 and row.state in {"live", "sending"} and not row.key.endswith(NOTICE)


def _handle(stored: Any) -> dict[str, Any] | None:
    try:
        ReplyHandle.of(stored)
    except (TypeError, AttributeError):
        return None
    return dict(stored)
