"""`deskmate skills test`: the examples of programs, as an operator runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli import run
from tests.skills.test_examples import example
from tests.skills.test_library import write
from tests.skills.test_programs import write_program

DAY = {
    "type": "object",
    "properties": {"date": {"type": "string", "format": "date", "description": "The day."}},
    "required": ["date"],
}


@pytest.fixture
def settings(tmp_path: Path) -> str:
    """A settings file with a folder of one program, whose example fits a channel in Shanghai."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/shanghai.yaml").write_text("timezone: Asia/Shanghai\n")
    folder = write_program(tmp_path / "skills", "生成日报", "def run(p): return f\"日报 {p['date']}\"\n", DAY)
    example(folder, "one-day", {"date": 1_718_035_200}, "日报 2024-06-11\n", ".expected.txt")
    (tmp_path / "deskmate.yaml").write_text("skills: {folder: skills}\n")
    return str(tmp_path / "deskmate.yaml")


@pytest.mark.sandbox
def test_examples_that_come_out_as_expected_pass(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["skills", "test", "--config", settings, "--profile", "shanghai", "生成日报"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("ok    生成日报: one-day (")
    assert told[1] == "1 example passed."
    assert run(["skills", "test", "--config", settings, "--profile", "shanghai"]) == 0


@pytest.mark.sandbox
def test_a_fault_is_shown_with_the_example_what_was_expected_and_what_came(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "skills/生成日报/main.py").write_text("def run(p): return 'canary'\n", "utf-8")
    assert run(["skills", "test", "--config", settings, "生成日报"]) == 1
    told = capsys.readouterr()
    lines = [line.strip() for line in told.out.splitlines()]
    assert lines == [
        "FAIL  生成日报: one-day",
        "input:",
        '{"date": 1718035200}',
        "expected:",
        "日报 2024-06-11",
        "came:",
        "canary",
    ]
    assert "1 of 1 examples failed." in told.err


def test_an_id_that_is_none_or_no_program_is_told(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "skills", "plain")
    (tmp_path / "skills/plain/main.py").write_text("")
    for name, why in (("plain", "belong together"), ("生成日", "生成日报"), ("web-access", "needs main.py")):
        assert run(["skills", "test", "--config", settings, name]) == 1
        assert why in capsys.readouterr().err


def test_a_program_without_examples_is_told(settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_program(tmp_path / "skills", "bare")
    assert run(["skills", "test", "--config", settings, "bare"]) == 1
    assert "has no examples" in capsys.readouterr().err


@pytest.mark.sandbox
def test_half_an_example_fails_and_the_whole_ones_are_run(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example(tmp_path / "skills/生成日报", "other", {"date": "2024-06-12"}, "日报 2024-06-12", ".expected.txt")
    (tmp_path / "skills/生成日报/examples/one-day.expected.txt").unlink()
    assert run(["skills", "test", "--config", settings]) == 1
    told = capsys.readouterr()
    assert "examples/one-day" in told.out
    assert "ok    生成日报: other (" in told.out
    assert "1 of 2 examples failed." in told.err


def test_a_profile_that_is_not_there_is_told(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["skills", "test", "--config", settings, "--profile", "nope"]) == 1
    assert "default" in capsys.readouterr().err
