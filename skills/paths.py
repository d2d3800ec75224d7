"""Paths: for which files a skill is meant, as `paths` in its frontmatter says.

An entry without `/` is compared with the name of a file, one with `/` with its whole path; `*` and `?` stand for
anything within a name, `[abc]` for one of these, `**` for any number of folders. Case and width make no difference.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from skills import ids
from skills.document import Head
from skills.folders import Skill
from skills.library import Catalogue

PATTERNS_MAX: Final = 50
PATTERN_MAX: Final = 200
NAME_MAX: Final = 1_024
"""Characters of a file's name that count, from its end."""
_FOLDERS: Final = "**"


def for_file(catalogue: Catalogue, filename: str) -> tuple[Skill, ...]:
    """The skills of a catalogue that are meant for a file of this name, by id."""
    path = _parts(filename[-NAME_MAX:])
    return tuple(skill for skill in catalogue.skills if skill.head.paths and _is_for(skill.head, path))


def faults(head: Head) -> Iterator[str]:
    """What in `paths` does not do what its author meant."""
    value = head.fields.get("paths", "")
    entries: Sequence[Any] = value if isinstance(value, list) else head.paths
    if not isinstance(value, (str, list)) or not all(isinstance(one, str) for one in entries):
        yield "paths should be a list of patterns such as *.csv"
    if len(head.paths) > PATTERNS_MAX:
        yield f"{len(head.paths)} entries, the first {PATTERNS_MAX} count"
    for entry in head.paths[:PATTERNS_MAX]:
        if why := _fault(entry):
            yield f"{entry[:80]!r}: {why}"


def _fault(entry: str) -> str | None:
    said = {
        f"longer than {PATTERN_MAX} characters, and does not count": len(entry) > PATTERN_MAX,
        "braces stand for themselves; write an entry for each": not {"{", "}"}.isdisjoint(entry),
        "nothing can be taken out again; ! stands for itself": entry.startswith("!"),
        "folders are parted by /": "\\" in entry,
        "names a folder, and fits no file; end it with /**": entry.endswith("/"),
        "no file's path has .. in it": ".." in entry.split("/"),
    }
    return next((why for why, holds in said.items() if holds), None)


def _is_for(head: Head, path: Sequence[str]) -> bool:
    entries = (entry for entry in head.paths[:PATTERNS_MAX] if len(entry) <= PATTERN_MAX)
    return any(_fits(_compiled(entry), path) for entry in entries)


def _parts(path: str) -> tuple[str, ...]:
    """Of a path from any system; a name alone has one."""
    return tuple(part for part in ids.key(path.replace("\\", "/")).split("/") if part not in {"", "."})


@lru_cache(maxsize=4_096)
def _compiled(entry: str) -> tuple[re.Pattern[str] | None, ...]:
    """One pattern for each part of a path; none where any folders may stand."""
    parts = _parts(entry)
    if "/" not in entry:
        parts = (_FOLDERS, *parts)
    return tuple(None if part == _FOLDERS else re.compile(fnmatch.translate(part)) for part in parts)


def _fits(entry: Sequence[re.Pattern[str] | None], path: Sequence[str]) -> bool:
    """Part by part: what the entry has met so far may end after so many parts of the path."""
    ends = {0}
    for pattern in entry:
        if pattern is None:
            ends = set(range(min(ends), len(path) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(path) and pattern.match(path[end])}
    return bool(path) and len(path) in ends
