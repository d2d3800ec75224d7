"""An uploaded zip: the files of one skill, or why it holds none."""

from __future__ import annotations

import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from skills import document, ids
from skills.bundles import BrokenBundle, check
from skills.disk import IGNORED
from skills.document import BrokenSkill
from skills.folders import BUNDLE_MAX_BYTES, FILES_MAX, Content, path_fault

ENTRIES_MAX: Final = 10 * FILES_MAX
"""Of a zip, what is left out included."""
_LEFT_OUT: Final = IGNORED | {"__MACOSX"}
_ENTRY: Final = b"PK\x01\x02"
_METHODS: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The two that everybody writes, and that can be unpacked piece by piece."""
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_UTF8: Final = 0x800
_UNIX: Final = 3
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
"""What odd bytes make of the reader."""


class Unzipped(NamedTuple):
    """The skill in a zip."""

    id: str
    files: dict[str, Content]
    """SKILL.md among them."""
    left_out: tuple[str, ...]
    """Which files are no part of it, since no file of a skill may be called so, and why: a sentence each."""


def from_zip(raw: bytes, filename: str) -> Unzipped:
    """What is in a zip. Only what is in `files` was unpacked.

    SKILL.md lies at the top, or everything lies in one folder, whose name is the id. At the top, the id is the skill's
    name, or the zip's where that can't be one. Hidden files, and what systems add of their own, are left out. Raises
    `BrokenBundle`; what is too large is told before it is unpacked.
    """
    if len(raw) > BUNDLE_MAX_BYTES:
        raise BrokenBundle(f"the zip has {len(raw):,} bytes, allowed are {BUNDLE_MAX_BYTES:,}")
    # A list of files costs far more once it is read than it takes in the zip.
    if (entries := raw.count(_ENTRY)) > ENTRIES_MAX:
        raise BrokenBundle(f"the zip has {entries:,} entries, allowed are {ENTRIES_MAX:,}")
    try:
        with zipfile.ZipFile(BytesIO(raw)) as opened:
            files = _files(opened.infolist())
            folder = _folder(files)
            there = {path.removeprefix(folder): info for path, info in files.items()}
            odd = {path: reason for path in there if (reason := path_fault(path))}
            kept = {path: info for path, info in there.items() if path not in odd}
            check(kept, sum(info.file_size for info in kept.values()))
            contents = {path: _content(opened, path, info) for path, info in kept.items()}
    except _UNREADABLE as error:
        raise BrokenBundle(f"the zip can't be read: {error}") from error
    id_ = folder.rstrip("/") or _id(contents, filename)
    if reason := ids.fault(id_):
        raise BrokenBundle(f"{id_!r} can't be a skill's id: {reason}")
    return Unzipped(id_, contents, tuple(f"left out, for its name: {odd[path]}" for path in sorted(odd)))


def _files(infos: Sequence[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """What counts, by path. Whatever leads out of the zip's own folder is refused, even if it would not count."""
    files: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        path = _name(info)
        if not path:
            continue  # the zip's own folder, `./`
        parts = path.removesuffix("/").split("/")
        if "\\" in path or "\0" in path or not {".", ".."}.isdisjoint(parts) or path.startswith("/"):
            raise BrokenBundle(f"the zip names {path[:200]!r}: wanted are plain paths inside it, with /")
        if any(part.startswith(".") or part in _LEFT_OUT for part in parts):
            continue
        kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise BrokenBundle(f"{path!r} in the zip is {'a link' if kind == stat.S_IFLNK else 'no file'}")
        if path.endswith("/"):
            continue
        if path in files:
            raise BrokenBundle(f"{path!r} is in the zip twice")
        files[path] = info
    return files


def _name(info: zipfile.ZipInfo) -> str:
    """As it was meant: many write UTF-8 and don't say so."""
    name = info.orig_filename
    if not info.flag_bits & _UTF8 and not name.isascii():
        with suppress(UnicodeError):  # else it is what the format says, code page 437
            name = name.encode("cp437").decode("utf-8")
    return unicodedata.normalize("NFC", name.removeprefix("./"))


def _folder(paths: Mapping[str, object]) -> str:
    """Where SKILL.md lies, with a slash at its end; empty for the top."""
    if document.NAME in paths:
        return ""
    found = sorted(path for path in paths if path.count("/") == 1 and path.endswith(f"/{document.NAME}"))
    if not found:
        meant = [path for path in paths if path.casefold().endswith(document.NAME.casefold())]
        seen = f"; it has {', '.join(map(repr, sorted(meant)[:3]))}" if meant else ""
        raise BrokenBundle(f"the zip has no {document.NAME} at its top or in its one folder{seen}")
    folder = found[0].removesuffix(document.NAME)
    if beside := sorted(path for path in paths if not path.startswith(folder)):
        raise BrokenBundle(
            f"the zip has {beside[0]!r} beside the folder {folder!r}: wanted is one skill and nothing else"
        )
    return folder


def _content(opened: zipfile.ZipFile, path: str, info: zipfile.ZipInfo) -> Content:
    if info.flag_bits & _ENCRYPTED:
        raise BrokenBundle(f"{path!r} in the zip is encrypted")
    if info.compress_type not in _METHODS:
        raise BrokenBundle(f"{path!r} in the zip is packed by method {info.compress_type}: wanted is deflate, 8")
    with opened.open(info) as file:
        raw = file.read(info.file_size + 1)
    if len(raw) != info.file_size:
        raise BrokenBundle(f"{path!r} in the zip does not have the size that its list says")
    return Content(raw, runs=info.create_system == _UNIX and info.external_attr >> 16 & 0o111 != 0)


def _id(contents: Mapping[str, Content], filename: str) -> str:
    stem = unicodedata.normalize("NFC", PurePosixPath(filename.replace("\\", "/")).stem)
    try:
        name = document.parse(contents[document.NAME].raw, stem).name
    except BrokenSkill:
        return stem  # whoever makes a skill of it will say what is wrong
    return stem if ids.fault(name) else name
