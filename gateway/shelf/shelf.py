"""The shelf: what holds in a channel, as Redis says it at the moment of asking; and the changes that people make to it."""

from __future__ import annotations

import asyncio
import logging
import operator
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from config.loading import Loaded
from config.profiles import Profile
from gateway.audit.log import REFUSALS_KEPT, Change, Made
from gateway.conversation.key import ConversationKey
from gateway.logs import log
from gateway.rights.access import Here
from gateway.rights.pairing import Pairing
from gateway.rights.places import organisation, place
from gateway.shelf.decisions import (
    HITL_FIELD,
    LOST,
    NO_REVISION,
    ORG,
    Always,
    Decisions,
    Installed,
    Switch,
    admin_field,
    always_field,
    bundle_field,
    scope_of,
    shown_field,
    switch_field,
    tool_field,
    trust_field,
    written,
)
from gateway.shelf.snapshot import Snapshot
from gateway.shelf.stock import Stock
from gateway.store import Refused, Store, reading, script_of
from skills import ids
from skills.bundles import Cache
from skills.folders import Content, Skill
from skills.library import Catalogue, Library
from skills.needs import unmet

logger = logging.getLogger(__name__)

CHANNELS_KEPT: Final = 10_000
SKILLS_KEPT: Final = 1_000_000
"""Channels with decisions of their own have catalogues of their own, of 20 to 40 bytes a skill: all of them together."""
ASIDE_S: Final = 30 * 86_400
"""How long what nobody could read is kept once its scope has begun anew."""
TELL_S: Final = 60.0
RELOAD_WAIT_S: Final = 8.0
RELOAD_LOOK_S: Final = 0.1


class NobodyPacks(Exception):
    """No process looks at the folders of skills now."""


class Readable(Exception):
    """What was decided can be read: nothing has to begin anew."""


class NoBundle(Exception):
    """Redis does not hold the bundle that is to be added."""


class OtherBundle(Exception):
    """Another bundle has taken the place of the one that was meant."""


class LookAlike(Exception):
    """A bundle is there already whose id can be mistaken for the one that is to be added. `str()` is that id."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found."""

    number: int
    hash: str
    wanted: int
    done: int
    org: Decisions
    own: Decisions


