"""Ids that look alike: one of them is refused, whichever script it borrows from."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills import ids
from skills.folders import Root
from skills.library import scan
from tests.skills import lookalike_table
from tests.skills.test_library import org, write


def test_the_table_is_what_the_unicode_data_give() -> None:
    shipped = Path(ids.__file__).parent.joinpath("lookalikes.txt").read_text("utf-8")
    assert shipped == lookalike_table.table()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("web-access", "web-аccess"),  # Cyrillic а
        ("web-access", "WEB-ACCESS"),
        ("web-access", "ｗｅｂ－ａｃｃｅｓｓ"),
        ("scope", "ѕсоре"),  # Cyrillic throughout
        ("report", "rероrt"),
        ("νote", "vote"),  # Greek ν
        ("report-1", "report-l"),
        ("ops/report", "оps/report"),
        ("modern", "modem"),
        ("口令", "ロ令"),  # a katakana
    ],
)
def test_ids_that_look_alike_have_one_skeleton(one: str, other: str) -> None:
    assert ids.skeleton(one) == ids.skeleton(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("report", "reports"),
        ("财务", "财物"),
        ("ops/report", "ops-report"),
        ("a-b", "a_b"),
        ("cafe", "café"),
        ("が", "か"),
    ],
)
def test_ids_that_differ_to_the_eye_have_two(one: str, other: str) -> None:
    assert ids.skeleton(one) != ids.skeleton(other)


def test_a_look_alike_of_a_shipped_skill_is_refused_and_the_shipped_one_stays(tmp_path: Path) -> None:
    write(tmp_path / "builtin", "web-access")
    write(tmp_path / "org", "web-аccess")
    found = scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")])
    [skill] = found.skills.values()
    [fault] = found.faults
    assert (skill.id, skill.tier, fault.kind) == ("web-access", "builtin", "look_alike")
    assert "looks like web-access (builtin)" in str(fault)


def test_the_same_id_in_a_later_tier_is_no_look_alike(tmp_path: Path) -> None:
    write(tmp_path / "builtin", "web-access")
    write(tmp_path / "org", "Web-Access")
    found = scan([Root("builtin", tmp_path / "builtin"), Root("org", tmp_path / "org")])
    assert (found.faults, len(found.skills), len(found.shadowed)) == ((), 1, 1)


def test_an_alias_that_looks_like_anothers_id_belongs_to_nobody(tmp_path: Path) -> None:
    write(tmp_path, "scope")
    write(tmp_path, "thief", more="alias: ѕсоре\n")
    found = org(tmp_path)
    assert found.owners == {}
    assert any("looks like the id of another skill" in one for one in found.warnings)
