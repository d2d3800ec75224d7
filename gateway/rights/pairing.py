"""Pairing: who may write to us directly, where anybody in the world could. Whom nobody knows gets a code; somebody who looks
after the channel lets them in with it. What they write before is stored nowhere, so that no model ever reads it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from gateway.audit.log import REFUSALS_KEPT, Change
from gateway.conversation.key import ConversationKey, of_parts
from gateway.events import Actor, Event
from gateway.once import Once
from gateway.rights.access import Here, Talk, Verdict, may
from gateway.rights.roles import person_of
from gateway.shelf.decisions import written
from gateway.store import Store, reading, script_of
from gateway.stored import mapping
from skills import ids

COMMAND: Final = "pair"
SIGNS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Of a code: none that looks like another one."""
CODE_SIGNS: Final = 8
WAIT_MS: Final = 3_600_000
"""How long a code counts."""
TOLD_MS: Final = 600_000
"""Somebody who writes on is told again after this."""
LIMITS: Final[Mapping[str, int]] = {
    "wait_ms": WAIT_MS,
    "waiting": 50,  # of one connection at once: who sends from many accounts fills nothing up
    "asked": 5,  # codes of one person
    "asked_ms": 86_400_000,
    "refusals": REFUSALS_KEPT,
    "wrong": 20,  # codes that somebody tries in vain
    "wrong_ms": 3_600_000,
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What became of somebody's wish to be let in."""

    state: Literal["paired", "new", "waits", "full", "often"]
    code: str = ""
    left_ms: int = 0


@dataclass(frozen=True, slots=True)
class Waits:
    """Somebody who waits to be let in."""

    person: str
    """`connection/id`."""
    name: str
    """What they call themselves: that proves nothing."""
    key: ConversationKey
    """Where they wrote."""
    at_ms: int

    def dump(self) -> str:
        """As JSON; `_waits` reads its parts."""
        is_ = json.dumps({"name": self.name, "key": self.key.parts()}, ensure_ascii=False)
        return json.dumps([self.person, is_, self.at_ms], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class LetIn:
    """Somebody who was let in."""

    person: str
    by: str
    name: str
    at_ms: int
    key: ConversationKey | None
    """Where they had written. None: nobody knows any more."""


class TooMany(Exception):
    """So many wrong codes came from there that none is looked at for a while."""


def knock(event: Event) -> Event:
    """What is left of an event of somebody who is not heard: that they were there."""
    return Event(
        kind="command",
        name=COMMAND,
        conversation=event.conversation,
        actor=event.actor,
        dedupe_keys=event.dedupe_keys,
        at_ms=event.at_ms,
        message_id=event.message_id,
        is_direct=event.is_direct,
        reply_handle=event.reply_handle,
        extra=event.extra,
    )


class Pairing:
    """One a process. All methods raise `Unreachable`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._root = store.layout.skills_root

    async def heard(self, here: Here, actor: Actor, *, is_direct: bool) -> Verdict:
        """Whether somebody is answered here."""
        verdict = may(actor, here, Talk(is_direct))
        if verdict.reason == "unpaired":
            is_paired = await self.is_paired(person_of(here.room, actor))
            return may(actor, here, Talk(is_direct, is_paired=is_paired))
        return verdict

    async def is_paired(self, person: str) -> bool:
        """Whether somebody (`connection/id`) was let in."""
        with reading():
            return bool(await self._store.redis.hexists(f"{self._root}:paired", person))

    def telling(self, here: Here, actor: Actor) -> Once:
        """When something is said to somebody who is not heard."""
        return Once(self._root, f"pair:told:{person_of(here.room, actor)}", TOLD_MS)

    async def ask(self, here: Here, event: Event) -> Ask:
        """A code for somebody, the same as long as it counts."""
        person, code = person_of(here.room, event.actor), new_code()
        connection = event.conversation.connection
        is_ = json.dumps({"name": event.actor.name[:100], "key": event.conversation.parts()}, ensure_ascii=False)
        change = Change("", person, here.room, here.channel_id, here.rule("direct", ""))
        said = change.line("pair asked", person)
        state, *rest = await self._run(
            "pair_ask", person, connection, code, _hashed(code), is_, json.dumps(LIMITS), said
        )
        return Ask(state.decode().lower(), *((rest[0].decode(), int(rest[1])) if rest else ()))

    async def find(self, code: str, who: str) -> Waits | None:
        """Whose code it is. None: nobody's, or its time is over. Raises `TooMany`."""
        answer, *rest = await self._run("pair_find", _hashed(code), who, json.dumps(LIMITS))
        if answer == b"WRONG":
            raise TooMany
        return _waits(*rest) if answer == b"OK" else None

    async def accept(self, waits: Waits, code: str, change: Change) -> bool:
        """Let somebody in. False: the code does not count any more."""
        value = written(change.who, change.at_ms, name=waits.name, key=waits.key.dumped)
        said = change.line("pair accept", waits.person)
        answer = await self._run(
            "pair_accept", change.id, waits.key.connection, waits.person, _hashed(code), value, said, waits.dump()
        )
        return bool(answer != b"GONE")

    async def done(self, change: Change) -> Waits | None:
        """Whom this very change let in, if it was made already and its answer was lost on the way."""
        kept = await self._made(change)
        return _waits(*json.loads(kept)) if kept else None

    async def was_ended(self, change: Change) -> bool:
        """Whether this very change was made already."""
        return await self._made(change) is not None

    async def _made(self, change: Change) -> Any:
        with reading():
            return await self._store.redis.get(f"{self._root}:made:{change.id}")

    async def end(self, person: str, change: Change) -> bool:
        """Somebody is not let in any more. False: they were not."""
        answer = await self._run("pair_end", change.id, person, change.line("pair end", person))
        return bool(answer != b"NONE")

    async def waiting(self, connections: Iterable[str]) -> list[Waits]:
        """Those who wait for somebody's word, who came last at the end."""
        return [_waits(*one) for one in await self._run("pair_list", *connections)]

    async def let_in(self) -> list[LetIn]:
        """All who were let in, who came last at the end."""
        with reading():
            found: Any = await self._store.redis.hgetall(f"{self._root}:paired")
        return sorted((_let_in(person.decode(), value) for person, value in found.items()), key=lambda one: one.at_ms)

    async def _run(self, name: str, *arguments: str | int) -> Any:
        return await self._store.run(script_of("gateway.shelf", name), self._root, *arguments)


def new_code() -> str:
    return "".join(secrets.choice(SIGNS) for _ in range(CODE_SIGNS))


def shown(code: str) -> str:
    """As people read it out to each other."""
    return f"{code[: CODE_SIGNS // 2]}-{code[CODE_SIGNS // 2 :]}"


def is_code(text: str) -> bool:
    """Whether it has the form of one, however it is read out: else it is something else that was meant."""
    return bool(_form().fullmatch(_plain(text)))


def _hashed(code: str) -> str:
    """What a code is looked for by: how long a look takes tells nothing of the codes that there are."""
    return hashlib.sha256(_plain(code).encode()).hexdigest()


def _plain(code: str) -> str:
    """Case, width, blanks, dashes and look-alikes are no difference."""
    signs = (one for one in unicodedata.normalize("NFKC", code).upper() if one not in "-‐‑–—" and one.strip())
    return ids.skeleton("".join(signs))


@cache
def _form() -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(re.escape(ids.skeleton(one)) for one in SIGNS)}){{{CODE_SIGNS}}}")


def _waits(person: str | bytes, is_: str | bytes, at_ms: bytes | int) -> Waits:
    said = mapping(is_)
    whose = person.decode() if isinstance(person, bytes) else person
    return Waits(whose, str(said.get("name", "")), of_parts(said["key"]), int(at_ms))


def _let_in(person: str, value: bytes) -> LetIn:
    said = mapping(value)
    key = of_parts(json.loads(said["key"])) if said.get("key") else None
    return LetIn(person, str(said.get("by", "")), str(said.get("name", "")), int(said.get("at", 0)), key)
