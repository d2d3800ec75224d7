"""Profiles, the rules of channels and the owners as the files are now; all other settings as they were when the process started."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from config.loading import Loaded
from config.marks import Marks, marks
from config.problems import ConfigError, short
from config.profiles import read_profiles

CHECK_EVERY_S: Final = 1.0
SETTLED_S: Final = 0.05
"""A change counts when the files have rested this long: an editor takes the old one away before the new one is there,
and half a profile must not be taken for one that allows less, or for the shipped one of that name."""
SETTLES_MAX: Final = 20
"""Who writes for longer than a second all the time is not waited for: turns wait for a look."""
WITHOUT_RESTART: Final = frozenset({"channels", "people", "profiles"})

log = logging.getLogger(__name__)


class Watched:
    """Where the settings of this process stand.

    A file with a mistake keeps what it said before, with a line in the log for each mistake; the others count.
    """

    def __init__(self, loaded: Loaded, *, every_s: float = CHECK_EVERY_S) -> None:
        self._loaded = loaded
        self._marks = loaded.marks
        self._every_s = every_s
        self._due_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._trouble = ""
        self._mistakes: set[str] = set()
        """Told since the last time that all was right."""
        self._waiting = loaded.besides(WITHOUT_RESTART)
        """What the settings file said at the last look, of all that needs a restart."""

    async def current(self) -> Loaded:
        """As the files are now, or were less than a second ago. Files are looked at and read in a thread."""
        self.latest()
        if self._looking:
            await asyncio.shield(self._looking)
        return self._loaded

    def latest(self) -> Loaded:
        """As the files were at the last look, for those who can't wait; the next look begins when it is due."""
        if self._looking is None and time.monotonic() >= self._due_s:
            self._looking = asyncio.create_task(self._look(), name="settings")
        return self._loaded

    async def follow(self) -> None:
        """Until cancelled: look also while nobody asks, so that the log tells of a mistake when it is made."""
        while True:
            await self.current()
            await asyncio.sleep(self._every_s)

    async def _look(self) -> None:
        try:
            await asyncio.to_thread(self._read)
        except Exception:  # whatever a file holds, the process goes on with what it knows
            log.exception("settings: can't be read again; what was read before stays in force")
        finally:
            self._due_s = time.monotonic() + self._every_s
            self._looking = None

    def _read(self) -> None:
        found = self._settled()
        if found is None or found == self._marks:
            return
        self._marks = found
        try:
            fresh = self._loaded.again()
        except ConfigError as error:
            self._tell_mistakes({str(problem) for problem in error.problems})
            self._keep(self._without_mistakes(error))
        else:
            self._marks = fresh.marks
            self._mistakes.clear()
            self._tell_what_waits(fresh.besides(WITHOUT_RESTART))
            self._keep(fresh)

    def _settled(self) -> Marks | None:
        """What a look at the files tells, once nobody writes any more; none if they can't be looked at as a whole."""
        try:
            found = marks(self._loaded.path, self._loaded.folders)
            for _ in range(SETTLES_MAX):
                if found == self._marks:
                    break
                time.sleep(SETTLED_S)
                before, found = found, marks(self._loaded.path, self._loaded.folders)
                if found == before:
                    break
        except OSError as error:
            self._no_look(f"{short(Path(error.filename or self._loaded.folders[0]))} can't be read: {error.strerror}")
            return None
        gone = [folder for folder in self._loaded.folders if folder in self._marks and folder not in found]
        if gone:
            self._no_look(f"{short(gone[0])} is gone")
            return None
        self._trouble = ""
        return found

    def _no_look(self, trouble: str) -> None:
        """Told once."""
        if trouble != self._trouble:
            log.error("settings: %s; what was read before stays in force", trouble)
        self._trouble = trouble

    def _without_mistakes(self, error: ConfigError) -> Loaded:
        """What was in force, with those profiles that can be read. None is taken away: a rule may name it."""
        wrong = {problem.file for problem in error.problems}
        found = read_profiles(self._loaded.folders)
        fine = [name for name in found.profiles if short(found.sources[name].file) not in wrong]
        return replace(
            self._loaded,
            profiles={**self._loaded.profiles, **{name: found.profiles[name] for name in fine}},
            profile_sources={**self._loaded.profile_sources, **{name: found.sources[name] for name in fine}},
        )

    def _tell_mistakes(self, mistakes: set[str]) -> None:
        for mistake in sorted(mistakes - self._mistakes):
            log.error("settings: %s; what it said before stays in force", mistake)
        self._mistakes = mistakes

    def _keep(self, fresh: Loaded) -> None:
        before = self._loaded
        before.secret_values.update(fresh.secret_values)  # the logs hold this very set
        settings = before.settings.model_copy(
            update={name: getattr(fresh.settings, name) for name in sorted(WITHOUT_RESTART)}
        )
        self._loaded = replace(
            before,
            settings=settings,
            source=fresh.source,
            profiles=fresh.profiles,
            profile_sources=fresh.profile_sources,
            folders=fresh.folders,
            _rooms={},
        )
        changed = _changed(before.profiles, fresh.profiles)
        named = ("channels", "people")
        changed += [name for name in named if getattr(settings, name) != getattr(before.settings, name)]
        if changed:
            log.info("settings: in force now: %s", ", ".join(changed))

    def _tell_what_waits(self, besides: Mapping[str, Any]) -> None:
        waits = _changed(self._loaded.besides(WITHOUT_RESTART), besides)
        if waits and besides != self._waiting:
            log.warning("settings: %s: changed in the file, counts after a restart", ", ".join(waits))
        self._waiting = besides


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
