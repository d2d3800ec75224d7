"""Visits: one request of one person, who they are, and what there is for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from config.checks import nearest
from config.loading import Loaded
from config.settings import Language
from gateway import access
from gateway.access import CommandUse, Here
from gateway.connections import PAGE
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.rooms import Rooms, rooms
from gateway.events import Actor
from gateway.platforms import webchat
from gateway.shelf.acts import OPERATOR, Acts, By
from gateway.shelf.note_acts import NoteActs
from gateway.shelf.notes import Notes
from gateway.shelf.outcomes import Refusal
from gateway.shelf.pairing import place
from gateway.shelf.shelf import Shelf
from gateway.store import Store

ROOMS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class House:
    """What a process has for all visits."""

    store: Store
    mailbox: Mailbox
    shelf: Shelf
    notes: Notes
    loaded: Callable[[], Loaded]
    """Settings and profiles as they are now."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who signed in."""

    person: str = ""
    """`connection/id`, as roles name people; empty: the operator."""
    operator: str = ""
    """Whose account on the machine the operator has."""

    @property
    def actor(self) -> Actor | None:
        connection, _, id_ = self.person.partition("/")
        return Actor(id_, connection=connection) if self.person else None

    @property
    def name(self) -> str:
        """As the audit log names them."""
        return self.person or f"{OPERATOR} {self.operator}".strip()


@dataclass(frozen=True)
class Visit:
    """Rights are asked for afresh each time: a role that was taken away is gone with the next request."""

    house: House
    caller: Caller
    id: str
    """The same when the same is tried again."""
    at_ms: int
    loaded: Loaded = field(repr=False)
    language: Language = "en"
    """Of what is told."""

    def key(self, channel: str) -> ConversationKey:
        """The room that is named `connection/channel`. Raises `Refusal`."""
        connection, _, name = channel.partition("/")
        there = sorted({PAGE[0], *self.loaded.settings.connections})
        if connection not in there:
            raise Refusal("no_connection", name=connection, closest=nearest(connection, there) or ", ".join(there))
        if connection == PAGE[0] and name != webchat.CHANNEL:
            raise Refusal("no_room", name=channel)
        try:
            return ConversationKey(connection, name)
        except ValueError:
            raise Refusal("no_room", name=channel) from None

    def here(self, channel: str) -> Callable[[], Awaitable[Here]]:
        """What holds in a channel, or (empty) for the whole organisation, afresh each time. Raises `Refusal`."""
        if channel:
            return partial(self.house.shelf.here, self.key(channel), self.loaded)
        return self._everywhere

    async def _everywhere(self) -> Here:
        try:
            return await self.house.shelf.everywhere(self.loaded)
        except ValueError:
            raise Refusal("unreadable") from None

    def acts(self, channel: str) -> Acts:
        """What this person may do there."""
        by = By(self.id, self.at_ms, self.caller.actor, operator=self.caller.operator, here=self.here(channel))
        return Acts(self.house.shelf, self.loaded.settings.skills, by)

    def notes(self, channel: str) -> NoteActs:
        return NoteActs(self.acts(channel), self.house.notes)

    async def look(self, channel: str) -> None:
        """Raises `Refusal` unless this person looks after that channel."""
        acts = self.acts(channel)
        here = await acts.by.here()
        if not acts.looks_after(here):
            self._refuse(here)

    def _refuse(self, here: Here) -> None:
        verdict = access.may(self.caller.actor, here, CommandUse("skill off"))
        raise Refusal("look", rule=verdict.rule, who=self.caller.name)

    async def look_somewhere(self) -> None:
        """Raises `Refusal` unless there is a channel that this person looks after."""
        if self.caller.actor is not None and not (await self.rooms()).keys:
            raise Refusal("look", rule="roles of all profiles", who=self.caller.name)

    def be_operator(self) -> None:
        """Raises `Refusal` for all others."""
        if self.caller.actor is not None:
            raise Refusal("operator", rule="who came by a link for the operator", who=self.caller.name)

    def may_here(self, command: str, here: Here) -> bool:
        """Whether this person may give that command there. For what is shown: each act asks again."""
        actor = self.caller.actor
        return actor is None or access.may(actor, here, CommandUse(command)).allowed

    def may(self, command: str, key: ConversationKey) -> bool:
        """The same by what files say of the room: Redis is not asked."""
        return self.may_here(command, place(self.loaded, key))

    def looks_after(self, key: ConversationKey) -> bool:
        """Whether this person switches or trusts skills in that room."""
        return self.may("skill off", key) or self.may("skill trust", key)

    async def rooms(self) -> Rooms:
        """Those that somebody has written in or the settings name, and that this person looks after. Raises `Unreachable`."""
        known = await rooms(self.house.store, ROOMS_MAX)
        named = self._named()
        keys = {one.channel_id: one for one in (*named, *known.keys) if self.looks_after(one)}
        ordered = sorted(keys.values(), key=lambda one: (one.connection, one.channel))
        return Rooms(tuple(ordered), known.is_whole)

    def _named(self) -> Sequence[ConversationKey]:
        """What rules of the settings name whole."""
        found = []
        for rule in self.loaded.settings.channels:
            connection, _, name = rule.match.partition("/")
            if name and not set("*?[") & set(rule.match) and connection in self.loaded.settings.connections:
                found.append(ConversationKey(connection, name))
        return found
