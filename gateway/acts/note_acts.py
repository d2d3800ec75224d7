"""What people do about notes: see which there are, decide on those that wait, take back and end those that count."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gateway.acts.outcomes import Listed, Noted, NotedAs, Refusal
from gateway.acts.skill_acts import Acts, overtaken
from gateway.audit.log import Change
from gateway.rights.access import SkillUse, may
from gateway.shelf.notes import EVERYWHERE, Decided, Full, NoNote, Notes, OtherNotes, Since
from skills import ids
from skills.notes import Note, State

LISTED_MAX: Final = 40
_SPAN: Final = re.compile(r"(\d{1,4})([hd])")
_UNITS: Final = {"h": "hours", "d": "days"}
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_BECOMES: Final[Mapping[NotedAs, Collection[State]]] = {
    "approved": {"kept"},
    "rejected": {"rejected"},
    "reverted": {"reverted"},
    "ends": {"kept", "expired"},
    "promoted": {"kept"},
}
"""What a note is as long as what was done about it holds."""


@dataclass(frozen=True)
class NoteActs:
    """One person's acts. All methods raise `Refusal` and `Unreachable`."""

    acts: Acts
    notes: Notes

    async def list(self) -> Listed:
        here, _ = await self.acts.may("skill notes list")
        everywhere = await self.notes.list(EVERYWHERE, "kept", most=LISTED_MAX)
        if not here.room:
            return Listed((), (), everywhere, here.profile.timezone)
        waiting = await self.notes.list(here.channel_id, "waiting", most=LISTED_MAX)
        kept = await self.notes.list(here.channel_id, "kept", most=LISTED_MAX)
        return Listed(waiting, kept, everywhere, here.profile.timezone)

    async def show(self, code: str) -> Noted:
        """A note that waits, or one to a skill that is not on here, is for those who may decide on it or look after skills."""
        here, _ = await self.acts.may("skill notes show")
        try:
            note = await self.notes.find(here.channel_id, code)
        except NoNote:
            raise Refusal("no_note", code=code) from None
        if note.state == "pending" and not self.acts.looks_after(here):
            raise Refusal("note_waits", code=note.code)
        skill = here.library.skills.get(ids.key(note.skill))
        if not self.acts.looks_after(here) and not (skill and may(None, here, SkillUse(skill, "read")).allowed):
            raise Refusal("hidden", id=note.skill)
        return Noted("shown", note, here.profile.timezone)

    async def approve(self, code: str) -> Noted:
        """It counts from now on. Raises `Refusal` of the kind `note_changed` with what it would replace now."""
        return await self._change("skill approve", code, "approved", lambda change, _: self.notes.approve(change, code))

    async def reject(self, code: str) -> Noted:
        return await self._change("skill reject", code, "rejected", lambda change, _: self.notes.reject(change, code))

    async def revert(self, code: str) -> Noted:
        return await self._change(
            "skill notes revert", code, "reverted", lambda change, _: self.notes.revert(change, code)
        )

    async def expire(self, code: str, when: str) -> Noted:
        """`when`: `now`, `never`, hours or days such as `12h` and `7d`, or a day, at whose begin it ends in the channel's
        time zone.
        """
        return await self._change(
            "skill notes expire",
            code,
            "ends",
            lambda change, zone: self.notes.expire(change, code, until(when, change.at_ms, zone)),
        )

    async def promote(self, code: str) -> Noted:
        """From now on all channels read it, under another code."""
        return await self._change(
            "skill notes promote", code, "promoted", lambda change, _: self.notes.promote(change, code)
        )

    async def _change(
        self, command: str, code: str, what: NotedAs, do: Callable[[Change, str], Awaitable[Note]]
    ) -> Noted:
        """`do` gets the channel's time zone, too."""
        here, rule = await self.acts.may(command)
        zone = here.profile.timezone
        try:
            if not self.acts.by.is_operator and (await self.notes.find(here.channel_id, code)).is_everywhere:
                raise Refusal("note_everywhere", code=code.upper())
            note = await do(self.acts.change(here, rule), zone)
        except NoNote:
            raise Refusal("no_note", code=code) from None
        except Decided as error:
            raise Refusal("note_decided", code=error.note.code, state=error.note.state) from None
        except Full as error:
            raise Refusal("note_full", code=code, reason=str(error)) from None
        except OtherNotes as error:
            raise Refusal("note_changed", code=code, note=error.note, replaces=error.replaces) from None
        except Since as error:
            raise overtaken(command, error.note.code, "/skill notes") from None
        if note.state not in _BECOMES[what]:
            raise overtaken(command, note.code, "/skill notes")
        return Noted(what, note, zone)


def until(when: str, now_ms: int, timezone: str) -> int | None:
    """The time that words mean, in ms; None: never. Raises `Refusal`, also for what is past: that may be a slip."""
    text = when.strip().lower()
    if text in {"now", "never"}:
        return now_ms if text == "now" else None
    at_ms: int | None = None
    if span := _SPAN.fullmatch(text):
        at_ms = now_ms + int(timedelta(**{_UNITS[span[2]]: int(span[1])}).total_seconds() * 1_000)
    elif _DAY.fullmatch(text):
        with suppress(ValueError):  # there is no such day
            at_ms = int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1_000)
    if at_ms is None:
        raise Refusal("when", when=when)
    if at_ms <= now_ms:
        raise Refusal("when_past", when=when)
    return at_ms
