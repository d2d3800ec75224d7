"""Bundles: packed and unpacked as they were, refused when odd, and laid out whole or not at all."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
import zlib
from collections import UserDict
from collections.abc import ItemsView, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skills import contents
from skills.bundles import KEPT_S, BrokenBundle, Cache, pack, unpack
from skills.folders import BUNDLE_MAX_BYTES, FILES_MAX, Content, Skill, skill_of
from tests.skills.test_contents import HEAD

FILES = {
    "SKILL.md": Content(HEAD, runs=False),
    "references/字.md": Content("字".encode() * 1_000, runs=False),
    "scripts/run.sh": Content(b"#!/bin/sh\n", runs=True),
    "empty": Content(b"", runs=False),
}


def made(folder: Path, files: dict[str, Content] | None = None) -> Skill:
    return skill_of("report", "org", folder, files or FILES)


HASH = made(Path("/nowhere")).hash


def packed(listed: Any, held: bytes, head: bytes | None = None) -> bytes:
    """As `pack` would write it, with whatever list."""
    head = json.dumps(listed).encode() if head is None else head
    return pack(FILES).partition(b"\n")[0] + b"\n" + zlib.compress(len(head).to_bytes(4, "big") + head + held)


def test_a_bundle_holds_what_was_packed_and_is_the_same_bytes_each_time() -> None:
    raw = pack(FILES)
    assert unpack(raw) == FILES
    assert pack(dict(reversed(FILES.items()))) == raw
    assert len(raw) < 400
    assert made(Path("/nowhere"), unpack(raw)).hash == HASH


@pytest.mark.parametrize(
    ("listed", "held", "reason"),
    [
        ([["../up", 1, False]], b"x", "'../up' can't be a file's path"),
        ([["/etc/x", 1, False]], b"x", "can't be a file's path"),
        ([["a\\b", 1, False]], b"x", "can't be a file's path"),
        ([["\ud800", 1, False]], b"x", "can't be a file's path"),
        ([["a", 1, False], ["a", 1, False]], b"xx", "a counts as the same name as a"),
        ([["a.md", 1, False], ["A.md", 1, False]], b"xx", "A.md counts as the same name as a.md"),
        ([["a", 1, False], ["a/b", 1, False]], b"xx", "a is a file, and a folder too"),
        ([["a", 2, False]], b"x", "ends too early"),
        ([["a", 1, False]], b"xx", "does not end where its list says"),
        ([["a", -1, False], ["b", 2, False]], b"x", "no path, size and mode"),
        ([["a", True, False]], b"x", "no path, size and mode"),
        ([["a", 1]], b"x", "no path, size and mode"),
        ([["a", 1, 1]], b"x", "no path, size and mode"),
        ({"a": 1}, b"x", "list of files is none"),
        ([["a", BUNDLE_MAX_BYTES + 1, False]], b"", "33,554,433 bytes, allowed are"),
        ([[f"f{number}", 0, False] for number in range(FILES_MAX + 1)], b"", "1,001 files"),
    ],
)
def test_an_odd_bundle_is_refused(listed: Sequence[Any], held: bytes, reason: str) -> None:
    with pytest.raises(BrokenBundle) as caught:
        unpack(packed(listed, held))
    assert reason in str(caught.value)


def test_bytes_that_are_no_bundle_are_refused() -> None:
    raw = pack(FILES)
    for broken in (b"", b"PK\x03\x04", raw[:-1], raw[:40], raw + b"x", raw[:30] + b"\xff" + raw[31:]):
        with pytest.raises(BrokenBundle):
            unpack(broken)
    for head in (b"[" * 100_000, b"nope", b"\xff"):
        with pytest.raises(BrokenBundle, match="no JSON"):
            unpack(packed(None, b"", head))


def test_what_is_too_large_costs_no_memory() -> None:
    zeros = bytes(40 * 1_024 * 1_024)
    bombs = [packed([["a", len(zeros), False]], zeros), packed(None, b"", zeros)]
    bombs.append(packed([["a", 1, False]], zeros))
    del zeros
    with at_most(4):
        for bomb in bombs:
            with pytest.raises(BrokenBundle):
                unpack(bomb)


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """What runs inside takes no more memory than this."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 1_024 * 1_024


