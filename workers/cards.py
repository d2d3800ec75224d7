"""Cards: what the product itself says in the midst of a turn, such as a note that waits for an approver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.platforms import Adapter, Outbound
from workers.delivery import Delivery
from workers.turn import Turn, rows_for, stable_key, without_handle

BEFORE: Final = 10_000
"""What is not sent when the turn has ended goes out before its reply."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Of one turn. They are written in the script that writes what they tell of, and sent then."""

    turn: Turn
    adapter: Adapter

    def made(self, call_id: str, texts: Sequence[str]) -> tuple[list[Record], list[Row]]:
        """Records and rows of the cards that a call leads to, Markdown each."""
        records = [Record("card", self.turn.now_ms(), {"turn": self.turn.id, "text": text}) for text in texts]
        parts = [part for text in texts for part in self.adapter.render(Outbound(text, is_notice=True))]
        rows = [
            replace(
                row,
                key=stable_key(self.turn.stored.key.id, self.turn.id, "card", call_id, str(number)),
                order=number - BEFORE,
                to=without_handle(row.to),
                state="pending",
                since_ms=0,
                ref=None,
            )
            for number, row in enumerate(rows_for(self.turn, parts))
        ]
        return records, rows

    async def send(self, rows: Sequence[Row]) -> None:
        """Raises `Lost`, and `Parked` where the platform wants to be left alone: they are sent later then."""
        await Delivery(self.turn, self.adapter, self.turn.mailbox.settings).send_all(rows)
