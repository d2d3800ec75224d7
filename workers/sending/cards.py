"""Cards: what goes out in the midst of a turn: a note that waits for an approver, a file that a tool made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.conversation.outbox import Row
from gateway.conversation.records import Record
from gateway.events import Attachment
from gateway.files import Files
from gateway.platforms import Adapter, Outbound, Part
from workers.sending.delivery import Delivery
from workers.sending.links import Links
from workers.turn import Turn, rows_for, stable_key, without_handle

BEFORE: Final = 10_000
"""What is not sent when the turn has ended goes out before its reply."""
ABOVE: Final = -BEFORE - 1
"""The place of what has grown until a card came: before the card."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Of one turn. They are written in the script that writes what they tell of, and sent then."""

    turn: Turn
    adapter: Adapter

    def made(
        self, call_id: str, cards: Sequence[Outbound], files: Sequence[Attachment] = ()
    ) -> tuple[list[Record], list[Row]]:
        """Records and rows of the cards and files that a call leads to. The files' bytes are kept already."""
        at_ms, turn, links = self.turn.now_ms(), self.turn.id, Links(self.turn, self.adapter.capabilities)
        cards = [card if card.is_notice else replace(card, markdown=links.harmless(card.markdown)) for card in cards]
        records = [Record("card", at_ms, {"turn": turn, **_told(card)}) for card in cards]
        records += [Record("file", at_ms, {"turn": turn, "file": file.dump()}) for file in files]
        most = self.adapter.capabilities.buttons
        fitting = [replace(card, buttons=card.buttons[:most]) for card in cards]
        parts = [part for card in fitting for part in self.adapter.render(card)]
        parts += [Part(file=file) for file in files]
        rows = [
            replace(
                row,
                key=stable_key(self.turn.stored.key.id, self.turn.key("card", call_id, str(number))),
                order=number - BEFORE,
                to=without_handle(row.to),
                state="pending",
                since_ms=0,
                ref=None,
            )
            for number, row in enumerate(rows_for(self.turn, parts))
        ]
        return records, rows

    async def keep(self, file: Attachment) -> Attachment:
        """Put a file's bytes where any worker finds them. Raises `Unreachable`."""
        return await Files(self.turn.mailbox.store).put(self.turn.stored.key.id, file)

    async def send(self, rows: Sequence[Row]) -> None:
        """Raises `Lost`, and `Parked` where the platform wants to be left alone: they are sent later then."""
        await Delivery(self.turn, self.adapter, self.turn.mailbox.settings).send_all(rows)


def _told(card: Outbound) -> dict[str, Any]:
    """As a record has it."""
    buttons = [[one.label, one.command, one.style] for one in card.buttons]
    return {"text": card.markdown} | ({"buttons": buttons} if buttons else {})
