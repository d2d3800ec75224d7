"""Paths: which files a skill is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills import document
from skills.folders import Root
from skills.library import Catalogue, scan
from skills.paths import faults, for_file
from tests.skills.test_library import write


def catalogue(root: Path, *patterns: str) -> Catalogue:
    return scan([Root("org", root)]).catalogue(patterns or ["*"])


@pytest.mark.parametrize(
    ("paths", "file", "fits"),
    [
        ('["*.csv"]', "sales.csv", True),
        ('["*.csv"]', "SALES.CSV", True),
        ('["*.CSV"]', "ｓａｌｅｓ．ｃｓｖ", True),
        ('["*.csv"]', "2026/sales.csv", True),
        ('["*.csv"]', "C:\\\\reports\\\\sales.csv", True),
        ('["*.csv"]', "sales.csv.exe", False),
        ('"*.xls, *.xlsx"', "报表.xlsx", True),
        ('"*.xls *.xlsx"', "报表.xls", True),
        ("报表-*", "报表-6月.pdf", True),
        ('["**/*.csv"]', "sales.csv", True),
        ('["**/*.csv"]', "a/b/sales.csv", True),
        ('["src/**/*.py"]', "src/main.py", True),
        ('["src/**/*.py"]', "src/a/b/main.py", True),
        ('["src/**/*.py"]', "main.py", False),
        ('["src/*.py"]', "src/a/main.py", False),
        ('["src/**"]', "src/a/b.txt", True),
        ('["./Dockerfile"]', "dockerfile", True),
        ('["*"]', "a/b", True),
        ('["**"]', "a/b", True),
        ('["report-[0-9].md"]', "report-7.md", True),
        ('["report-?.md"]', "report-10.md", False),
        ('["*.{csv,tsv}"]', "a.csv", False),
        ('["*.{csv,tsv}"]', "a.{csv,tsv}", True),
        ("{a: b}", "a", False),
        ('[""]', "", False),
        ('["*"]', "", False),
        ('["*"]', "///", False),
    ],
)
def test_a_skill_is_for_files_that_one_of_its_entries_fits(
    tmp_path: Path, paths: str, file: str, *, fits: bool
) -> None:
    write(tmp_path, "a", more=f"paths: {paths}\n")
    write(tmp_path, "other")
    assert [skill.id for skill in for_file(catalogue(tmp_path), file.replace("\\\\", "\\"))] == (["a"] if fits else [])


def test_skills_come_by_id_and_only_those_that_may_be_loaded(tmp_path: Path) -> None:
    for id_ in ("zebra", "ant", "secret"):
        write(tmp_path, id_, more='paths: ["*.csv"]\n')
    assert [skill.id for skill in for_file(catalogue(tmp_path, "ant", "zebra"), "a.csv")] == ["ant", "zebra"]


def test_no_pattern_makes_a_name_slow(tmp_path: Path) -> None:
    write(tmp_path, "a", more=f'paths: ["{"*a" * 90}*b", "{"**/" * 60}*b"]\n')
    assert for_file(catalogue(tmp_path), "a" * 1_000) == ()
    assert for_file(catalogue(tmp_path), "a/" * 500 + "a") == ()


def test_entries_beyond_the_limits_do_not_count(tmp_path: Path) -> None:
    many = ", ".join(f"f{number}" for number in range(51))
    write(tmp_path, "many", more=f"paths: [{many}]\n")
    write(tmp_path, "long", more=f'paths: ["{"a" * 201}", "{"b" * 200}"]\n')
    found = catalogue(tmp_path)
    fits = [[skill.id for skill in for_file(found, name)] for name in ("f49", "f50", "a" * 201, "b" * 200)]
    assert fits == [["many"], [], [], ["long"]]


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ('["*.csv", "src/**"]', []),
        ('"*.csv, *.tsv"', []),
        ("{a: b}", ["paths should be a list of patterns such as *.csv"]),
        ("[[a], b]", ["paths should be a list of patterns such as *.csv"]),
        ('["*.{a,b}"]', ["'*.{a,b}': braces stand for themselves; write an entry for each"]),
        ('["!a"]', ["'!a': nothing can be taken out again; ! stands for itself"]),
        ("['a\\b']", ["'a\\\\b': folders are parted by /"]),
        ('["docs/"]', ["'docs/': names a folder, and fits no file; end it with /**"]),
        ('["../a"]', ["'../a': no file's path has .. in it"]),
        (f'["{"a" * 201}"]', [f"'{'a' * 80}': longer than 200 characters, and does not count"]),
        (f"[{', '.join('a' * 51)}]", ["51 entries, the first 50 count"]),
    ],
)
def test_what_an_author_did_not_mean_is_told(paths: str, told: list[str]) -> None:
    assert list(faults(document.parse(f"---\nname: a\ndescription: b\npaths: {paths}\n---\n".encode(), "a"))) == told
