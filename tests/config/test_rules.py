from __future__ import annotations

from pathlib import Path

import pytest

from config.loading import SHIPPED, load
from config.profiles import Profile
from config.rules import rule_of, rule_of_room

WRITTEN = """\
# Of the finance people.
skills:
  - finance/*
  - Web-Access
tools: [load_skill,
  web_fetch]
roles:
  admin: [slack-main/U1]
notes:
budget:
  person:
    day:
      turns: 5
"""


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("tools", None, "line 5: tools"),
        ("tools", "web_fetch", "line 6: tools"),
        ("tools", "save_skill_reference", "line 5: tools"),
        ("skills", "finance/export", "line 3: skills"),
        ("skills", "ｗｅｂ-access", "line 4: skills"),
        ("roles.admin", "slack-main/U1", "line 8: roles.admin"),
        ("roles.approver", "slack-main/U1", "(not written: allows nothing)"),
        ("programs", "finance/export", "(not written: allows nothing)"),
        ("notes", None, "(not written: ask)"),
        ("limits.steps", None, "(not written: 30)"),
        ("budget.person.day.turns", None, "line 13: budget.person.day.turns"),
        ("budget.person.month.turns", None, "(not written: no limit)"),
        ("rate.person_per_minute", None, "(not written: no limit)"),
        ("direct", None, "(not written: nothing of its own)"),
        ("approvals.own", None, "(not written: true)"),
    ],
)
def test_a_decision_names_the_line_of_its_rule(tmp_path: Path, key: str, value: str | None, rule: str) -> None:
    (tmp_path / "deskmate.yaml").write_text("{}")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/finance.yaml").write_text(WRITTEN)
    loaded = load(tmp_path / "deskmate.yaml", variables={})
    told = rule_of(loaded, loaded.profiles["finance"], key, value)
    place = f"profiles/finance.yaml: {key} {rule}" if rule.startswith("(") else f"profiles/finance.yaml {rule}"
    assert told == place


def test_a_shipped_profile_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "deskmate.yaml").write_text("{}")
    loaded = load(tmp_path / "deskmate.yaml", variables={})
    shipped = loaded.profiles["wechat"]
    line = loaded.profile_sources["wechat"].line(("tools",))
    assert (
        rule_of(loaded, shipped, "tools", "save_skill_reference") == f"shipped profiles/wechat.yaml line {line}: tools"
    )


def test_so_are_shipped_settings_and_their_profiles() -> None:
    loaded = load(SHIPPED / "deskmate.yaml", variables={})
    assert rule_of(loaded, loaded.profiles["default"], "tools").startswith("shipped profiles/default.yaml line ")
    assert rule_of_room(loaded, "web", "web").startswith("shipped deskmate.yaml")


def test_a_profile_that_no_file_holds_is_named(tmp_path: Path) -> None:
    (tmp_path / "deskmate.yaml").write_text("{}")
    loaded = load(tmp_path / "deskmate.yaml", variables={})
    assert rule_of(loaded, Profile(name="made-up"), "tools") == "profile made-up: tools"
