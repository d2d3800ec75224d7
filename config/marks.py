"""Whether the operator's files are still what was read: told by a look at each, without reading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

Marks: TypeAlias = Mapping[Path, tuple[int, ...]]
"""By file or folder. Two that are equal, of the same places, mean that nothing was written in between."""


def marks(file: Path, folders: Iterable[Path]) -> Marks:
    """Of a settings file and of all profiles in some folders; a folder that is not there has none.

    Raises `OSError` for a folder that can't be listed: what is in it is not known then.
    """
    found = {file: _mark(file)}
    for folder in folders:
        if folder.is_dir():
            found[folder] = ()
            found |= {one: _mark(one) for one in sorted(folder.iterdir()) if one.suffix == ".yaml"}
    return found


def _mark(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()
    except OSError:
        return ()  # whoever reads it says why
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
