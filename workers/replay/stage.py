"""The stage: a worker's desk on a Redis of its own, where a case is played from its first record to its reply."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from config.loading import Loaded
from config.settings import RecordingSettings, RedisSettings, Settings
from gateway.audit.log import Change
from gateway.conversation.claim import Claim
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.records import Record
from gateway.events import Actor, Event
from gateway.files import Files
from gateway.logs import Mask
from gateway.rights.access import Here, Verdict
from gateway.rights.pairing import Pairing
from gateway.rights.pins import Definition, Pins
from gateway.running.embedded import embedded
from gateway.shelf.shelf import Shelf
from gateway.store import Store
from workers.desk import Desk
from workers.opening import Instead, open_desk
from workers.replay.case import Case, NotPossible
from workers.replay.script import Exchange, People, Script, Silent
from workers.turn import begin

PLACEHOLDER: Final = b"a picture that is not kept any more"
WITHIN_S: Final = 120.0
PIECE: Final = 500
"""So many records are written at once."""
FILE_MAX_BYTES: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """What came of playing a case."""

    case: Case
    exchanges: tuple[Exchange, ...]
    """In the order in which they were made now; at the end those that were not made any more."""
    reply: str
    """Masked, as all here."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case is played: what holds there."""

    loaded: Loaded
    shelf: Shelf
    approved: Sequence[Definition]
    """Tools of MCP servers."""


class Everybody(Pairing):
    """Who was heard when the turn was recorded is heard again."""

    async def heard(self, here: Here, actor: Actor, *, is_direct: bool) -> Verdict:
        """Yes."""
        del here, actor, is_direct
        return Verdict(True, "allowed", "it was recorded")


class Looking(Shelf):
    """The shelf that is in force. A replay changes nothing there."""

    def __init__(self, store: Store, *given: Any, **named: Any) -> None:
        super().__init__(store, *given, **named)
        self.pairing = Everybody(store)

    async def refused(self, change: Change, what: str, thing: str) -> None:
        """What is refused in a replay is nobody's doing."""

    async def note(self, change: Change, what: str, thing: str, before: str = "", after: str = "") -> None:
        """Nor is what is asked and allowed."""


@asynccontextmanager
async def scratch() -> AsyncIterator[str]:
    """The address of a Redis that is gone afterwards. Raises `NoServer`."""
    with tempfile.TemporaryDirectory(prefix="deskmate-replay-") as folder:
        async with embedded(Settings(data=Path(folder))) as url:
            yield url


async def play(case: Case, place: Place, redis_url: str, *, prefix: str = "replay") -> Run:
    """Run the turn there on this Redis, under keys of this prefix. Raises `NotPossible`, `Unreachable`."""
    loaded = place.loaded
    mask = Mask(loaded.secret_values, thorough=True)
    script = Script(case, mask)
    house = replace(loaded, settings=_for_a_replay(loaded.settings, prefix))
    instead = Instead(script, script.run_tool, place.shelf)
    async with open_desk(house, redis_url, "replay", instead) as opened:
        people = People(opened.mailbox.store, house.settings.mailbox, script)
        await people.open()
        script.people = people
        for definition in place.approved:
            await Pins(people.store).approve(definition, "replay", people.now_ms())
        silent: Any = Silent(case, FILE_MAX_BYTES)
        desk = replace(opened, mailbox=people, adapters={case.key.connection: silent})
        try:
            async with asyncio.timeout(WITHIN_S):
                claim = await _set(desk, case)
                await desk.attend(claim, lambda: 0)
        except TimeoutError:
            raise NotPossible(f"the turn did not come to its end within {WITHIN_S:.0f} s") from None
        history = list((await people.load(case.key.id)).history)
    reply = next((str(one.data["text"]) for one in reversed(history) if one.type == "reply"), "")
    notes = (*script.notes, *_not_asked(case.records, history))
    return Run(case, (*script.exchanges, *script.missing()), mask(reply), notes)


async def _set(desk: Desk, case: Case) -> Claim:
    """Everything as it was when the turn had been begun and nobody had asked the model yet."""
    mailbox, files = desk.mailbox, Files(desk.mailbox.store)
    events = [record for record in case.opening if record.type == "event"]
    for record in events:
        event = Event.of(record.data["event"])
        await Mailbox.accept(
            mailbox, case.key, json.dumps(record.data["event"]), dedupe_keys=event.dedupe_keys, at_ms=event.at_ms
        )
    grants = (await mailbox.claim(mailbox.store.layout.partition(case.key.id), desk.worker, 1)).grants
    if not grants:
        raise NotPossible("the Redis of the replay is in use by somebody else")
    claim = grants[0]
    for at in range(0, len(case.before), PIECE):
        await Mailbox.append(mailbox, claim, records=case.before[at : at + PIECE])
    for file in _pictures(case):
        await files.keep(case.key.id, file, case.pictures.get(file, PLACEHOLDER))
    stored = await mailbox.load(claim.conversation)
    first = Event.of(events[0].data["event"])
    turn = begin(mailbox, claim, stored, await desk.profile_now(case.key), first)
    if turn.id != case.turn:
        raise NotPossible(f"the turn that these messages begin is {turn.id[:8]}, not {case.turn[:8]}")
    await turn.take(stored.inbox, (), *(record for record in case.opening if record.type != "event"))
    return claim


def _not_asked(then: Sequence[Record], now: Sequence[Record]) -> list[str]:
    """What people were asked then, and are not asked now."""
    codes = {one.data["code"] for one in now if one.type == "asked"}
    return [
        f"{one.data.get('tool') or 'the plan'} waited for a person's word ({one.data['kind']}) then, and does not now"
        for one in then
        if one.type == "asked" and one.data["code"] not in codes
    ]


def _pictures(case: Case) -> list[str]:
    records = (*case.before, *case.records)
    return [str(one.data["file"]) for one in records if one.type == "attached" and one.data["kind"] == "image"]


def _for_a_replay(settings: Settings, prefix: str) -> Settings:
    """Nothing is recorded, no lease ends, and no result is cut a second time."""
    return settings.model_copy(
        update={
            "redis": RedisSettings(key_prefix=prefix),
            "recordings": RecordingSettings(),
            "mailbox": settings.mailbox.model_copy(update={"lease_s": 10 * WITHIN_S, "places_per_channel": None}),
            "tools": settings.tools.model_copy(update={"result_max_characters": 10**9}),
        }
    )
