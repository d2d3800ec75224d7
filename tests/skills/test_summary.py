"""The summary: each skill with its mark, how many are on, how long the list is, what a reload did."""

from __future__ import annotations

import shutil
from pathlib import Path

from skills.folders import Root
from skills.index import lay_out
from skills.library import Library, scan
from skills.summary import changes, figures, lines
from tests.skills.test_library import write


def told(library: Library, budget: int = 1_000) -> str:
    return figures(library, lay_out(library.catalogue(["*"]), budget), budget)


def test_each_skill_has_its_mark_tier_and_length_and_a_broken_one_says_why(tmp_path: Path) -> None:
    write(tmp_path, "web", description="Reads the web.")
    write(tmp_path, "财务/报表", description="按科目导出")
    (tmp_path / "half").mkdir()
    (tmp_path / "half/SKILL.md").write_text("---\nname: half\u202e\n")
    library = scan([Root("org", tmp_path)])
    assert lines(library) == [
        "✗ half  org  (SKILL.md line 1: no closing ---)",
        "● web  org  14 characters",
        "● 财务/报表  org  5 characters",
    ]
    index = lay_out(library.catalogue(["web"]), 1_000)
    assert figures(library, index, 1_000) == f"1 of 2 skills on, 1 broken, list of {index.tokens} of 1,000 tokens"


def test_what_did_not_fit_is_counted(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"skill-{number:02}", description="and more words on it " * 14)
    library = scan([Root("org", tmp_path)])
    shortened = lay_out(library.catalogue(["*"]), 2_000).shortened
    assert f"of 2,000 tokens, {shortened} descriptions shortened" in told(library, 2_000)
    assert "named" not in told(library, 2_000)
    shown = lay_out(library.catalogue(["*"]), 200).shown
    assert told(library, 200).endswith(f", 60 descriptions shortened, {shown} of 60 named")


def test_a_reload_tells_what_came_went_and_took_whose_place(tmp_path: Path) -> None:
    shipped, org = tmp_path / "shipped", tmp_path / "org"
    for id_ in ("web", "writing", "kept"):
        write(shipped, id_)
    for id_ in ("old", "same", "edited"):
        write(org, id_)
    roots = [Root("builtin", shipped), Root("org", org)]
    before = scan(roots)
    shutil.rmtree(org / "old")
    write(org, "web")
    write(org, "new")
    write(org, "edited", body="Other.\n")
    after = scan(roots, before)
    assert [str(one) for one in changes(before.skills, after.skills)] == [
        "edited: org, changed",
        "new: org, new",
        "old: org, gone",
        "web: org, was builtin",
    ]
    assert [str(one) for one in changes(after.skills, before.skills)][-1] == "web: builtin, was org"
    assert list(changes(after.skills, after.skills)) == []