# ---- laid out ----


def test_a_version_is_laid_out_whole_and_for_reading_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.place(HASH) is None
    place = cache.lay_out(HASH, FILES)
    assert cache.place(HASH) == cache.lay_out(HASH, {}) == place
    assert contents.whole(made(place)) == FILES
    modes = {path: (place / path).stat().st_mode & 0o777 for path in (*FILES, ".", "scripts")}
    wanted = {path: 0o555 if content.runs else 0o444 for path, content in FILES.items()}
    assert modes == wanted | {".": 0o755, "scripts": 0o755}


def test_contents_of_another_hash_are_not_laid_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for files in (
        FILES | {"empty": Content(b"x", runs=False)},
        FILES | {"empty": Content(b"", runs=True)},
        FILES | {"more": Content(b"", runs=False)},
        FILES | {"../out": Content(b"", runs=False)},
    ):
        with pytest.raises(BrokenBundle):
            cache.lay_out(HASH, files)
    assert not list(tmp_path.iterdir())
    for name in ("../x", HASH[:-1], HASH.upper()):
        with pytest.raises(ValueError, match="no hash of a bundle"):
            cache.place(name)


@pytest.mark.parametrize("harm", ["cut off", "missing", "more", "mode", "link", "linked folder"])
def test_what_was_altered_on_disk_is_laid_out_anew(tmp_path: Path, harm: str) -> None:
    place = Cache(tmp_path).lay_out(HASH, FILES)
    file = place / "scripts/run.sh"
    match harm:
        case "cut off":
            file.chmod(0o755)
            file.write_bytes(b"")
            file.chmod(0o555)
        case "missing":
            file.unlink()
        case "more":
            (place / "scripts/more.sh").write_bytes(b"x")
        case "mode":
            file.chmod(0o444)
        case "linked folder":
            (place / "linked").symlink_to(place / "scripts")
        case _:
            (tmp_path / "same").write_bytes(FILES["scripts/run.sh"].raw)
            (tmp_path / "same").chmod(0o555)
            file.unlink()
            file.symlink_to(tmp_path / "same")
    assert Cache(tmp_path).place(HASH) is None
    assert contents.whole(made(Cache(tmp_path).lay_out(HASH, FILES))) == FILES
    assert [one.name for one in tmp_path.iterdir() if one.is_dir()] == [HASH]


def test_many_that_lay_out_the_same_version_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda _: Cache(tmp_path).lay_out(HASH, FILES), range(32)))
    assert set(places) == {tmp_path / HASH}
    assert [one.name for one in tmp_path.iterdir()] == [HASH]


class Slow(UserDict[str, Content]):
    """Contents that take so long that somebody else has laid them out before they are read twice."""

    folder: Path
    read = 0

    def items(self) -> ItemsView[str, Content]:
        self.read += 1
        if self.read == 2:
            Cache(self.folder).lay_out(HASH, FILES)
        return super().items()


def test_whoever_comes_second_takes_what_the_first_laid_out(tmp_path: Path) -> None:
    slow = Slow(FILES)
    slow.folder = tmp_path
    assert Cache(tmp_path).lay_out(HASH, slow) == tmp_path / HASH
    assert slow.read == 2
    assert [one.name for one in tmp_path.iterdir()] == [HASH]


def test_versions_that_nobody_used_for_long_are_forgotten(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, used = (FILES | {"empty": Content(letter, runs=False)} for letter in (b"o", b"u"))
    places = [cache.lay_out(made(tmp_path, files).hash, files) for files in (old, used)]
    (tmp_path / ".new-of-somebody-killed").mkdir()
    long_ago_s = time.time() - KEPT_S - 60
    for place in tmp_path.iterdir():
        os.utime(place, (long_ago_s, long_ago_s))
    assert cache.place(places[1].name)
    cache.lay_out(HASH, FILES)
    assert {one.name for one in tmp_path.iterdir()} == {HASH, places[1].name}
    assert cache.place(places[0].name) is None


def test_a_disk_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="Not a directory"):
        Cache(tmp_path / "file").lay_out(HASH, FILES)
