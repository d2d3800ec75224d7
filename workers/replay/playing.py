"""Playing: a case on the right stage, and what came of it. What the command line and tests of cases call."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from config.loading import Loaded
from gateway.conversation.mailbox import Mailbox
from gateway.conversation.recordings import Recordings
from gateway.logs import Mask
from gateway.rights.pins import Pins
from gateway.store import Layout, Store, open_store
from workers.opening import open_shelf
from workers.replay.case import Archive, Case, NotPossible
from workers.replay.compare import Report, compare
from workers.replay.files import read, renewed, taken_at_its_word, write
from workers.replay.house import built, house_of, place_of
from workers.replay.stage import Looking, Place, play


async def play_file(file: Path, redis_url: str) -> Report:
    """Play the case of a file on this Redis, which is left with keys of a prefix that nobody else uses.

    Raises `NotPossible`, `Unreachable`.
    """
    case = read(file)
    if case.house is None:
        raise NotPossible(f"{file} says nothing of settings, profile and skills")
    prefix = f"replay-{secrets.token_hex(6)}"
    with taken_at_its_word(file), built(case.house) as loaded:
        store = open_store(redis_url, Layout(prefix, 1), timeout_s=loaded.settings.redis.timeout_s)
        try:
            run = await play(case, place_of(case.house, loaded, store), redis_url, prefix=prefix)
        finally:
            await store.close()
        return compare(run, case.reply)


@asynccontextmanager
async def archive(loaded: Loaded, redis_url: str) -> AsyncIterator[tuple[Archive, Store]]:
    """Where recordings are, and the Redis that holds them."""
    settings = loaded.settings
    layout = Layout(settings.redis.key_prefix, settings.redis.partitions)
    store = open_store(redis_url, layout, timeout_s=settings.redis.timeout_s)
    try:
        recordings = Recordings(store, settings.recordings)
        yield Archive(Mailbox(store, settings.mailbox), recordings, keeps=settings.recordings.keep), store
    finally:
        await store.close()


async def play_recorded(case: Case, loaded: Loaded, store: Store, redis_url: str) -> Report:
    """Play it on another Redis, under the settings, profiles, skills and switches of now. Nothing of the store is changed.

    Raises `NotPossible`, `Unreachable`.
    """
    run = await play(case, await place_now(case, loaded, store), redis_url, prefix=f"replay-{secrets.token_hex(6)}")
    return compare(run, Mask(loaded.secret_values, thorough=True)(case.reply))


async def place_now(case: Case, loaded: Loaded, store: Store) -> Place:
    """What holds in the case's channel now. Raises `Unreachable`."""
    profile = loaded.profile_for(case.key.connection, case.key.channel)
    pins = await Pins(store).of(profile.tools)
    return Place(loaded, open_shelf(loaded, store, Looking), [one.definition for one in pins.values() if one.holds])


def renew(report: Report, file: Path) -> None:
    """Write the case of a file anew, with what is asked and replied now. Raises `NotPossible`, `OSError`."""
    case = renewed(report)
    if case.house:
        write(file, case, case.house, Mask(()))


async def save(case: Case, loaded: Loaded, store: Store, file: Path) -> None:
    """Write it into a file, with what it runs in. Raises `NotPossible`, `OSError`, `Unreachable`."""
    house = await house_of(case, await place_now(case, loaded, store))
    write(file, case, house, Mask(loaded.secret_values, thorough=True))
