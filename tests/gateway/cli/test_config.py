from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gateway.cli import run
from gateway.inventory import tool_names

CANARY = "canary-2718281828"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file, and a folder of profiles that ask for nothing."""
    for name in ("REDIS_URL", "ANTHROPIC_API_KEY", "DESKMATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/default.yaml").write_text("tools: []\n")
    file = tmp_path / "deskmate.yaml"
    file.write_text("log: {format: json}\n")
    return file


def test_fine_settings_are_called_fine(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check", "--config", str(settings)]) == 0
    told = capsys.readouterr()
    assert "deskmate.yaml is fine." in told.out
    assert told.err == ""


def test_the_check_prints_all_problems_of_settings_and_profiles(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text("lag: {}\nconnections:\n  a: {platform: nowhere}\n")
    (settings.parent / "profiles/default.yaml").write_text("skils: []\n")
    assert run(["--config", str(settings), "config", "check"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in told] == [
        "lag",
        "connections.a.platform",
        "skils",
        "",
    ]
    assert told[-1] == "3 problems."


def test_a_tool_that_no_module_offers_is_told(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tool_names()
    profile = settings.parent / "profiles/default.yaml"
    profile.write_text(f"tools:\n  - {known[0]}\n  - {known[0]}x\n")
    assert run(["config", "check", "--config", str(settings)]) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert f"default.yaml:3: tools[1]: there is no tool '{known[0]}x'; did you mean {known[0]}?" in first


def test_a_skill_that_is_not_there_is_told(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = settings.parent / "org"
    settings.write_text("skills: {folder: org}\n")
    assert run(["config", "check", "--config", str(settings)]) == 1
    assert "deskmate.yaml:1: skills.folder: there is no folder" in capsys.readouterr().err
    (folder / "finance/close").mkdir(parents=True)
    (folder / "finance/close/SKILL.md").write_text("---\nname: close\ndescription: Close a month.\n---\nDo it.\n")
    profile = settings.parent / "profiles/default.yaml"
    profile.write_text("skills: ['*', 'ops/*', finance/close]\n")
    assert run(["config", "check", "--config", str(settings)]) == 0
    profile.write_text("skills:\n  - finance/clos\n")
    capsys.readouterr()
    assert run(["config", "check", "--config", str(settings)]) == 1
    told = capsys.readouterr().err
    assert "default.yaml:2: skills[0]: there is no skill 'finance/clos'; did you mean finance/close?" in told


def test_a_program_that_is_none_is_told(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings.parent / "profiles/default.yaml").write_text("programs: ['*', web-access]\n")
    assert run(["config", "check", "--config", str(settings)]) == 1
    told = capsys.readouterr().err
    assert "default.yaml:1: programs[1]: there is no program 'web-access'" in told


def test_what_is_in_force_is_shown_without_secrets(
    settings: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", f"redis://:{CANARY}@host")
    monkeypatch.setenv("CHAT_PASSWORD", CANARY)
    monkeypatch.setenv("PROXY", f"https://me:{CANARY}@model.example")
    settings.write_text(
        "chat: {password: $CHAT_PASSWORD}\n"
        "gateway: {port: 9}\n"
        "model: {base_url: $PROXY, headers: {x-key: $CHAT_PASSWORD}}\n"
    )
    assert run(["config", "show", "--config", str(settings)]) == 0
    told = capsys.readouterr().out
    assert CANARY not in told
    shown, profiles = (yaml.safe_load(part) for part in told.split("# profiles\n"))
    assert shown["redis"]["url"] == "$REDIS_URL (set)"
    assert shown["chat"]["password"] == "$CHAT_PASSWORD (set)"
    assert shown["model"]["base_url"] == "$PROXY (set)"
    assert shown["model"]["headers"] == {"x-key": "$CHAT_PASSWORD (set)"}
    assert shown["gateway"]["port"] == 9
    assert shown["mailbox"]["lease_s"] == 6.0
    assert profiles["default"]["limits"]["steps"] == 30


def test_the_path_in_use_is_printed_even_when_it_is_broken(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.write_text("}")
    assert run(["config", "path", "--config", str(settings)]) == 0
    assert capsys.readouterr().out.strip() == str(settings)


def test_a_budget_under_which_nobody_is_ever_answered_is_a_warning(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    price = "{input: 3.0, output: 15.0}"
    settings.write_text(f"model: {{provider: rehearsal, name: m, currency: EUR, prices: {{m: {price}}}}}\n")
    profile = settings.parent / "profiles/default.yaml"
    profile.write_text(
        "tools: []\nbudget:\n  person:\n    day:\n      tokens: 500\n      money: 0.01\n      turns: 1\n"
    )
    assert run(["config", "check", "--config", str(settings)]) == 0
    told = capsys.readouterr()
    assert "is fine" in told.out
    tokens, money = told.err.splitlines()
    assert "profiles/default.yaml:5: budget.person.day.tokens: nobody is ever answered" in tokens
    assert "profiles/default.yaml:6: budget.person.day.money: nobody is ever answered" in money
    least = int(re.findall(r"wanted: ([\d,]+) tokens or more", tokens)[0].replace(",", ""))
    assert least > 4_096, "the longest answer, and a request"
    assert "wanted: 0.07 EUR or more" in money
    profile.write_text(f"tools: []\nbudget: {{person: {{day: {{tokens: {least}, money: 0.07}}}}}}\n")
    assert run(["config", "check", "--config", str(settings)]) == 0
    assert capsys.readouterr().err == ""
