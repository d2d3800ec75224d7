"""Descent: from a folder down to a file, one open folder after the other, so that no link on the way is ever followed.

A path leads anew at each use, and whoever writes below a folder may have put a link into it since it was looked at. A folder
that is open stays what it is. Only the place where a descent begins is found by its path, whatever links lead there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PATH_MAX: Final = 1_024
"""Of a way down, in characters: each step of it is an opening of its own."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Nobody waits at a pipe for who would write."""


def resolved(path: str | Path) -> str:
    """Where a path leads now, with no link left in it. Raises `FileNotFoundError` for one that leads nowhere, or just changes."""
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:  # a link that is none any more when it is its turn is no error of its own kind
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error


@contextmanager
def begun(folder: str | Path) -> Iterator[int]:
    """The folder that this path leads to now, open. Raises `OSError`."""
    handle = os.open(folder, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def folder(top: int, path: str) -> Iterator[int]:
    """The folder at `path` (with `/`; empty: itself) below an open one. Raises `OSError`, where a step is a link too."""
    if len(path) > PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:PATH_MAX])
    handle = top
    try:
        for name in path.split("/") if path else ():
            inner = os.open(_plain(name), _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            if handle != top:
                os.close(handle)
            handle = inner
        yield handle
    finally:
        if handle != top:
            os.close(handle)


def entries(folder: int) -> list[os.DirEntry[str]]:
    """What lies in an open folder, by name. Their paths are names alone. Raises `OSError`."""
    with os.scandir(folder) as there:
        return sorted(there, key=lambda entry: entry.name)


def below(top: int, skips: Callable[[str], bool] = lambda _: False) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Whatever lies below an open folder, but for names that it skips and what is in them: its path, and its entry.

    An entry may be asked while it is the last that came. Raises `OSError`, and what was gone when it was its turn is one.
    """
    left = [""]
    while left:
        path = left.pop()
        with folder(top, path.removesuffix("/")) as inner:
            folders: list[str] = []
            for entry in entries(inner):
                if skips(entry.name):
                    continue
                yield path + entry.name, entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}{entry.name}/")
        left += reversed(folders)


def read(top: int, path: str, most_bytes: int) -> tuple[bytes, int]:
    """The bytes of the file at `path` below an open folder, and its mode.

    Raises `OSError`, where it is a link, a pipe, a device or larger than `most_bytes` too.
    """
    above, _, name = path.rpartition("/")
    with folder(top, above) as inner:
        handle = os.open(_plain(name), _FILE | os.O_NOFOLLOW, dir_fd=inner)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "no plain file", path)
        # One more than there should be: a read that comes back shorter has met the end. Only a file that grows, or one
        # whose size the system does not tell, takes another.
        raw = os.read(handle, wanted := min(about.st_size, most_bytes) + 1)
        if len(raw) == wanted:
            with os.fdopen(handle, "rb", closefd=False) as file:
                raw += file.read(most_bytes + 1 - wanted)
    finally:
        os.close(handle)
    if len(raw) > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return raw, about.st_mode


def _plain(name: str) -> str:
    """A name that stays in its folder."""
    if name in {"", ".", ".."}:
        raise OSError(errno.EINVAL, "no name of a file or folder", name)
    return name
