"""Reloads: a line in the audit log when the operator's files say something else than before, whichever process sees it first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterable
from typing import Final

from config.loading import Loaded
from config.watching import Watched
from gateway.audit.log import line_of
from gateway.logs import log
from gateway.store import Store, Unreachable, reading, script_of
from gateway.stored import mapping

logger = logging.getLogger(__name__)

FILES: Final = "operator"
PROFILE: Final = "profile"
"""Begins what is told of one."""
EVERY_S: Final = 1.0


async def follow(watched: Watched, store: Store) -> None:
    """Until cancelled: note what changes in the files, or changed while nobody looked."""
    told: Loaded | None = None
    while True:
        loaded = await watched.current()
        if loaded is not told:
            try:
                await tell(loaded, store)
            except (Unreachable, ValueError) as error:  # it is tried again
                log(logger, "a change of the settings is not in the audit log yet", logging.WARNING, reason=str(error))
            else:
                told = loaded
        await asyncio.sleep(EVERY_S)


async def tell(loaded: Loaded, store: Store) -> None:
    """Note what the files say otherwise than when somebody noted it last. Raises `Unreachable`, `ValueError`."""
    root = store.layout.skills_root
    now = digests(loaded)
    with reading():
        raw = await store.redis.get(f"{root}:settings")
    before = mapping(raw) if raw else {}
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if not changed:
        return
    said = line_of(FILES, "settings", ", ".join(changed)[:1_000], rule=files(loaded, changed))
    dumped = json.dumps(now, sort_keys=True)
    known = raw.decode() if isinstance(raw, bytes) else ""
    await store.run(script_of("gateway.shelf", "settings"), root, known, dumped, said, _one(before), _one(now))


def files(loaded: Loaded, changed: Iterable[str]) -> str:
    """Where that stands, or stood: the settings file, the profiles' own."""
    found = []
    for name in changed:
        part, _, one = name.partition(" ")
        source = loaded.profile_sources.get(one) if part == PROFILE else loaded.source
        found.append(str(source.file if source else loaded.folders[0] / f"{one}.yaml"))
    return ", ".join(dict.fromkeys(found))[:1_000]


def digests(loaded: Loaded) -> dict[str, str]:
    """By name, of each section and each profile. What is secret is left out: of it nothing is told, not even that it changed."""
    settings = loaded.settings.model_dump(mode="json", exclude={"profiles"})
    parts = {f"settings {name}": one for name, one in settings.items()}
    parts |= {f"{PROFILE} {name}": one.model_dump(mode="json") for name, one in loaded.profiles.items()}
    return {name: _digest(json.dumps(one, sort_keys=True)) for name, one in parts.items()}


def _one(parts: dict[str, str]) -> str:
    return _digest(json.dumps(parts, sort_keys=True)) if parts else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
