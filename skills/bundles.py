"""Bundles: a skill's files as one piece of bytes, and laid out again on any machine that needs them.

A bundle is known by the hash of the skill it makes (`folders.hash_of`), so that whoever has it can tell that it is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from skills import descent, ids
from skills.folders import BUNDLE_MAX_BYTES, FILES_MAX, PATH_MAX, Content, file_of, hash_of, path_fault, read_file

KEPT_S: Final = 7 * 86_400
"""How long the copy of a version is kept after its last use."""
_FORM: Final = b"deskmate bundle 1\n"
_LIST_MAX_BYTES: Final = FILES_MAX * (4 * PATH_MAX + 64)
_HASH: Final = re.compile("[0-9a-f]{64}")


class BrokenBundle(Exception):
    """The bytes are no bundle, or not the one that was wanted. `str()` says what is wrong, for whoever brought it."""


def pack(contents: Mapping[str, Content]) -> bytes:
    """All files of a skill, compressed; the same bytes for the same contents. Raises `BrokenBundle` for odd ones."""
    ordered = sorted(contents.items())
    check([path for path, _ in ordered], sum(len(content.raw) for _, content in ordered))
    listed = [[path, len(content.raw), content.runs] for path, content in ordered]
    head = json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode()
    return _FORM + zlib.compress(b"".join((len(head).to_bytes(4), head, *(content.raw for _, content in ordered))))


def unpack(raw: bytes) -> dict[str, Content]:
    """The files of a bundle, by path. Raises `BrokenBundle`; what is too large is told before it is read."""
    if not raw.startswith(_FORM):
        raise BrokenBundle("the bytes are no bundle, or one of another version")
    stream = _Stream(raw[len(_FORM) :])
    head_bytes = int.from_bytes(stream.take(4))
    if head_bytes > _LIST_MAX_BYTES:
        raise BrokenBundle(f"a list of files of {head_bytes:,} bytes, allowed are {_LIST_MAX_BYTES:,}")
    listed = _listed(stream.take(head_bytes))
    total = sum(size for _, size, _ in listed)
    check([path for path, _, _ in listed], total)
    held = stream.take(total)
    stream.end()
    contents: dict[str, Content] = {}
    at = 0
    for path, size, runs in listed:
        contents[path] = Content(held[at : at + size], runs)
        at += size
    return contents


class _Stream:
    """Compressed bytes, of which no more is unpacked than somebody asked for."""

    def __init__(self, packed: bytes) -> None:
        self._inflate = zlib.decompressobj()
        self._packed = packed

    def take(self, count: int) -> bytes:
        """The next `count` bytes, and no fewer."""
        taken = self._next(count) if count else b""  # zlib takes a limit of 0 for none
        if len(taken) < count:
            raise BrokenBundle("the bundle ends too early")
        return taken

    def end(self) -> None:
        if self._next(1) or not self._inflate.eof or self._inflate.unused_data:
            raise BrokenBundle("the bundle does not end where its list says")

    def _next(self, most: int) -> bytes:
        try:
            taken = self._inflate.decompress(self._packed, most)
        except zlib.error as error:
            raise BrokenBundle(f"the bundle is damaged: {error}") from error
        self._packed = self._inflate.unconsumed_tail
        return taken


def _listed(head: bytes) -> list[tuple[str, int, bool]]:
    try:
        read = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise BrokenBundle("the bundle's list of files is no JSON") from error
    if not isinstance(read, list):
        raise BrokenBundle("the bundle's list of files is none")
    return [_entry(one) for one in read]


def _entry(read: Any) -> tuple[str, int, bool]:
    match read:
        case [str(path), int(size), bool(runs)] if size >= 0 and not isinstance(size, bool):
            return path, size, runs
    raise BrokenBundle("an entry of the bundle's list is no path, size and mode")


def check(paths: Iterable[str], size_bytes: int) -> None:
    """Whether a skill may have just these files. Raises `BrokenBundle`."""
    taken: dict[str, str] = {}
    for path in paths:
        if reason := path_fault(path):
            raise BrokenBundle(f"{path[:PATH_MAX]!r} can't be a file's path: {reason}")
        if (key := ids.key(path)) in taken:
            raise BrokenBundle(f"{path} counts as the same name as {taken[key]}")
        taken[key] = path
    for path in taken:
        above = path
        while above := above.rpartition("/")[0]:
            if above in taken:
                raise BrokenBundle(f"{taken[above]} is a file, and a folder too")
    if len(taken) > FILES_MAX or size_bytes > BUNDLE_MAX_BYTES:
        limits = f"{FILES_MAX:,} files of {BUNDLE_MAX_BYTES:,} bytes in all"
        raise BrokenBundle(f"{len(taken):,} files of {size_bytes:,} bytes, allowed are {limits}")


class Cache:
    """Versions of skills on this machine's disk, each in a folder of its own named by its hash.

    What is there never changes. Any number of processes may use one folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()  # programs start in another folder
        self._whole: set[str] = set()

    def place(self, hash_: str) -> Path | None:
        """The folder of this version, or none if it is not here. That it was used is noted.

        On its first use by this process it is compared with its hash; what was cut off or altered is not here.
        """
        place = self._place(hash_)
        try:
            os.utime(place)
        except FileNotFoundError:
            return None
        if hash_ not in self._whole:
            if _hash_of_folder(place) != hash_:
                _remove(place)
                return None
            self._whole.add(hash_)
        return place

    def lay_out(self, hash_: str, contents: Mapping[str, Content]) -> Path:
        """The folder of this version, made of `contents` if it is not here.

        Raises `BrokenBundle` if they do not have this hash, and `OSError` if the disk does not take them.
        """
        if place := self.place(hash_):
            return place
        place = self._place(hash_)
        check(contents, sum(len(content.raw) for content in contents.values()))
        if (found := hash_of(file_of(path, content) for path, content in sorted(contents.items()))) != hash_:
            raise BrokenBundle(f"wanted is the bundle {hash_}, this one is {found}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._forget_old()
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            _write(new, contents)
            new.rename(place)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not place.is_dir():  # else another process was quicker
                raise
        return place

    def _place(self, hash_: str) -> Path:
        if not _HASH.fullmatch(hash_):
            raise ValueError(f"{hash_!r} is no hash of a bundle")
        return self.folder / hash_

    def _forget_old(self) -> None:
        """Remove versions that nobody used for long. What is in use now was used now.

        Other processes lay out and remove here at the same time: what is gone by the time we look is no error.
        """
        for place in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - place.stat().st_mtime > KEPT_S:
                    shutil.rmtree(place, ignore_errors=True)


def _write(folder: Path, contents: Mapping[str, Content]) -> None:
    for path, content in contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.raw)
        target.chmod(0o555 if content.runs else 0o444)
    for inner in (folder, *folder.rglob("*")):
        if inner.is_dir():
            inner.chmod(0o755)  # whatever umask we have: in the sandbox it is another user who reads


def _hash_of_folder(folder: Path) -> str | None:
    """Of what really lies there; none if that is not only files and folders, or can't be read."""
    try:
        with descent.begun(folder) as top:
            paths = sorted(path for path, entry in descent.below(top) if not entry.is_dir(follow_symlinks=False))
            return hash_of(file_of(path, read_file(top, path)) for path in paths)
    except OSError:
        return None


def _remove(place: Path) -> None:
    """Out of the way at once, since somebody may be about to lay it out again."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place.rename(tempfile.mkdtemp(prefix=".new-", dir=place.parent)), ignore_errors=True)