class Shelf:
    """One a process. What was read is kept as long as Redis says that it is still the same."""

    def __init__(
        self,
        store: Store,
        cache: Cache,
        *,
        present: Collection[str] | None,
    ) -> None:
        """`present`: names of the variables that are set where workers run; None: nobody here knows."""
        self.stock = Stock(store, cache)
        self.pairing = Pairing(store)
        self.harmful: dict[str, bool] = {}
        """Whether the scan found signs of harm in a bundle that waited, by its hash: bytes don't change."""
        self._store = store
        self._present = present
        self._org = Decisions()
        self._own: OrderedDict[str, Decisions] = OrderedDict()
        self._heres: OrderedDict[str, tuple[tuple[object, ...], Here]] = OrderedDict()
        """What holds in a channel, and of what it was made."""
        self._catalogues: tuple[Library, dict[Any, Catalogue]] = (Library({}), {})
        self._told_s: dict[str, float] = {}
        """When the log was last told of something that may come again and again."""

    async def warm(self) -> bool:
        """Read what the organisation has, before the first turn needs it. False: nothing was published yet.

        Raises `Unreachable`.
        """
        try:
            seen = await self.look()
            await self.stock.library(seen.number, seen.hash, seen.org)
        except (Refused, ValueError) as error:
            self._tell_unreadable(error)
            return True
        return seen.number > 0

    async def here(self, key: ConversationKey, loaded: Loaded) -> Here:
        """What holds in a channel now. Where the decisions can't be read, no skill and no tool is on. Raises `Unreachable`."""
        base, library = Library({}), Library({})
        waiting: Mapping[str, Skill] = {}
        seen = Seen(0, "", 0, 0, Decisions(), Decisions())
        made_of: tuple[object, ...] = ()
        try:
            seen = await self.look(key.channel_id)
            base = await self.stock.library(seen.number, seen.hash, seen.org)
            made_of = (base, loaded, seen.org, seen.own)
            before, known = self._heres.get(key.channel_id, ((), None))
            if known and all(map(operator.is_, before, made_of)):
                self._heres.move_to_end(key.channel_id)
                return known
            library, waiting = await self.stock.with_channel(seen.own)
        except (Refused, ValueError) as error:
            self._tell_unreadable(error)
            made_of = ()
        if made_of and self._catalogues[0] is not base:
            self._catalogues = (base, {})
            self._heres.clear()  # no snapshot is kept for the sake of a channel where nobody writes
        here = place(
            loaded,
            key,
            library=library,
            snapshot=(seen.number, seen.hash),
            org=seen.org,
            own=seen.own,
            waiting=waiting,
            unmet=self._unmet,
            is_readable=bool(made_of),
            catalogues=self._catalogues[1] if self._catalogues[0] is library else {},
        )
        if made_of:
            self._heres[key.channel_id] = (made_of, here)
            self._heres.move_to_end(key.channel_id)
            self._forget(min(CHANNELS_KEPT, SKILLS_KEPT // max(1, len(library.skills))))
        return here

    def _forget(self, kept: int) -> None:
        """What was not used for longest, beyond so many."""
        while len(self._heres) > kept:
            self._heres.popitem(last=False)
        catalogues = self._catalogues[1]
        while len(catalogues) > kept:
            del catalogues[next(iter(catalogues))]

    def _unmet(self, skill: Skill, profile: Profile) -> str | None:
        missing = unmet(skill.head, profile.program_env, self._present)
        return str(missing) if missing else None

    async def pinned(self, pin: Mapping[str, Any], here: Here) -> Library:
        """The skills that a turn began with (`Here.pin`); those of now where nobody can tell any more. Raises `Unreachable`."""
        if pin == here.pin:
            return here.library
        try:
            return await self.stock.pinned(pin)
        except (Refused, ValueError, KeyError, TypeError) as error:
            log(logger, "skills of the turn's start are gone", level=logging.WARNING, reason=str(error))
            return here.library

    async def look(self, channel_id: str = "") -> Seen:
        """One look, in one script. Raises `Unreachable`, and `ValueError` for decisions that nobody understands."""
        known = self._own.get(channel_id, Decisions())
        number, hash_, wanted, done, org, own = await self._run("look", channel_id, self._org.revision, known.revision)
        self._org = self._newer(ORG, self._org, org)
        known = self._newer(scope_of(channel_id), known, own)
        if channel_id:
            self._own[channel_id] = known
            self._own.move_to_end(channel_id)
            if len(self._own) > CHANNELS_KEPT:
                self._own.popitem(last=False)
        return Seen(number, hash_.decode(), wanted, done, self._org, known)

    def _newer(self, scope: str, known: Decisions, answer: Sequence[Any]) -> Decisions:
        """What a scope holds now, the same object as long as it is the same. Raises `ValueError`."""
        revision, fields = answer
        if fields is None or (not fields and revision.decode() == known.revision == NO_REVISION):
            return known
        try:
            found = Decisions.read(revision.decode(), _fields(fields))
        except ValueError as error:
            raise ValueError(f"{self._store.layout.skills_root}:{scope}: {error}") from error
        if found.is_before(known):
            self._tell(
                "switches are older than before: what is there now counts",
                f"{scope} has revision {found.revision}, and had {known.revision}",
                "were older contents of Redis put back? deskmate audit shows which changes are still known",
            )
        return found

    async def refused(self, change: Change, what: str, thing: str) -> None:
        """Keep a line about something that was refused, among the latest of these; with the same id it stays one line.

        Raises `Unreachable`.
        """
        await self._run("refused", change.line(what, thing), change.id, REFUSALS_KEPT)

    async def note(self, change: Change, what: str, thing: str, before: str = "", after: str = "") -> None:
        """Keep a line for good about something that was done and is stored elsewhere, or only seen; with the same id, if it has
        one, it stays one line. Raises `Unreachable`.
        """
        await self._run("noted", change.line(what, thing), change.id, before, after)

    async def made(self, change: Change) -> Made | None:
        """What this very change did, if it was made already and its answer was lost on the way. Raises `Unreachable`."""
        with reading():
            kept: Any = await self._store.redis.get(f"{self._store.layout.skills_root}:made:{change.id}")
        return Made.read(kept) if kept else None

    async def everywhere(self, loaded: Loaded) -> Here:
        """What holds for the whole organisation, under no channel's profile. Raises `Unreachable`, `ValueError`."""
        seen = await self.look()
        library = await self.stock.library(seen.number, seen.hash, seen.org)
        return organisation(loaded, library=library, org=seen.org)

    def _tell_unreadable(self, error: Exception) -> None:
        self._tell(
            "switches can't be read: no skill and no tool is on",
            f"{type(error).__name__}: {error}",
            f"look at the keys {self._store.layout.skills_root}:org and :ch:*; what is gone: deskmate skills anew --help",
        )

    def _tell(self, event: str, reason: str, advice: str) -> None:
        """Tell the operator, not more often than once a minute."""
        now_s = time.monotonic()
        if now_s - self._told_s.get(event, -TELL_S) >= TELL_S:
            self._told_s[event] = now_s
            log(logger, event, level=logging.ERROR, reason=reason, advice=advice)

    # ---- changes: one that is made again tells what it did when it was made ----

    async def switch(self, scope: str, skill_id: str, to: Switch, change: Change) -> Made:
        """Switch a skill for a scope (`ORG`, or `scope_of` a channel). Raises `Unreachable`."""
        value = written(change.who, change.at_ms, to=to)
        return await self._decide(change, scope, switch_field(skill_id), value, (f"skill {to}", skill_id))

    async def switch_tool(self, channel_id: str, name: str, shown: str, to: Switch, change: Change) -> Made:
        """Switch a tool off in a channel, or leave it to the profile again. `shown`: what people call it.

        Raises `Unreachable`.
        """
        value = written(change.who, change.at_ms, to=to) if to == "off" else ""
        told = (f"tool {to}", name if shown == name else f"{shown} {name}")
        return await self._decide(change, scope_of(channel_id), tool_field(name), value, told)

    async def watch_calls(self, channel_id: str, to: Switch, change: Change) -> Made:
        """Switch for a channel whether each call with an effect wants a person's yes. Raises `Unreachable`."""
        value = written(change.who, change.at_ms, to=to)
        return await self._decide(change, scope_of(channel_id), HITL_FIELD, value, (f"hitl {to}", "calls"))

    async def allow_always(self, channel_id: str, bound: str, call: Always, change: Change) -> Made:
        """Let calls of exactly this form run without a question in a channel. Raises `Unreachable`."""
        value = written(change.who, change.at_ms, tool=call.tool, form=call.form)
        told = ("approve always", f"{call.tool} {bound}")
        return await self._decide(change, scope_of(channel_id), always_field(bound), value, told)

    async def ask_again(self, channel_id: str, bound: str, call: Always, change: Change) -> Made:
        """Take that back. Raises `Unreachable`."""
        told = ("hitl forget", f"{call.tool} {bound}")
        return await self._decide(change, scope_of(channel_id), always_field(bound), "", told)

    async def name_admin(self, channel_id: str, person: str, change: Change, *, is_one: bool) -> Made:
        """Make somebody (`connection/id`) an admin of this channel alone, or no longer one. Raises `Unreachable`."""
        value = written(change.who, change.at_ms) if is_one else ""
        told = ("role grant" if is_one else "role revoke", f"channel_admin {person}")
        return await self._decide(change, scope_of(channel_id), admin_field(person), value, told)

    async def trust(self, channel_id: str, skill: Skill, change: Change) -> Made:
        """Say that exactly these bytes are trusted in a channel. Raises `OtherBundle` if they are not what is there now."""
        return await self._decide(
            change,
            scope_of(channel_id),
            trust_field(skill.id, skill.hash),
            written(change.who, change.at_ms),
            ("skill trust", f"{skill.id} {skill.hash}"),
            (bundle_field(skill.id), skill.hash),
        )

    async def shown(self, channel_id: str, skill: Skill, change: Change) -> None:
        """A bundle that waits for trust was shown to this person. Raises `OtherBundle`, `Unreachable`."""
        await self._decide(
            change,
            scope_of(channel_id),
            shown_field(skill.id, change.who),
            written(change.who, change.at_ms, bundle=skill.hash),
            ("skill show", f"{skill.id} {skill.hash}"),
            (bundle_field(skill.id), skill.hash),
        )

    async def add(self, scope: str, skill: Skill, contents: Mapping[str, Content], change: Change) -> Made:
        """Add a bundle, or put it in the place of the one that has its id. Raises `LookAlike`, `Unreachable`."""
        value = written(change.who, change.at_ms, id=skill.id, key=ids.key(skill.id), bundle=skill.hash)
        told = ("skill add", f"{skill.id} {skill.hash}")
        await self.stock.put(skill.hash, contents)
        try:
            return await self._decide(change, scope, bundle_field(skill.id), value, told)
        except NoBundle:  # the day that it is kept without a name ended between the two
            await self.stock.put(skill.hash, contents)
            return await self._decide(change, scope, bundle_field(skill.id), value, told)

    async def remove(self, scope: str, installed: Installed, change: Change) -> Made:
        """Take away a bundle that was added. Its switch and its trust stay. Raises `OtherBundle`, `Unreachable`."""
        where = (bundle_field(installed.id), installed.bundle)
        told = ("skill remove", f"{installed.id} {installed.bundle}")
        return await self._decide(change, scope, where[0], "", told, where)

    async def begin_anew(self, scope: str, change: Change) -> None:
        """Where what was decided is gone, or nobody can read it: nothing is decided from now on, so that what was off is on.

        What lies there is put aside for `ASIDE_S`. Raises `Readable`, `OtherBundle` if it changed meanwhile, `Unreachable`.
        """
        revision = await self._unread(scope)
        told = change.line("skill anew", "")
        if await self._run("anew", change.id, scope, told, revision, ASIDE_S) == b"CHANGED":
            raise OtherBundle(scope)

    async def unread(self, scopes: Collection[str] | None = None) -> list[str]:
        """Those of these scopes (None: of all where somebody decided) of which nothing is left, or which nobody can read.

        Raises `Unreachable`.
        """
        if scopes is None:
            with reading():
                redis: Any = self._store.redis
                listed: set[bytes] = await redis.smembers(f"{self._store.layout.skills_root}:decided")
            scopes = {ORG, *(scope.decode("utf-8", "replace") for scope in listed)}
        found = []
        for scope in sorted(scopes):
            with suppress(Readable):
                await self._unread(scope)
                found.append(scope)
        return found

    async def _unread(self, scope: str) -> str:
        """The revision, if there is one, of what nobody can read. Raises `Readable`, `Unreachable`."""
        revision = ""
        try:
            with reading():
                redis: Any = self._store.redis
                is_listed = await redis.sismember(f"{self._store.layout.skills_root}:decided", scope)
                found: dict[bytes, bytes] = await redis.hgetall(f"{self._store.layout.skills_root}:{scope}")
            revision = found.get(b"rev", b"").decode()
            stored = {name.decode(): value.decode() for name, value in found.items()}
            Decisions.read(LOST if is_listed and not found else revision or NO_REVISION, stored)
        except (Refused, ValueError):  # no hash, or what is in it is no decision
            return revision
        raise Readable(scope)

    async def reload(self, change: Change) -> Seen:
        """Have the folders looked at again, and wait until that is published. Raises `NobodyPacks`, `Unreachable`."""
        wish = await self._run("reload_want", change.id)
        deadline_s = time.monotonic() + RELOAD_WAIT_S
        while time.monotonic() < deadline_s:
            seen = await self.look()
            if seen.done >= wish:
                return seen
            await asyncio.sleep(RELOAD_LOOK_S)
        raise NobodyPacks("no gateway runs that looks at skills.folder")

    async def reloaded(self, change: Change, number: int) -> tuple[Snapshot, Snapshot]:
        """What the reload before this one told of, and what is there with this number. Raises `Unreachable`, `ValueError`."""
        before = await self._run("reload_told", change.id, change.line("skill reload", ""), number)
        now = await self.stock.snapshot(number)
        try:
            return await self.stock.snapshot(before), now
        except ValueError:
            return now, now  # it ran out: nobody can tell any more

    async def _decide(  # a row of fields, as the script takes them
        self, change: Change, scope: str, field: str, value: str, told: tuple[str, str], *conditions: tuple[str, str]
    ) -> Made:
        flat = [text for one in conditions for text in one]
        verdict, answer = await self._run(
            "decide", change.id, scope, field, value, change.line(*told), len(conditions), *flat
        )
        match verdict:
            case b"OK" | b"DONE":
                return Made.read(answer)
            case b"NO_BUNDLE":
                raise NoBundle(told[1])
            case b"LOOK_ALIKE":
                raise LookAlike(Installed.read(answer.decode()).id)
        raise OtherBundle(told[1])

    async def _run(self, name: str, *arguments: str | bytes | float) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._store.layout.skills_root, *arguments)


def _fields(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}
