"""Acts about dead letters, on the admin pages or on the command line, with one set of rules for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts
from gateway.commands import said_to_model
from gateway.conversation.letters import Letter, done_in, drop, letter
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.rights.access import Here

_KINDS: Final[Mapping[str, str]] = {"gone": "no_letter", "full": "inbox_full", "cold": "unreadable"}


@dataclass(frozen=True)
class LetterActs:
    """One person's. All methods raise `Refusal` and `Unreachable`."""

    acts: Acts
    mailbox: Mailbox

    async def find(self, id_: str, here: Here) -> Letter:
        """A letter of that place; where it is the whole organisation, any."""
        found = await letter(self.mailbox.store, id_)
        if found is None or (here.room and (found.key is None or found.key.channel_id != here.channel_id)):
            raise Refusal("no_letter", id=id_)
        return found

    async def retry(self, id_: str) -> None:
        """What its turn answered is asked once more, by the same people, and they have the rights that they have now."""
        here, rule = await self.acts.may("dead retry")
        found = await self._begin(id_, here)
        if found is None:
            return
        said = _said(await done_in(self.mailbox.store, found))
        if found.key is None or not said:
            raise Refusal("letter_forgotten", id=id_)
        # Without what to reply by: it was for the first reply, and ran out. Other keys than before make it another turn.
        again = [
            replace(event, reply_handle=None, dedupe_keys=(f"dead:{found.id}:{number}",))
            for number, event in enumerate(said)
        ]
        await self._note(here, rule, "dead retry", found)
        became = await self.mailbox.retry(found.key, found.number, [event.dump() for event in again])
        if became != "ok":
            raise Refusal(_KINDS[became], id=id_)

    async def drop(self, id_: str) -> None:
        """It is not listed any more. What was said stays in its conversation."""
        here, rule = await self.acts.may("dead drop")
        found = await self._begin(id_, here)
        if found:
            await self._note(here, rule, "dead drop", found)
            await drop(self.mailbox.store, found)

    async def _begin(self, id_: str, here: Here) -> Letter | None:
        """None: this very act was done already, and its answer was lost on the way."""
        try:
            return await self.find(id_, here)
        except Refusal:
            if await self.acts.shelf.was_noted(self.acts.change(here, "")):
                return None
            raise

    async def _note(self, here: Here, rule: str, what: str, found: Letter) -> None:
        thing = f"{found.id} {found.conversation[:8]} {found.turn[:8]}"
        await self.acts.shelf.note(self.acts.change(here, rule), what, thing, before=found.reason)


def _said(records: Sequence[Record]) -> list[Event]:
    """What a turn answered; commands that were run beside it are none of that."""
    try:
        said = [Event.of(dict(one.data["event"])) for one in records if one.type == "event"]
    except (KeyError, ValueError):
        return []
    return [event for event in said if said_to_model(event)] or said
