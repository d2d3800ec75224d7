"""Visits: one request of one person, who they are, and what there is for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from config.loading import Loaded
from config.settings import Language
from gateway.acts.note_acts import NoteActs
from gateway.acts.outcomes import Refusal
from gateway.acts.rooms import NoConnection, NoRoom, room_named
from gateway.acts.skill_acts import EVERYWHERE, Acts, By
from gateway.conversation.key import ConversationKey
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.rooms import Rooms, rooms
from gateway.events import Actor, Event
from gateway.intake import Received
from gateway.rights import access
from gateway.rights.access import Approval, CommandUse, Here, Operator, Who, named_as
from gateway.rights.guests import is_guest_by_id
from gateway.rights.places import organisation, place
from gateway.rights.roles import SIGNED_IN
from gateway.shelf.notes import Notes
from gateway.shelf.shelf import Shelf
from gateway.store import Refused, Store

ROOMS_MAX: Final = 2_000
AT_ONCE: Final = 200
"""Rooms whose decisions are looked at side by side."""


@dataclass(frozen=True, slots=True)
class House:
    """What a process has for all visits."""

    store: Store
    mailbox: Mailbox
    shelf: Shelf
    notes: Notes
    loaded: Callable[[], Loaded]
    """Settings and profiles as they are now."""
    receive: Callable[[Sequence[Event]], Awaitable[Sequence[Received]]]
    """What somebody says, as if it came from the chat (`Intake.receive`)."""

    async def meets(self, caller: Caller) -> Caller:
        """Whoever signed in, with what is known of them now. Raises `Unreachable`."""
        if not caller.person:
            return caller
        return replace(caller, is_guest=await is_guest_by_id(self.store, self.loaded().settings, caller.person))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who signed in."""

    person: str = ""
    """`connection/id`, as roles name people; empty: the operator."""
    operator: str = ""
    """Whose account on the machine the operator has."""
    is_guest: bool | None = None
    """As `Actor.is_guest`; asked for each visit anew (`House.meets`) and kept nowhere."""

    @property
    def actor(self) -> Actor | None:
        connection, _, id_ = self.person.partition("/")
        return Actor.by_id(id_, connection=connection, is_guest=self.is_guest) if self.person else None

    @property
    def who(self) -> Who:
        return self.actor or (Operator(self.operator, SIGNED_IN) if self.operator else None)

    @property
    def name(self) -> str:
        """As the audit log names them."""
        return named_as(self.who, "")


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
    _rooms: list[Rooms] = field(default_factory=list, repr=False, compare=False)
    """What was found out once."""

    def key(self, channel: str) -> ConversationKey:
        """The room that is named `connection/channel`. Raises `Refusal`."""
        try:
            return room_named(self.loaded, channel)
        except NoConnection as error:
            closest = error.closest or ", ".join(error.there)
            raise Refusal("no_connection", name=error.name, closest=closest) from None
        except NoRoom:
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
            raise Refusal("unreadable", anew="deskmate skills anew --everywhere") from None

    def acts(self, channel: str) -> Acts:
        """What this person may do there. What holds for the whole organisation takes the right that is called so."""
        actor, here = self.caller.actor, self.here(channel)
        by = By(
            self.id,
            self.at_ms,
            self.caller.who,
            connection=actor.connection if actor else "",
            here=here,
            said_in=None if channel else here,
        )
        return Acts(self.house.shelf, self.loaded.settings.skills, by)

    def notes(self, channel: str) -> NoteActs:
        return NoteActs(self.acts(channel), self.house.notes)

    # ---- what this person may see ----

    async def look(self, channel: str) -> None:
        """Raises `Refusal` unless this person looks after that channel, or (empty) after all of them."""
        here = await self.here(channel)()
        if not access.looks_after(self.caller.who, here):
            rule = access.may(self.caller.who, here, CommandUse("skill off")).rule
            raise Refusal("look", rule=rule, who=self.caller.name)

    async def look_somewhere(self) -> None:
        """Raises `Refusal` unless there is a channel that this person looks after, or will be when somebody writes in it."""
        if not self.sees_all and not self._is_named() and not (await self.rooms()).keys:
            raise Refusal("look", rule="roles of all profiles", who=self.caller.name)

    def _is_named(self) -> bool:
        """Whether a profile of rooms on this person's connection names them, though nobody has written in one yet."""
        actor = self.caller.actor
        if actor is None or actor.connection not in self.loaded.settings.connections:
            return False
        # A pattern fits itself; what no rule fits has the profile `default`.
        names = {"*", *(rule.match.partition("/")[2] for rule in self.loaded.settings.channels)} - {""}
        there = (place(self.loaded, ConversationKey(actor.connection, name)) for name in names)
        return any(access.looks_after(self.caller.who, one) for one in there)

    def look_everywhere(self) -> None:
        """Raises `Refusal` for all but owners and the operator."""
        if not self.sees_all:
            raise Refusal("owners", rule=self.organisation.org_rule("people.owners", ""), who=self.caller.name)

    def speaker(self, channel: str) -> Actor:
        """This person, as somebody of that channel's connection: a word is said in their name. Raises `Refusal`."""
        connection, actor = self.key(channel).connection, self.caller.actor
        if actor is None or actor.connection != connection:
            raise Refusal("no_person", connection=connection, rule="a word is said by a person of the channel")
        return actor

    @property
    def sees_all(self) -> bool:
        """Whether this person looks after all channels: an owner, or the operator."""
        return access.may(self.caller.who, self.organisation, CommandUse(f"skill off {EVERYWHERE}")).allowed

    @property
    def organisation(self) -> Here:
        """The whole organisation as the files describe it."""
        return organisation(self.loaded)

    def may_here(self, command: str, here: Here) -> bool:
        """Whether this person may give that command there. For what is shown: each act asks again."""
        asked = command if here.room else f"{command} {EVERYWHERE}"
        return access.may(self.caller.who, here, CommandUse(asked)).allowed

    async def may_say_yes(self, key: ConversationKey, requester: str) -> bool:
        """Whether this person may say yes there to what is asked for on behalf of `requester`."""
        actor = self.caller.actor
        is_there = actor is not None and actor.connection == key.connection
        return is_there and access.may(actor, await self.now(key), Approval(requester)).allowed

    async def mine(self, keys: Iterable[ConversationKey]) -> list[ConversationKey]:
        """Those of these rooms that this person looks after, by what files say or by what was granted in the chat."""
        keys = list(keys)
        if self.sees_all:
            return keys
        by_files = {one.channel_id for one in keys if access.looks_after(self.caller.who, place(self.loaded, one))}
        rest = [one for one in keys if one.channel_id not in by_files]
        granted: set[str] = set()
        for at in range(0, len(rest), AT_ONCE):
            heres = await asyncio.gather(*(self.now(one) for one in rest[at : at + AT_ONCE]))
            granted |= {one.channel_id for one in heres if access.looks_after(self.caller.who, one)}
        return [one for one in keys if one.channel_id in by_files | granted]

    async def now(self, key: ConversationKey) -> Here:
        """A room with its decisions and without its skills: enough to tell who may what. Raises `Unreachable`."""
        try:
            seen = await self.house.shelf.look(key.channel_id)
        except (ValueError, Refused):  # what nobody can read grants nothing
            return place(self.loaded, key)
        return replace(place(self.loaded, key), own=seen.own)

    async def rooms(self) -> Rooms:
        """Those that somebody has written in or the settings name, and that this person looks after. Raises `Unreachable`."""
        if not self._rooms:
            known = await rooms(self.house.store, ROOMS_MAX)
            keys = {one.channel_id: one for one in (*self._named(), *known.keys)}
            ordered = sorted(keys.values(), key=lambda one: (one.connection, one.channel))
            self._rooms.append(Rooms(tuple(await self.mine(ordered)), known.is_whole))
        return self._rooms[0]

    def _named(self) -> Sequence[ConversationKey]:
        """What rules of the settings name whole."""
        found = []
        for rule in self.loaded.settings.channels:
            connection, _, name = rule.match.partition("/")
            if name and not set("*?[") & set(rule.match) and connection in self.loaded.settings.connections:
                found.append(ConversationKey(connection, name))
        return found
