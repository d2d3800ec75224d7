"""Acts about dead letters, on the admin pages or on the command line, with one set of rules for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.acts.outcomes import Refusal
from gateway.acts.skill_acts import Acts
from gateway.audit.log import Change
from gateway.commands import said_to_model
from gateway.conversation.letters import Letter, done_away, done_in, letter, number_of
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Event
from gateway.rights.access import Here

RETRY, DROP = "dead retry", "dead drop"
_KINDS: Final[Mapping[str, str]] = {
    "gone": "no_letter",
    "forgotten": "letter_forgotten",
    "full": "inbox_full",
    "cold": "unreadable",
}


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

    async def retry(self, id_: str) -> Letter:
        """What its turn answered is asked once more, by the same people, and they have the rights that they have now. Gives the
        letter as it was: that is off the list.
        """
        here, rule = await self.acts.may(RETRY)
        found = await self._done(id_)
        if found is None:
            found = await self.find(id_, here)
            said = _said(await done_in(self.mailbox.store, found))
            if found.key is None or not said:
                raise Refusal("letter_forgotten", id=id_)
            # Without what to reply by: it was for the first reply, and ran out. Other keys than before make it another turn.
            again = [
                replace(event, reply_handle=None, dedupe_keys=(f"dead:{found.id}:{number}",)).dump()
                for number, event in enumerate(said)
            ]
            await self._note_begun(here, rule, RETRY, found)
            became = await self.mailbox.retry(found.key, number_of(id_), again, act=self.acts.by.id)
            await self._see(became, RETRY, found)
        await self._note(self.acts.change(here, rule), RETRY, found)
        return found

    async def drop(self, id_: str) -> Letter:
        """It is not listed any more. What was said stays in its conversation. Gives the letter as it was."""
        here, rule = await self.acts.may(DROP)
        found = await self._done(id_)
        if found is None:
            found = await self.find(id_, here)
            await self._note_begun(here, rule, DROP, found)
            became = await self.mailbox.drop(found.conversation, number_of(id_), act=self.acts.by.id)
            await self._see(became, DROP, found)
        await self._note(self.acts.change(here, rule), DROP, found)
        return found

    async def _done(self, id_: str) -> Letter | None:
        """The letter, if this very act was done to it already, and its answer was lost on the way."""
        return await done_away(self.mailbox.store, id_, self.acts.by.id)

    async def _note_begun(self, here: Here, rule: str, what: str, found: Letter) -> None:
        """In front of it, so that nothing is done without a line: the one that says it was done is written after it."""
        change = replace(self.acts.change(here, rule), id=f"{self.acts.by.id} begun")
        await self._note(change, f"{what} begun", found)

    async def _note(self, change: Change, what: str, found: Letter) -> None:
        thing = f"{found.id} {found.conversation[:8]} {found.turn[:8]}"
        await self.acts.shelf.note(change, what, thing, before="; ".join(found.reasons))

    async def _see(self, became: str, what: str, found: Letter) -> None:
        """Raises `Refusal` where it was not done, with a line that says so."""
        if became != "ok":
            refusal = Refusal(_KINDS[became], id=found.id)
            await self.acts.refused(what, found.id, refusal)
            raise refusal


def _said(records: Sequence[Record]) -> list[Event]:
    """What a turn answered; commands that were run beside it are none of that."""
    try:
        said = [Event.of(dict(one.data["event"])) for one in records if one.type == "event"]
    except (KeyError, ValueError):
        return []
    return [event for event in said if said_to_model(event)] or said
