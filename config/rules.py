"""Which line of a profile decides: what logs and notices name as the reason of a permission or a refusal."""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from config.loading import SHIPPED, Loaded
from config.problems import At
from config.profiles import DEFAULT, Profile
from config.settings import Section
from config.source import Source

PEOPLE: Final = frozenset({"roles", "people"})
"""Keys that list people, who are meant letter by letter."""

LIMITS: Final = frozenset({"budget", "rate"})
"""Sections of limits, none of which holds that is not written."""


def rule_of(loaded: Loaded, profile: Profile, key: str, value: str | None = None, *, unwritten: str = "") -> str:
    """`profiles/wechat.yaml line 7: tools`: where the profile says `key`, dotted for a key of a section (`roles.admin`).

    With `value` it is the line of the first entry of that list which is it, or a pattern that fits it. What is not
    written is told as such, with what that means: `profiles/wechat.yaml: tools (not written: allows nothing)`; `unwritten`
    says it of a key that something else decides then.
    """
    source = loaded.profile_sources.get(profile.name)
    if source is None:
        return f"profile {profile.name}: {key}"
    return _line(loaded, source, profile, key, value, unwritten=unwritten)


def org_rule_of(loaded: Loaded, key: str, value: str | None = None) -> str:
    """The same for a key of the settings: `deskmate.yaml line 12: people.owners`."""
    return _line(loaded, loaded.source, loaded.settings, key, value)


def _line(loaded: Loaded, source: Source, section: Section, key: str, value: str | None, *, unwritten: str = "") -> str:
    file = _short(loaded, source.file)
    at: At = tuple(key.split(".", 2 if key.partition(".")[0] in PEOPLE else -1))  # a name of people's may have dots
    written = source.written(at)
    if written is None:  # an empty key too: it means the default
        return f"{file}: {key} (not written: {unwritten or _meant(section, at)})"
    if value is not None and isinstance(written, list):
        is_it = fits if at[0] in PEOPLE else _fits_plainly
        at = next(((*at, index) for index, entry in enumerate(written) if is_it(str(entry).strip(), value)), at)
    return f"{file} line {source.line(at)}: {key}"


def rule_of_room(loaded: Loaded, connection: str, channel: str) -> str:
    """`deskmate.yaml line 12: channels (slack-main/*)`: which rule gives a room its profile."""
    file, room = _short(loaded, loaded.path), f"{connection}/{channel}"
    for at, rule in enumerate(loaded.settings.channels):
        if fnmatchcase(room, rule.match):
            return f"{file} line {loaded.source.line(('channels', at))}: channels ({rule.match})"
    return f"{file}: channels (no rule fits {room}: {DEFAULT})"


def _short(loaded: Loaded, file: Path) -> str:
    """As people of the house say it: from the folder of the settings file on. What ships does not lie there."""
    file, house = file.absolute(), loaded.path.absolute().parent
    if file.is_relative_to(SHIPPED):
        return f"shipped {file.relative_to(SHIPPED)}"
    return str(file.relative_to(house)) if file.is_relative_to(house) else str(file)


def _meant(section: Section, at: At) -> str:
    value: Any = section
    for name in at:
        value = getattr(value, str(name)) if isinstance(value, Section) else None
    if value is None:
        return "no limit" if at[0] in LIMITS else "nothing of its own"
    if isinstance(value, bool):
        return str(value).lower()  # as it is written in YAML
    if isinstance(value, list) and value:
        return ", ".join(map(str, value))
    return "allows nothing" if value in ([], {}) else str(value)


def fits(pattern: str, text: str) -> bool:
    """Letter by letter; only `*` stands for anything."""
    return _read(pattern).fullmatch(text) is not None


@cache
def _read(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)


def _fits_plainly(entry: str, value: str) -> bool:
    """Case and width of letters are no difference, `*` stands for anything, as in ids of skills."""
    return fits(_plain(entry), _plain(value))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()
