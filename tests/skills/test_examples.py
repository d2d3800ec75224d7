"""Examples are the regression tests of a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skills import examples
from skills.examples import BrokenExample, Example, Outcome
from skills.programs import Grant
from tests.skills.test_programs import ECHO, UTC, only, programs, write_program


def example(folder: Path, name: str, given: Any, expected: str, end: str = ".expected.json") -> None:
    (folder / "examples").mkdir(exist_ok=True)
    (folder / f"examples/{name}.input.json").write_text(json.dumps(given), "utf-8")
    (folder / f"examples/{name}{end}").write_text(expected, "utf-8")


async def outcomes(tmp_path: Path) -> dict[str, Outcome]:
    skill = only(tmp_path / "skills")
    found = await examples.outcomes(programs(tmp_path), skill, Grant(UTC))
    return {one.example.name: one for one in found if isinstance(one, Outcome)}


@pytest.mark.sandbox
async def test_values_are_compared_for_json_and_characters_for_text(tmp_path: Path) -> None:
    folder = write_program(tmp_path / "skills", "report", "def run(p): return p if p['n'] else 'two\\nlines\\n'")
    example(folder, "same", {"n": "1"}, ' {\n"n":1}\n')
    example(folder, "truth", {"n": 1}, '{"n": true}')
    example(folder, "text", {"n": 0}, "two\nlines\n", ".expected.txt")
    example(folder, "other", {"n": 0}, "two\nline\n", ".expected.txt")
    found = await outcomes(tmp_path)
    assert {name: one.passed for name, one in found.items()} == {
        "other": False,
        "same": True,
        "text": True,
        "truth": False,
    }
    assert (found["other"].example.expected, found["other"].came) == ("two\nline", "two\nlines")


@pytest.mark.sandbox
async def test_a_program_that_fails_fails_its_example_and_says_why(tmp_path: Path) -> None:
    folder = write_program(tmp_path / "skills", "report", "def run(p):\n print('so far'); raise ValueError('no')")
    example(folder, "a", {"n": 1}, "{}")
    failed = (await outcomes(tmp_path))["a"]
    assert (failed.passed, failed.chatter) == (False, "so far\n")
    assert "ValueError: no" in failed.came


async def test_an_input_that_does_not_fit_the_schema_fails_without_a_run(tmp_path: Path) -> None:
    folder = write_program(tmp_path / "skills", "report")
    example(folder, "a", {"n": "many", "more": 1}, "{}")
    example(folder, "b", [1], "{}")
    found = await outcomes(tmp_path)
    assert "n: wanted a whole number" in found["a"].came
    assert "more: not known" in found["a"].came
    assert found["b"].came == "the input is no object"


@pytest.mark.parametrize("missing", ["a.input.json", "a.expected.json"])
def test_a_file_without_its_partner_is_named_and_keeps_no_other_back(tmp_path: Path, missing: str) -> None:
    folder = write_program(tmp_path / "skills", "report", ECHO)
    example(folder, "a", {}, "{}")
    example(folder, "b", {}, "{}")
    (folder / "examples" / missing).unlink()
    broken, whole = examples.read(only(tmp_path / "skills"))
    assert isinstance(broken, BrokenExample)
    assert "examples/a" in str(broken)
    assert isinstance(whole, Example)
    assert whole.name == "b"


def test_what_is_shown_cannot_steer_a_terminal() -> None:
    assert list(examples.shown("a\x1b[31m\nb", 100)) == ["a\\x1b[31m", "b"]
    assert list(examples.shown("x" * 10, 4)) == ["xxxx", "[... 6 more characters]"]
