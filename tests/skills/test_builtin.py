"""What ships: each fact about a site says how and when it was checked, or how it could be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skills.library import BUILTIN

SITES = sorted((BUILTIN / "web-access/references/site-patterns").glob("*.md"))
CHECKED = re.compile(r"\((?:unchecked; check: .{12,}|checked \d{4}-\d{2}-\d{2}: .{12,})\)$")


def facts(file: Path) -> list[str]:
    """Its list entries, each in one line."""
    joined = re.sub(r"\n {2,}", " ", file.read_text("utf-8"))
    return [line.removeprefix("- ") for line in joined.split("\n") if line.startswith("- ")]


def test_there_are_the_six_sites() -> None:
    assert [file.stem for file in SITES] == [
        "github.com", "juejin.cn", "mp.weixin.qq.com", "x.com", "xiaohongshu.com", "zhuanlan.zhihu.com"
    ]  # fmt: skip


@pytest.mark.parametrize("file", SITES, ids=lambda file: file.stem)
def test_each_fact_was_checked_or_says_how_it_can_be(file: Path) -> None:
    assert len(facts(file)) >= 7
    assert [fact for fact in facts(file) if not CHECKED.search(fact)] == []
