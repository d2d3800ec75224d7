"""The list of skills: columns, narrow forms, and what is said about skills that are not in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.profiles import Profile
from gateway.acts.skill_table import HEADINGS, Count, Row, behind, count, everything, lay_out, row, version_of
from gateway.rights.access import Here
from gateway.text.columns import width
from skills.folders import Root
from skills.library import Library, scan
from tests.skills.test_library import write

LONG = "a-skill-with-a-very-long-id/財務報表輸出"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    write(tmp_path / "builtin", "web-access", description="怎样上网：先轻后重，够了就停", more='version: "1.0.0"\n')
    write(tmp_path / "org", "web-access", description="内网优先", more='version: "7.0.0"\n')
    write(tmp_path / "org", "财务/导出报表", description="按科目导出，给财务对账用", more='version: "2.1"\n')
    write(tmp_path / "org", "standup", description="Collects the standup.\n  Line two \u202eesrever")
    (write(tmp_path / "org", "坏例子") / "SKILL.md").write_text("---\nname: x\n")
    return scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")])


def here_of(library: Library, *patterns: str) -> Here:
    profile = Profile(name="team", skills=list(patterns))
    return Here("a/b", "c" * 26, profile, rule=lambda key, value: f"team.yaml: {key}", library=library)  # noqa: ARG005


def listed(library: Library) -> list[Row]:
    here = here_of(library, "web-access", "财务/*")
    return [row(here, one, "en") for one in everything(here, unlisted=True)]


def test_each_skill_has_a_row_and_what_is_not_in_force_says_why(library: Library) -> None:
    found = {one.id: one for one in listed(library)}
    assert found["web-access"] == Row("●", "web-access", "org", "–", "7.0.0", "内网优先")
    assert found["standup"] == Row("○", "standup", "org", "–", "–", why="not in the profile (team.yaml: skills)")
    assert found["坏例子"] == Row("✗", "坏例子", "org", "–", "–", why="SKILL.md line 1: no closing ---")
    assert [one.mark for one in listed(library)] == ["○", "●", "✗", "●"]


def test_what_is_in_force_although_its_files_are_broken_is_one_row_and_counts_as_one(
    library: Library, tmp_path: Path
) -> None:
    (tmp_path / "org/standup/SKILL.md").write_text("---\nname: x\n")
    folder = write(tmp_path / "org", "runs", description="Runs.")
    (folder / "main.py").write_text("")
    (folder / "schema.json").write_text("{")
    here = here_of(scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")], library), "*")
    found = [row(here, one, "en") for one in everything(here, unlisted=True)]
    assert [(one.mark, one.id) for one in found] == [
        *(("●", id_) for id_ in ("runs", "standup", "web-access")),
        *(("✗", "坏例子"), ("●", "财务/导出报表")),
    ]
    assert "schema.json: no JSON" in found[0].text
    assert "the version that worked before stays in force" in found[1].text
    assert count(here, unlisted=True) == Count(4, 4, 1)


def test_what_is_behind_another_copy_is_told(library: Library) -> None:
    told = "web-access: org 7.0.0 takes the place of builtin 1.0.0, which is behind it."
    assert behind(library.shadowed, "en") == [told]


def test_what_has_no_version_is_named_by_its_tier_alone(tmp_path: Path) -> None:
    for tier in ("builtin", "org"):
        write(tmp_path / tier, "standup")
    library = scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")])
    assert behind(library.shadowed, "en") == ["standup: org takes the place of builtin, which is behind it."]


def test_eighty_columns_make_a_table_whose_columns_begin_at_the_same_place(library: Library) -> None:
    table = lay_out(listed(library), 80)
    assert table[0].split() == list(HEADINGS[1:])
    assert all("\n" not in line and width(line) <= 80 for line in table)
    start = width(table[0].partition("tier")[0])
    for line, one in zip(table[1:], listed(library), strict=True):
        assert width(line[: line.index(one.id)]) == 3
        before = line[: line.index(f" {one.tier} ", 3 + len(one.id)) + 1]
        assert width(before) == start


def test_fifty_columns_put_each_summary_below_its_row(library: Library) -> None:
    table = lay_out([*listed(library), Row("●", "x" * 18, "builtin", "no", "1.0.0", "s" * 99)], 50)
    assert table[1].split("\n")[1].startswith("   ")
    assert all(width(line) <= 50 for piece in table for line in piece.split("\n"))
    assert len(table) == 1 + len(listed(library)) + 1


@pytest.mark.parametrize("columns", [30, None])
def test_where_there_is_no_room_each_skill_is_a_block(columns: int | None, library: Library) -> None:
    blocks = lay_out([*listed(library), Row("●", "a-skill-with-a-long-id", "org", "no", "0.3", "Does it.")], columns)
    assert blocks[-1].split("\n") == ["● a-skill-with-a-long-id", "  org · trust no · 0.3", "  Does it."]


@pytest.mark.parametrize("columns", [200, 80, 50, 30, 10, 1, None])
def test_an_id_is_whole_in_every_form(columns: int | None) -> None:
    pieces = lay_out([Row("●", LONG, "builtin", "–", "1.0.0", "Summary " * 20)], columns)
    assert LONG in pieces[-1]


def test_nothing_in_a_description_starts_a_row_or_hides_in_one(tmp_path: Path) -> None:
    write(tmp_path, "sly", description='"one\\nline\\u202e ● fake"')
    library = scan([Root("org", tmp_path)])
    assert row(here_of(library, "*"), library.skills["sly"], "en").summary == "one line<U+202E> ● fake"


def test_a_long_summary_ends_between_two_words(tmp_path: Path) -> None:
    write(tmp_path / "org", "talkative", description="Says many words " * 20)
    here = here_of(scan([Root("org", tmp_path / "org")]), "*")
    [one] = everything(here, unlisted=True)
    told = row(here, one, "en").summary
    assert told.endswith(("Says…", "many…", "words…"))
    assert len(told) > 180


@pytest.mark.parametrize("columns", [80, 60, 40, 20, 6, None])
def test_a_reason_is_whole_in_every_form(columns: int | None) -> None:
    why = "needs the variable TOKEN, which the profile does not grant, and 还需要别的"
    pieces = lay_out([Row("○", "x", "org", "–", "1", "Summary " * 20, why), Row("●", "y", "org")], columns)
    told = "".join(line.strip() for line in pieces[-2].split("\n"))
    assert why.replace(" ", "") in told.replace(" ", "")
    assert columns is None or all(width(line) <= max(columns, 9) for line in pieces[-2].split("\n"))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2.1.0-rc.1+b", "2.1.0-rc.1+b"),
        ("第二版", "第二版"),
        ("[v](//x.io)", "v x.io"),
        ("**`<b>`~|", "b"),
        ("`*", "–"),
    ],
)
def test_a_version_is_no_markup_in_a_chat(tmp_path: Path, written: str, shown: str) -> None:
    write(tmp_path, "ops", more=f"version: {json.dumps(written)}\n")
    [skill] = scan([Root("org", tmp_path)]).skills.values()
    assert version_of(skill) == shown
