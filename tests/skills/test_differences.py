"""Differences between two bundles: which files, which lines."""

from __future__ import annotations

import time

from skills.differences import between
from skills.folders import Content


def of(**files: str | bytes) -> dict[str, Content]:
    return {path: Content(one if isinstance(one, bytes) else one.encode(), False) for path, one in files.items()}


def test_files_that_come_go_and_change_are_told_apart() -> None:
    found = between(of(a="1", b="1", c="1"), of(b="1", c="2", d="1"))
    assert (found.new, found.gone, found.changed) == (("d",), ("a",), ("c",))
    assert found.lines == ("c", "- 1", "+ 2")


def test_lines_that_stay_between_two_changes_are_shown_as_such() -> None:
    found = between(of(a="0\n1\n2\n3\n4\n5"), of(a="0\n1\n2\nx\n4\ny"))
    assert found.lines == ("a", "  1", "  2", "- 3", "+ x", "  4", "- 5", "+ y")


def test_what_may_be_run_now_is_told_though_its_bytes_are_the_same() -> None:
    found = between({"x": Content(b"1", False)}, {"x": Content(b"1", True)})
    assert found.changed == ("x",)
    assert found.lines == ("x: may be run as a program",)


def test_no_text_is_compared_that_is_none() -> None:
    assert between(of(a=b"\0a"), of(a=b"\0b")).lines == ()


def test_long_texts_keep_nobody_busy() -> None:
    lines = [str(number % 7) for number in range(60_000)]
    begin_s = time.process_time()
    found = between(of(a="\n".join(["x", *lines, "y"])), of(a="\n".join(["z", *reversed(lines), "w"])))
    assert time.process_time() - begin_s < 2
    assert len(found.lines) == 2 * 60_002 + 1
