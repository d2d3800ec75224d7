"""The disk: what files and folders look like there, to tell whether they changed without reading them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final

IGNORED: Final = {"__pycache__", "node_modules"}
"""Folders that programs leave behind; they are no part of a skill, and neither is what is hidden."""

Mark = bytes
"""What a file's or folder's entry looked like: inode, size, times of content and of entry, packed: a third of a tuple."""
_MARK: Final = struct.Struct("=QQqq")


def mark_of(path: str) -> Mark:
    stat = os.stat(path)  # noqa: PTH116 - tens of thousands in one check; a Path each would double it
    return _MARK.pack(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def size_of(mark: Mark) -> int:
    size: int = _MARK.unpack(mark)[1]
    return size


def below(folder: str, links: list[str]) -> Iterator[tuple[str, Mark]]:
    """Marks of a skill's folders (their paths end in a slash) and files. Hidden ones are no part of it.

    Links are no part of it either; they are named in `links`.
    """
    yield folder, mark_of(folder)
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name in IGNORED:
            continue
        if entry.is_symlink():
            links.append(entry.path)
        elif entry.is_dir():
            yield from below(entry.path + os.sep, links)
        elif entry.is_file():
            yield entry.path, mark_of(entry.path)
