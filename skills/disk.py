"""The disk: what files and folders look like there, to tell whether they changed without reading them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final

from skills import descent

IGNORED: Final = {"__pycache__", "node_modules"}
"""Folders that programs leave behind; they are no part of a skill, and neither is what is hidden."""

Mark = bytes
"""What a file's or folder's entry looked like: inode, size, times of content and of entry, packed: a third of a tuple."""
_MARK: Final = struct.Struct("=QQqq")


def mark_of(path: str) -> Mark:
    return marked(os.stat(path))  # noqa: PTH116 - tens of thousands in one check; a Path each would double it


def marked(stat: os.stat_result) -> Mark:
    return _MARK.pack(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def size_of(mark: Mark) -> int:
    size: int = _MARK.unpack(mark)[1]
    return size


def below(top: int, links: list[str]) -> Iterator[tuple[str, Mark]]:
    """Marks of the folders (their paths end in a slash, its own is empty) and files of a skill whose folder is open.

    Hidden ones are no part of it, and neither are links; those are named in `links`. Raises `OSError`.
    """
    yield "", marked(os.fstat(top))
    for path, entry in descent.below(top, skips=_is_none_of_it):
        if entry.is_symlink():
            links.append(path)
        elif entry.is_dir(follow_symlinks=False):
            yield f"{path}/", marked(entry.stat(follow_symlinks=False))
        elif entry.is_file(follow_symlinks=False):
            yield path, marked(entry.stat(follow_symlinks=False))


def _is_none_of_it(name: str) -> bool:
    return name.startswith(".") or name in IGNORED
